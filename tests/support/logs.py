"""Logs of a log store, in few words."""

import sqlite3
from contextlib import AsyncExitStack, asynccontextmanager, closing

from durably.logstore import ALL, Batch, LogId, LogStore, NewRecord

LOG = LogId(kind="session", id="a log")


def log(name: str) -> LogId:
    return LogId(kind="session", id=name)


def batch(*keys: str, **options) -> Batch:
    """Return a batch of records, each with its key as data."""
    return Batch(records=tuple(NewRecord(key=key, data=key.encode()) for key in keys), **options)


def unkeyed(*data: bytes, **options) -> Batch:
    """Return a batch of records whose keys derive from its own."""
    return Batch(records=tuple(NewRecord(data=one) for one in data), **options)


async def keys(store: LogStore, log: LogId = LOG, span=ALL) -> list[str]:
    stored = await store.read(log, span)
    return [] if stored is None else [record.key for record in stored.records]


async def state(store: LogStore, log: LogId = LOG):
    return (await store.read(log)).state


async def change(store: LogStore, times: int, log: LogId = LOG) -> None:
    """Make so many changes that add no record."""
    for _ in range(times):
        await store.append(log, Batch(head=b"another"))


@asynccontextmanager
async def closing_all():
    """Give a function that keeps what it is given until the end, and closes it then."""
    async with AsyncExitStack() as stack:

        def keep(store):
            stack.push_async_callback(store.aclose)
            return store

        yield keep


def raw(path) -> closing[sqlite3.Connection]:
    """Connect to a database of ours past the library; ``with`` closes it."""
    return closing(sqlite3.connect(path, timeout=0, isolation_level=None))


def tables(path) -> dict[str, list[tuple]]:
    """Return every row of every table of a database."""
    with raw(path) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {
            name: connection.execute(f'SELECT * FROM "{name}" ORDER BY rowid').fetchall()  # noqa: S608 - its own names
            for (name,) in names
        }


def write_lock_is_free(path) -> bool:
    """Whether another connection can write at once; it raises where it cannot."""
    with raw(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("COMMIT")
    return True
