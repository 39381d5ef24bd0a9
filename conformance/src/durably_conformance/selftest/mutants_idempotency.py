"""Wrong sessions: a run is stored twice, by halves or not at all."""

import asyncio
from collections.abc import Sequence

from typing_extensions import override

from durably import Entry, JsonObject, Rewound, Segment
from durably_conformance.building import said
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.spoiling import SpoiledAppend, readable, rebuild, wrong
from durably_conformance.selftest.table import Variant
from durably_conformance.selftest.tracking import Tracked


class LastWriteWins(SpoiledAppend):
    """Replaces the run that this handle appended last when it appends it again."""

    newest: tuple[str, str] | None = None

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        known = await self.knows(session_id, run_id)
        if run_id is not None and entries and known and self.newest == (session_id, run_id):
            run = Segment(run_id=run_id, entries=list(entries), meta=meta)
            return await self.replace(session_id, run)
        given = await super().put(session_id, entries, run_id, meta)
        if not known:
            self.newest = session_id, given
        return given


class TakesEmptyForMissing(SpoiledAppend):
    """Takes a run without entries for one that is not there."""

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        empty = [one for one in await readable(self.inner, session_id) if not one.entries]
        if run_id is not None and run_id in [one.run_id for one in empty]:
            run = Segment(run_id=run_id, entries=list(entries), meta=meta)
            return await self.replace(session_id, run)
        return await super().put(session_id, entries, run_id, meta)


class KnowsItsOwnRuns(SpoiledAppend):
    """Knows which runs are stored from what this handle appended, and replaces all others."""

    own: frozenset[tuple[str, str]] = frozenset()

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        fresh = run_id is not None and (session_id, run_id) not in self.own
        if run_id is not None:
            self.own |= {(session_id, run_id)}
        if run_id is not None and fresh and await self.knows(session_id, run_id):
            run = Segment(run_id=run_id, entries=list(entries), meta=meta)
            return await self.replace(session_id, run)
        return await super().put(session_id, entries, run_id, meta)


class TakesItForARetry(SpoiledAppend):
    """Takes an append of the run that this handle appended last for a retry, in any session."""

    newest: str | None = None

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        if run_id is not None and run_id == self.newest:
            return run_id
        self.newest = await super().put(session_id, entries, run_id, meta)
        return self.newest


class LooksThenWrites(SpoiledAppend):
    """Adds the entries of every append that did not see the run when it looked."""

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        known = await self.knows(session_id, run_id)
        await asyncio.sleep(0)
        found = [one for one in await readable(self.inner, session_id) if one.run_id == run_id]
        if known or not found:
            return await super().put(session_id, entries, run_id, meta)
        both = [*found[0].entries, *entries]
        run = Segment(run_id=found[0].run_id, entries=both, meta=found[0].meta)
        return await self.replace(session_id, run)


class CountsThenWrites(SpoiledAppend):
    """Gives a run the next number, and replaces what another gave the same."""

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        numbers = self.shared.setdefault(f"numbers {session_id}", {})
        number = len(await readable(self.inner, session_id))
        await asyncio.sleep(0)
        given = await super().put(session_id, entries, run_id, meta)
        taken = numbers.get(number)
        numbers[number] = given
        stored = await readable(self.inner, session_id)
        if taken not in (None, given) and len(stored) > number + 1:
            left = [one for one in stored if one.run_id != taken]
            await rebuild(self.inner, session_id, left)
        return given


