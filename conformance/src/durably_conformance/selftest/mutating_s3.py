"""Harnesses over the S3 backend, whose bucket is in memory and may be wrong."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name
from typing import Any, TypeAlias

from typing_extensions import override

from durably import LogStore, Storage
from durably.testing import Clock, Handle, Place
from durably_conformance.selftest.mutating import Mutated

__all__ = ["Requests", "S3Mutant"]

_Shared: TypeAlias = dict[str, Any]

TURNS = 2
"""Of the event loop, which a request takes; in between others are carried out."""


class Requests:
    """Passes every request on to a bucket in memory; ``shared`` is common to a place's handles.

    It is what the backend calls a bucket, which it takes from anybody.
    """

    def __init__(self, inner: Any, shared: _Shared) -> None:  # noqa: ANN401 - a backend's own
        self.inner = inner
        self.shared = shared

    async def get(self, key: str, **options: Any) -> Any:  # noqa: ANN401 - as above
        """Read an object."""
        await _turn()
        return await self.inner.get(key, **options)

    async def put(self, key: str, data: bytes, **options: Any) -> Any:  # noqa: ANN401 - as above
        """Store an object."""
        await _turn()
        etag = await self.inner.put(key, data, **options)
        await _turn()
        return etag

    async def delete(self, key: str, **options: Any) -> None:  # noqa: ANN401 - as above
        """Remove an object."""
        await _turn()
        await self.inner.delete(key, **options)

    async def delete_all(self, keys: Sequence[str]) -> None:
        """Remove objects."""
        await _turn()
        await self.inner.delete_all(keys)

    async def list(self, prefix: str, **options: Any) -> Any:  # noqa: ANN401 - as above
        """List objects."""
        await _turn()
        return await self.inner.list(prefix, **options)

    async def work(self, task: Callable[[], Any]) -> Any:  # noqa: ANN401 - as above
        """Do what takes the processor's time."""
        return await self.inner.work(task)

    async def aclose(self) -> None:
        """Release everything."""
        await self.inner.aclose()


async def _turn() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


class _Shelf(Place):
    """Objects in this process's memory, gone with this object."""

    def __init__(self, mutant: "S3Mutant") -> None:
        self._mutant = mutant
        self._shelf = _named("testing:Shelf")()
        self._shared: _Shared = {}

    @property
    @override
    def url(self) -> str | None:
        return None

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        bucket = self._mutant.bucket(_named("testing:MemoryBucket")(self._shelf), self._shared)
        settings = _named(":Settings")(bucket="mutant")
        store = _named(":S3LogStore")(settings, bucket=bucket, namespace=namespace)
        return Storage(self._mutant.wrap(store, self._shared), clock=clock)

    @override
    async def dump(self) -> Mapping[str, bytes] | None:
        objects: Mapping[str, bytes] = self._shelf.dump()
        return objects


def _named(name: str) -> Any:  # noqa: ANN401 - as above
    """Return something of the backend, which need not be installed before it is asked for."""
    return resolve_name(f"durably_s3{'' if name[0] == ':' else '.'}{name}")


class S3Mutant(Mutated):
    """The S3 backend over a bucket in memory; see ``scheme``.

    ``bucket`` makes what the store sends its requests to, ``store`` wraps the store itself.
    """

    def __init__(
        self,
        name: str,
        bucket: Callable[[Any, _Shared], Requests] = Requests,
        *,
        store: Callable[[LogStore, _Shared], LogStore] | None = None,
        wrapped: frozenset[str] | None = None,
    ) -> None:
        made = _named(":S3LogStore")
        self.name = name
        self.capabilities = made.capabilities
        self.limits = made.limits
        self.wrapped = wrapped
        self.bucket = bucket
        self._store = store

    def wrap(self, store: LogStore, shared: _Shared) -> LogStore:
        """Return the store as a handle gives it."""
        return store if self._store is None else self._store(store, shared)

    @override
    def place(self) -> Place:
        return _Shelf(self)
