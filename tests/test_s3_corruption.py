"""S3: damaged and missing objects are found, named, left as they are, and harm no other log."""

import pytest

from durably import CorruptRecord
from durably.logstore import Batch, LogId, Range, Rewrite
from durably_s3 import _tip
from s3_crashes import KEYS, LAYOUT, LOG, batches, dice_of, filled, open_on, record, small, tidy
from s3_memory import Shelf

TIP = KEYS.tip(LOG)
OTHER = LogId(kind="run", id="another log")
OF_THE_TAIL = (*range(8, 12), *range(16, 20))
"""Bytes of a tip's header that a listing does not need."""

NEW = Batch(records=(record("new"),), key="new", at=1.0)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    small(monkeypatch)


def _flips():
    """Give positions of bytes, as fractions of what there is."""
    dice = dice_of(1)
    return [0.0, 1.0, *(dice.random() for _ in range(38))]


async def _two_logs(length):
    shelf = await filled(length)
    store, _ = open_on(shelf)
    await store.append(OTHER, NEW)
    return shelf


def truncated(data):
    """Give data cut off at several places."""
    for size in {0, 1, 16, len(data) // 2, len(data) - 1}:
        if size < len(data):
            yield data[:size]


def flipped(data):
    """Give data with one byte changed."""
    for part in _flips():
        position = int(part * (len(data) - 1))
        for mask in (0x01, 0xFF):
            yield b"".join((data[:position], bytes([data[position] ^ mask]), data[position + 1 :]))


def differing(data, original):
    """Return where data begins to differ, or ends."""
    pairs = enumerate(zip(data, original, strict=False))
    return next((place for place, (one, other) in pairs if one != other), len(data))


def _put(shelf, key, data):
    shelf.objects[key] = (data, "another etag", shelf.objects[key][2])


async def _is_contained(shelf):
    """The other log can be read, listed, changed and deleted."""
    twin = shelf.copy()
    store, _ = open_on(twin)
    assert [one.key for one in (await store.read(OTHER)).records] == ["new:0"]
    assert [one.id for one in (await store.list("run")).items] == sorted([LOG.id, OTHER.id])
    await store.append(OTHER, Batch(head=b"changed", at=2.0))
    assert await store.delete(OTHER) is True
    assert twin.objects[TIP] == shelf.objects[TIP]


async def _is_found(shelf, key, *calls):
    """Each call refuses the log, names the object, and changes no byte."""
    before = shelf.dump()
    for call in calls:
        store, _ = open_on(shelf)
        with pytest.raises(CorruptRecord) as caught:
            await call(store)
        assert key in str(caught.value)
        assert caught.value.log == LOG
        assert shelf.dump() == before


async def _is_deleted(shelf):
    store, _ = open_on(shelf)
    assert await store.delete(LOG) is True
    assert await store.read(LOG) is None
    assert await store.delete(OTHER) is True
    await tidy(shelf)
    assert set(shelf.objects) == {LAYOUT}


def read(store):
    return store.read(LOG)


def read_state(store):
    return store.read(LOG, Range(limit=0))


def append(store):
    return store.append(LOG, NEW)


def append_head(store):
    return store.append(LOG, Batch(head=b"new", at=1.0))


def rewrite(store):
    return store.rewrite(LOG, Rewrite(expected_revision=1008, drop=frozenset({1, 2}), at=1.0))


def list_states(store):
    return store.list("run", with_state=True)


def delete_expected(store):
    return store.delete(LOG, expected_revision=1008)


@pytest.mark.parametrize("damage", [truncated, flipped])
async def test_a_damaged_tip_is_found(damage, record_property):
    """Whatever byte of a tip is wrong or missing, no operation takes it for a log's."""
    shelf = await _two_logs(8)
    original = shelf.objects[TIP][0]
    front = _tip.HEADER.size + _tip.HEADER.unpack_from(original)[1]
    counted = 0
    for data in damage(original):
        _put(shelf, TIP, data)
        calls = [read, read_state, append, append_head, rewrite, delete_expected]
        place = differing(data, original)
        if place < front and place not in OF_THE_TAIL:
            calls.append(list_states)
        await _is_found(shelf, TIP, *calls)
        counted += 1
        if counted % 8 == 1:
            await _is_contained(shelf)
            await _is_deleted(shelf.copy())
    assert counted >= 5
    record_property("counted", counted)


@pytest.mark.parametrize("damage", [truncated, flipped])
@pytest.mark.parametrize("compression", ["zlib", "none"])
async def test_a_damaged_chunk_is_found(damage, compression, record_property):
    """Whatever byte of a chunk is wrong or missing, what it holds is not taken for records."""
    shelf = Shelf()
    store, _ = open_on(shelf, compression=compression)
    for batch in batches(8):
        await store.append(LOG, batch)
    await store.append(OTHER, NEW)
    tip = _tip.read(shelf.objects[TIP][0])
    chunk = tip.chunks[0]
    key = KEYS.chunk(LOG, chunk.name)
    index_end = 12 + chunk.index_size
    original = shelf.objects[key][0]
    counted = 0
    for data in damage(original):
        _put(shelf, key, data)
        calls = [read, lambda store: store.read(LOG, Range(limit=1))]
        calls.append(lambda store: store.read(LOG, Range(keys=frozenset({"batch 1:0"}))))
        if differing(data, original) < index_end:
            calls += [append, rewrite, lambda store: store.read(LOG, Range(with_data=False))]
        await _is_found(shelf, key, *calls)
        counted += 1
        if counted % 8 == 1:
            await _is_contained(shelf)
            await _is_deleted(shelf.copy())
            store, _ = open_on(shelf)
            assert len((await store.read(LOG, Range(after=chunk.last))).records) == 5
            assert (await store.list("run", with_state=True)).items[0].state == tip.rules.state
    assert counted >= 4
    record_property("counted", counted)


async def test_a_damaged_body_is_carried_along_and_found_then():
    """Merging takes blocks as they are: what was damaged before is found by who reads it."""
    shelf = await _two_logs(8)
    tip = _tip.read(shelf.objects[TIP][0])
    key = KEYS.chunk(LOG, tip.chunks[0].name)
    data = shelf.objects[key][0]
    _put(shelf, key, data[:-1] + bytes([data[-1] ^ 1]))
    store, _ = open_on(shelf)
    await store.append(LOG, batches(9)[8])
    await store.aclose()
    [merged] = _tip.read(shelf.objects[TIP][0]).chunks
    key = KEYS.chunk(LOG, merged.name)
    await _is_found(shelf, key, read)
    store, _ = open_on(shelf)
    assert len((await store.read(LOG, Range(with_data=False))).records) == 9


async def test_a_tip_in_another_logs_place_keeps_to_itself():
    """The tip of one log under another's name names chunks that are not there: that is found."""
    shelf = await _two_logs(8)
    _put(shelf, KEYS.tip(OTHER), shelf.objects[TIP][0])
    store, _ = open_on(shelf)
    with pytest.raises(CorruptRecord, match="is missing"):
        await store.read(OTHER)
    assert len((await store.read(LOG)).records) == 8


async def test_a_chunk_in_another_ones_place_is_found():
    """The bytes of one chunk under another's name are not taken for its records."""
    shelf = await _two_logs(8)
    tip = _tip.read(shelf.objects[TIP][0])
    first, second = (KEYS.chunk(LOG, one.name) for one in tip.chunks)
    _put(shelf, first, shelf.objects[second][0])
    await _is_found(shelf, first, read)


async def test_a_missing_chunk_harms_only_what_needs_it():
    """Without one of its chunks a log keeps its state, its newest records, and its listing."""
    shelf = await _two_logs(8)
    tip = _tip.read(shelf.objects[TIP][0])
    key = KEYS.chunk(LOG, tip.chunks[0].name)
    del shelf.objects[key]
    await _is_found(shelf, key, read, append, rewrite)
    store, _ = open_on(shelf)
    assert [one.seq for one in (await store.read(LOG, Range(after=3))).records] == [4, 5, 6, 7, 8]
    assert [one.seq for one in (await store.read(LOG, Range(limit=2, newest=True))).records] == [
        7,
        8,
    ]
    assert (await read_state(store)).state == tip.rules.state
    await append_head(store)
    await _is_contained(shelf)
    await _is_deleted(shelf)
