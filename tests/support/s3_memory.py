"""A bucket in memory that can fail, lose answers, be late, repeat itself or lie."""

import asyncio
from dataclasses import dataclass
from hashlib import md5

from durably import Unavailable
from durably_s3 import testing
from durably_s3._bucket import Lost, Unsure
from durably_s3.testing import MemoryBucket

__all__ = ["Crash", "FaultyBucket", "Request", "Shelf", "nothing", "unsure"]


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


class Shelf(testing.Shelf):
    """A server; ``late`` are PUTs that arrive once so many other requests were carried out."""

    def __init__(self):
        super().__init__()
        self.late = []

    def copy(self):
        twin = Shelf()
        twin.objects = dict(self.objects)
        return twin


class FaultyBucket(MemoryBucket):
    """One handle onto a shelf; ``before`` and ``after`` are called around every request.

    What they raise the caller gets: ``before`` it is carried out, or once it was. After a
    ``Crash`` no request is carried out any more. A PUT for which ``delay`` returns a number is
    not answered, and arrives so many requests later; one for which ``straggles`` does is
    answered, and arrives once more so many requests later; one for which ``repeats`` returns
    True is sent twice, and only the second answer is seen. ``jitter`` returns how many turns of
    the loop a request takes. ETags say what an object has, as those of S3 do.
    """

    def __init__(self, shelf=None, *, before=None, after=None):
        super().__init__(Shelf() if shelf is None else shelf)
        self.log: list[Request] = []
        self.before = before or nothing
        self.after = after or nothing
        self.delay = nothing
        self.repeats = nothing
        self.straggles = nothing
        self.jitter = lambda: 1
        self.is_dead = False
        self.closed = False

    def count(self, what: str, part: str = "") -> int:
        return sum(one.what == what and part in one.key for one in self.log)

    async def _asked(self, request, ask):
        await self._wait()
        if self.is_dead:
            raise Crash
        self.log.append(request)
        try:
            self.before(request)
            answer = await self._carried_out(request, ask)
            self.after(request)
        except Crash:
            self.is_dead = True
            raise
        await self._wait()
        return answer

    async def _wait(self):
        for _ in range(self.jitter()):
            await asyncio.sleep(0)

    async def _carried_out(self, request, ask):
        await self._arrive()
        if request.what == "put" and (turns := self.delay(request)) is not None:
            self.shelf.late.append([turns, ask])
            unsure(request)
        if request.what == "put" and (turns := self.straggles(request)) is not None:
            self.shelf.late.append([turns, ask])
        if request.what != "put" or not self.repeats(request):
            return await ask()
        await ask()
        try:
            return await ask()
        except Lost:
            raise Lost(is_sure=False) from None

    async def _arrive(self):
        for one in self.shelf.late:
            one[0] -= 1
        due = [ask for turns, ask in self.shelf.late if turns < 0]
        self.shelf.late = [one for one in self.shelf.late if one[0] >= 0]
        for ask in due:
            try:
                await ask()
            except Lost:
                continue

    async def get(self, key, *, span=None, unless=None):
        ask = super().get
        return await self._asked(
            Request("get", key, unless, span=span), lambda: ask(key, span=span, unless=unless)
        )

    async def put(self, key, data, *, match=None, absent=False, sealed=False):
        ask = super().put

        async def put():
            await ask(key, data, match=match, absent=absent, sealed=sealed)
            etag = md5(data).hexdigest()  # noqa: S324 - as S3 does
            self.shelf.objects[key] = (data, etag, self.shelf.objects[key][2])
            return etag

        return await self._asked(Request("put", key, "*" if absent else match, data), put)

    async def delete(self, key, *, match):
        ask = super().delete
        await self._asked(Request("delete", key, match), lambda: ask(key, match=match))

    async def delete_all(self, keys):
        ask = super().delete_all
        await self._asked(Request("delete_all", " ".join(keys)), lambda: ask(keys))

    async def list(self, prefix, *, after="", token=None, limit=1000):
        ask = super().list
        return await self._asked(
            Request("list", prefix), lambda: ask(prefix, after=after, token=token, limit=limit)
        )

    async def aclose(self):
        self.closed = True


def nothing(_request):
    """Let a request pass."""


def unsure(request):
    """Raise what a request raises whose answer is lost."""
    raise Unsure(Unavailable(f"no answer to {request.what} {request.key}"))