class WritesByHalves(SpoiledAppend):
    """Stores the first half of a run, and a moment later all of it."""

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        many = len(entries) > 20
        if run_id is None or not many or await self.knows(session_id, run_id):
            return await super().put(session_id, entries, run_id, meta)
        await super().put(session_id, entries[: len(entries) // 2], run_id, meta)
        await asyncio.sleep(0)
        run = Segment(run_id=run_id, entries=list(entries), meta=meta)
        return await self.replace(session_id, run)


async def pause(turns: int) -> None:
    """Let others go first."""
    for _ in range(turns):
        await asyncio.sleep(0)


class Slow(SpoiledAppend):
    """Lets others go first, before and after."""

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        await pause(2)
        given = await super().put(session_id, entries, run_id, meta)
        await pause(3)
        return given

    @override
    async def segments(self, session_id: str) -> list[Segment]:
        await pause(3)
        return await self.inner.segments(session_id)

    @override
    async def load(self, session_id: str) -> list[Entry]:
        await pause(4)
        return await self.inner.load(session_id)

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        await pause(2)
        return await self.inner.rewind(
            session_id, keep_entries=keep_entries, expected_revision=expected_revision
        )


async def lets_the_last_write_win(place: Tracked) -> bool:
    """Append two contents under one run_id."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", said("first"), run_id="r")
    await sessions.append("s", said("second"), run_id="r")
    return await sessions.load("s") != said("first")


async def fills_an_empty_run(place: Tracked) -> bool:
    """Append a run without entries, then with."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", [], run_id="r")
    await sessions.append("s", said("late"), run_id="r")
    return await sessions.load("s") != []


async def replaces_what_another_stored(place: Tracked) -> bool:
    """Append two contents under one run_id through two handles."""
    one, other = (await place.connect()).sessions, (await place.connect()).sessions
    await one.append("s", said("first"), run_id="r")
    await other.append("s", said("second"), run_id="r")
    return await one.load("s") != said("first")


async def drops_a_run_of_another_session(place: Tracked) -> bool:
    """Append under one run_id to two sessions."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", said("a"), run_id="r")
    await sessions.append("t", said("b"), run_id="r")
    return await sessions.load("t") == []


async def merges_two_appends(place: Tracked) -> bool:
    """Append one run twice at once."""
    sessions = (await place.connect()).sessions
    await asyncio.gather(*(sessions.append("s", said("a"), run_id="r") for _ in range(2)))
    return await sessions.load("s") == said("a", "a")


async def loses_one_of_two(place: Tracked) -> bool:
    """Append two runs at once."""
    sessions = (await place.connect()).sessions
    await asyncio.gather(*(sessions.append("s", said("a")) for _ in range(2)))
    return len(await sessions.load("s")) == 1


async def shows_half_a_run(place: Tracked) -> bool:
    """Read while a run is being appended."""
    sessions = (await place.connect()).sessions
    appending = asyncio.create_task(sessions.append("s", said(*"abc" * 10), run_id="r"))
    await asyncio.sleep(0)
    seen = await sessions.load("s")
    await appending
    return 0 < len(seen) < 30


MUTANTS = (
    wrong(
        "last write wins",
        "A second append under a stored run_id changes nothing.",
        "SES-IDEM-001",
        "INSERT OR REPLACE keyed by the run",
        lets_the_last_write_win,
        sessions=LastWriteWins,
    ),
    wrong(
        "takes an empty run for none",
        "The first write of a run wins, one without entries too.",
        "SES-IDEM-001",
        "if stored: where if stored is not None: was meant",
        fills_an_empty_run,
        sessions=TakesEmptyForMissing,
    ),
    wrong(
        "knows its own runs only",
        "A run is known as stored to every handle.",
        "SES-IDEM-002",
        "a cache of what was sent, for as long as the object lives",
        replaces_what_another_stored,
        sessions=KnowsItsOwnRuns,
    ),
    wrong(
        "takes it for a retry",
        "The same run_id in two sessions is two runs.",
        "SES-IDEM-003",
        "a retry recognised by its request id alone",
        drops_a_run_of_another_session,
        sessions=TakesItForARetry,
    ),
    wrong(
        "looks, then writes",
        "Of appends of one run at once one is stored, whole.",
        "SES-IDEM-004",
        "SELECT, then INSERT, without a unique key",
        merges_two_appends,
        sessions=LooksThenWrites,
    ),
    wrong(
        "counts, then writes",
        "Of runs appended at once each is stored.",
        "SES-CONC-001",
        "agno-agi/agno#7479",
        loses_one_of_two,
        sessions=CountsThenWrites,
    ),
    wrong(
        "writes by halves",
        "A reader sees all entries of a run or none.",
        "SES-ATOM-001",
        "PostHog/posthog#34648",
        shows_half_a_run,
        sessions=WritesByHalves,
    ),
)


VARIANTS = (
    Variant(
        name="slow sessions",
        says="Others get their turn before and after each operation.",
        harness=lambda: MemoryMutant("slow", sessions=Slow),
    ),
)
