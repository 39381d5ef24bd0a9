"""Wrong holds: that save, that nobody stops, that forget what they were given."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from typing_extensions import override

from durably import Checkpointer, Claim, Entry, RevisionConflict, RunHead, RunSnapshot
from durably_conformance.building import head, said
from durably_conformance.selftest.delegating import CheckpointerMutation
from durably_conformance.selftest.mutants_claims import OwnRevision, is_stopped
from durably_conformance.selftest.mutating import CheckpointerWrap
from durably_conformance.selftest.spoiling import wrong
from durably_conformance.selftest.spoiling_runs import ClaimMutation
from durably_conformance.selftest.tracking import Tracked


def holds(kind: type[ClaimMutation]) -> CheckpointerWrap:
    """Return a wrapper whose holds are claims of a kind."""

    class Holds(CheckpointerMutation):
        @override
        def hold(self, run_id: str, snapshot: RunSnapshot | None) -> Claim:
            return kind(self.inner.hold(run_id, snapshot), self.inner, self.shared)

    return Holds


class ForgetsItsSnapshot(ClaimMutation):
    """Keeps the revision of what it was given, and nothing else."""

    @property
    @override
    def snapshot(self) -> RunSnapshot | None:
        return None


class ClaimsInSecret(ClaimMutation):
    """Claims the run at once, behind the back of whoever holds it."""

    def __init__(self, inner: Claim, runs: Checkpointer, shared: dict[str, Any]) -> None:
        super().__init__(inner, runs, shared)
        self.claiming = asyncio.ensure_future(runs.claim(inner.run_id))

    @override
    async def append(self, entries: Sequence[Entry], head: RunHead) -> int:
        self.inner = await self.claiming
        return await super().append(entries, head)


class SavesOnce(ClaimMutation):
    """Stays at the revision it was given."""

    @override
    async def append(self, entries: Sequence[Entry], head: RunHead) -> int:
        before = self.inner.revision
        saved = await super().append(entries, head)
        held = None if self.snapshot is None else self.snapshot
        if held is not None:
            self.inner = self.runs.hold(self.run_id, msgspec.structs.replace(held, revision=before))
        return saved


class SavesHeadsAnyhow(ClaimMutation):
    """Saves a head over whoever saved since."""

    @override
    async def append(self, entries: Sequence[Entry], head: RunHead) -> int:
        try:
            return await super().append(entries, head)
        except RevisionConflict:
            if entries or self.snapshot is None:
                raise
            return await self.runs.append(self.run_id, entries, head)


class TakesNothingForAnything(ClaimMutation):
    """Takes a run that was not there for one that may be as it likes."""

    @override
    async def append(self, entries: Sequence[Entry], head: RunHead) -> int:
        try:
            return await super().append(entries, head)
        except RevisionConflict:
            if self.snapshot is not None:
                raise
            return await self.runs.append(self.run_id, entries, head)


class TakesAnySnapshot(CheckpointerMutation):
    """Holds a run by the snapshot of any."""

    @override
    def hold(self, run_id: str, snapshot: RunSnapshot | None) -> Claim:
        if snapshot is not None:
            snapshot = msgspec.structs.replace(snapshot, run_id=run_id)
        return self.inner.hold(run_id, snapshot)


async def _run(place: Tracked) -> tuple[Checkpointer, RunSnapshot | None]:
    """Return a checkpointer with a run, and the run."""
    runs = (await place.connect()).checkpointer
    await runs.append("r", said("a"), head())
    return runs, await runs.load("r")


async def has_no_snapshot(place: Tracked) -> bool:
    """Hold a run and look at its snapshot."""
    runs, run = await _run(place)
    return runs.hold("r", run).snapshot is None


async def moves_a_run(place: Tracked) -> bool:
    """Hold a run, wait, and look at it."""
    runs, run = await _run(place)
    held = runs.hold("r", run)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return held.run_id == "r" and await runs.load("r") != run


async def saves_once(place: Tracked) -> bool:
    """Save twice by a hold."""
    runs, run = await _run(place)
    held = runs.hold("r", run)
    await held.append(said("b"), head())
    return await is_stopped(held, said("c"))


async def saves_a_head_anyhow(place: Tracked) -> bool:
    """Save a head by a hold after another save."""
    runs, run = await _run(place)
    held = runs.hold("r", run)
    await runs.append("r", said("b"), head())
    return not await is_stopped(held, [])


async def takes_two_holds_for_one(place: Tracked) -> bool:
    """Make equal saves by two holds of one handle."""
    runs, run = await _run(place)
    first, second = runs.hold("r", run), runs.hold("r", run)
    await first.append(said("b"), head())
    return not await is_stopped(second, said("b"), turns=0)


async def starts_a_run_twice(place: Tracked) -> bool:
    """Hold a run that is not there, and save once it is."""
    runs = (await place.connect()).checkpointer
    held = runs.hold("r", None)
    await runs.append("r", said("a"), head())
    return not await is_stopped(held, said("x"))


async def holds_by_another(place: Tracked) -> bool:
    """Hold a run by the snapshot of another one."""
    runs, run = await _run(place)
    try:
        return runs.hold("other", run).run_id == "other"
    except ValueError:
        return False


MUTANTS = (
    wrong(
        "a hold without its snapshot",
        "A hold is a claim on the run as it was loaded.",
        "CKP-HOLD-001",
        "a token kept in the place of what it stands for",
        has_no_snapshot,
        checkpointer=holds(ForgetsItsSnapshot),
    ),
    wrong(
        "a hold that claims in secret",
        "To hold a run changes nothing.",
        "CKP-HOLD-001 CKP-HOLD-003 CKP-HOLD-004",
        "a lock that is taken in the constructor",
        moves_a_run,
        checkpointer=holds(ClaimsInSecret),
    ),
    wrong(
        "a hold for one save",
        "A hold saves on from its first save.",
        "CKP-HOLD-002",
        "a token that is read once and never noted again",
        saves_once,
        checkpointer=holds(SavesOnce),
    ),
    wrong(
        "a hold that saves heads anyhow",
        "Where a run was saved since it was loaded, a hold on it conflicts.",
        "CKP-HOLD-003",
        "a status that is set by an UPDATE without the token",
        saves_a_head_anyhow,
        checkpointer=holds(SavesHeadsAnyhow),
    ),
    wrong(
        "two holds of a handle as one worker",
        "Two holds through one handle are fenced from each other.",
        "CKP-HOLD-004",
        "a retry that is known by what it saves, whoever does",
        takes_two_holds_for_one,
        checkpointer=holds(OwnRevision),
    ),
    wrong(
        "a hold of nothing as one of anything",
        "Of holds on a run that was not there the first to append starts it.",
        "CKP-HOLD-005",
        "a token of 0 or None that is taken for no token",
        starts_a_run_twice,
        checkpointer=holds(TakesNothingForAnything),
    ),
    wrong(
        "a hold by any snapshot",
        "A run cannot be held by the snapshot of another one.",
        "CKP-HOLD-006",
        "an id that is given twice and compared never",
        holds_by_another,
        checkpointer=TakesAnySnapshot,
    ),
)
