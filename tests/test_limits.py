"""Sizes: the limits that memory and SQLite state, and what a small one does on a file."""

import time

import pytest

from builders import records, shape, user
from disturbed import Small
from durably import Limits, RecordTooLarge, Storage
from durably_conformance import all_checks, run
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.mutating_sqlite import SQLiteMutant
from durably_sqlite import SQLiteLogStore
from durably_sqlite.testing import SQLitePlace

LIMITS = Limits(record_bytes=4096, head_bytes=1024)
SIZES = [one for one in all_checks() if one.id.startswith("LIM-")]


class SmallPlace(SQLitePlace):
    """A file that takes little."""

    async def connect(self, *, clock=time.time, namespace=""):
        store = SQLiteLogStore(self._file(), namespace=namespace)
        small = Small(store, record_bytes=LIMITS.record_bytes, head_bytes=LIMITS.head_bytes)
        return Storage(small, clock=clock)


def test_small_limits_are_kept_on_a_file(tmp_path):
    """The checks of sizes pass on a file with limits that are reached, none left out."""
    harness = SQLiteMutant("small", "")
    harness.limits = LIMITS
    harness.place = lambda: SmallPlace(f"sqlite:///{tmp_path}/x.db")
    report = run(harness, checks=SIZES)
    assert {one.id: one.status for one in report.checks} == {one.id: "passed" for one in SIZES}


def test_the_stated_limits():
    """Both backends take 64 MiB in a record and 64 KiB in a head."""
    for harness in (MemoryMutant(), SQLiteMutant("sqlite", "")):
        assert harness.limits == Limits(record_bytes=64 * 1024 * 1024, head_bytes=64 * 1024)


async def test_the_real_limit_of_a_record(place):
    """A segment of exactly 64 MiB is stored whole and one of a byte more is refused."""
    async with place.open() as storage:
        limit = storage.limits.record_bytes
        with pytest.raises(RecordTooLarge) as caught:
            await storage.sessions.append("s", [user("x" * limit)], run_id="r")
        text = "x" * (2 * limit - caught.value.size)
        with pytest.raises(RecordTooLarge):
            await storage.sessions.append("s", [user(text + "x")], run_id="r")
        await storage.sessions.append("s", [user(text)], run_id="r")
        assert len(await storage.sessions.load("s")) == 1
        assert await shape(storage.sessions, "s") == [("r", 1)]
    assert [len(record.data) for record in await records(place, "session", "s")] == [limit]
