"""The chunks of S3: what they hold comes back, and what they cost stays bounded."""

import math
from itertools import pairwise

import pytest

from durably.logstore import Batch, LogId, NewRecord, Range, Record
from durably_s3 import _chunks as chunks
from durably_s3 import _planning, _tip
from durably_s3._chunks import BLOCK_BYTES, Block, Spoiled
from s3_crashes import KEYS, LOG, dice_of, filled, open_on, small
from s3_memory import Shelf

SIZES = {
    "one empty": [0],
    "all empty": [0] * 50,
    "empty between": [0, 5, 0, 7, 0],
    "one that fills a block": [BLOCK_BYTES],
    "one larger than a block": [5, BLOCK_BYTES + 1, 5],
    "many blocks": [20_000] * 20,
    "large and small": [200_000, 0, 10, BLOCK_BYTES - 10, 1, 200_000],
}


def made(sizes, *, first=1, dice=None):
    """Return records of so many bytes; those of a die cannot be compressed."""
    return [
        Record(
            seq=seq,
            key=f"key {seq}",
            entry_count=seq % 4,
            stored_at=seq / 7,
            revision=100 + seq,
            data=b"%d" % (seq % 10) * size if dice is None else dice.randbytes(size),
        )
        for seq, size in enumerate(sizes, first)
    ]


def restored(sealed):
    index, blocks = chunks.split(sealed.chunk, sealed.data)
    return list(chunks.read_records(index, blocks))


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("dice", [None, 3])
def test_records_come_back(sizes, compress, dice):
    """What was put into a chunk comes out of it, whatever its size, compressed or not."""
    records = made(sizes, dice=dice and dice_of(dice))
    sealed = chunks.build(records, level=2, compress=compress)
    assert restored(sealed) == records
    chunk = sealed.chunk
    assert (chunk.first, chunk.last, chunk.level) == (1, len(sizes), 2)
    assert chunk.record_count == len(sizes)
    assert chunk.entry_count == sum(record.entry_count for record in records)
    assert chunk.size == len(sealed.data)
    assert chunks.read_index(chunk, sealed.data[slice(*chunks.index_range(chunk))]) == sealed.index


def test_a_block_is_compressed_only_where_that_pays():
    """Data that cannot be compressed lies there as it is, and what can takes less."""
    noise = chunks.build(made([5000] * 4, dice=dice_of(1)))
    text = chunks.build(made([5000] * 4))
    assert [block.packed for block in noise.index.blocks] == [False]
    assert [block.packed for block in text.index.blocks] == [True]
    assert text.chunk.size < 1000
    assert noise.chunk.size < 20_000 + 400


def test_blocks_are_of_bounded_size():
    """No block holds more than its measure, but for a record that is larger by itself."""
    records = made(SIZES["many blocks"] + SIZES["large and small"])
    sealed = chunks.build(records, compress=False)
    for block, rows in zip(sealed.index.blocks, chunks._rows(sealed.index), strict=True):
        assert block.size <= BLOCK_BYTES or len(rows) == 1


@pytest.mark.parametrize("wanted", [{1}, {3}, {4, 5}, {1, 20}, set(range(1, 21)), {99}])
def test_a_record_is_read_from_its_block(wanted):
    """The bytes that are asked for are those of the blocks of the records, side by side as one."""
    sealed = chunks.build(made([20_000] * 20), compress=False)
    spans = chunks.spans_of(sealed.chunk, sealed.index, frozenset(wanted))
    parts = [(span, sealed.data[span.start : span.end]) for span in spans]
    blocks = chunks.blocks_of(sealed.index, parts)
    found = {record.seq for record in chunks.read_records(sealed.index, blocks)}
    assert found >= wanted - {99}
    assert sum(len(data) for _, data in parts) <= len(found) * 20_000
    assert len(found) <= 3 * len(wanted)
    assert all(one.end < other.start for one, other in pairwise(spans))


async def test_records_of_no_bytes_are_read_from_chunks(monkeypatch):
    """A block of records that are all empty is there, too, in whatever part of a log is read."""
    small(monkeypatch, seal=0)
    store, _ = open_on(Shelf())
    for number in range(4):
        new = NewRecord(data=b"" if number % 2 else b"x", key=f"key {number}")
        await store.append(LOG, Batch(records=(new,)))
    for span in (Range(limit=3), Range(newest=True, limit=3), Range(keys=frozenset({"key 1"}))):
        found = await store.read(LOG, span)
        assert all(one.data == (b"x" if one.seq % 2 else b"") for one in found.records)
        assert found.records


def test_merging_keeps_blocks_byte_for_byte():
    """Blocks of merged chunks are the same bytes, and their records come in the same order."""
    parts = [
        chunks.build(made([30_000] * 5, first=1 + 5 * number), compress=number != 1)
        for number in range(3)
    ]
    merged = chunks.concatenate(
        [chunks.split(one.chunk, one.data) for one in parts], level=1, low=0
    )
    before = [block for one in parts for block in chunks.split(one.chunk, one.data)[1]]
    assert chunks.split(merged.chunk, merged.data)[1] == before
    assert restored(merged) == [record for one in parts for record in restored(one)]
    assert (merged.chunk.level, merged.chunk.record_count) == (1, 15)


