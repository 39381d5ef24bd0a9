"""Logs in few words, for the checks of a log store and its mutants."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from durably import LogStore
from durably.logstore import ALL, Batch, Log, LogId, LogInfo, LogState, NewRecord, Range
from durably_conformance.building import log
from durably_conformance.context import T

__all__ = [
    "BATCHES",
    "LONG",
    "at_work",
    "content",
    "datas",
    "datas_in",
    "fill_long",
    "ids",
    "keyed",
    "keys",
    "keys_in",
    "large",
    "meanwhile",
    "pair",
    "refresh",
    "rows",
    "state",
    "stored",
]

LONG = log("long")
"""The one long log, so that a backend can be wrong with it alone, or with all others."""

BATCHES = 10
"""Of which it is made."""


async def pair(t: T) -> tuple[LogStore, LogStore]:
    """Open two handles onto the check's place."""
    return (await t.connect()).log_store, (await t.connect()).log_store


async def at_work(t: T, number: int) -> list[LogStore]:
    """Open handles each of which has written something.

    A handle's first write may take long, and wait for those of others, which then end before it.
    """
    stores = [(await t.connect()).log_store for _ in range(number)]
    for who, store in enumerate(stores):
        await store.append(log(f"own {who}"), Batch(head=b""))
    return stores


def keyed(*keys: str, head: bytes | None = None, expected_revision: int | None = None) -> Batch:
    """Return a batch of records with these keys, each with its key as data."""
    records = tuple(NewRecord(key=key, data=key.encode()) for key in keys)
    return Batch(records=records, head=head, expected_revision=expected_revision)


def large(number: int, count: int = 12, **fields: Any) -> Batch:  # noqa: ANN401 - Batch's own
    """Return a batch of records of 6 KiB each, whose keys and data say its number and theirs."""
    names = [f"{number:02}-{place:02}" for place in range(count)]
    records = tuple(NewRecord(key=name, data=name.encode() * 1230) for name in names)
    return Batch(records=records, **fields)


async def fill_long(store: LogStore) -> list[Batch]:
    """Append 700 KiB to the long log, more than a backend may keep in one piece, and return them.

    They number its keys from ``00-00`` to ``09-11``.
    """
    sent = [large(number) for number in range(BATCHES)]
    for one in sent:
        await store.append(LONG, one)
    return sent


async def stored(t: T, store: LogStore, of: LogId | None = None, span: Range = ALL) -> Log:
    """Read a log that has to be there."""
    name = of or log()
    found = await store.read(name, span)
    return t.fail(f"there is no log {name}") if found is None else found


async def state(t: T, store: LogStore, of: LogId | None = None) -> LogState:
    """Read the state of a log that has to be there."""
    return (await stored(t, store, of, Range(limit=0))).state


async def refresh(store: LogStore, times: int) -> None:
    """Change the head so many times, which adds no record."""
    for number in range(times):
        await store.append(log(), Batch(head=b"head %d" % number))


def keys(found: Log) -> list[str]:
    """Return the keys of the records that were read."""
    return [record.key for record in found.records]


def datas(found: Log) -> list[bytes | None]:
    """Return the data of the records that were read."""
    return [record.data for record in found.records]


def content(found: Log) -> list[tuple[int, str, int, bytes | None]]:
    """Return seq, key, entry_count and data of the records that were read."""
    return [(one.seq, one.key, one.entry_count, one.data) for one in found.records]


async def rows(
    store: LogStore, kind: str = "test", *, prefix: str = "", after: str = "", states: bool = False
) -> list[LogInfo]:
    """Return a row for each of a kind's logs, page after page as long as the walk goes on."""
    found, place = list[LogInfo](), after
    while True:
        page = await store.list(kind, prefix=prefix, after=place, with_state=states)
        found += page.items
        if page.next is None or page.next.encode() <= place.encode():
            return found
        place = page.next


async def ids(
    store: LogStore, kind: str = "test", *, prefix: str = "", after: str = ""
) -> list[str]:
    """Return the ids of a kind's logs."""
    return [row.id for row in await rows(store, kind, prefix=prefix, after=after)]


async def keys_in(store: LogStore, of: LogId | None = None) -> list[str]:
    """Return the keys of a log's records; none where there is no log."""
    found = await store.read(of or log())
    return [] if found is None else keys(found)


async def datas_in(store: LogStore, of: LogId | None = None) -> list[bytes | None]:
    """Return the data of a log's records; none where there is no log."""
    found = await store.read(of or log())
    return [] if found is None else datas(found)


async def meanwhile(change: Awaitable[None], look: Callable[[], Awaitable[None]]) -> None:
    """Look again and again while a change goes on."""
    running = asyncio.ensure_future(change)
    try:
        while not running.done():
            await look()
            await asyncio.sleep(0)
        await running
    finally:
        running.cancel()
        await asyncio.wait([running])
