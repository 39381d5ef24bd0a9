"""Operations that wait for a connection together, what it executes, and what must hold after."""

import asyncio
import threading
from contextlib import asynccontextmanager

import msgspec

from durably.rules import REMEMBERED_CHANGES, Change
from logs import raw

_changes = msgspec.msgpack.Decoder(tuple[Change, ...])


@asynccontextmanager
async def held(store):
    """Keep the thread of a connected store busy, so that everything asked meanwhile waits."""
    busy, release = threading.Event(), threading.Event()

    def occupy():
        busy.set()
        release.wait(60)

    holding = asyncio.ensure_future(store._engine._database._execute(occupy))
    await asyncio.to_thread(busy.wait, 60)
    try:
        yield
    finally:
        release.set()
        await holding


async def together(store, *operations, cancel=()):
    """Return the outcomes of operations that waited as one group, some cancelled meanwhile."""
    async with held(store):
        tasks = [asyncio.ensure_future(one) for one in operations]
        await asyncio.sleep(0)
        for number in cancel:
            tasks[number].cancel()
        await asyncio.sleep(0)
    return await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def executed(store):
    """Give the statements a connected store executes within the block."""
    found = []
    await store._engine._database.set_trace_callback(found.append)
    yield found
    await store._engine._database.set_trace_callback(None)


def transactions(statements):
    """Return how many write transactions, read transactions and commits statements make."""
    return tuple(statements.count(one) for one in ("BEGIN IMMEDIATE", "BEGIN", "COMMIT"))


def assert_sound(path):
    """Fail unless a database holds what SQLite and this backend promise of it."""
    with raw(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        logs = connection.execute(
            "SELECT number, revision, epoch, next_seq, record_count, entry_count, changes"
            " FROM durably_logs"
        ).fetchall()
        for number, revision, epoch, next_seq, *counts, changes in logs:
            found = connection.execute(
                "SELECT count(*), coalesce(sum(entry_count), 0), coalesce(max(revision), 0),"
                " coalesce(min(place & 4294967295), 1), coalesce(max(place & 4294967295), 0)"
                " FROM durably_records WHERE log = ?",
                (number,),
            ).fetchone()
            assert list(found[:2]) == counts, f"log {number} counts {counts} and has {found}"
            assert found[2] <= revision
            assert epoch <= revision
            assert 1 <= found[3] <= found[4] + 1 <= next_seq
            remembered = _changes.decode(changes)
            assert 1 <= len(remembered) <= REMEMBERED_CHANGES
            assert remembered[-1].revision == revision
        strays = connection.execute(
            "SELECT place FROM durably_records WHERE log NOT IN (SELECT number FROM durably_logs)"
            " OR place >> 32 <> log OR (data IS NULL) = (packed IS NULL)"
        ).fetchall()
        assert strays == []