@pytest.mark.parametrize("low", [0, 1, 4, 5, 7, 12, 14, 15, 20])
def test_merging_drops_what_was_evicted(low):
    """Rows up to the watermark are gone after a merge, and blocks with them that have no other."""
    parts = [chunks.build(made([30_000] * 5, first=1 + 5 * number)) for number in range(3)]
    merged = chunks.concatenate(
        [chunks.split(one.chunk, one.data) for one in parts], level=1, low=low
    )
    left = [record for one in parts for record in restored(one) if record.seq > low]
    assert ([] if merged is None else restored(merged)) == left
    assert (merged is None) == (low >= 15)
    if merged is not None:
        assert merged.chunk.first == low + 1
        assert len(merged.index.blocks) <= math.ceil(len(left) / 2) + 2


def test_what_a_block_says_of_itself_is_checked():
    """A block of other bytes, or of another length, is not read."""
    sealed = chunks.build(made([100]))
    index, [block] = chunks.split(sealed.chunk, sealed.data)
    for other in (block[:-1], block + b"x", b"", bytes([block[0] ^ 1]) + block[1:]):
        with pytest.raises(Spoiled, match="not what was written"):
            list(chunks.read_records(index, [other]))
    assert isinstance(index.blocks[0], Block)


async def _append_tiny(count):
    shelf = Shelf()
    store, bucket = open_on(shelf)
    most = {"chunks": 0, "bytes": 0}
    for number in range(count // 2):
        await store.append(LOG, Batch(records=(NewRecord(data=b"x"),) * 2, at=1.0))
        if number % 7 == 0:
            tip = shelf.objects[KEYS.tip(LOG)][0]
            most["bytes"] = max(most["bytes"], len(tip))
            most["chunks"] = max(most["chunks"], len(_tip.read(tip).chunks))
    return most, bucket


@pytest.mark.parametrize("fan", [3, 4])
async def test_the_tip_grows_with_the_logarithm(monkeypatch, fan):
    """Thousands of records are in no more chunks than each level may have, and tips stay small."""
    small(monkeypatch, seal=200, fan=fan)
    most, bucket = await _append_tiny(2500)
    sealed = 2500 / 4
    levels = min(math.ceil(math.log(sealed, fan)), _planning.TOP_LEVEL)
    at_the_top = sealed / fan**_planning.TOP_LEVEL
    assert most["chunks"] <= (fan - 1) * (levels + 1) + at_the_top
    assert most["chunks"] > fan
    assert most["bytes"] < 300 + 4 * 120 + 90 * most["chunks"]
    biggest = max(len(one.data) for one in bucket.log if one.key == KEYS.tip(LOG))
    assert biggest < 3000


async def test_an_append_takes_hardly_more_than_one_request(record_property):
    """1,000 appends of 2.15 KB on one handle: 1.1 requests each, tips of 70 KB at most."""
    shelf = await filled(0)
    store, bucket = open_on(shelf)
    dice = dice_of(1)
    await store.append(LOG, Batch(head=b"head", at=1.0))
    bucket.log.clear()
    for _ in range(1000):
        data = dice.randbytes(1075).hex().encode()
        await store.append(LOG, Batch(records=(NewRecord(data=data),), head=b"head", at=1.0))
    puts = [one for one in bucket.log if one.what == "put"]
    tips = [len(one.data) for one in puts if one.key == KEYS.tip(LOG)]
    assert len(tips) == 1000
    assert len(bucket.log) <= 1100
    assert max(tips) < 70_000
    average = sum(len(one.data) for one in puts) / 1000
    assert average < 45_000
    record_property("counted", f"{len(bucket.log)} requests, {average:.0f} bytes each in PUTs")


async def test_a_cold_handle_asks_for_each_index_once(monkeypatch):
    """The first append of a handle asks for the layout, the tip, and the head of every chunk."""
    small(monkeypatch)
    shelf = await filled(26)
    store, bucket = open_on(shelf)
    for key in ("new", "newer"):
        await store.append(LOG, Batch(records=(NewRecord(data=b"x"),), key=key, at=1.0))
    asked = [one for one in bucket.log if one.what == "get" and one.key.startswith(KEYS.chunks)]
    first = [one for one in asked if one.span is not None]
    assert len(first) == 4 == len({one.key for one in first})
    assert all(one.span[0] == 0 for one in first)


async def test_indexes_are_forgotten_when_they_are_many(monkeypatch):
    """What is remembered of chunks is bounded, and asked for again when it is needed."""
    small(monkeypatch)
    monkeypatch.setattr("durably_s3._area.ROWS_KEPT", 12)
    shelf = await filled(20)
    store, _ = open_on(shelf)
    for number in range(3):
        log = LogId(kind="run", id=f"log {number}")
        for turn in range(9):
            await store.append(log, Batch(records=(NewRecord(data=b"x" * 90),), at=float(turn)))
        assert (await store.read(log)).state.record_count == 9
    memory = store._opened.memory
    rows = sum(len(one.index.rows) for one in memory._contents.values())
    assert rows == memory._rows <= 12


async def test_tips_are_forgotten_when_they_are_many(monkeypatch):
    """Of more logs than are remembered each is found and changed all the same."""
    small(monkeypatch)
    monkeypatch.setattr("durably_s3._area.TIPS_KEPT", 2)
    store, _ = open_on(Shelf())
    for turn in range(3):
        for number in range(5):
            log = LogId(kind="run", id=f"log {number}")
            batch = Batch(records=(NewRecord(data=b"x"),), at=float(turn))
            assert (await store.append(log, batch)).seq == turn + 1
    assert len(store._opened.memory._tips) == 2
