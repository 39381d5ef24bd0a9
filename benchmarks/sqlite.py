"""SQLite: what durably costs beside the same statements without it."""

import argparse
import asyncio
import itertools
import sqlite3
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiosqlite
import msgspec
from typing_extensions import override

import durably
from durably.logstore import Applied, Batch, LogId, Range
from durably.memory import MemoryLogStore
from measuring import Row, compare, print_table, timed, timed_async, timed_in_all, written
from workload import HEAD, SEGMENT, STEP

CALLERS = 64
LARGEST_IN_MEMORY = 3
PRAGMAS = ("journal_mode", "synchronous", "page_size", "wal_autocheckpoint")


class Floor:
    """The bare engine, in one long-lived connection on the calling thread."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=wal")
        self._connection.execute("PRAGMA synchronous=full")
        self._connection.execute(
            "CREATE TABLE segments (session TEXT, seq INTEGER, run TEXT, body BLOB,"
            " UNIQUE (session, seq), UNIQUE (session, run))"
        )
        self._connection.execute(
            "CREATE TABLE runs (run TEXT PRIMARY KEY, revision INTEGER, head BLOB)"
        )
        self._connection.execute(
            "CREATE TABLE batches (id INTEGER PRIMARY KEY, run TEXT, body BLOB)"
        )
        self._names = itertools.count()
        self._revisions: dict[str, int] = {}
        self._body = msgspec.json.encode({"entries": SEGMENT})
        self._step = msgspec.json.encode({"entries": STEP})
        self._head = msgspec.json.encode(HEAD)

    def pragmas(self) -> str:
        """Read back what this side runs with."""
        read = (self._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in PRAGMAS)
        return ", ".join(f"{name} {value}" for name, value in zip(PRAGMAS, read, strict=True))

    def append(self) -> None:
        """Append one segment idempotently by its run id."""
        self.append_many(1)

    def append_many(self, count: int) -> None:
        """Append so many segments in one transaction, each idempotently by its run id."""
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for _ in range(count):
            run = f"run {next(self._names)}"
            known = "SELECT seq FROM segments WHERE session = 's' AND run = ?"
            if execute(known, (run,)).fetchone() is None:
                newest = "SELECT coalesce(max(seq), 0) + 1 FROM segments WHERE session = 's'"
                (seq,) = execute(newest).fetchone()
                execute("INSERT INTO segments VALUES ('s', ?, ?, ?)", (seq, run, self._body))
        execute("COMMIT")

    def save(self, run: str) -> None:
        """Append one batch and replace the head of a run, if the revision is the expected one."""
        expected = self._revisions.get(run, 0)
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        row = execute("SELECT revision FROM runs WHERE run = ?", (run,)).fetchone()
        if (row[0] if row else 0) != expected:
            raise RuntimeError("somebody else saves this run")
        execute("INSERT INTO batches (run, body) VALUES (?, ?)", (run, self._step))
        upsert = "INSERT OR REPLACE INTO runs VALUES (?, ?, ?)"
        execute(upsert, (run, expected + 1, self._head))
        execute("COMMIT")
        self._revisions[run] = expected + 1

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Nowhere(MemoryLogStore):
    """A store that says yes, and lets others have their turn."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        await asyncio.sleep(0)
        return Applied(revision=1, seq=1)


