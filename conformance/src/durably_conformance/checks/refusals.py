"""What cannot be stored is refused by its place, before anything is written."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import msgspec

from durably import (
    CustomEntry,
    Entry,
    InputEntry,
    NotSerializable,
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
from durably_conformance.samples import BAD

SOME = ("nan inside", "bytes", "naive datetime", "tuple", "Enum", "key that is an integer")
"""What is tried in every place; the rest of ``BAD`` is tried in one place of each contract."""

Call: TypeAlias = Callable[[Handle], Awaitable[object]]


@check(
    "VAL-REF-001",
    contract="storage",
    reports=(
        "agno-agi/agno#6327",
        "strands-agents/harness-sdk#3117",
        "langflow-ai/langflow#11905",
        "dbos-inc/dbos-transact-py#111",
    ),
)
async def what_json_cannot_hold_is_refused(t: T) -> None:
    """What JSON cannot give back is NotSerializable, and the error names its place.

    Nothing quietly becomes null or text: NaN and infinities, bytes, dates, sets, tuples, objects,
    keys that are no text, and subclasses of what JSON has.
    """
    handle = await t.connect()
    whole: set[str] = set()
    for slot in slots(t):
        names = SOME if slot.keeper.kind in whole else tuple(BAD)
        whole.add(slot.keeper.kind)
        for name in names:
            value, tail = BAD[name]
            write = slot.write(handle, slot.path, {"price": value})
            error = await t.raises(NotSerializable, write, f"{name} in {slot}")
            place = f"{slot.path}.price"
            if tail is None:
                t.ok(error.path.startswith(place), f"the path {error.path[:80]} is below {place}")
            else:
                t.eq(error.path, place + tail, f"the path of {name} in {slot}")


def _changed(entry: Entry, **fields: object) -> Entry:
    """Return an entry with fields its class does not allow, as a careless caller makes it."""
    return msgspec.structs.replace(entry, **fields)


RESULT = ToolResultEntry(call_id="c", output="o")
CALL = ToolCallEntry(call_id="c", name="n")

WRONG_ENTRIES: dict[str, object] = {
    "[1].role": _changed(InputEntry(role="r", content="x"), role=None),
    "[1].content": _changed(InputEntry(role="r", content="x"), content=5),
    "[1].content[1].text": InputEntry(
        role="r", content=[TextPart(text="x"), msgspec.structs.replace(TextPart(text="x"), text=1)]
    ),
    "[1].call_id": _changed(CALL, call_id=1),
    "[1].arguments": _changed(CALL, arguments={}),
    "[1].is_error": _changed(RESULT, is_error=1),
    "[1].trimmed_chars": _changed(RESULT, trimmed_chars=1.0),
    "[1].metadata": _changed(ReasoningEntry(provider="p"), metadata=[]),
    "[1].kind": _changed(CustomEntry(kind="k"), kind=b"k"),
    "[1]": {"type": "input", "role": "user", "content": "x"},
}
"""What is no entry, by the path of the fault below that of the entries."""


@check("VAL-REF-002", contract="storage", reports=("langchain-ai/langgraph#9021",))
async def what_is_no_entry_is_refused(t: T) -> None:
    """What could not be read back as an entry is NotSerializable, by its place."""
    handle = await t.connect()
    for keeper in keepers(t):
        for tail, wrong in WRONG_ENTRIES.items():
            entries: Any = [*said("fine"), wrong]
            write = keeper.write(handle, "x", entries)
            error = await t.raises(NotSerializable, write, f"{tail} in {keeper}")
            t.eq(error.path, keeper.path + tail, f"the path in {keeper}")


WRONG_SESSIONS: dict[str, Call] = {
    "entries None": lambda h: h.sessions.append("x", _none()),
    "entries that are one entry": lambda h: h.sessions.append("x", _any(CALL)),
    "entries that are text": lambda h: h.sessions.append("x", _any("hello")),
    "meta that is a list": lambda h: h.sessions.append("x", [], meta=_any([])),
    "meta that is text": lambda h: h.sessions.append("x", [], meta=_any("x")),
}
WRONG_RUNS: dict[str, Call] = {
    "entries None": lambda h: h.checkpointer.append("x", _none(), RunHead()),
    "a head None": lambda h: h.checkpointer.append("x", said("a"), _none()),
    "a head that is a dict": lambda h: h.checkpointer.append("x", [], _any({})),
    "a head that is a snapshot": lambda h: h.checkpointer.append("x", [], _any(StateSnapshot())),
    "turns that are a float": lambda h: h.checkpointer.append("x", [], RunHead(turns=_any(1.0))),
    "turns that are a bool": lambda h: h.checkpointer.append("x", [], RunHead(turns=True)),
    "a usage of None": lambda h: h.checkpointer.append("x", [], RunHead(usage=_none())),
}
WRONG_THREADS: dict[str, Call] = {
    "no snapshot": lambda h: h.checkpoint_saver().append("x", _none()),
    "a snapshot that is a dict": lambda h: h.checkpoint_saver().append("x", _any({})),
    "messages None": lambda h: h.checkpoint_saver().append("x", StateSnapshot(messages=_none())),
    "an extra that is a list": lambda h: h.checkpoint_saver().append(
        "x", StateSnapshot(extra=_any([]))
    ),
}


def _any(value: object) -> Any:  # noqa: ANN401 - it is of a wrong type on purpose
    return value


def _none() -> Any:  # noqa: ANN401 - as above
    return None


@check("VAL-REF-003", contract="storage")
async def an_argument_of_a_wrong_type_is_refused(t: T) -> None:
    """An argument that is not what an operation takes is NotSerializable, and stores nothing."""
    handle = await t.connect()
    tables = {"session": WRONG_SESSIONS, "run": WRONG_RUNS, "thread": WRONG_THREADS}
    for keeper in keepers(t):
        for name, act in tables[keeper.kind].items():
            await t.raises(NotSerializable, act(handle), f"{name} for {keeper}")
        t.eq(await keeper.read(handle, "x"), [], f"what {keeper} holds afterwards")
        await keeper.write(handle, "x", said("a"))
        t.eq(await keeper.read(handle, "x"), said("a"), f"what {keeper} takes after the refusals")


@check(
    "VAL-HALF-001",
    contract="storage",
    reports=(
        "openai/openai-agents-python#4163",
        "openai/openai-agents-python#4202",
        "microsoft/autogen#6793",
    ),
)
async def a_refused_write_leaves_nothing(t: T) -> None:
    """A write refused for its last entry has stored none of it, and holds up no other write."""
    one, other = await t.connect(), await t.connect()
    wrong: list[Entry] = [*said("b", "c", "d"), CustomEntry(kind="k", data={1, 2})]
    for keeper in keepers(t):
        await keeper.write(one, "x", said("a"))
        before = await t.place.dump()
        for id_ in ("x", "fresh"):
            await t.raises(NotSerializable, keeper.write(one, id_, wrong), f"a set in {keeper}")
        t.eq(await t.place.dump(), before, f"the raw content after the refusals by {keeper}")
        t.eq(await keeper.read(other, "x"), said("a"), f"entries of {keeper} after the refusal")
        t.eq(await keeper.read(other, "fresh"), [], f"entries of {keeper} that was refused")
        for handle in (other, one):
            await keeper.write(handle, "fresh", said("d"))
        found = await keeper.read(one, "fresh")
        want = said("d") if keeper.kind == "thread" else said("d", "d")
        t.eq(found, want, f"entries of {keeper} written after the refusal")
