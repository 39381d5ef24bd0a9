"""Objects of S3: what was once written opens for ever, and today's format is that of then."""

import struct
import zlib

import msgspec
import pytest

import durably
import golden
import s3_golden
from builders import said
from durably.logstore import ALL, Batch, Range, Rewrite
from durably_s3.testing import Shelf
from logs import batch
from s3_golden import FILE, GONE, GROWN, NAMESPACE, PLAIN, RECORDS, open_store

FILES = sorted(FILE.parent.glob("s3-layout-*.json"))
LEFT = [key for number, key in enumerate(RECORDS, 1) if 5 < number <= 20 and number != 12]


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def shelf(request):
    """A bucket with the objects of each golden file."""
    shelf = Shelf()
    for key, data in s3_golden.read(request.param).items():
        shelf.objects[key] = (data, f"etag of {key}", 0.0)
    return shelf


def test_the_current_formats_have_a_golden_file():
    """The layout and format of this version are among the golden files."""
    assert FILE in FILES


async def test_what_was_written_is_read(shelf):
    """Sessions, runs and threads come back as they were written, and nothing is changed."""
    before = shelf.dump()
    async with durably.Storage(open_store(shelf)) as storage:
        assert await storage.sessions.segments("a session") == golden.SEGMENTS
        run = await storage.checkpointer.load("a run")
        assert run.entries == golden.ENTRIES
        assert run.head == msgspec.structs.replace(golden.HEAD, updated_at=golden.NOW)
        listed = await storage.checkpoint_saver().list("a thread")
        assert [one.snapshot for one in reversed(listed)] == golden.SNAPSHOTS
    assert shelf.dump() == before


async def test_what_was_written_goes_on(shelf):
    """Objects of every released format take appends, rewinds, trims and saves."""
    async with durably.Storage(open_store(shelf)) as storage:
        await storage.sessions.append("a session", golden.ENTRIES, run_id="r1")
        await storage.sessions.append("a session", said("more"))
        assert (await storage.sessions.rewind("a session", keep_entries=1)).removed_entries == 9
        claim = await storage.checkpointer.claim("a run")
        await claim.append(said("more"), durably.RunHead(status="completed"))
        saver = storage.checkpoint_saver()
        await saver.append("a thread", durably.StateSnapshot(messages=golden.ENTRIES[:3]))
        assert (await saver.latest("a thread")).snapshot.messages == golden.ENTRIES[:3]


async def _records(store, log, span=ALL):
    return [(one.key, one.data) for one in (await store.read(log, span)).records]


async def test_chunks_of_every_level_are_read(shelf):
    """Evicted, dropped and replaced records are those of then, read whole and in parts."""
    store = open_store(shelf)
    expected = [(key, RECORDS[key]) for key in LEFT]
    expected[LEFT.index("k08")] = ("k08", b"replaced")
    expected.append(("last", b"last"))
    assert await _records(store, GROWN) == expected
    assert await _records(store, GROWN, Range(limit=3)) == expected[:3]
    assert await _records(store, GROWN, Range(newest=True, limit=9)) == expected[-9:]
    assert await _records(store, GROWN, Range(keys=frozenset({"k06"}))) == [expected[1]]
    assert (await store.read(GROWN)).state.head == b"k19"
    assert await store.read(GONE) is None
    listed = await store.list("session")
    assert [one.id for one in listed.items] == sorted(["a session", GROWN.id], key=str.encode)
    plain = open_store(shelf, NAMESPACE)
    assert await _records(plain, PLAIN) == list(RECORDS.items())[:5]


async def test_what_was_sent_then_is_still_known(shelf):
    """A change that is sent again is a duplicate, also of a key that lies in a merged chunk."""
    store = open_store(shelf)
    again = Batch(records=batch("k06").records, key="of k06")
    assert (await store.append(GROWN, again)).duplicate
    assert (await store.append(GROWN, batch("k05", key="anew"))).duplicate
    assert not (await store.append(GROWN, batch("k04", key="anew, too"))).duplicate  # it is evicted


async def test_old_chunks_merge_with_new_ones(shelf, monkeypatch):
    """Logs of then grow, merge with chunks of now, are rewritten, deleted and begun anew."""
    store = open_store(shelf)
    monkeypatch.setattr("durably_s3._planning.SEAL_BYTES", 100)
    monkeypatch.setattr("durably_s3._planning.FAN", 2)
    new = [f"new {number:02}" for number in range(20)]
    for key in new:
        applied = await store.append(GROWN, batch(key))
    assert [key for key, _ in await _records(store, GROWN)] == [*LEFT, "last", *new]
    change = Rewrite(expected_revision=applied.revision, drop=frozenset({7, 22}))
    await store.rewrite(GROWN, change)
    left = [key for key in LEFT if key != "k06"]
    assert [key for key, _ in await _records(open_store(shelf), GROWN)] == [*left, "last", *new[1:]]
    assert await store.delete(GROWN)
    await store.append(GONE, batch("again"))
    assert [key for key, _ in await _records(store, GONE)] == ["again"]


def _inflated(packed):
    return zlib.decompress(packed)


def _chunk(data):
    """Return a chunk as plain values, but for how well it was compressed."""
    magic, size, checksum = struct.unpack_from(">4sII", data)
    stored = data[12 : 12 + size]
    assert checksum == zlib.crc32(stored)
    rows, blocks = msgspec.msgpack.decode(_inflated(stored))
    bodies, start = [], 12 + size
    for length, checksum, count, packed in blocks:
        body = data[start : start + length]
        assert checksum == zlib.crc32(body)
        bodies.append((count, packed, _inflated(body) if packed else body))
        start += length
    assert start == len(data)
    return magic, rows, bodies


def _tip(data):
    """Return a tip as plain values, but for the lengths of chunks."""
    magic, front, tail, front_sum, tail_sum = struct.unpack_from(">4sIIII", data)
    parts = data[20 : 20 + front], data[20 + front :]
    assert (len(parts[1]), front_sum, tail_sum) == (tail, *map(zlib.crc32, parts))
    state, changes, low, chunks, mark = msgspec.msgpack.decode(parts[0])
    listed = [one[:6] for one in chunks]
    return magic, state, changes, low, listed, mark, msgspec.msgpack.decode(parts[1])


def _content(objects):
    """Return what objects hold, read here by what is known of the format and by nothing else."""
    readers = {b"dch1": _chunk, b"dtp1": _tip}
    return {key: readers.get(data[:4], bytes)(data) for key, data in objects.items()}


async def test_what_is_written_is_what_the_golden_file_has():
    """This version writes the same objects; only how well zlib compresses may differ."""
    assert _content(await s3_golden.written()) == _content(s3_golden.read(FILE))


def test_the_golden_file_has_one_of_everything():
    """Chunks of three levels, packed blocks and others, evicted rows, a head, and a tombstone."""
    content = list(_content(s3_golden.read(FILE)).values())
    chunks = [one for one in content if one[0] == b"dch1"]
    found = [one for one in content if one[0] == b"dtp1"]
    assert {packed for _, _, bodies in chunks for _, packed, _ in bodies} == {True, False}
    assert {chunk[1] for tip in found for chunk in tip[4]} == {0, 1, 2}
    assert {tip[3] for tip in found} == {0, 5}
    assert any(row[0] <= 5 for _, rows, _ in chunks for row in rows if row[1] == "k04")
    assert any(isinstance(one, bytes) and one.startswith(b"gone") for one in content)
    assert b'{"layout":1,"can_delete":true,"is_ordered":true}' in content
