"""Stored formats: what was once written opens for ever, and today's bytes are those of then."""

import shutil
from pathlib import Path

import msgspec
import pytest

import durably
import golden
from builders import said
from logs import raw
from places import FakeClock

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(GOLDEN.glob("sqlite-layout-*.db"))
CURRENT = GOLDEN / "sqlite-layout-1-format-1-versioned.db"


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def copy(request, tmp_path):
    """A copy of each golden file."""
    return Path(shutil.copy(request.param, tmp_path / "old.db"))


def test_the_current_formats_have_a_golden_file():
    """The layout and format of this version are among the golden files."""
    assert CURRENT in FILES


async def test_what_was_written_is_read(copy):
    """Sessions, runs and threads of every released format come back as they were written."""
    async with durably.open(f"sqlite:///{copy}") as storage:
        assert await storage.sessions.segments("a session") == golden.SEGMENTS
        run = await storage.checkpointer.load("a run")
        assert run.entries == golden.ENTRIES
        assert run.head == msgspec.structs.replace(golden.HEAD, updated_at=golden.NOW)
        listed = await storage.checkpoint_saver().list("a thread")
        assert [one.snapshot for one in reversed(listed)] == golden.SNAPSHOTS


async def test_what_was_written_goes_on(copy):
    """A file of every released format takes appends, rewinds and saves."""
    async with durably.open(f"sqlite:///{copy}") as storage:
        await storage.sessions.append("a session", said("more"))
        assert (await storage.sessions.rewind("a session", keep_entries=1)).removed_entries == 9
        claim = await storage.checkpointer.claim("a run")
        await claim.append(said("more"), durably.RunHead(status="completed"))
        saver = storage.checkpoint_saver()
        await saver.append("a thread", durably.StateSnapshot(messages=golden.ENTRIES[:3]))
        assert (await saver.latest("a thread")).snapshot.messages == golden.ENTRIES[:3]


def _content(path):
    """Return what a file holds, but for random keys and revisions."""
    with raw(path) as connection:
        schema = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name")
        logs = connection.execute(
            "SELECT namespace, kind, id, next_seq, record_count, entry_count, head, created_at,"
            " updated_at, revision - epoch FROM durably_logs ORDER BY kind, id"
        )
        records = connection.execute(
            "SELECT kind, id, place & 4294967295, durably_records.entry_count, stored_at,"
            " data, packed"
            " FROM durably_records JOIN durably_logs ON log = number ORDER BY kind, id, place"
        )
        return [table.fetchall() for table in (schema, logs, records)]


async def test_the_bytes_written_are_those_of_the_golden_file(tmp_path):
    """This version writes, byte for byte, what the golden file of its formats holds."""
    path = tmp_path / "new.db"
    async with durably.open(f"sqlite:///{path}", clock=FakeClock(golden.NOW)) as storage:
        await golden.write(storage)
    assert _content(path) == _content(CURRENT)
