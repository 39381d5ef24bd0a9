"""Backends that change values on their way, or store what they cannot give back."""

import datetime as dt
import math
from collections.abc import Sequence
from typing import cast

import msgspec
from typing_extensions import override

from durably import (
    Entry,
    InputEntry,
    JsonObject,
    NotSerializable,
    RunHead,
    StateSnapshot,
)
from durably_conformance.building import result, said
from durably_conformance.selftest.changing import (
    ChangingRuns,
    ChangingSessions,
    ChangingThreads,
    changed,
    spoken,
)
from durably_conformance.selftest.delegating import CheckpointerMutation
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class WholeFloats(ChangingSessions):
    """Turns a float that is a whole number into an integer, in a run's meta."""

    @override
    def meta(self, meta: JsonObject | None) -> JsonObject | None:
        def whole(value: object) -> object:
            is_whole = type(value) is float and math.isfinite(value) and value == int(value)
            return int(cast("float", value)) if is_whole else value

        return cast("JsonObject | None", changed(meta, whole))


class StripsNul(ChangingThreads):
    """Leaves NUL out of a snapshot's messages."""

    @override
    def snapshot(self, snapshot: StateSnapshot) -> StateSnapshot:
        messages = [spoken(one, lambda text: text.replace("\x00", "")) for one in snapshot.messages]
        return snapshot.replace(messages=messages)


class StripsControls(ChangingRuns):
    """Leaves control characters out of a head's error."""

    @override
    def head(self, head: RunHead) -> RunHead:
        if type(head.error) is not str:
            return head
        return head.replace(error="".join(one for one in head.error if one == "|" or one > "\x1f"))


class JoinsSurrogates(ChangingSessions):
    """Passes the texts in a run's meta through UTF-16."""

    @override
    def meta(self, meta: JsonObject | None) -> JsonObject | None:
        def joined(value: object) -> object:
            if type(value) is not str:
                return value
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")

        return cast("JsonObject | None", changed(meta, joined))


