"""Reading what another version wrote, or what a disk spoiled: lenient, lossless, never run."""

import pickle
import sys

import pytest

from builders import plant, records, result, said, shape
from durably import (
    CorruptRecord,
    CustomEntry,
    InputEntry,
    ReasoningEntry,
    StateSnapshot,
    TextPart,
    ToolCallEntry,
    ToolResultEntry,
    UnknownEntryType,
)
from durably.logstore import LogId
from readers import KNOWN, READERS, record, thread


@pytest.fixture(params=READERS, ids=lambda one: one.kind)
def reader(request):
    """Each of the three contracts that read entries."""
    return request.param


UNKNOWN = {
    "an entry": (b'{"type":"hologram","role":"user","content":"x"}', "hologram"),
    "an entry of no other field": (b'{"type":"Input"}', "Input"),
    "a part of an input": (
        b'{"type":"input","role":"user","content":[{"type":"text","text":"x"},{"type":"audio"}]}',
        "audio",
    ),
    "a part of what the model said": (
        b'{"type":"assistant_text","content":[{"type":"smell"}]}',
        "smell",
    ),
    "a part of a result": (
        b'{"type":"tool_result","call_id":"c","output":"o","parts":[{"type":"video","url":"u"}]}',
        "video",
    ),
}


@pytest.mark.parametrize(("item", "named"), UNKNOWN.values(), ids=UNKNOWN.keys())
async def test_an_unknown_type_is_named_with_its_place(place, reader, item, named):
    """An entry or part of an unknown type is an error naming log, record, index and type."""
    await reader.plant(place, KNOWN, KNOWN, item, KNOWN)
    async with place.open() as storage:
        with pytest.raises(UnknownEntryType) as caught:
            await reader.read(storage)
    error = caught.value
    assert error.log == LogId(kind=reader.kind, id="x")
    assert (error.record, error.index, error.entry_type) == (reader.key, 2, named)
    for word in ("entry 2", reader.key, "'x'", named, "upgrade"):
        assert word in str(error)


async def test_a_snapshot_of_unknown_types_leaves_the_others_readable(place):
    """Snapshots without the unknown message read, and more can be saved after it."""
    async with place.open() as storage:
        saver = storage.checkpoint_saver()
        first = await saver.append("x", StateSnapshot(messages=said("a")))
        delta = b'{"back":1,"shared":1,"messages":[{"type":"hologram"}],"snapshot":{}}'
        await plant(place, "thread", "x", delta, key="delta:2")
        last = await saver.append("x", StateSnapshot(messages=said("a", "b")))
        with pytest.raises(UnknownEntryType) as caught:
            await saver.get("x", first + 1)
        assert (caught.value.record, caught.value.index) == ("delta:2", 1)
        assert (await saver.get("x", first)).snapshot.messages == said("a")
        assert (await saver.get("x", last)).snapshot.messages == said("a", "b")


async def test_unknown_fields_are_ignored(place, reader):
    """A field this version does not know does not stop an entry, or a part, from being read."""
    await reader.plant(
        place,
        b'{"new":{"a":[1e400]},"type":"input","role":"user","content":[{"type":"text","text":"x","at":1}]}',
        b'{"type":"tool_result","call_id":"c","output":"o","vector":[1.5],"is_error":true}',
    )
    async with place.open() as storage:
        assert await reader.read(storage) == [
            InputEntry(role="user", content=[TextPart(text="x")]),
            result("c", "o", is_error=True),
        ]


async def test_unknown_fields_of_records_heads_and_snapshots_are_ignored(place):
    """A record, a head and a snapshot with fields of a newer version are read."""
    await plant(place, "session", "x", record(KNOWN, more=b',"meta":{"a":1},"index":[1]'))
    await plant(place, "run", "x", record(KNOWN), head=b'{"turns":3,"mood":{"a":"b"}}')
    snapshot = b'{"turn":4,"mood":[]}'
    await plant(place, "thread", "x", thread(KNOWN, snapshot=snapshot), key="base:1")
    async with place.open() as storage:
        assert (await storage.sessions.segments("x"))[0].meta == {"a": 1}
        assert (await storage.checkpointer.load("x")).head.turns == 3
        assert (await storage.checkpoint_saver().latest("x")).snapshot.turn == 4


