"""S3: what operations ask of a server, counted at a bucket in memory, at several lengths."""

import argparse
import asyncio
import os
from collections.abc import Sequence
from itertools import pairwise

import msgspec
from typing_extensions import override

from durably.logstore import Batch, LogId, NewRecord
from durably_s3 import S3LogStore, Settings
from durably_s3._bucket import Found, Listing
from durably_s3.testing import MemoryBucket, Shelf

LENGTHS = (10, 100, 1000, 10_000, 100_000)
SEGMENT_BYTES = 2048
COUNTED = 2048
"""Warm appends that are counted: so many seal 64 times, and merge 8 times and once more."""

AT_ONCE = 16
"""Segments that fill a log together, fewer than seal it."""

PAGE = 1000
IDS = (1, 1000, 1001, 2345)
SETTINGS = Settings(bucket="bucket", compression="none")
LOG = LogId(kind="session", id="a session")
SESSION = "session"


class Asked(msgspec.Struct, frozen=True):
    """One request, and the bytes of its body and of its answer's."""

    what: str
    sent: int = 0
    received: int = 0


class CountingBucket(MemoryBucket):
    """One handle onto a shelf, that records what is asked of it."""

    def __init__(self, shelf: Shelf) -> None:
        super().__init__(shelf)
        self.asked: list[Asked] = []

    @override
    async def get(
        self, key: str, *, span: tuple[int, int] | None = None, unless: str | None = None
    ) -> Found | None:
        found = await super().get(key, span=span, unless=unless)
        self.asked.append(Asked("GET", received=len(found.data) if found else 0))
        return found

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
        self.asked.append(Asked("PUT", sent=len(data)))
        return await super().put(key, data, match=match, absent=absent, sealed=sealed)

    @override
    async def delete(self, key: str, *, match: str) -> None:
        self.asked.append(Asked("DELETE"))
        await super().delete(key, match=match)

    @override
    async def delete_all(self, keys: Sequence[str]) -> None:
        self.asked.append(Asked("DELETE"))
        await super().delete_all(keys)

    @override
    async def list(
        self, prefix: str, *, after: str = "", token: str | None = None, limit: int = PAGE
    ) -> Listing:
        self.asked.append(Asked("LIST"))
        return await super().list(prefix, after=after, token=token, limit=limit)


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted at one length; bytes are of bodies, both ways."""

    length: int
    warm: Sequence[Sequence[Asked]]
    cold: Sequence[Asked]
    load: Sequence[Asked]

    def row(self) -> str:
        """Return it as a row of the table."""
        requests = sum(map(len, self.warm)) / len(self.warm)
        sizes = [bytes_of(asked) for asked in self.warm]
        cells = (
            f"{self.length:,}",
            f"{requests:.3f}",
            f"{sum(sizes) / len(sizes):,.0f}",
            f"{max(sizes):,}",
            str(len(self.cold)),
            f"{bytes_of(self.cold):,}",
            str(len(self.load)),
            f"{bytes_of(self.load):,}",
        )
        return f"| {' | '.join(cells)} |"


HEAD = """
| length | warm append: requests | bytes | at most | cold append: requests | bytes \
| load: GETs | bytes |
|---|---|---|---|---|---|---|---|
""".strip()


def bytes_of(asked: Sequence[Asked]) -> int:
    """Return how many bytes went either way."""
    return sum(one.sent + one.received for one in asked)


def segments(count: int) -> Batch:
    """Return segments that no compression would make smaller, under keys of their own."""
    return Batch(records=tuple(NewRecord(data=os.urandom(SEGMENT_BYTES)) for _ in range(count)))


def opened(shelf: Shelf) -> tuple[S3LogStore, CountingBucket]:
    """Return a store that knows nothing yet, and its bucket."""
    bucket = CountingBucket(shelf)
    return S3LogStore(SETTINGS, bucket=bucket), bucket


async def fill(shelf: Shelf, length: int) -> None:
    """Store a log of so many segments."""
    store, _ = opened(shelf)
    for first in range(0, length, AT_ONCE):
        await store.append(LOG, segments(min(AT_ONCE, length - first)))
    await store.aclose()


async def costs(shelf: Shelf, length: int) -> Costs:
    """Count at a length; afterwards the log is longer by what was appended."""
    store, bucket = opened(shelf)
    await store.list(SESSION)  # the layout is read once in a handle's life
    bucket.asked.clear()
    await store.read(LOG)
    load = bucket.asked[:]
    store, bucket = opened(shelf)
    await store.append(LOG, segments(1))
    cold = bucket.asked[:]
    marks: list[int] = []
    for _ in range(COUNTED):
        marks.append(len(bucket.asked))
        await store.append(LOG, segments(1))
    await store.aclose()
    marks.append(len(bucket.asked))
    warm = [bucket.asked[one:other] for one, other in pairwise(marks)]
    return Costs(length=length, warm=warm, cold=cold, load=load)


async def listing(count: int) -> int:
    """Return how many requests list so many ids."""
    shelf = Shelf()
    store, bucket = opened(shelf)
    for number in range(count):
        await store.append(LogId(kind=SESSION, id=f"{number}"), Batch(head=b"head"))
    bucket.asked.clear()
    after: str | None = ""
    while after is not None:
        after = (await store.list(SESSION, after=after, limit=PAGE)).next
    return len(bucket.asked)


async def main(lengths: Sequence[int]) -> None:
    """Print the tables."""
    print(f"Segments of {SEGMENT_BYTES} bytes; warm: the next {COUNTED} appends, one by one.\n")
    print(HEAD)
    for length in lengths:
        shelf = Shelf()
        await fill(shelf, length)
        print((await costs(shelf, length)).row(), flush=True)
    print("\n| ids | LISTs |\n|---|---|")
    for count in IDS:
        print(f"| {count:,} | {await listing(count)} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lengths", nargs="*", type=int, default=LENGTHS)
    asyncio.run(main(parser.parse_args().lengths))
