"""A bucket in memory, which heeds conditions as S3 does: for tests."""

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from typing_extensions import override

from durably_s3._bucket import Bucket, Found, Listing, Lost, Named

__all__ = ["MemoryBucket", "Shelf"]

T = TypeVar("T")


class Shelf:
    """Objects that any number of buckets share: the data, the ETag, and when it was put."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, str, float]] = {}
        self.etags = itertools.count(1)
        self.now: Callable[[], float] = time.time

    def dump(self) -> dict[str, bytes]:
        """Return the data of every object."""
        return {key: data for key, (data, _, _) in sorted(self.objects.items())}


class MemoryBucket(Bucket):
    """The objects of a shelf, its own where none is given."""

    def __init__(self, shelf: Shelf | None = None) -> None:
        self.shelf = Shelf() if shelf is None else shelf

    @override
    async def get(
        self, key: str, *, span: tuple[int, int] | None = None, unless: str | None = None
    ) -> Found | None:
        if key not in self.shelf.objects:
            return None
        data, etag, _ = self.shelf.objects[key]
        if etag == unless:
            return Found(b"", etag)
        return Found(data if span is None else data[slice(*span)], etag)

    @override
    async def put(
        self,
        key: str,
        data: bytes,
        *,
        match: str | None = None,
        absent: bool = False,
        sealed: bool = False,
    ) -> str:
        self._check(key, match, absent=absent)
        etag = f"etag-{next(self.shelf.etags)}"
        self.shelf.objects[key] = (data, etag, self.shelf.now())
        return etag

    def _check(self, key: str, match: str | None, *, absent: bool) -> None:
        found = self.shelf.objects.get(key)
        if absent and found is not None:
            raise Lost
        if match is not None and (found is None or found[1] != match):
            raise Lost

    @override
    async def delete(self, key: str, *, match: str) -> None:
        self._check(key, match, absent=False)
        del self.shelf.objects[key]

    @override
    async def delete_all(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.shelf.objects.pop(key, None)

    @override
    async def list(
        self, prefix: str, *, after: str = "", token: str | None = None, limit: int = 1000
    ) -> Listing:
        keys = [key for key in self.order(self.shelf.objects) if key.startswith(prefix)]
        if token is None:
            keys = [key for key in keys if key > after]
        else:
            keys = keys[keys.index(token) + 1 :]
        page = keys[:limit]
        return Listing(
            objects=tuple(map(self._named, page)),
            token=page[-1] if len(keys) > limit else None,
            now=self.shelf.now(),
        )

    def order(self, keys: Iterable[str]) -> Sequence[str]:
        """Return keys in the order in which they are listed."""
        return sorted(keys, key=str.encode)

    def _named(self, key: str) -> Named:
        data, _, modified = self.shelf.objects[key]
        return Named(key=key, size=len(data), modified=modified)

    @override
    async def work(self, task: Callable[[], T]) -> T:
        return task()

    @override
    async def aclose(self) -> None:
        pass