async def test_a_missing_optional_field_gets_its_default(place, reader):
    """Fields that are not there get their defaults; white space and order do not matter."""
    await reader.plant(
        place,
        b'{"type":"tool_call","call_id":"c","name":"n"}',
        b' { "output" : "o" , "call_id" : "c" , "type" : "tool_result" } ',
        b'{"type":"reasoning","provider":"p"}',
        b'{"type":"custom","kind":"k"}',
    )
    async with place.open() as storage:
        assert await reader.read(storage) == [
            ToolCallEntry(call_id="c", name="n", arguments=""),
            ToolResultEntry(
                call_id="c", output="o", is_error=False, raw=None, parts=None, trimmed_chars=0
            ),
            ReasoningEntry(provider="p", metadata={}),
            CustomEntry(kind="k", data=None),
        ]


async def test_an_empty_head_and_snapshot_have_their_defaults(place):
    """A head and a snapshot of no fields read as those made without arguments."""
    await plant(place, "run", "x", record(), head=b"{}", entry_count=0)
    await plant(place, "thread", "x", thread(), key="base:1")
    async with place.open() as storage:
        head = (await storage.checkpointer.load("x")).head
        assert (head.status, head.usage, head.turns) == ("running", {}, 0)
        assert (await storage.checkpoint_saver().latest("x")).snapshot == StateSnapshot()


@pytest.fixture
def marker(tmp_path, monkeypatch):
    """A module that leaves a file behind when it is imported."""
    trace = tmp_path / "was-imported"
    source = f"open({str(trace)!r}, 'w').close()\ndef boom(*args, **more):\n    return boom\n"
    (tmp_path / "durably_marker.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "durably_marker", raising=False)
    return trace


NAMING = (
    b'{"__class__":"durably_marker.boom","__module__":"durably_marker"}',
    b'{"py/object":"durably_marker.boom","py/reduce":[{"py/function":"durably_marker.boom"}]}',
    b'{"lc":1,"type":"constructor","id":["durably_marker","boom"],"kwargs":{}}',
    b'{"$type":"durably_marker.boom","!!python/object/apply":"durably_marker.boom"}',
    b'"cdurably_marker\\nboom\\n(tR."',
)


async def test_loading_runs_nothing_that_bytes_name(place, reader, marker):
    """Values that name a class or a function come back as the plain JSON they are."""
    items = [b'{"type":"custom","kind":"k","data":' + data + b"}" for data in NAMING]
    await reader.plant(place, *items)
    async with place.open() as storage:
        loaded = await reader.read(storage)
    assert loaded[0].data == {
        "__class__": "durably_marker.boom",
        "__module__": "durably_marker",
    }
    assert [type(entry.data) for entry in loaded] == [dict, dict, dict, dict, str]
    assert "durably_marker" not in sys.modules
    assert not marker.exists()


async def test_pickles_are_not_loaded(place, marker):
    """A record that is a pickle is a corrupt one, and what it would call is not called."""
    pickled = b"cdurably_marker\nboom\n(tR."
    await plant(place, "session", "x", pickled)
    await plant(place, "run", "x", pickled, head=pickled)
    await plant(place, "thread", "x", pickled, key="base:1")
    async with place.open() as storage:
        for act in (
            storage.sessions.load,
            storage.checkpointer.load,
            storage.checkpoint_saver().latest,
        ):
            with pytest.raises(CorruptRecord):
                await act("x")
    assert not marker.exists()
    pickle.loads(pickled)  # noqa: S301 - the pickle would have worked
    assert marker.exists()


async def test_appending_to_what_cannot_be_read_keeps_it(place):
    """Appends to a session with an unknown entry in it leave that entry's bytes as they are."""
    data = record(b'{"type":"hologram", "x":1.0E2}')
    await plant(place, "session", "x", data)
    async with place.open() as storage:
        await storage.sessions.append("x", said("a"), run_id="r2")
        await storage.sessions.rewind("x", keep_entries=1)
        assert await storage.sessions.trim_tool_results("x", keep_runs=0) == 0
        with pytest.raises(UnknownEntryType):
            await shape(storage.sessions, "x")
    assert [one.data for one in await records(place, "session", "x")] == [data]
