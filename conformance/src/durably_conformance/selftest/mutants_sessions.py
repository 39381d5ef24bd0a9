"""Wrong sessions: what is appended is changed, lost or not cleared."""

import itertools
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from durably import Entry, InputEntry, JsonObject, Segment, Session
from durably_conformance.building import said, shape
from durably_conformance.selftest.delegating import SessionMutation
from durably_conformance.selftest.spoiling import SpoiledAppend, readable, rebuild, wrong
from durably_conformance.selftest.tracking import Tracked


class CarriesMetaOver(SpoiledAppend):
    """Gives a run without meta that of the run before it."""

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        stored = await readable(self.inner, session_id)
        last = stored[-1].meta if stored and entries else None
        return await super().put(session_id, entries, run_id, last if meta is None else meta)


class DropsEmptyMeta(SpoiledAppend):
    """Keeps meta with the first entry of a run, where there is one."""

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        return await super().put(session_id, entries, run_id, meta if entries or not meta else None)


class CountsItsRuns(SpoiledAppend):
    """Numbers the runs without an id, each handle by itself."""

    def __init__(self, inner: Session, shared: dict[str, Any]) -> None:
        super().__init__(inner, shared)
        self.numbers = itertools.count(1)

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        name = f"run-{next(self.numbers)}" if run_id is None else run_id
        return await super().put(session_id, entries, name, meta)


class DropsRepetitions(SessionMutation):
    """Leaves out of a transcript what was said twice just before."""

    @override
    async def load(self, session_id: str) -> list[Entry]:
        found = await self.inner.load(session_id)
        kept = found[:2]
        for one, two, three in zip(found, found[1:], found[2:], strict=False):
            if not (isinstance(three, InputEntry) and one == two == three):
                kept.append(three)
        return kept


class WritesBack(SpoiledAppend):
    """Writes with an append the session back as this handle read it."""

    def __init__(self, inner: Session, shared: dict[str, Any]) -> None:
        super().__init__(inner, shared)
        self.read: dict[str, list[Segment]] = {}

    @override
    async def load(self, session_id: str) -> list[Entry]:
        self.read[session_id] = await self.inner.segments(session_id)
        return [entry for one in self.read[session_id] for entry in one.entries]

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        read = self.read.pop(session_id, None)
        if read and len(await readable(self.inner, session_id)) > len(read):
            await rebuild(self.inner, session_id, read)
        return await super().put(session_id, entries, run_id, meta)


class TakesListsOnly(SpoiledAppend):
    """Adds something to a list of entries and so needs one."""

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        if not isinstance(entries, list):
            raise TypeError(f"can only concatenate list, not {type(entries).__name__}")
        return await super().put(session_id, entries, run_id, meta)


class ClearsByWriting(SessionMutation):
    """Clears a session by writing that it is empty, where there is none."""

    @override
    async def clear(self, session_id: str) -> None:
        if await self.inner.revision(session_id):
            await self.inner.clear(session_id)
        else:
            await self.inner.append(session_id, [])


class RemembersClearedRuns(SpoiledAppend):
    """Takes a run for stored that was so before a clear."""

    @override
    async def clear(self, session_id: str) -> None:
        for one in await readable(self.inner, session_id):
            self.shared[f"{session_id} {one.run_id}"] = True
        await self.inner.clear(session_id)

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        if run_id is not None and f"{session_id} {run_id}" in self.shared:
            return run_id
        return await super().put(session_id, entries, run_id, meta)


async def carries_meta_over(place: Tracked) -> bool:
    """Append a run with meta, then one without."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", said("a"), meta={"a": 1})
    await sessions.append("s", said("b"))
    return (await sessions.segments("s"))[1].meta is not None


async def loses_empty_meta(place: Tracked) -> bool:
    """Append an empty run with meta."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", [], meta={"a": 1})
    return (await sessions.segments("s"))[0].meta is None


async def gives_an_id_twice(place: Tracked) -> bool:
    """Append by two handles without a run_id."""
    one, other = await place.connect(), await place.connect()
    given = await one.sessions.append("s", said("a"))
    return await other.sessions.append("s", said("b")) == given


async def drops_repetitions(place: Tracked) -> bool:
    """Say the same thing three times."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", said("a", "a", "a"))
    return await sessions.load("s") == said("a", "a")


async def loses_what_others_append(place: Tracked) -> bool:
    """Read by one handle, append by another, append by the first."""
    one, other = (await place.connect()).sessions, (await place.connect()).sessions
    await one.append("s", said("a"))
    await one.load("s")
    await other.append("s", said("b"))
    await one.append("s", said("c"))
    return len(await one.load("s")) == 2


async def refuses_a_tuple(place: Tracked) -> bool:
    """Append a tuple."""
    sessions = (await place.connect()).sessions
    try:
        await sessions.append("s", tuple(said("a")))
    except TypeError:
        return True
    return False


async def makes_a_session(place: Tracked) -> bool:
    """Clear a session that is not there."""
    sessions = (await place.connect()).sessions
    await sessions.clear("s")
    return await sessions.revision("s") != 0


async def drops_a_run_of_before(place: Tracked) -> bool:
    """Append, clear and append the same run again."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", said("a"), run_id="r")
    await sessions.clear("s")
    await sessions.append("s", said("b"), run_id="r")
    return await shape(sessions, "s") == []


EXCUSES = {
    "SES-APP-003": (
        "A backend that loses, moves or changes runs without entries also fails the checks of "
        "rewind or of values that store some."
    ),
}


MUTANTS = (
    wrong(
        "carries meta over",
        "A run appended without meta has none.",
        "SES-APP-001",
        "a variable of a loop that is not set again for each run",
        carries_meta_over,
        sessions=CarriesMetaOver,
    ),
    wrong(
        "drops the meta of empty runs",
        "A run without entries is kept with its meta.",
        "SES-APP-003 VAL-EMPTY-001",
        "meta as a column of the table of entries",
        loses_empty_meta,
        sessions=DropsEmptyMeta,
    ),
    wrong(
        "numbers runs by handle",
        "An omitted run_id is one that no other run has.",
        "SES-APP-004",
        "a counter of the object in the place of a unique id",
        gives_an_id_twice,
        sessions=CountsItsRuns,
    ),
    wrong(
        "drops repetitions",
        "load gives the entries of all runs, equal ones each time.",
        "SES-APP-005",
        "a guard against an agent that goes round in circles, applied to what is stored",
        drops_repetitions,
        sessions=DropsRepetitions,
    ),
    wrong(
        "writes back what it read",
        "An append never depends on an earlier load.",
        "SES-APP-006",
        "agno-agi/agno#9450",
        loses_what_others_append,
        sessions=WritesBack,
    ),
    wrong(
        "takes lists only",
        "Entries may be appended as any sequence.",
        "SES-APP-007",
        "[*header] + entries",
        refuses_a_tuple,
        sessions=TakesListsOnly,
    ),
    wrong(
        "clears by writing",
        "Clearing a session that is not there makes none.",
        "SES-NONE-001",
        "an upsert of an empty row in the place of a DELETE",
        makes_a_session,
        sessions=ClearsByWriting,
    ),
    wrong(
        "remembers cleared runs",
        "The run ids of a cleared session are free again.",
        "SES-CLR-001",
        "openai/openai-agents-python#3755",
        drops_a_run_of_before,
        sessions=RemembersClearedRuns,
    ),
)
