"""A bucket in memory that can fail, lose answers, be late or lie."""

import asyncio
from dataclasses import dataclass

from durably import Unavailable
from durably_s3._bucket import Unsure
from durably_s3.testing import MemoryBucket, Shelf

__all__ = ["Crash", "FaultyBucket", "Request", "Shelf", "unsure"]


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


class FaultyBucket(MemoryBucket):
    """One handle onto a shelf; ``before`` and ``after`` are called around every request.

    What they raise the caller gets: ``before`` it is carried out, or once it was.
    """

    def __init__(self, shelf=None, *, before=None, after=None):
        super().__init__(shelf)
        self.log: list[Request] = []
        self.before = before or nothing
        self.after = after or nothing
        self.closed = False

    def count(self, what: str, part: str = "") -> int:
        return sum(one.what == what and part in one.key for one in self.log)

    async def _asked(self, request, answer):
        await asyncio.sleep(0)
        self.log.append(request)
        try:
            self.before(request)
        except BaseException:
            answer.close()
            raise
        result = await answer
        self.after(request)
        await asyncio.sleep(0)
        return result

    async def get(self, key, *, span=None, unless=None):
        return await self._asked(
            Request("get", key, unless, span=span), super().get(key, span=span, unless=unless)
        )

    async def put(self, key, data, *, match=None, absent=False, sealed=False):
        answer = super().put(key, data, match=match, absent=absent, sealed=sealed)
        return await self._asked(Request("put", key, "*" if absent else match, data), answer)

    async def delete(self, key, *, match):
        await self._asked(Request("delete", key, match), super().delete(key, match=match))

    async def delete_all(self, keys):
        await self._asked(Request("delete_all", " ".join(keys)), super().delete_all(keys))

    async def list(self, prefix, *, after="", token=None, limit=1000):
        answer = super().list(prefix, after=after, token=token, limit=limit)
        return await self._asked(Request("list", prefix), answer)

    async def aclose(self):
        self.closed = True


def nothing(_request):
    """Let a request pass."""


def unsure(request):
    """Raise what a request raises whose answer is lost."""
    raise Unsure(Unavailable(f"no answer to {request.what} {request.key}"))
