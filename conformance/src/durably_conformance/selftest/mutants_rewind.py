"""Wrong rewinds: cut at the wrong place, or too much or too little of what the cut concerns."""

from collections.abc import Sequence

import msgspec
from typing_extensions import override

from durably import (
    Entry,
    JsonObject,
    Rewound,
    Segment,
)
from durably_conformance.building import fill, said
from durably_conformance.selftest.spoiling import SpoiledAppend, SpoiledRewind, wrong
from durably_conformance.selftest.tracking import Tracked


class CutsAtTheEnd(SpoiledRewind):
    """Takes a cut at the very end of a run for one inside it."""

    @override
    def left(
        self, before: list[Segment], after: list[Segment], done: Rewound, keep: int
    ) -> list[Segment]:
        if not done.removed_run_ids or done.truncated_run_id or not after:
            return after
        return [*after[:-1], msgspec.structs.replace(after[-1], meta=None)]


class KeepsMeta(SpoiledRewind):
    """Leaves a run that it cuts short its meta."""

    @override
    def left(
        self, before: list[Segment], after: list[Segment], done: Rewound, keep: int
    ) -> list[Segment]:
        meta = {one.run_id: one.meta for one in before}
        return [msgspec.structs.replace(one, meta=meta.get(one.run_id)) for one in after]


class EmptiesRuns(SpoiledRewind):
    """Keeps, where nothing is to be kept, a run without entries that was the last."""

    @override
    def left(
        self, before: list[Segment], after: list[Segment], done: Rewound, keep: int
    ) -> list[Segment]:
        empty = [one for one in before if not one.entries]
        return after if keep else empty


class TidiesTheEnd(SpoiledRewind):
    """Removes runs without entries at the end, though nothing is to be cut."""

    @override
    def left(
        self, before: list[Segment], after: list[Segment], done: Rewound, keep: int
    ) -> list[Segment]:
        kept = list(after)
        while done == Rewound() and kept and not kept[-1].entries:
            kept.pop()
        return kept


class KeepsEmptyRuns(SpoiledRewind):
    """Keeps runs without entries behind the cut, since none of their entries is."""

    @override
    def left(
        self, before: list[Segment], after: list[Segment], done: Rewound, keep: int
    ) -> list[Segment]:
        kept = {one.run_id: one for one in after}
        empty = {one.run_id: one for one in before if not one.entries} if keep else {}
        return [(kept | empty)[one.run_id] for one in before if one.run_id in kept | empty]


class FreesTheCutRun(SpoiledAppend):
    """Takes the run_id of a run that it cut short for free."""

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        done = await self.inner.rewind(
            session_id, keep_entries=keep_entries, expected_revision=expected_revision
        )
        self.shared[f"cut {session_id}"] = done.truncated_run_id
        return done

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        if run_id is not None and run_id == self.shared.get(f"cut {session_id}"):
            run = Segment(run_id=run_id, entries=list(entries), meta=meta)
            return await self.replace(session_id, run)
        return await super().put(session_id, entries, run_id, meta)


async def _cut(place: Tracked, text: str, keep: int) -> list[Segment]:
    """Fill a session, rewind it and return its runs."""
    sessions = (await place.connect()).sessions
    await fill(sessions, "s", text)
    await sessions.rewind("s", keep_entries=keep)
    return await sessions.segments("s")


async def touches_the_last_run(place: Tracked) -> bool:
    """Cut behind the first of two runs."""
    return (await _cut(place, "a2 b1", 2))[0].meta is None


async def keeps_old_meta(place: Tracked) -> bool:
    """Cut inside a run."""
    return (await _cut(place, "a2", 1))[0].meta is not None


async def keeps_something(place: Tracked) -> bool:
    """Keep nothing."""
    return await _cut(place, "a1 b0", 0) != []


async def removes_the_end(place: Tracked) -> bool:
    """Keep everything."""
    return len(await _cut(place, "a1 b0", 1)) == 1


async def keeps_a_later_run(place: Tracked) -> bool:
    """Cut before a run without entries."""
    return len(await _cut(place, "a2 b0", 1)) == 2


async def replaces_the_cut_run(place: Tracked) -> bool:
    """Cut a run short and append it again."""
    sessions = (await place.connect()).sessions
    await fill(sessions, "s", "a2")
    await sessions.rewind("s", keep_entries=1)
    await sessions.append("s", said("again"), run_id="a")
    return await sessions.load("s") == said("again")


MUTANTS = (
    wrong(
        "cuts at the end of a run",
        "A run the cut does not land inside is not touched.",
        "SES-REW-001",
        "< where <= was meant",
        touches_the_last_run,
        sessions=CutsAtTheEnd,
    ),
    wrong(
        "keeps the meta of a cut run",
        "A run cut short loses its meta.",
        "SES-REW-002",
        "state computed after the point that is gone, taken up again",
        keeps_old_meta,
        sessions=KeepsMeta,
    ),
    wrong(
        "keeps empty runs at 0",
        "To keep no entries removes every run.",
        "SES-REW-003",
        "DELETE of the rows of entries alone",
        keeps_something,
        sessions=EmptiesRuns,
    ),
    wrong(
        "tidies the end",
        "A count at the end changes nothing.",
        "SES-REW-004",
        "everything after the last kept entry, where nothing was to be cut",
        removes_the_end,
        sessions=TidiesTheEnd,
    ),
    wrong(
        "keeps empty runs behind the cut",
        "Runs without entries behind the cut go.",
        "SES-REW-005",
        "a first draft of the SQLite backend, found by a model",
        keeps_a_later_run,
        sessions=KeepsEmptyRuns,
    ),
    wrong(
        "frees the cut run",
        "The run_id of a run cut short is still taken.",
        "SES-REW-006",
        "all runs that a rewind touched removed from the set of known ones",
        replaces_the_cut_run,
        sessions=FreesTheCutRun,
    ),
)
