"""Sizes: at the stated limit accepted, one byte above refused before anything is written."""

import pytest

from builders import dump, raw, records, said, shape, user
from disturbed import Small
from durably import RecordTooLarge, RunHead, StateSnapshot, Storage
from durably.logstore import LogId

RECORD = 4096
HEAD = 1024


@pytest.fixture
async def small(place):
    """A storage that accepts records of 4 KiB and heads of 1 KiB."""
    store = Small(place.log_store(), record_bytes=RECORD, head_bytes=HEAD)
    async with Storage(store) as storage:
        yield storage


async def _append(storage, text):
    await storage.sessions.append("x", [user(text)])


async def _save(storage, text):
    await storage.checkpointer.append("x", [user(text)], RunHead())


async def _save_head(storage, text):
    await storage.checkpointer.append("x", [], RunHead(context_state=text))


async def _snapshot(storage, text):
    await storage.checkpoint_saver().append("x", StateSnapshot(messages=[user(text)]))


WRITERS = {
    "session": (_append, "session", "record", RECORD),
    "run": (_save, "run", "record", RECORD),
    "head": (_save_head, "run", "head", HEAD),
    "thread": (_snapshot, "thread", "record", RECORD),
}


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS.keys())
async def test_the_limit_is_accepted_and_one_byte_more_refused(place, small, writer):
    """What has exactly as many bytes as the limit is stored; one byte more is refused whole."""
    write, kind, what, limit = writer
    async with place.open() as other:
        await other.sessions.append("kept", said("kept"))
    before = dump(place)
    with pytest.raises(RecordTooLarge) as caught:
        await write(small, "x" * limit)
    overhead = caught.value.size - limit
    assert 0 < overhead < 100
    with pytest.raises(RecordTooLarge) as caught:
        await write(small, "x" * (limit - overhead + 1))
    error = caught.value
    assert (error.what, error.size, error.limit) == (what, limit + 1, limit)
    assert error.log == LogId(kind=kind, id="x")
    assert dump(place) == before
    await write(small, "x" * (limit - overhead))
    async with raw(place) as store:
        log = await store.read(error.log)
    data = log.state.head if what == "head" else log.records[0].data
    assert len(data) == limit


async def test_bytes_count_and_not_characters(small):
    """The limit is in UTF-8 bytes: half as many characters of two bytes are too many."""
    with pytest.raises(RecordTooLarge):
        await _append(small, "\u00e9" * (RECORD // 2))


async def test_a_head_too_large_stores_none_of_its_entries(small):
    """Entries that come with too large a head are not stored either."""
    with pytest.raises(RecordTooLarge):
        await small.checkpointer.append("r", said("x"), RunHead(output="x" * HEAD))
    assert await small.checkpointer.load("r") is None


async def test_a_refused_save_leaves_the_claim_usable(small):
    """After a save that was too large the same claim can still save less."""
    claim = await small.checkpointer.claim("r")
    with pytest.raises(RecordTooLarge):
        await claim.append([user("x" * RECORD)], RunHead())
    await claim.append(said("less"), RunHead())
    assert (await small.checkpointer.load("r")).entries == said("less")


async def test_a_refused_snapshot_leaves_the_saver_usable(small):
    """After a snapshot that was too large the same saver goes on where it was."""
    saver = small.checkpoint_saver()
    await saver.append("t", StateSnapshot(messages=said("a")))
    with pytest.raises(RecordTooLarge):
        await saver.append("t", StateSnapshot(messages=[*said("a"), user("x" * RECORD)]))
    await saver.append("t", StateSnapshot(messages=said("a", "b")))
    found = [one.snapshot.messages for one in await saver.list("t")]
    assert found == [said("a", "b"), said("a")]


async def test_the_real_limit_of_a_record(place):
    """A segment of exactly 64 MiB is stored whole and one of a byte more is refused."""
    async with place.open() as storage:
        limit = storage.limits.record_bytes
        assert limit == 64 * 1024 * 1024
        with pytest.raises(RecordTooLarge) as caught:
            await storage.sessions.append("s", [user("x" * limit)], run_id="r")
        text = "x" * (2 * limit - caught.value.size)
        with pytest.raises(RecordTooLarge):
            await storage.sessions.append("s", [user(text + "x")], run_id="r")
        await storage.sessions.append("s", [user(text)], run_id="r")
        assert len(await storage.sessions.load("s")) == 1
        assert await shape(storage.sessions, "s") == [("r", 1)]
    assert [len(record.data) for record in await records(place, "session", "s")] == [limit]


async def test_the_real_limit_of_a_head(storage):
    """A head of exactly 64 KiB is stored and one of a byte more is refused."""
    limit = storage.limits.head_bytes
    assert limit == 64 * 1024
    with pytest.raises(RecordTooLarge) as caught:
        await storage.checkpointer.append("r", [], RunHead(output="x" * limit))
    text = "x" * (2 * limit - caught.value.size)
    with pytest.raises(RecordTooLarge):
        await storage.checkpointer.append("r", [], RunHead(output=text + "x"))
    await storage.checkpointer.append("r", [], RunHead(output=text))
    assert (await storage.checkpointer.load("r")).head.output == text


async def test_a_session_larger_than_a_record_is_read_whole(small):
    """The limit is that of one record: a session of many may be far larger."""
    for number in range(50):
        await small.sessions.append("s", [user("x" * 3000)], run_id=f"{number}")
    assert len(await small.sessions.load("s")) == 50
