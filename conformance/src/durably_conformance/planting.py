"""Odd records put beneath the contracts: what a newer version wrote, or a disk spoiled.

A record is made by the contract itself, in a draft, and copied with some of its bytes changed, so
that nothing here knows how a contract lays out its records.
"""

import json
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from durably import Entry, LogStore
from durably.logstore import Batch, Log, LogId, NewRecord, Range, Rewrite
from durably.testing import Handle
from durably_conformance.context import DoesNotApply, T
from durably_conformance.keeping import Keeper

__all__ = [
    "FORMAT_LOG",
    "Swap",
    "encoded",
    "format_of",
    "plant",
    "plant_format",
    "spoil",
    "swap",
]

FORMAT_LOG = LogId(kind="meta", id="format")
"""The log whose head says which version of the format the storage has."""

Swap: TypeAlias = tuple[bytes, bytes]
"""Bytes to be found in a record exactly once, and what takes their place."""


def encoded(entry: Entry) -> bytes:
    """Return the bytes of an entry as they lie in a record."""
    return msgspec.json.encode(entry)


async def plant(
    t: T,
    handle: Handle,
    keeper: Keeper,
    entries: Sequence[Entry],
    *swaps: Swap,
    more: bytes = b"",
    head: bytes | None = None,
    spoiled: bytes | None = None,
) -> str:
    """Plant entries under the id ``x`` with some bytes changed, and return their record's key.

    ``more`` are fields of the record, each with a comma; ``head`` takes the place of the whole
    head, ``spoiled`` of the whole record. Where there is something already, it stays before them.

    Raises:
        DoesNotApply: the contract does not keep its records as JSON in the log store.
    """
    draft = LogId(kind=keeper.kind, id="draft")
    await keeper.write(handle, draft.id, entries)
    t.eq(await keeper.read(handle, draft.id), list(entries), f"the draft of {keeper}")
    stored = await _stored(handle.log_store, draft)
    await keeper.remove(handle, draft.id)
    [record] = stored.records
    data = _swapped(record.data or b"", swaps)
    data = b"{" + more + data[1:] if spoiled is None else spoiled
    new = NewRecord(key=record.key, entry_count=record.entry_count, data=data)
    log = LogId(kind=keeper.kind, id="x")
    if head is None and await handle.log_store.read(log, Range(limit=0)) is None:
        head = stored.state.head
    await handle.log_store.append(log, Batch(records=(new,), head=head))
    return record.key


async def _stored(store: LogStore, log: LogId) -> Log:
    stored = await store.read(log)
    if stored is None or len(stored.records) != 1:
        raise DoesNotApply(f"its {log.kind}s do not lie in its log store")
    return stored


async def swap(handle: Handle, kind: str, id_: str, *swaps: Swap) -> None:
    """Change some bytes of the one record that a contract stored under an id.

    Raises:
        DoesNotApply: the contract does not keep its records as JSON in the log store.
    """
    [record] = (await _stored(handle.log_store, LogId(kind=kind, id=id_))).records
    await spoil(handle, kind, id_, _swapped(record.data or b"", swaps))


async def spoil(handle: Handle, kind: str, id_: str, data: bytes) -> None:
    """Put other bytes in the place of the one record that a contract stored under an id.

    Raises:
        DoesNotApply: the contract does not keep its records in the log store.
    """
    log = LogId(kind=kind, id=id_)
    stored = await _stored(handle.log_store, log)
    [record] = stored.records
    new = NewRecord(entry_count=record.entry_count, data=data)
    change = Rewrite(expected_revision=stored.state.revision, replace={record.seq: new})
    await handle.log_store.rewrite(log, change)


def _swapped(data: bytes, swaps: Sequence[Swap]) -> bytes:
    for old, new in swaps:
        if data.count(old) != 1:
            raise DoesNotApply("its records are not the JSON of their entries")
        data = data.replace(old, new)
    return data


async def format_of(handle: Handle) -> int:
    """Return the version of the format that the storage says it has; 0 if it says none."""
    stored = await handle.log_store.read(FORMAT_LOG)
    return int(json.loads(stored.state.head or b"{}").get("format", 0)) if stored else 0


async def plant_format(handle: Handle, version: int) -> None:
    """Make the storage say that it has another version of the format."""
    head = json.dumps({"format": version}).encode()
    stored = await handle.log_store.read(FORMAT_LOG)
    if stored is None:
        await handle.log_store.append(FORMAT_LOG, Batch(head=head))
    else:
        change = Rewrite(expected_revision=stored.state.revision, head=head)
        await handle.log_store.rewrite(FORMAT_LOG, change)