class NoParts(ChangingSessions):
    """Stores no parts where there is an empty list of them."""

    @override
    def entries(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        return [
            msgspec.structs.replace(one, parts=None) if getattr(one, "parts", None) == [] else one
            for one in entries
        ]


class SaysIt(ChangingThreads):
    """Turns dates and times of a snapshot's extra into text."""

    @override
    def snapshot(self, snapshot: StateSnapshot) -> StateSnapshot:
        def text(value: object) -> object:
            return value.isoformat() if isinstance(value, dt.date) else value

        return snapshot.replace(extra=changed(snapshot.extra, text))


class TakesDicts(ChangingSessions):
    """Takes a dict for an entry."""

    @override
    def entries(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        return [
            msgspec.convert(one, InputEntry) if isinstance(one, dict) else one for one in entries
        ]


class TakesNothing(ChangingSessions):
    """Takes None for no entries."""

    @override
    def odd(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        return entries or []


class PageByPage(CheckpointerMutation):
    """Saves a batch in pages of three entries, and meets the one at fault too late."""

    @override
    async def append(
        self,
        run_id: str,
        entries: Sequence[Entry],
        head: RunHead,
        *,
        expected_revision: int | None = None,
    ) -> int:
        try:
            return await self.inner.append(
                run_id, entries, head, expected_revision=expected_revision
            )
        except NotSerializable as error:
            if error.path.startswith("entries[3]"):
                await self.inner.append(run_id, entries[:3], head)
            raise


async def meta_of(place: Tracked, meta: JsonObject) -> JsonObject | None:
    """Return the meta of a run appended with one."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", said("a"), meta=meta)
    return (await sessions.segments("s"))[0].meta


async def loses_the_point(place: Tracked) -> bool:
    """Store 2.0."""
    return str(await meta_of(place, {"k": 2.0})) != "{'k': 2.0}"


async def loses_nul(place: Tracked) -> bool:
    """Store NUL in a message."""
    saver = (await place.connect()).checkpoint_saver()
    await saver.append("t", StateSnapshot(messages=said("a\x00b")))
    latest = await saver.latest("t")
    return latest is not None and list(latest.snapshot.messages) != said("a\x00b")


async def loses_controls(place: Tracked) -> bool:
    """Store a tab in an error."""
    checkpointer = (await place.connect()).checkpointer
    await checkpointer.append("r", [], RunHead(error="a\tb"))
    run = await checkpointer.load("r")
    return run is not None and run.head.error != "a\tb"


async def joins_two(place: Tracked) -> bool:
    """Store two lone surrogates in a row, and find one character."""
    try:
        found = await meta_of(place, {"k": "\ud83d\ude00"})
    except NotSerializable:
        return False
    return found != {"k": "\ud83d\ude00"}


async def loses_empty_parts(place: Tracked) -> bool:
    """Store an empty list of parts."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", [result("c", parts=[])])
    return getattr((await sessions.load("s"))[0], "parts", 0) is None


async def takes_a_time(place: Tracked) -> bool:
    """Store a time in the extra of a snapshot."""
    saver = (await place.connect()).checkpoint_saver()
    try:
        await saver.append("t", StateSnapshot(extra={"k": dt.datetime.now(dt.UTC)}))
    except NotSerializable:
        return False
    return True


async def takes(place: Tracked, entries: object) -> bool:
    """Whether a session takes something that is no list of entries."""
    try:
        await (await place.connect()).sessions.append("s", cast("list[Entry]", entries))
    except NotSerializable:
        return False
    return True


async def takes_a_dict(place: Tracked) -> bool:
    """Append a dict."""
    return await takes(place, [{"type": "input", "role": "user", "content": "x"}])


async def takes_none(place: Tracked) -> bool:
    """Append None."""
    return await takes(place, None)


async def stores_a_page(place: Tracked) -> bool:
    """Save three good entries and a bad one, and find the three."""
    checkpointer = (await place.connect()).checkpointer
    bad = cast("list[Entry]", [*said("a", "b", "c"), None])
    try:
        await checkpointer.append("r", bad, RunHead())
    except NotSerializable:
        return await checkpointer.load("r") is not None
    return False


MUTANTS = (
    Mutant(
        name="whole floats become integers",
        says="A JSON value comes back of the same type.",
        fails=frozenset({"VAL-JSON-001"}),
        provenance="JSON that passes through Lua or JavaScript, which have one type of number",
        harness=lambda: MemoryMutant(sessions=WholeFloats),
        probe=loses_the_point,
    ),
    Mutant(
        name="NUL is left out of messages",
        says="Text comes back character by character from every entry.",
        fails=frozenset({"VAL-TEXT-001"}),
        provenance="langchain-ai/langgraph#1885",
        harness=lambda: MemoryMutant(saver=StripsNul),
        probe=loses_nul,
    ),
    Mutant(
        name="controls are left out of a head",
        says="Text comes back character by character from a run's head.",
        fails=frozenset({"VAL-TEXT-002"}),
        provenance="text that is cleaned for a log and stored by the same function",
        harness=lambda: MemoryMutant(checkpointer=StripsControls),
        probe=loses_controls,
    ),
    Mutant(
        name="surrogates are joined",
        says="What JSON hardly holds comes back as it is or is refused.",
        fails=frozenset({"VAL-EDGE-001"}),
        provenance="text encoded as UTF-16 with surrogatepass",
        harness=lambda: MemoryMutant(sessions=JoinsSurrogates),
        probe=joins_two,
    ),
    Mutant(
        name="no parts for empty parts",
        says="None and an empty list stay apart.",
        fails=frozenset({"VAL-EMPTY-001"}),
        provenance="value or None, on a value that may be empty",
        harness=lambda: MemoryMutant(sessions=NoParts),
        probe=loses_empty_parts,
    ),
    Mutant(
        name="times become text",
        says="What JSON cannot give back is refused.",
        fails=frozenset({"VAL-REF-001"}),
        provenance="json.dumps(value, default=str)",
        harness=lambda: MemoryMutant(saver=SaysIt),
        probe=takes_a_time,
    ),
    Mutant(
        name="a dict is taken for an entry",
        says="What is no entry is refused.",
        fails=frozenset({"VAL-REF-002"}),
        provenance="an append that accepts whatever it can convert",
        harness=lambda: MemoryMutant(sessions=TakesDicts),
        probe=takes_a_dict,
    ),
    Mutant(
        name="None is taken for no entries",
        says="An argument of a wrong type is refused.",
        fails=frozenset({"VAL-REF-003"}),
        provenance="for entry in entries or []",
        harness=lambda: MemoryMutant(sessions=TakesNothing),
        probe=takes_none,
    ),
    Mutant(
        name="a batch is saved in pages",
        says="A write refused for its last entry has stored none of it.",
        fails=frozenset({"VAL-HALF-001"}),
        provenance="openai/openai-agents-python#4163",
        harness=lambda: MemoryMutant(checkpointer=PageByPage),
        probe=stores_a_page,
    ),
)