class Bench:
    """One storage and one floor, in files of their own side by side."""

    def __init__(self, storage: durably.Storage, floor: Floor, rounds: int, path: Path) -> None:
        self._storage = storage
        self._floor = floor
        self._rounds = rounds
        self._path = path

    async def append(self) -> Row:
        """Append to a session, one caller."""
        sessions = self._storage.sessions
        return await compare(
            "append, one caller",
            lambda: timed_async(lambda: sessions.append("s", SEGMENT), 200),
            lambda: timed(self._floor.append, 200),
            rounds=self._rounds,
            at_most=1.5,
        )

    async def bound(self) -> Row:
        """Do what no append can be without.

        It is the contract over a store that keeps nothing, an empty hop to the driver's thread,
        and the floor's statements.
        """
        nowhere = durably.Storage(Nowhere())
        async with aiosqlite.connect(":memory:") as idle:

            async def parts() -> None:
                await nowhere.sessions.append("s", SEGMENT)
                await idle.commit()
                self._floor.append()

            return await compare(
                "bound: contract, empty hop, floor",
                lambda: timed_async(parts, 200),
                lambda: timed(self._floor.append, 200),
                rounds=self._rounds,
            )

    async def bound_together(self) -> Row:
        """Do what many appends at once cannot be without: contract, and one shared commit."""
        nowhere = durably.Storage(Nowhere())

        async def parts() -> float:
            elapsed = await _together(nowhere, 20)
            return elapsed + timed_in_all(lambda: self._floor.append_many(CALLERS), 20) / CALLERS

        return await compare(
            f"bound: contract, floor, {CALLERS} to a commit",
            parts,
            lambda: timed_in_all(self._floor.append, CALLERS * 20),
            rounds=self._rounds,
            at_least=0,
        )

    async def append_together(self) -> Row:
        """Append with many callers at once, each to its session, against the serial floor."""
        return await compare(
            f"appends, {CALLERS} callers, throughput",
            lambda: _together(self._storage, 20),
            lambda: timed_in_all(self._floor.append, CALLERS * 20),
            rounds=self._rounds,
            at_least=4,
        )

    async def save(self, steps: int) -> Row:
        """Save checkpoint steps of a run that has so many already."""
        claim = await self._storage.checkpointer.claim(f"run of {steps}")
        run = f"run of {steps}"
        for _ in range(steps):
            await claim.append(STEP, HEAD)
            self._floor.save(run)
        return await compare(
            f"checkpoint step after {steps}",
            lambda: timed_async(lambda: claim.append(STEP, HEAD), 50),
            lambda: timed(lambda: self._floor.save(run), 50),
            rounds=self._rounds,
            at_most=1.5,
        )

    async def load(self, segments: int) -> list[Row]:
        """Load a session, typed, against the bare fetch of its rows by the same engine.

        The bound is that fetch and one typed decoding of each row.
        """
        for _ in range(segments):
            await self._storage.sessions.append("long", SEGMENT)
        bare = sqlite3.connect(self._path)
        (number,) = bare.execute("SELECT number FROM durably_logs WHERE id = 'long'").fetchone()
        bounds = (number << 32, number + 1 << 32)
        query = "SELECT key, data FROM durably_records WHERE place BETWEEN ? AND ?"
        decoder = msgspec.json.Decoder(dict[str, list[durably.Entry]])

        def fetch() -> list[tuple[str, bytes]]:
            return bare.execute(query, bounds).fetchall()

        async def fetch_and_decode() -> None:
            for _, data in fetch():
                decoder.decode(data)

        async def against_fetch(
            job: str, ours: Callable[[], Awaitable[object]], at_most: float | None
        ) -> Row:
            return await compare(
                job,
                lambda: timed_async(ours, 5),
                lambda: timed(fetch, 5),
                rounds=self._rounds,
                at_most=at_most,
            )

        async def load() -> None:
            await self._storage.sessions.segments("long")

        rows = [
            await against_fetch(f"load of {segments} segments", load, 2.2),
            await against_fetch("bound: bare fetch, typed decoding", fetch_and_decode, None),
        ]
        bare.close()
        return rows

    async def memory(self) -> None:
        """Print the peak memory of a load beside the payload."""
        log = LogId(kind="session", id="long")
        stored = await self._storage.log_store.read(log, Range())
        payload = sum(len(record.data or b"") for record in stored.records) if stored else 0
        del stored
        tracemalloc.start()
        loaded = await self._storage.sessions.segments("long")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        ratio = peak / payload
        verdict = "" if ratio <= LARGEST_IN_MEMORY else "  missed"
        print(
            f"memory while loading {len(loaded)} segments: {ratio:.1f} x the payload,"
            f" asked <= {LARGEST_IN_MEMORY}{verdict}"
        )

    async def bytes_written(self) -> None:
        """Print the bytes an append writes at growing lengths of a session."""
        done = 0
        for length in (10, 100, 1000, 10_000):
            while done < length:
                await self._storage.sessions.append("growing", SEGMENT)
                done += 1
            amounts = [await self._written_by_an_append() for _ in range(50)]
            done += len(amounts)
            print(f"bytes written by an append after {length:6}: {statistics.median(amounts):8.0f}")
        before, more = written(), 2000
        for _ in range(more):
            await self._storage.sessions.append("growing", SEGMENT)
        print(f"with the log written back, on average: {(written() - before) / more:18.0f}")

    async def _written_by_an_append(self) -> int:
        before = written()
        await self._storage.sessions.append("growing", SEGMENT)
        return written() - before


async def _together(storage: durably.Storage, count: int) -> float:
    """Return the seconds per append of many callers, each with so many for its session."""

    async def call(number: int) -> None:
        for _ in range(count):
            await storage.sessions.append(f"s{number}", SEGMENT)

    began = time.perf_counter()
    await asyncio.gather(*map(call, range(CALLERS)))
    return (time.perf_counter() - began) / (CALLERS * count)


async def run(rounds: int) -> None:
    """Run every job and print what came of it."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        path = Path(folder) / "ours.db"
        floor = Floor(Path(folder) / "floor.db")
        async with durably.open(f"sqlite:///{path}") as storage:
            await storage.sessions.append("s", SEGMENT)
            facts = await storage.log_store.describe()
            print("ours: ", ", ".join(f"{name} {value}" for name, value in facts.items()))
            print("floor:", floor.pragmas())
            bench = Bench(storage, floor, rounds, path)
            rows = [await bench.append(), await bench.bound()]
            rows += [await bench.append_together(), await bench.bound_together()]
            rows += [await bench.save(steps) for steps in (25, 110, 400)]
            rows += await bench.load(1000)
            print_table(rows)
            await bench.memory()
            await bench.bytes_written()
        floor.close()


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="pairs of rounds of each job")
    asyncio.run(run(parser.parse_args().rounds))


if __name__ == "__main__":
    main()
