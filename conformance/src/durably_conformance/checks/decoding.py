"""What another version wrote, or a disk spoiled: read leniently, named by its place, never lost."""

from durably import (
    CorruptRecord,
    CustomEntry,
    Entry,
    InputEntry,
    ReasoningEntry,
    RunHead,
    StateSnapshot,
    TextPart,
    ToolCallEntry,
    ToolResultEntry,
    UnknownEntryType,
)
from durably.logstore import LogId, Range
from durably_conformance.building import said
from durably_conformance.context import T
from durably_conformance.keeping import keepers
from durably_conformance.planting import encoded, plant
from durably_conformance.registry import check

MARK = said("planted")[0]
OLD = encoded(MARK)
UNKNOWN = b'{"type":"hologram", "role":"user","depth":1.0E2}'


@check(
    "DEC-TYPE-001",
    contract="storage",
    requires=("log_store",),
    reports=("pydantic/pydantic-ai#2789", "langchain-ai/langgraph#7066"),
)
async def an_unknown_type_is_named(t: T) -> None:
    """An entry of an unknown type is UnknownEntryType naming log, record, index and type."""
    parts = InputEntry(role="user", content=[TextPart(text="x"), TextPart(text="planted")])
    part = (b'{"type":"text","text":"planted"}', b'{"type":"smell"}')
    for entry, swap, named in ((MARK, (OLD, UNKNOWN), "hologram"), (parts, part, "smell")):
        place = t.another_place()
        handle, reader = await t.connect(place), await t.connect(place)
        for keeper in keepers(t):
            key = await plant(t, handle, keeper, [*said("a", "b"), entry, *said("c")], swap)
            read = keeper.read(reader, "x")
            error = await t.raises(UnknownEntryType, read, f"a {named} in {keeper}")
            t.eq(error.log, LogId(kind=keeper.kind, id="x"), f"the log of {keeper}")
            t.eq(error.record, key, f"the record of {keeper}")
            t.eq((error.index, error.entry_type), (2, named), f"index and type in {keeper}")


@check(
    "DEC-FIELD-001", contract="storage", requires=("log_store",), reports=("peters/horizon#397",)
)
async def unknown_fields_are_ignored(t: T) -> None:
    """A field this version does not know stops nothing from being read."""
    handle, reader = await t.connect(), await t.connect()
    part = b'{"type":"text","text":"x","at":[1.5]}'
    new = b'{"mood":{"a":"b"},"type":"input","role":"user","content":[' + part + b"]}"
    want = [*said("a"), InputEntry(role="user", content=[TextPart(text="x")])]
    for keeper in keepers(t):
        head = b'{"mood":{"a":"b"},"turns":3}' if keeper.kind == "run" else None
        swaps = [(OLD, new)]
        if keeper.kind == "thread":
            swaps.append((b'"snapshot":{', b'"snapshot":{"mood":[],'))
        await plant(t, handle, keeper, [*said("a"), MARK], *swaps, more=b'"index":[1],', head=head)
        t.eq(await keeper.read(reader, "x"), want, f"entries of {keeper}")
    if t.capabilities.checkpointer:
        run = await reader.checkpointer.load("x")
        t.eq(run and run.head.turns, 3, "turns of a head with a field more")


MINIMAL: dict[bytes, Entry] = {
    b'{"type":"tool_call","call_id":"c","name":"n"}': ToolCallEntry(call_id="c", name="n"),
    b' { "output" : "o" , "call_id" : "c" , "type" : "tool_result" } ': ToolResultEntry(
        call_id="c", output="o"
    ),
    b'{"type":"reasoning","provider":"p"}': ReasoningEntry(provider="p", metadata={}),
    b'{"type":"custom","kind":"k"}': CustomEntry(kind="k", data=None),
}
"""Entries with nothing but what they must have; blanks and order do not matter."""


@check(
    "DEC-MISS-001",
    contract="storage",
    requires=("log_store",),
    reports=("google/adk-python#3272",),
)
async def missing_fields_have_defaults(t: T) -> None:
    """An optional field that is not there gets its default, whatever blanks and order there are."""
    handle, reader = await t.connect(), await t.connect()
    marks = said(*map(str, range(len(MINIMAL))))
    swaps = [(encoded(mark), new) for mark, new in zip(marks, MINIMAL, strict=True)]
    for keeper in keepers(t):
        head = b"{}" if keeper.kind == "run" else None
        await plant(t, handle, keeper, marks, *swaps, head=head)
        t.eq(await keeper.read(reader, "x"), list(MINIMAL.values()), f"entries of {keeper}")
    if t.capabilities.checkpointer:
        run = await reader.checkpointer.load("x")
        [listed] = (await reader.checkpointer.runs()).items
        for found in (run and run.head, listed.head):
            timeless = found and found.replace(started_at=None, updated_at=None)
            t.eq(timeless, RunHead(), "a head of no fields, its times aside")


BROKEN = {
    "a missing field": b'{"type":"input","content":"x"}',
    "a field of a wrong type": b'{"type":"tool_call","call_id":5,"name":"n"}',
    "no type": b'{"role":"user","content":"x"}',
    "a type that is no text": b'{"type":7,"role":"user","content":"x"}',
    "no object": b"17",
    "null": b"null",
    "a part that is no object": b'{"type":"input","role":"user","content":["x"]}',
}


