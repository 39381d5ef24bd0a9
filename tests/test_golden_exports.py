"""Formats of exports, archives and cursors: what was once written is read for ever."""

from pathlib import Path

import pytest

from durably import CursorExpired, InputEntry, ToolResultEntry
from durably._cursors import Cursor, read_cursor, write_cursor

EXPORT = Path(__file__).parent / "golden" / "export-format-1.jsonl"
CURSOR = "dIwQ6QDXt_YBmMQIbbRoZd0PfdKobWVzc2FnZXPPAAAAHL6ZGhQHKAMCEQ"


async def imported(storage):
    with EXPORT.open("rb") as lines:
        return await storage.import_lines(lines)


async def test_an_export_is_imported(storage):
    """Catalog, sessions, runs, threads and archives come back from an export of format 1."""
    assert (await imported(storage)).records == 5
    entry = await storage.catalog.get("talk")
    assert entry.metadata == {"user": "kim", "n": 1}
    assert (entry.created_at, entry.run_count, entry.entry_count) == (1_700_000_000.5, 2, 4)
    first, second = await storage.sessions.segments("talk")
    assert (first.run_id, first.meta) == ("r1", {"k": [1.5, None]})
    assert first.entries[2].trimmed_chars == 50
    assert second.entries == [InputEntry(role="user", content="\ud800")]
    full = ToolResultEntry(call_id="c", output="o" * 450)
    assert await storage.archive.recall("talk", "c") == [full]
    run = await storage.checkpointer.load("job")
    assert (run.head.agent_name, run.entries) == ("a", [InputEntry(role="user", content="go")])
    latest = await storage.checkpoint_saver().latest("thread")
    assert latest.snapshot.messages == [InputEntry(role="user", content="m")]


async def test_what_is_imported_is_exported_as_it_was(storage):
    """Today's export of what an old one holds has the same bytes."""
    await imported(storage)
    assert b"".join([line async for line in storage.export()]) == EXPORT.read_bytes()


async def test_archiving_again_finds_what_is_archived(storage):
    """The keys of an archive are made as they were: the same result is not stored twice."""
    await imported(storage)
    data = b'{"type":"tool_result","call_id":"c","output":"%s"}' % (b"o" * 450)
    await storage.archive.store("talk", [("c", data)])
    assert len(await storage.archive.recall("talk", "c")) == 1


async def test_a_cursor_is_read(storage):
    """A cursor that was kept says what it said, and today's text of it is the same."""
    cursor = read_cursor(CURSOR, "talk", "messages")
    assert cursor == Cursor(cursor.session, "messages", 123456789012, 7, 40, 3, 2, 17)
    assert write_cursor(cursor) == CURSOR
    with pytest.raises(CursorExpired):
        await storage.sessions.history("talk", after=CURSOR, types="messages")
