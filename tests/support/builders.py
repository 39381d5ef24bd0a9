"""Entries in few words, and raw records beneath the contracts."""

import sqlite3
from contextlib import asynccontextmanager, closing

from durably import (
    AssistantTextEntry,
    InputEntry,
    StateSnapshot,
    ToolCallEntry,
    ToolResultEntry,
    memory,
)
from durably.logstore import Batch, LogId, NewRecord, Record


def user(text):
    return InputEntry(role="user", content=text)


def model(text):
    return AssistantTextEntry(content=text)


def said(*texts):
    return [user(text) for text in texts]


def call(call_id, name="search"):
    return ToolCallEntry(call_id=call_id, name=name, arguments="{}")


def result(call_id, output="found", **more):
    return ToolResultEntry(call_id=call_id, output=output, **more)


def snapshot(*texts, **more):
    return StateSnapshot(messages=said(*texts), **more)


async def shape(session, session_id):
    """Return a session as pairs of run_id and number of entries."""
    return [(one.run_id, len(one.entries)) for one in await session.segments(session_id)]


@asynccontextmanager
async def raw(place):
    """Give a log store beneath the contracts."""
    store = place.log_store()
    try:
        yield store
    finally:
        await store.aclose()


async def plant(place, kind, id_, data, *, key="r1", entry_count=1, head=None):
    """Store bytes as a record, whatever they say."""
    record = NewRecord(key=key, data=data, entry_count=entry_count)
    async with raw(place) as store:
        await store.append(LogId(kind=kind, id=id_), Batch(records=(record,), head=head))


async def records(place, kind, id_) -> tuple[Record, ...]:
    """Return the raw records of a log."""
    async with raw(place) as store:
        stored = await store.read(LogId(kind=kind, id=id_))
    return stored.records if stored else ()


def dump(place):
    """Return everything a place holds, to be compared."""
    if place.backend == "memory":
        return dict(memory._shelves[place.name].logs)
    with closing(sqlite3.connect(place.file)) as connection:
        return {
            table: connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()  # noqa: S608
            for table in ("durably_logs", "durably_records", "durably_schema")
        }
