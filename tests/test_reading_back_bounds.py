"""Bounded reads at their real bounds: what a filtered page may look at, and a cost that stays."""

import pytest

from builders import result, said
from durably import HistoryTooLarge, MemoryLogStore, Storage
from durably._records import encode_segment
from durably.history import MAX_SCANNED_BYTES, MAX_SCANNED_RECORDS
from durably.logstore import Batch, LogId, NewRecord
from faults import Metered

LOG = LogId(kind="session", id="s")
KIB = 1024


async def _append(storage, name, entries, times=1):
    """Append so many runs of these entries in one step, and return what one of them weighs."""
    data, count = encode_segment(entries)
    records = tuple(
        NewRecord(key=f"{name} {number}", data=data, entry_count=count) for number in range(times)
    )
    await storage.log_store.append(LOG, Batch(records=records))
    return len(data)


@pytest.fixture
async def metered():
    """A log store that counts what it returns, and a storage over it."""
    store = Metered(MemoryLogStore())
    async with Storage(store) as storage:
        yield store, storage


async def test_10000_records_are_looked_at(metered):
    """A message in the 10,000th record is found, and nothing read twice for it."""
    store, storage = metered
    await _append(storage, "none", [result("c")], MAX_SCANNED_RECORDS - 1)
    await _append(storage, "found", said("a", "b"))
    page, moved, _ = await store.moved(storage.sessions.history("s", limit=1, types="messages"))
    assert [(one.index, one.run_id) for one in page.items] == [(9_999, "found 0")]
    assert moved == MAX_SCANNED_RECORDS == 10_000


async def test_one_record_more_is_too_many(metered):
    """A message in the 10,001st is not looked for: the 10,000th is the last one read."""
    store, storage = metered
    await _append(storage, "none", [result("c")], MAX_SCANNED_RECORDS)
    await _append(storage, "found", said("a", "b"))
    before = store.records
    with pytest.raises(HistoryTooLarge) as caught:
        await storage.sessions.history("s", limit=1, types="messages")
    assert (caught.value.max_records, caught.value.max_bytes) == (10_000, 16 * KIB * KIB)
    assert store.records - before == MAX_SCANNED_RECORDS


@pytest.mark.parametrize("limit", [1, 100, 256])
@pytest.mark.parametrize("size", [16 * KIB, 256 * KIB, 1024 * KIB, 2048 * KIB])
async def test_16_mebibytes_are_looked_at_and_no_more(metered, size, limit):
    """A page over exactly 16 MiB is given; a record more is too much, and ends the reading."""
    store, storage = metered
    empty, _ = encode_segment([result("c", "")])
    entries = [result("c", "x" * (size - len(empty)))]
    assert await _append(storage, "r", entries, MAX_SCANNED_BYTES // size) == size
    act = storage.sessions.history("s", limit=limit, types="messages")
    page, _, moved = await store.moved(act)
    assert (page.items, page.next_cursor, moved) == ((), None, MAX_SCANNED_BYTES)
    await _append(storage, "more", entries, 50)
    before = store.payload
    with pytest.raises(HistoryTooLarge):
        await storage.sessions.history("s", limit=limit, types="messages")
    assert MAX_SCANNED_BYTES < store.payload - before <= MAX_SCANNED_BYTES + size
