"""How core reads bytes that a disk or a stranger spoiled, as its records lie."""

import pytest

from builders import plant, said
from durably import CorruptRecord, StateSnapshot
from durably._records import decode_head, decode_segment
from durably.logstore import LogId, Record

LOG = LogId(kind="run", id="x")
KNOWN = b'{"type":"input","role":"user","content":"known"}'


def segment(data):
    record = Record(seq=1, key="r1", entry_count=1, stored_at=0.0, revision=1, data=data)
    return decode_segment(LOG, record)


BROKEN = {
    "a missing field": b'{"type":"input","content":"x"}',
    "null": b"null",
    "an array": b'["input"]',
    "content of a wrong type": b'{"type":"input","role":"user","content":{"text":"x"}}',
}


@pytest.mark.parametrize("item", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_entry_is_named_in_words(item):
    """An entry that cannot be one is a CorruptRecord whose words have its place."""
    with pytest.raises(CorruptRecord, match="entry 1 of record 'r1' of run 'x'") as caught:
        segment(b'{"entries":[' + KNOWN + b"," + item + b"]}")
    assert (caught.value.log, caught.value.record, caught.value.index) == (LOG, "r1", 1)


SPOILED = {
    "no data": None,
    "no bytes": b"",
    "cut off": b'{"entries":[' + KNOWN + b"],",
    "cut off inside an entry": b'{"entries":[{"type":"inp',
    "entries null": b'{"entries":null}',
    "NaN": b'{"entries":[{"type":"custom","kind":"k","data":NaN}]}',
    "a number that is out of range": b'{"entries":[{"type":"custom","kind":"k","data":1e400}]}',
    "nested without end": b'{"entries":[{"type":"custom","kind":"k","data":'
    + b"[" * 100_000
    + b"]" * 100_000
    + b"}]}",
}


@pytest.mark.parametrize("data", SPOILED.values(), ids=SPOILED.keys())
def test_spoiled_bytes_are_a_corrupt_record(data):
    """Bytes that cannot be a record are a CorruptRecord that names log and record."""
    with pytest.raises(CorruptRecord) as caught:
        segment(data)
    assert (caught.value.log, caught.value.record) == (LOG, "r1")


@pytest.mark.parametrize("meta", [b"[]", b'"x"', b"7"])
def test_a_broken_meta_is_a_corrupt_record(meta):
    """A meta that is no object is a CorruptRecord of no entry in particular."""
    with pytest.raises(CorruptRecord) as caught:
        segment(b'{"entries":[' + KNOWN + b'],"meta":' + meta + b"}")
    assert (caught.value.record, caught.value.index) == ("r1", None)


def test_a_missing_head_is_a_corrupt_record():
    """A log of a run that has no head at all is a CorruptRecord."""
    with pytest.raises(CorruptRecord, match="its head is missing"):
        decode_head(LOG, None)


DELTAS = {
    "no way back": b'{"shared":1,"messages":[],"snapshot":{}}',
    "a way back that is no number": b'{"back":"1","shared":1,"messages":[],"snapshot":{}}',
    "a base that is not there": b'{"back":77,"shared":1,"messages":[],"snapshot":{}}',
    "more shared than there is": b'{"back":1,"shared":9,"messages":[],"snapshot":{}}',
    "a negative number shared": b'{"back":1,"shared":-1,"messages":[],"snapshot":{}}',
    "no snapshot": b'{"back":1,"shared":1,"messages":[]}',
    "a broken snapshot": b'{"back":1,"shared":1,"messages":[],"snapshot":{"turn":"x"}}',
    "a message that is none": b'{"back":1,"shared":1,"messages":[5],"snapshot":{}}',
}


@pytest.mark.parametrize("data", DELTAS.values(), ids=DELTAS.keys())
async def test_a_broken_delta_is_a_corrupt_record(place, data):
    """A snapshot that does not fit those before it is a CorruptRecord; those before it read."""
    async with place.open() as storage:
        saver = storage.checkpoint_saver()
        seq = await saver.append("x", StateSnapshot(messages=said("a")))
        await plant(place, "thread", "x", data, key="delta:2")
        with pytest.raises(CorruptRecord) as caught:
            await saver.latest("x")
        assert caught.value.record == "delta:2"
        assert (await saver.get("x", seq)).snapshot.messages == said("a")