@check(
    "DEC-BROKEN-001",
    contract="storage",
    requires=("log_store",),
    reports=("agno-agi/agno#7879", "langchain-ai/langgraph#9021"),
)
async def a_broken_entry_is_named(t: T) -> None:
    """An entry that cannot be one is CorruptRecord naming log, record and index; never skipped."""
    for name, broken in BROKEN.items():
        place = t.another_place()
        handle, reader = await t.connect(place), await t.connect(place)
        for keeper in keepers(t):
            entries = [*said("a"), MARK, *said("b")]
            key = await plant(t, handle, keeper, entries, (OLD, broken))
            read = keeper.read(reader, "x")
            error = await t.raises(CorruptRecord, read, f"{name} in {keeper}")
            t.eq(error.log, LogId(kind=keeper.kind, id="x"), f"the log of {keeper}")
            t.eq((error.record, error.index), (key, 1), f"record and index in {keeper}")


SPOILED = {
    "no bytes": b"",
    "not JSON": b"hello",
    "cut off": b'{"entries":[{"type":"input","role":"user","content":"a"}],',
    "cut off inside an entry": b'{"entries":[{"type":"inp',
    "not UTF-8": b'{"entries":[\xff\xfe],"messages":[\xff\xfe]}',
    "zeros": b"\x00" * 64,
    "an array": b"[]",
    "null": b"null",
    "no entries": b'{"meta":{}}',
    "entries that are an object": b'{"entries":{},"messages":{}}',
    "a pickle": b"cdurably_marker\nboom\n(tR.",
    "compressed": b"\x1f\x8b\x08\x00" + b"\x07" * 40,
}


@check(
    "DEC-BROKEN-002",
    contract="storage",
    requires=("log_store",),
    reports=("agno-agi/agno#7879", "anomalyco/opencode#14970"),
)
async def spoiled_bytes_are_named(t: T) -> None:
    """Bytes that cannot be a record are CorruptRecord naming log and record, never absence."""
    for name, spoiled in SPOILED.items():
        place = t.another_place()
        handle, reader = await t.connect(place), await t.connect(place)
        for keeper in keepers(t):
            key = await plant(t, handle, keeper, said("a"), spoiled=spoiled)
            read = keeper.read(reader, "x")
            error = await t.raises(CorruptRecord, read, f"{name} in {keeper}")
            t.eq(error.log, LogId(kind=keeper.kind, id="x"), f"the log of {keeper}")
            t.eq(error.record, key, f"the record of {keeper} that is {name}")


@check("DEC-BROKEN-003", contract="checkpointer", requires=("log_store",))
async def a_broken_head_is_named(t: T) -> None:
    """A run whose head cannot be read is CorruptRecord to load, to claim and to list."""
    [keeper] = [one for one in keepers(t) if one.kind == "run"]
    for head in (b"", b"{", b"[]", b'{"turns":"x"}', b'{"status":5}'):
        place = t.another_place()
        handle, reader = await t.connect(place), await t.connect(place)
        await plant(t, handle, keeper, said("a"), head=head)
        runs = reader.checkpointer
        for act in (lambda: runs.load("x"), lambda: runs.claim("x"), runs.runs):  # noqa: B023
            error = await t.raises(CorruptRecord, act, f"a head of {head!r}")
            t.eq(error.log, LogId(kind="run", id="x"), "the log")


@check(
    "DEC-OTHER-001", contract="storage", requires=("log_store",), reports=("agno-agi/agno#7879",)
)
async def the_others_stay_readable(t: T) -> None:
    """Beside one that cannot be read every other is, and the one can be removed."""
    handle, reader = await t.connect(), await t.connect()
    for keeper in keepers(t):
        for spoiled in (None, b"\xff"):
            swaps = [(OLD, UNKNOWN)] if spoiled is None else []
            await plant(t, handle, keeper, [*said("a"), MARK], *swaps, spoiled=spoiled)
            await keeper.write(handle, "other", said("b"))
            await t.attempt(keeper.read(reader, "x"))
            t.eq((await keeper.read(reader, "other"))[-1:], said("b"), f"another of {keeper}")
            await keeper.remove(handle, "x")
            t.eq(await keeper.read(reader, "x"), [], f"{keeper} that was removed")
            await keeper.write(handle, "x", said("c"))
            t.eq(await keeper.read(reader, "x"), said("c"), f"{keeper} that was written again")
            await keeper.remove(handle, "x")


@check("DEC-OTHER-002", contract="saver", requires=("log_store",))
async def other_snapshots_stay_readable(t: T) -> None:
    """A snapshot with a message of an unknown type hides no other one, before it or after it."""
    [keeper] = [one for one in keepers(t) if one.kind == "thread"]
    handle, reader = await t.connect(), await t.connect()
    await plant(t, handle, keeper, [*said("a"), MARK], (OLD, UNKNOWN))
    saver = (await t.connect()).checkpoint_saver()
    log = await handle.log_store.read(LogId(kind="thread", id="x"), Range(with_data=False))
    planted = log.records[0].seq if log else 0
    seqs = [await saver.append("x", StateSnapshot(messages=said("a", n))) for n in ("b", "c")]
    other = reader.checkpoint_saver()
    await t.raises(UnknownEntryType, other.get("x", planted), "the snapshot that was planted")
    for seq, text in zip(seqs, ("b", "c"), strict=True):
        t.eq(list((await other.get("x", seq)).snapshot.messages), said("a", text), "one after it")
    t.eq([one.seq for one in await other.list("x", limit=2)], seqs[::-1], "the list before it")
