"""S3: what durably costs beside bare requests of the same bytes, to a SeaweedFS of its own."""
# ruff: noqa: E402 - see below

import sys
from pathlib import Path

sys.path.append(sys.path.pop(0))
"""A file beside this one has the name of a package, which is to be found first."""
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
"""There is what starts the server."""

import argparse
import asyncio
import itertools
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import durably
from durably.logstore import LogId
from durably_s3 import S3LogStore, Settings
from durably_s3._keys import Keys
from measuring import Row, compare, print_table
from s3_servers import Seaweed
from workload import SEGMENT

APPENDS = 120
"""Of a round: some four chunks are sealed in it."""

CALLERS = 64
EACH = 5
SEGMENTS = 1000
WORKERS = 16


class Bench:
    """One storage and one floor, on one server through one client, on as many threads."""

    def __init__(self, server: Seaweed, rounds: int) -> None:
        self._client: Any = server.client(
            max_pool_connections=WORKERS,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        self._bucket = server.shared
        self._rounds = rounds
        self._settings = Settings(bucket=self._bucket, prefix="ours", workers=WORKERS)
        self.storage = durably.Storage(S3LogStore(self._settings, client=self._client))
        self._pool = ThreadPoolExecutor(WORKERS)
        self._numbers = itertools.count()
        self._bodies: list[bytes] = []
        self._requests = 0
        self._client.meta.events.register("before-send.s3", self._seen)

    def _seen(self, request: Any, **_: object) -> None:  # noqa: ANN401 - botocore has no types
        self._requests += 1
        if request.method == "PUT" and "/durably/t/" in request.url:
            self._bodies.append(request.body.getvalue())

    async def append(self) -> Row:
        """Append to a session, one caller, against PUTs of the same bytes on conditions."""
        return await self._beside("append, one caller", self._appends, self._puts)

    async def append_alone(self) -> Row:
        """The same, without what becomes of records that are many: sealing and merging."""

        async def ours() -> float:
            store = self.storage.scoped(f"n{next(self._numbers)}").sessions
            await store.append("s", SEGMENT)
            self._bodies.clear()
            return await _mean(lambda: store.append("s", SEGMENT), 20)

        return await self._beside("append, one caller, a short session", ours, self._puts)

    async def append_together(self) -> Row:
        """Append with many callers at once, each to its session, against as many PUTs."""
        await self._together(1, lambda number: f"s{number}")

        async def ours() -> float:
            self._bodies.clear()
            return await self._together(EACH, lambda number: f"s{number}")

        return await self._beside(f"appends, {CALLERS} callers", ours, self._puts_at_once)

    async def append_to_one(self) -> Row:
        """Append with many callers at once, all to one session, against one caller."""
        one = await self._appends()

        async def ours() -> float:
            return await self._together(EACH, lambda _: "of all")

        job = f"appends, {CALLERS} callers to one session, as one"
        return await self._beside(job, ours, lambda: one)

    async def load(self) -> tuple[Row, Row]:
        """Load a long session against a GET for each segment, and against GETs of its chunks."""
        for _ in range(SEGMENTS):
            await self.storage.sessions.append("long", SEGMENT)
        log = LogId(kind="session", id="long")
        stored = await self.storage.log_store.read(log)
        bodies = [record.data or b"" for record in stored.records] if stored else []
        names = [f"floor/{number}" for number in range(SEGMENTS)]
        list(self._pool.map(lambda one: self._put(*one), zip(names, bodies, strict=True)))
        keys = Keys(root="ours/")
        tip = keys.tip(log)
        listed = self._client.list_objects_v2(Bucket=self._bucket, Prefix=keys.chunk(log, ""))[
            "Contents"
        ]
        chunks = [tip, *(one["Key"] for one in listed)]
        each = await self._beside(
            f"load of {SEGMENTS} segments, a GET for each",
            self._load,
            lambda: self._gets(names),
            at_most=0.1,
        )
        job = f"load of {SEGMENTS} segments, GETs of its {len(chunks)} objects"
        return each, await self._beside(job, self._load, lambda: self._gets(chunks))

    async def count(self) -> None:
        """Print how many requests an append takes on a warm handle, and what it sends."""
        store = self.storage.scoped("counted").sessions
        await store.append("s", SEGMENT)
        done = 0
        for length in (1, 10, 100, 1000):
            before = self._requests
            self._bodies.clear()
            for _ in range(length - done):
                await store.append("s", SEGMENT)
            count, done = length - done, length
            sent = sum(map(len, self._bodies)) / count
            print(
                f"per append up to {length:5}: {(self._requests - before) / count:5.2f} requests,"
                f" asked <= 1.1, {sent:6.0f} bytes of tips"
            )

    async def _beside(
        self,
        job: str,
        ours: Callable[[], Awaitable[float]],
        floor: Callable[[], float],
        *,
        at_most: float | None = None,
    ) -> Row:
        return await compare(job, ours, floor, rounds=self._rounds, at_most=at_most)

    async def _appends(self) -> float:
        self._bodies.clear()
        return await _mean(lambda: self.storage.sessions.append("s", SEGMENT), APPENDS)

    async def _together(self, count: int, session: Callable[[int], str]) -> float:
        async def call(number: int) -> None:
            for _ in range(count):
                await self.storage.sessions.append(session(number), SEGMENT)

        began = time.perf_counter()
        await asyncio.gather(*map(call, range(CALLERS)))
        return (time.perf_counter() - began) / (CALLERS * count)

    async def _load(self) -> float:
        began = time.perf_counter()
        found = await self.storage.sessions.segments("long")
        if len(found) != SEGMENTS:
            raise ValueError
        return time.perf_counter() - began

    def _puts(self) -> float:
        """Put what the other side put, one after the other, each on condition of the last one."""
        bodies, key = list(self._bodies), f"floor {next(self._numbers)}"
        etag = self._put(key, b"")
        began = time.perf_counter()
        for body in bodies:
            etag = self._pool.submit(self._put, key, body, IfMatch=etag).result()
        return (time.perf_counter() - began) / len(bodies)

    def _puts_at_once(self) -> float:
        bodies = list(self._bodies)
        began = time.perf_counter()
        names = (f"floor of {number % CALLERS}" for number in range(len(bodies)))
        list(self._pool.map(self._put, names, bodies))
        return (time.perf_counter() - began) / len(bodies)

    def _gets(self, names: Iterable[str]) -> float:
        began = time.perf_counter()
        list(self._pool.map(self._get, names))
        return time.perf_counter() - began

    def _put(self, key: str, body: bytes, **condition: str) -> str:
        answer = self._client.put_object(Bucket=self._bucket, Key=key, Body=body, **condition)
        return str(answer["ETag"])

    def _get(self, key: str) -> bytes:
        return bytes(self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read())


async def _mean(work: Callable[[], Awaitable[object]], count: int) -> float:
    began = time.perf_counter()
    for _ in range(count):
        await work()
    return (time.perf_counter() - began) / count


async def run(server: Seaweed, rounds: int) -> None:
    """Run every job and print what came of it."""
    bench = Bench(server, rounds)
    async with bench.storage as storage:
        await storage.sessions.append("first", SEGMENT)  # so that the server is known
        facts = await storage.log_store.describe()
        print(", ".join(f"{name} {value}" for name, value in facts.items()))
        rows = [await bench.append(), await bench.append_alone()]
        rows += [await bench.append_together(), await bench.append_to_one()]
        print_table([*rows, *await bench.load()])
        await bench.count()


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="pairs of rounds of each job")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(dir=".") as folder, Seaweed(Path(folder)) as server:
        asyncio.run(run(server, rounds))


if __name__ == "__main__":
    main()
