"""Values: what went in comes out, of the same types and to the last character."""

from typing import cast

from durably import (
    AssistantTextEntry,
    CustomEntry,
    Entry,
    FilePart,
    ImagePart,
    InputEntry,
    InterruptReason,
    JsonObject,
    NotSerializable,
    Part,
    ReasoningEntry,
    RunHead,
    StateSnapshot,
    TextPart,
    ToolCallEntry,
    ToolResultEntry,
)
from durably.testing import Handle
from durably_conformance.building import said
from durably_conformance.context import T
from durably_conformance.keeping import keepers, slots
from durably_conformance.registry import check
from durably_conformance.samples import EITHER, GOOD, JSON, TEXTS

LONG = "0123456789\u00e9\U0001f600\r\n\u2028" * 3_500
"""About 77 kB, more than a column or a message of 64 KiB holds."""


def _deep(levels: int) -> object:
    """Return lists and objects in turn, each inside the other."""
    value: object = None
    for _ in range(levels // 2):
        value = [{"k": value}]
    return value


VALUES: tuple[dict[str, object], ...] = (
    {name: value for name, value in JSON.items() if not name.startswith("nested")}
    | {"nested 200 deep": _deep(200)},
    *GOOD[1:],
)


@check(
    "VAL-JSON-001",
    contract="storage",
    reports=("redis-developer/langgraph-redis#113", "langchain-ai/langgraph#6970"),
)
async def json_comes_back(t: T) -> None:
    """A JSON value comes back equal and of the same types, all the way down, wherever it was put.

    1 is neither 1.0 nor true, -0.0 keeps its sign, and integers have no largest.
    """
    writer, reader = await t.connect(), await t.connect()
    texts = [repr(values) for values in VALUES]
    for slot in slots(t):
        for number, values in enumerate(VALUES):
            id_ = f"{number} {slot.path}"
            await slot.write(writer, id_, values)
            found = await slot.read(reader, id_)
            t.is_a(found, dict, str(slot))
            if repr(found) == texts[number]:
                continue
            fields = cast("dict[str, object]", found)
            for name, value in values.items():
                t.exact(fields.get(name, ...), value, f"{name} in {slot}")


def _speaking(text: str) -> list[Entry]:
    """Return an entry of each type, with a text in every field that takes one."""
    return [
        InputEntry(role=text, content=text),
        InputEntry(role="user", content=[TextPart(text=text)]),
        InputEntry(role="user", content=[ImagePart(url=text, data=text, media_type=text)]),
        AssistantTextEntry(content=[FilePart(url=text, data=text, name=text, media_type=text)]),
        AssistantTextEntry(content=text),
        ReasoningEntry(provider=text, metadata={text: text}),
        ToolCallEntry(call_id=text, name=text, arguments=text),
        ToolResultEntry(call_id=text, output=text, parts=[TextPart(text=text)]),
        CustomEntry(kind=text, data=text),
    ]


@check(
    "VAL-TEXT-001",
    contract="storage",
    reports=(
        "langchain-ai/langgraph#1878",
        "THU-MAIC/OpenMAIC#1493",
        "agentscope-ai/agentscope#1117",
    ),
)
async def text_comes_back(t: T) -> None:
    """Text comes back character by character from every field of every entry.

    NUL, controls, lone surrogates and characters outside of the basic plane included; nothing is
    normalised, stripped or cut.
    """
    entries = [entry for text in TEXTS.values() for entry in _speaking(text)]
    long = said(LONG) if 2 * len(LONG.encode()) < t.limits.record_bytes else []
    writer, reader = await t.connect(), await t.connect()
    for keeper in keepers(t):
        for id_, given in (("short", entries), ("long", long)):
            await keeper.write(writer, id_, given)
            t.eq(await keeper.read(reader, id_), given, f"{id_} entries of {keeper}")


def _waiting(text: str) -> InterruptReason:
    return InterruptReason(call_id=text, tool_name=text, arguments_digest=text, reason=text)


@check("VAL-TEXT-002", contract="storage", reports=("langchain-ai/langgraph#1878",))
async def text_around_entries_comes_back(t: T) -> None:
    """Text comes back character by character from a run's head and a snapshot's own fields."""
    text = "|".join(TEXTS.values())
    writer, reader = await t.connect(), await t.connect()
    for keeper in keepers(t):
        await keeper.write(writer, "x", said("a"))
        t.eq(await keeper.read(reader, "x"), said("a"), f"entries of {keeper}")
    if t.capabilities.checkpointer:
        head = RunHead(agent_name=text, error=text, pending_handoff=text, interrupt=_waiting(text))
        await writer.checkpointer.append("x", [], head)
        run = await reader.checkpointer.load("x")
        for name in ("agent_name", "error", "pending_handoff", "interrupt"):
            t.exact(getattr(run and run.head, name), getattr(head, name), f"{name} of a head")
    if t.capabilities.checkpoint_saver:
        snapshot = StateSnapshot(pending_handoff=text, interrupt=_waiting(text))
        await writer.checkpoint_saver().append("x", snapshot)
        latest = await reader.checkpoint_saver().latest("x")
        t.exact(latest and latest.snapshot, snapshot, "a snapshot")


@check("VAL-EDGE-001", contract="storage", reports=("NousResearch/hermes-agent#68254",))
async def the_edge_is_exact_or_refused(t: T) -> None:
    """What JSON hardly holds comes back as it is or is NotSerializable, and never changes."""
    writer, reader = await t.connect(), await t.connect()
    for slot in slots(t):
        for name, value in EITHER.items():
            id_ = f"{name} {slot.path}"
            answer = await t.attempt(slot.write(writer, id_, {"k": value}))
            if answer is not None:
                t.is_a(answer, NotSerializable, f"what {name} in {slot} raises")
            found = await slot.read(reader, id_)
            t.exact(found, {"k": value} if answer is None else None, f"{name} in {slot}")


@check("VAL-EMPTY-001", contract="storage", reports=("langchain-ai/langgraph#6970",))
async def nothings_stay_apart(t: T) -> None:
    """None, an empty object, an empty list, empty text, 0 and false stay apart in every field."""
    writer, reader = await t.connect(), await t.connect()
    no_parts: tuple[list[Part] | None, ...] = (None, [])
    empty: list[object] = [None, {}, [], "", 0, 0.0, False]
    entries: list[Entry] = [CustomEntry(kind="k", data=value) for value in empty]
    entries += [ToolResultEntry(call_id="c", output="", raw=value) for value in empty]
    entries += [ToolResultEntry(call_id="c", output="", parts=parts) for parts in no_parts]
    entries += [InputEntry(role="", content=""), InputEntry(role="", content=[])]
    for keeper in keepers(t):
        await keeper.write(writer, "x", entries)
        t.exact(await keeper.read(reader, "x"), entries, f"entries of {keeper}")
    if t.capabilities.sessions:
        metas: list[JsonObject | None] = [None, {}, {"a": None}, {"a": {}}]
        for meta in metas:
            await writer.sessions.append("meta", [], meta=meta)
        found = [one.meta for one in await reader.sessions.segments("meta")]
        t.exact(found, metas, "metas of a session")
    if t.capabilities.checkpointer:
        await _empty_heads(t, writer, reader, empty)


async def _empty_heads(t: T, writer: Handle, reader: Handle, empty: list[object]) -> None:
    for value in empty:
        head = RunHead(output=value, context_state=value, error="", agent_name="")
        await writer.checkpointer.append("head", [], head)
        run = await reader.checkpointer.load("head")
        for name in ("output", "context_state", "error"):
            t.exact(getattr(run and run.head, name), getattr(head, name), f"{name} of a head")
