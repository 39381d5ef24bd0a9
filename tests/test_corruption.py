"""Bytes that a disk or a stranger spoiled: named by their place, and only they are lost."""

import pytest

from builders import plant, said
from durably import CorruptRecord, RunHead, StateSnapshot
from durably.logstore import LogId
from readers import KNOWN, READERS, record


@pytest.fixture(params=READERS, ids=lambda one: one.kind)
def reader(request):
    """Each of the three contracts that read entries."""
    return request.param


BROKEN = {
    "a missing field": b'{"type":"input","content":"x"}',
    "a field of a wrong type": b'{"type":"tool_call","call_id":5,"name":"n"}',
    "no type": b'{"role":"user","content":"x"}',
    "a type that is no text": b'{"type":7,"role":"user","content":"x"}',
    "no object": b"17",
    "null": b"null",
    "an array": b'["input"]',
    "content of a wrong type": b'{"type":"input","role":"user","content":{"text":"x"}}',
    "a part that is no object": b'{"type":"input","role":"user","content":["x"]}',
}


@pytest.mark.parametrize("item", BROKEN.values(), ids=BROKEN.keys())
async def test_a_broken_entry_is_named_with_its_place(place, reader, item):
    """An entry that cannot be one is a CorruptRecord naming log, record and index."""
    await reader.plant(place, KNOWN, item, KNOWN)
    async with place.open() as storage:
        with pytest.raises(CorruptRecord) as caught:
            await reader.read(storage)
    error = caught.value
    assert error.log == LogId(kind=reader.kind, id="x")
    assert (error.record, error.index) == (reader.key, 1)
    assert "entry 1" in str(error)


SPOILED = {
    "no bytes": b"",
    "not JSON": b"hello",
    "cut off": b'{"entries":[' + KNOWN + b"],",
    "cut off inside an entry": b'{"entries":[{"type":"inp',
    "not UTF-8": b'{"entries":[\xff\xfe]}',
    "zeros": b"\x00" * 64,
    "an array": b"[]",
    "null": b"null",
    "no entries": b'{"meta":{}}',
    "entries null": b'{"entries":null}',
    "entries an object": b'{"entries":{}}',
    "NaN": b'{"entries":[{"type":"custom","kind":"k","data":NaN}]}',
    "nested without end": record(
        b'{"type":"custom","kind":"k","data":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    ),
    "compressed": b"\x1f\x8b\x08\x00" + b"\x07" * 40,
}


@pytest.mark.parametrize("data", SPOILED.values(), ids=SPOILED.keys())
@pytest.mark.parametrize("kind", ["session", "run", "thread"])
async def test_spoiled_bytes_are_a_corrupt_record(place, kind, data):
    """Bytes that cannot be a record are a CorruptRecord that names log and record."""
    key = "base:1" if kind == "thread" else "r1"
    if kind == "thread":
        data = data.replace(b'"entries"', b'"messages"')
    await plant(place, kind, "x", data, key=key, head=b"{}")
    async with place.open() as storage:
        reads = {
            "session": storage.sessions.segments,
            "run": storage.checkpointer.load,
            "thread": storage.checkpoint_saver().latest,
        }
        with pytest.raises(CorruptRecord) as caught:
            await reads[kind]("x")
    assert (caught.value.log, caught.value.record) == (LogId(kind=kind, id="x"), key)


@pytest.mark.parametrize("meta", [b"[]", b'"x"', b"7"])
async def test_a_broken_meta_is_a_corrupt_record(place, meta):
    """A meta that is no object is a CorruptRecord of no entry in particular."""
    await plant(place, "session", "x", record(KNOWN, more=b',"meta":' + meta))
    async with place.open() as storage:
        with pytest.raises(CorruptRecord) as caught:
            await storage.sessions.load("x")
    assert (caught.value.record, caught.value.index) == ("r1", None)


@pytest.mark.parametrize("head", [b"", b"{", b"[]", b'{"turns":"x"}', b'{"status":5}', None])
async def test_a_broken_head_is_a_corrupt_record(place, head):
    """A run whose head cannot be read is a CorruptRecord to load, claim and list."""
    await plant(place, "run", "x", record(KNOWN), head=head)
    async with place.open() as storage:
        runs = storage.checkpointer
        for act in (lambda: runs.load("x"), lambda: runs.claim("x"), runs.runs):
            with pytest.raises(CorruptRecord) as caught:
                await act()
            assert caught.value.log == LogId(kind="run", id="x")


DELTAS = {
    "no base": b'{"shared":1,"messages":[],"snapshot":{}}',
    "a base that is no number": b'{"base":"1","shared":1,"messages":[],"snapshot":{}}',
    "a base that is not there": b'{"base":77,"shared":1,"messages":[],"snapshot":{}}',
    "more shared than there is": b'{"base":1,"shared":9,"messages":[],"snapshot":{}}',
    "a negative number shared": b'{"base":1,"shared":-1,"messages":[],"snapshot":{}}',
    "no snapshot": b'{"base":1,"shared":1,"messages":[]}',
    "a broken snapshot": b'{"base":1,"shared":1,"messages":[],"snapshot":{"turn":"x"}}',
    "a message that is none": b'{"base":1,"shared":1,"messages":[5],"snapshot":{}}',
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


async def test_others_stay_readable_beside_a_broken_one(place):
    """Beside a broken session every other one is readable, and the broken one can be cleared."""
    await plant(place, "session", "broken", b"\xff")
    await plant(place, "run", "broken", b"\xff", head=b"{}")
    async with place.open() as storage:
        await storage.sessions.append("fine", said("a"))
        await storage.checkpointer.append("fine", said("b"), RunHead())
        with pytest.raises(CorruptRecord):
            await storage.sessions.load("broken")
        assert await storage.sessions.load("fine") == said("a")
        assert (await storage.checkpointer.load("fine")).entries == said("b")
        assert len((await storage.checkpointer.runs()).items) == 2
        await storage.sessions.append("broken", said("more"), run_id="r2")
        assert await storage.sessions.revision("broken") > 0
        await storage.sessions.clear("broken")
        assert await storage.sessions.load("broken") == []
