"""The hollow backend: it has every method and implements none."""

import time
from collections.abc import Generator
from typing import Literal, TypeAlias, cast

from typing_extensions import override

from durably import MemoryLogStore
from durably.testing import Clock, Handle, Harness, Place

__all__ = ["Hollow"]

Manner: TypeAlias = Literal["raises", "returns None"]


class Hollow(Harness):
    """Declares everything; every operation raises ``NotImplementedError``, or returns None."""

    def __init__(self, manner: Manner = "raises") -> None:
        self.name = f"hollow, {manner}"
        self.capabilities = MemoryLogStore.capabilities
        self.manner: Manner = manner

    @override
    def place(self) -> Place:
        return _HollowPlace(self.manner)


class _HollowPlace(Place):
    def __init__(self, manner: Manner) -> None:
        self._manner: Manner = manner

    @property
    @override
    def url(self) -> str | None:
        return "hollow://"

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        return cast("Handle", _HollowHandle(self._manner))

    @override
    async def dump(self) -> dict[str, bytes] | None:
        return {}


class _Nothing:
    """Has every operation."""

    def __init__(self, manner: Manner) -> None:
        self._manner: Manner = manner

    def __getattr__(self, name: str) -> object:
        def operation(*_: object, **__: object) -> _Answer:
            return _Answer(name, self._manner)

        return operation


class _Answer:
    """Awaitable, and harmless where nobody awaits it."""

    def __init__(self, name: str, manner: Manner) -> None:
        self._name = name
        self._manner: Manner = manner

    def __await__(self) -> Generator[None, None, None]:
        if self._manner == "raises":
            raise NotImplementedError(self._name)
        return
        yield


class _HollowHandle:
    def __init__(self, manner: Manner) -> None:
        self.sessions = self.checkpointer = self.log_store = _Nothing(manner)
        self.catalog = self.archive = self.states = self.sessions

    def __getattr__(self, name: str) -> object:
        return getattr(self.sessions, name)

    def checkpoint_saver(self, **_: object) -> _Nothing:
        return self.sessions

    def state_store(self, **_: object) -> _Nothing:
        return self.sessions

    def tree_states(self, **_: object) -> _Nothing:
        return self.sessions

    def tree(self, _: str) -> _Nothing:
        return self.sessions

    async def aclose(self) -> None:
        pass
