"""A bucket in memory that keeps S3's rules, and can fail, lose answers, be late or lie."""

import asyncio
import itertools
import time
from dataclasses import dataclass, field

from durably import Unavailable
from durably_s3._bucket import Bucket, Found, Listing, Lost, Named, Unsure


class Crash(BaseException):
    """The process ends here."""


@dataclass(frozen=True)
class Request:
    """What was asked of a bucket."""

    what: str
    key: str = ""
    condition: str | None = None
    data: bytes = b""
    span: tuple[int, int] | None = None


@dataclass
class Shelf:
    """The objects that handles share."""

    objects: dict[str, tuple[bytes, str, float]] = field(default_factory=dict)
    etags: itertools.count = field(default_factory=itertools.count)
    now: float = field(default_factory=time.time)

    def dump(self) -> dict[str, bytes]:
        return {key: data for key, (data, _, _) in sorted(self.objects.items())}


class MemoryBucket(Bucket):
    """One handle onto a shelf; ``before`` and ``after`` are called around every request.

    What they raise the caller gets: ``before`` it is carried out, or once it was.
    """

    def __init__(self, shelf: Shelf | None = None, *, before=None, after=None):
        self.shelf = shelf or Shelf()
        self.log: list[Request] = []
        self.before = before or nothing
        self.after = after or nothing
        self.closed = False

    def count(self, what: str, part: str = "") -> int:
        return sum(one.what == what and part in one.key for one in self.log)

    async def _asked(self, request: Request, answer):
        await asyncio.sleep(0)
        self.log.append(request)
        self.before(request)
        result = answer()
        self.after(request)
        await asyncio.sleep(0)
        return result

    async def get(self, key, *, span=None, unless=None):
        def answer():
            if key not in self.shelf.objects:
                return None
            data, etag, _ = self.shelf.objects[key]
            if etag == unless:
                return Found(b"", etag)
            return Found(data if span is None else data[slice(*span)], etag)

        return await self._asked(Request("get", key, span=span), answer)

    async def put(self, key, data, *, match=None, absent=False, sealed=False):  # noqa: ARG002
        condition = "*" if absent else match

        def answer():
            self.check(key, condition)
            etag = f"e{next(self.shelf.etags)}"
            self.shelf.objects[key] = (data, etag, self.shelf.now)
            return etag

        return await self._asked(Request("put", key, condition, data), answer)

    def check(self, key, condition):
        there = self.shelf.objects.get(key)
        if condition == "*" and there is not None:
            raise Lost
        if condition not in (None, "*") and (there is None or there[1] != condition):
            raise Lost

    async def delete(self, key, *, match):
        def answer():
            self.check(key, match)
            self.shelf.objects.pop(key, None)

        await self._asked(Request("delete", key, match), answer)

    async def delete_all(self, keys):
        def answer():
            for key in keys:
                self.shelf.objects.pop(key, None)

        await self._asked(Request("delete_all", " ".join(keys)), answer)

    async def list(self, prefix, *, after="", token=None, limit=1000):
        def answer():
            start = after if token is None else token
            keys = [key for key in self.order(self.shelf.objects) if key.startswith(prefix)]
            if token is not None:
                keys = keys[keys.index(token) + 1 :]
            else:
                keys = [key for key in keys if key > start]
            page = keys[:limit]
            rows = tuple(self.named(key) for key in page)
            more = page[-1] if len(keys) > limit else None
            return Listing(objects=rows, token=more, now=self.shelf.now)

        return await self._asked(Request("list", prefix), answer)

    def order(self, keys):
        return sorted(keys, key=str.encode)

    def named(self, key):
        data, _, modified = self.shelf.objects[key]
        return Named(key=key, size=len(data), modified=modified)

    async def work(self, task):
        return task()

    async def aclose(self):
        self.closed = True


def nothing(_request):
    """Let a request pass."""


def unsure(request):
    """Raise what a request raises whose answer is lost."""
    raise Unsure(Unavailable(f"no answer to {request.what} {request.key}"))
