"""A place that closes its handles and wipes itself, so that a probe need not."""

import time
from types import TracebackType
from typing import Self

from typing_extensions import override

from durably.testing import Clock, Handle, Harness, Place

__all__ = ["Tracked"]


class Tracked(Place):
    """A place of a harness; leaving it closes every handle and wipes it."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self._places = [harness.place()]
        self._handles: list[Handle] = []

    async def another(self) -> Handle:
        """Return a handle onto one more place."""
        self._places.append(self.harness.place())
        handle = await self._places[-1].connect()
        self._handles.append(handle)
        return handle

    @property
    @override
    def url(self) -> str | None:
        return self._places[0].url

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        handle = await self._places[0].connect(clock=clock, namespace=namespace)
        self._handles.append(handle)
        return handle

    @override
    async def dump(self) -> dict[str, bytes] | None:
        found = await self._places[0].dump()
        return None if found is None else dict(found)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for handle in reversed(self._handles):
            await handle.aclose()
        for place in self._places:
            await place.wipe()
