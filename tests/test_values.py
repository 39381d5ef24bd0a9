"""Values: exactly what went in comes out, or a typed error before anything is written."""

import json

import msgspec
import pytest

from builders import assert_unlocked, call, dump, raw, records, said
from contexts import CONTEXTS
from durably import (
    AssistantTextEntry,
    CustomEntry,
    FilePart,
    ImagePart,
    InputEntry,
    InvalidStatus,
    NotSerializable,
    ReasoningEntry,
    RunHead,
    StateSnapshot,
    TextPart,
    ToolCallEntry,
    ToolResultEntry,
)
from durably.logstore import LogId
from tables import BAD_VALUES, GOOD_VALUES, TEXTS, Word, identical, nested


def _refuse_constant(name):
    raise AssertionError(f"{name} is not JSON")


def test_identical_tells_apart_what_equality_does_not():
    """The helper of these tests sees types, signs of zero and order of fields."""
    for left, right in ((1, 1.0), (1, True), (0.0, -0.0), ([0], [False]), ({"a": 1}, {"a": 1.0})):
        assert left == right
        assert not identical(left, right)
    assert not identical({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert identical({"a": [1, -0.0]}, {"a": [1, -0.0]})


@pytest.mark.parametrize("value", GOOD_VALUES.values(), ids=GOOD_VALUES.keys())
async def test_a_json_value_comes_back_identical(handles, value):
    """A JSON value comes back equal and of the same type, wherever it was put."""
    first, second = handles
    for name, context in CONTEXTS.items():
        await context.write(first, name, value)
        assert identical(await context.read(second, name), value), name


@pytest.mark.parametrize(("value", "tail", "word"), BAD_VALUES.values(), ids=BAD_VALUES.keys())
async def test_what_json_cannot_hold_is_refused_by_path(place, value, tail, word):
    """What JSON cannot give back is refused with its path; nothing is stored, nothing locked."""
    async with place.open() as first, place.open() as second:
        await first.sessions.append("s", said("kept"))
        before = dump(place)
        for name, context in CONTEXTS.items():
            with pytest.raises(NotSerializable, match=word) as caught:
                await context.write(first, name, value)
            found = caught.value.path
            assert found == context.path + tail if tail is not None else context.path in found
            assert await context.read(second, name) is ...
        assert dump(place) == before
        assert_unlocked(place)
        for name, context in CONTEXTS.items():
            await context.write(second, name, "good")
            assert await context.read(first, name) == "good"


@pytest.mark.parametrize("value", ["\ud83d\ude00", "a\ud83d\ude00", {"\ud83d\ude00": 1}])
async def test_surrogates_that_would_join_never_change_in_silence(storage, value):
    """Two lone surrogates that JSON would join to one character come back as two, or not at all."""
    for name, context in CONTEXTS.items():
        try:
            await context.write(storage, name, value)
        except NotSerializable as refused:
            assert context.path in refused.path  # noqa: PT017 - either outcome is legal
        else:
            assert identical(await context.read(storage, name), value), name


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
async def test_text_comes_back_identical_from_every_field(handles, text):
    """Every text field of every entry and part gives back exactly the text it got."""
    entries = [
        InputEntry(role=text, content=text),
        InputEntry(role="user", content=[TextPart(text=text)]),
        InputEntry(role="user", content=[ImagePart(url=text, data=text, media_type=text)]),
        InputEntry(role="user", content=[FilePart(url=text, name=text, media_type=text)]),
        AssistantTextEntry(content=text),
        ReasoningEntry(provider=text, metadata={text: text}),
        ToolCallEntry(call_id=text, name=text, arguments=text),
        ToolResultEntry(call_id=text, output=text, parts=[TextPart(text=text)]),
        CustomEntry(kind=text, data=text),
    ]
    first, second = handles
    await first.sessions.append("s", entries, run_id="r")
    await first.checkpointer.append("r", entries, RunHead(error=text, agent_name=text))
    await first.checkpoint_saver().append("t", StateSnapshot(messages=entries))
    run = await second.checkpointer.load("r")
    assert (run.head.error, run.head.agent_name) == (text, text)
    thread = await second.checkpoint_saver().latest("t")
    for found in (await second.sessions.load("s"), run.entries, thread.snapshot.messages):
        assert identical(found, entries)


async def test_long_text_comes_back_identical(handles):
    """A text of 200 kB comes back whole from an entry, a meta and a snapshot."""
    text = "0123456789\u00e9\U0001f600\r\n\u2028" * 12_500
    first, second = handles
    for name in ("raw", "meta", "run", "messages", "extra"):
        await CONTEXTS[name].write(first, name, text)
        assert await CONTEXTS[name].read(second, name) == text


@pytest.mark.parametrize("value", [None, {}, [], "", 0, False, 0.0, {"k": None}, [None]])
async def test_empty_values_stay_apart(handles, value):
    """None, {}, [], "", 0 and False stay apart where any JSON value may be put."""
    first, second = handles
    entries = [ToolResultEntry(call_id="c", output="", raw=value), CustomEntry(kind="", data=value)]
    await first.sessions.append("s", entries)
    await first.checkpointer.append("r", [], RunHead(output=value, context_state=value))
    loaded = await second.sessions.load("s")
    head = (await second.checkpointer.load("r")).head
    found = [loaded[0].raw, loaded[1].data, head.output, head.context_state]
    assert identical(found, [value] * 4)


@pytest.mark.parametrize("meta", [None, {}, {"a": None}, {"a": {}}])
async def test_meta_stays_none_or_empty(handles, meta):
    """A meta of None stays None, an empty one stays an empty dict."""
    first, second = handles
    await first.sessions.append("s", [], meta=meta)
    assert identical((await second.sessions.segments("s"))[0].meta, meta)


@pytest.mark.parametrize("parts", [None, []])
async def test_no_parts_and_empty_parts_stay_apart(storage, parts):
    """A result without parts and one with an empty list of them stay apart."""
    await storage.sessions.append("s", [ToolResultEntry(call_id="c", output="", parts=parts)])
    assert (await storage.sessions.load("s"))[0].parts == parts


WRONG_FIELDS = {
    "entries[1].role": InputEntry(role=None, content="x"),
    "entries[1].content": InputEntry(role="user", content=5),
    "entries[1].content[0]": InputEntry(role="user", content=[TextPart(text="x"), 5][1:]),
    "entries[1].content[1].text": InputEntry(
        role="user", content=[TextPart(text="x"), TextPart(text=1)]
    ),
    "entries[1].call_id": ToolCallEntry(call_id=1, name="n"),
    "entries[1].arguments": ToolCallEntry(call_id="c", name="n", arguments={}),
    "entries[1].is_error": ToolResultEntry(call_id="c", output="o", is_error=1),
    "entries[1].trimmed_chars": ToolResultEntry(call_id="c", output="o", trimmed_chars=1.0),
    "entries[1].metadata": ReasoningEntry(provider="p", metadata=[]),
    "entries[1].provider": ReasoningEntry(provider=Word.RED),
    "entries[1].kind": CustomEntry(kind=b"k"),
    "entries[1]": {"type": "input", "role": "user", "content": "x"},
}


@pytest.mark.parametrize(("path", "entry"), WRONG_FIELDS.items(), ids=WRONG_FIELDS.keys())
async def test_an_entry_with_a_field_of_a_wrong_type_is_refused(place, path, entry):
    """What could not be read back as an entry is refused by its path and not stored."""
    async with place.open() as storage:
        await storage.sessions.append("s", said("kept"))
        before = dump(place)
        with pytest.raises(NotSerializable) as caught:
            await storage.sessions.append("s", [*said("x"), entry])
        assert caught.value.path == path
        assert dump(place) == before


WRONG_ARGUMENTS = {
    "entries None": lambda s: s.sessions.append("s", None),
    "entries of one entry": lambda s: s.sessions.append("s", call("c")),
    "entries of text": lambda s: s.sessions.append("s", "hello"),
    "entries of a dict": lambda s: s.sessions.append("s", {"role": "user"}),
    "entries of a number": lambda s: s.sessions.append("s", 5),
    "meta a list": lambda s: s.sessions.append("s", [], meta=[]),
    "meta text": lambda s: s.sessions.append("s", [], meta="x"),
    "run's entries None": lambda s: s.checkpointer.append("r", None, RunHead()),
    "head None": lambda s: s.checkpointer.append("r", [], None),
    "head a dict": lambda s: s.checkpointer.append("r", [], {"status": "running"}),
    "head of another class": lambda s: s.checkpointer.append("r", [], StateSnapshot()),
    "unknown status": lambda s: s.checkpointer.append("r", [], RunHead(status="lost")),
    "turns a float": lambda s: s.checkpointer.append("r", [], RunHead(turns=1.0)),
    "turns a bool": lambda s: s.checkpointer.append("r", [], RunHead(turns=True)),
    "times as text": lambda s: s.checkpointer.append("r", [], RunHead(started_at="now")),
    "usage None": lambda s: s.checkpointer.append("r", [], RunHead(usage=None)),
    "snapshot None": lambda s: s.checkpoint_saver().append("t", None),
    "snapshot a dict": lambda s: s.checkpoint_saver().append("t", {}),
    "messages None": lambda s: s.checkpoint_saver().append("t", StateSnapshot(messages=None)),
    "extra a list": lambda s: s.checkpoint_saver().append("t", StateSnapshot(extra=[])),
    "snapshot's status": lambda s: s.checkpoint_saver().append("t", StateSnapshot(status="x")),
}


@pytest.mark.parametrize("act", WRONG_ARGUMENTS.values(), ids=WRONG_ARGUMENTS.keys())
async def test_an_argument_of_a_wrong_type_is_refused(place, act):
    """What is not what an operation takes is NotSerializable, and nothing is written."""
    async with place.open() as storage:
        await storage.sessions.append("kept", said("kept"))
        before = dump(place)
        with pytest.raises((NotSerializable, InvalidStatus)):
            await act(storage)
        assert dump(place) == before


async def test_an_error_repeats_no_content(storage):
    """A NotSerializable names types and paths, and nothing of what was to be stored."""
    entry = CustomEntry(kind="k", data={"secret": ["hunter2", b"hunter3"]})
    with pytest.raises(NotSerializable) as caught:
        await storage.sessions.append("s", [entry])
    assert "hunter" not in str(caught.value)
    assert caught.value.path == "entries[0].data.secret[1]"


async def test_stored_bytes_are_strict_json(place):
    """Everything stored parses with a JSON parser that knows no NaN, and is valid UTF-8."""
    async with place.open() as storage:
        for number, value in enumerate(GOOD_VALUES.values()):
            for name, context in CONTEXTS.items():
                await context.write(storage, f"{name}{number}", value)
    parsed = 0
    async with raw(place) as store:
        for kind in ("session", "run", "thread", "meta"):
            page = await store.list(kind, limit=1000)
            assert page.next is None
            for row in page.items:
                log = await store.read(LogId(kind=kind, id=row.id))
                for data in (log.state.head, *(record.data for record in log.records)):
                    if data is not None:
                        json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
                        parsed += 1
    assert parsed > len(GOOD_VALUES) * len(CONTEXTS)


async def test_changing_arguments_after_a_write_changes_nothing_stored(handles):
    """What was passed in can be changed afterwards without a trace in the store."""
    first, second = handles
    inner = {"k": ["stored"]}
    entries = [CustomEntry(kind="k", data=inner)]
    saver = first.checkpoint_saver()
    await first.sessions.append("s", entries, meta=inner)
    await first.checkpointer.append("r", entries, RunHead(usage=inner, context_state=inner))
    await saver.append("t", StateSnapshot(messages=entries, extra=inner))
    inner["k"].append("changed")
    entries.append(call("c"))
    segment = (await second.sessions.segments("s"))[0]
    run = await second.checkpointer.load("r")
    thread = (await second.checkpoint_saver().latest("t")).snapshot
    for found in (segment.entries, run.entries, thread.messages):
        assert found == [CustomEntry(kind="k", data={"k": ["stored"]})]
    for value in (segment.meta, run.head.usage, run.head.context_state, thread.extra):
        assert value == {"k": ["stored"]}
    await saver.append("t", StateSnapshot(messages=entries))
    assert (await saver.latest("t")).snapshot.messages == entries


async def test_changing_what_was_returned_changes_nothing_stored(storage):
    """What an operation returned can be changed without a trace in the store."""
    data = {"k": ["stored"]}
    entries = [CustomEntry(kind="k", data=data)]
    saver = storage.checkpoint_saver()
    await storage.sessions.append("s", entries, meta=data)
    await storage.checkpointer.append("r", entries, RunHead(usage=data))
    await saver.append("t", StateSnapshot(messages=entries, extra=data))
    for _ in range(2):
        segment = (await storage.sessions.segments("s"))[0]
        claim = await storage.checkpointer.claim("r")
        run = await storage.checkpointer.load("r")
        row = (await storage.checkpointer.runs()).items[0]
        latest, listed = (await saver.latest("t")).snapshot, (await saver.list("t"))[0].snapshot
        holders = [segment.entries, run.entries, claim.snapshot.entries, latest.messages]
        values = [segment.meta, run.head.usage, row.head.usage, latest.extra, listed.extra]
        values += [held[0].data for held in (*holders, listed.messages)]
        assert values == [data] * len(values)
        for value in values:
            value["k"].append("changed")
        for held in holders:
            held.clear()


async def test_default_containers_are_not_shared():
    """Two heads or snapshots made without usage do not share one dict."""
    RunHead().usage["x"] = 1
    StateSnapshot().extra["x"] = 1
    StateSnapshot().messages.append(1)
    ReasoningEntry(provider="p").metadata["x"] = 1
    assert RunHead().usage == {}
    assert (StateSnapshot().extra, StateSnapshot().messages) == ({}, [])
    assert ReasoningEntry(provider="p").metadata == {}


async def test_values_are_frozen():
    """An entry cannot be changed after it was made."""
    with pytest.raises(AttributeError):
        call("c").name = "other"
    assert msgspec.structs.replace(call("c"), name="other").name == "other"


async def test_the_depth_limit_counts_from_the_entry(storage, place):
    """A value is refused at the same depth on every backend: 255 levels below an entry."""
    entry = CustomEntry(kind="k", data=nested(255))
    await storage.sessions.append("s", [entry], run_id="r")
    assert await storage.sessions.load("s") == [entry]
    with pytest.raises(NotSerializable):
        await storage.sessions.append("s", [CustomEntry(kind="k", data=nested(257))])
    assert [record.key for record in await records(place, "session", "s")] == ["r"]
