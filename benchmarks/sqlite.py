"""SQLite: what durably costs beside the same statements without it."""

import argparse
import asyncio
import itertools
import sqlite3
import statistics
import tempfile
import time
import tracemalloc
from pathlib import Path

import msgspec

import durably
from durably.logstore import LogId, Range
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
        run = f"run {next(self._names)}"
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
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

    async def append_together(self) -> Row:
        """Append with many callers at once, each to its session, against the serial floor."""
        return await compare(
            f"appends, {CALLERS} callers, throughput",
            lambda: self._together(20),
            lambda: timed_in_all(self._floor.append, CALLERS * 20),
            rounds=self._rounds,
            at_least=4,
        )

    async def _together(self, count: int) -> float:
        async def call(number: int) -> None:
            for _ in range(count):
                await self._storage.sessions.append(f"s{number}", SEGMENT)

        began = time.perf_counter()
        await asyncio.gather(*map(call, range(CALLERS)))
        return (time.perf_counter() - began) / (CALLERS * count)

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

    async def load(self, segments: int) -> Row:
        """Load a session, typed, against the bare fetch of its rows by the same engine."""
        for _ in range(segments):
            await self._storage.sessions.append("long", SEGMENT)
        bare = sqlite3.connect(self._path)
        (number,) = bare.execute("SELECT number FROM durably_logs WHERE id = 'long'").fetchone()
        bounds = (number << 32, number + 1 << 32)
        query = "SELECT key, data FROM durably_records WHERE place BETWEEN ? AND ?"
        row = await compare(
            f"load of {segments} segments",
            lambda: timed_async(lambda: self._storage.sessions.segments("long"), 5),
            lambda: timed(lambda: bare.execute(query, bounds).fetchall(), 5),
            rounds=self._rounds,
            at_most=2.2,
        )
        bare.close()
        return row

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
            rows = [await bench.append(), await bench.append_together()]
            rows += [await bench.save(steps) for steps in (25, 110, 400)]
            rows.append(await bench.load(1000))
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
