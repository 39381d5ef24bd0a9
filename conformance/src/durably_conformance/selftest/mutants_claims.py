"""Wrong claims: who is stopped, who is not, and what becomes of a save that was cancelled."""

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from durably import (
    Checkpointer,
    Claim,
    Entry,
    RevisionConflict,
    RunHead,
)
from durably_conformance.building import head, said
from durably_conformance.selftest.delegating import CheckpointerMutation
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.spoiling_runs import ClaimMutation, claims, peek
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class OwnRevision(ClaimMutation):
    """Keeps its revision itself, and saves as its handle does: as one worker with the others."""

    def __init__(self, inner: Claim, runs: Checkpointer, shared: dict[str, Any]) -> None:
        super().__init__(inner, runs, shared)
        self.at = inner.revision

    @property
    @override
    def revision(self) -> int:
        return self.at

    @override
    async def append(self, entries: Sequence[Entry], head: RunHead) -> int:
        saved = await self.runs.append(self.run_id, entries, head, expected_revision=self.at)
        self.at = saved
        return saved

    @override
    async def delete(self) -> bool:
        deleted = await self.runs.delete(self.run_id, expected_revision=self.at)
        self.at = 0
        return deleted


class SetsItRunning(CheckpointerMutation):
    """Sets the status of a run that is claimed."""

    @override
    async def claim(self, run_id: str) -> Claim:
        stored = await self.inner.load(run_id)
        if stored is not None and stored.head.status == "interrupted":
            await self.inner.append(run_id, [], stored.head.replace(status="running"))
        return await self.inner.claim(run_id)


class ShowsItsFirstRevision(ClaimMutation):
    """Says at which revision it was made, whatever it saved since."""

    @property
    @override
    def revision(self) -> int:
        return self.snapshot.revision if self.snapshot else self.inner.revision


class SavesHeadsUnfenced(ClaimMutation):
    """Is fenced where it adds entries."""

    @override
    async def append(self, entries: Sequence[Entry], head: RunHead) -> int:
        if entries or self.snapshot is None:
            return await super().append(entries, head)
        return await self.runs.append(self.run_id, [], head)


class DeletesUnclaimed(ClaimMutation):
    """Takes the revision 0 for none when it deletes."""

    @override
    async def delete(self) -> bool:
        if self.revision:
            return await super().delete()
        return await self.runs.delete(self.run_id)


class FencesClaimsOnly(ClaimMutation):
    """Keeps in the run who owns it, and is stopped by another owner alone."""

    def __init__(self, inner: Claim, runs: Checkpointer, shared: dict[str, Any]) -> None:
        super().__init__(inner, runs, shared)
        shared[self.run_id] = self

    @override
    async def append(self, entries: Sequence[Entry], head: RunHead) -> int:
        try:
            return await super().append(entries, head)
        except RevisionConflict:
            owner: object = self.shared[self.run_id]
            if owner is not self:
                raise
            return await self.runs.append(self.run_id, entries, head)


class KeepsItsRevision(ClaimMutation):
    """Keeps its revision also when it deleted the run."""

    deleted = 0

    @override
    async def append(self, entries: Sequence[Entry], head: RunHead) -> int:
        if self.deleted:
            return await self.runs.append(
                self.run_id, entries, head, expected_revision=self.deleted
            )
        return await super().append(entries, head)

    @override
    async def delete(self) -> bool:
        revision = self.revision
        deleted = await super().delete()
        self.deleted = revision
        return deleted


class Revives(ClaimMutation):
    """Makes the run again if it is gone."""

    @override
    async def append(self, entries: Sequence[Entry], head: RunHead) -> int:
        try:
            return await super().append(entries, head)
        except RevisionConflict:
            if await peek(self.runs, self.run_id) is not None:
                raise
            return await self.runs.append(self.run_id, entries, head)


async def two_claims(place: Tracked, *, handles: int = 2) -> tuple[Checkpointer, Claim, Claim]:
    """Return a checkpointer and two claims of a new run, the second one made later."""
    runs = (await place.connect()).checkpointer
    other = (await place.connect()).checkpointer if handles > 1 else runs
    await runs.append("r", said("a"), head(status="interrupted"))
    return runs, await runs.claim("r"), await other.claim("r")


async def is_stopped(claim: Claim, entries: list[Entry], turns: int = 1) -> bool:
    """Whether a claim's save is refused."""
    try:
        await claim.append(entries, head(turns=turns))
    except RevisionConflict:
        return True
    return False


async def changes_a_status(place: Tracked) -> bool:
    """Claim a run and look at its status."""
    runs, _, _ = await two_claims(place)
    run = await runs.load("r")
    return run is not None and run.head.status != "interrupted"


async def shows_an_old_revision(place: Tracked) -> bool:
    """Save by a claim and look at its revision."""
    _, _, claim = await two_claims(place)
    return await claim.append(said("b"), head()) != claim.revision


async def saves_a_head_unfenced(place: Tracked) -> bool:
    """Save a head by a claim that was overtaken."""
    _, early, _ = await two_claims(place)
    return not await is_stopped(early, [])


async def takes_two_claims_for_one(place: Tracked) -> bool:
    """Start a run by two claims of one handle, with equal saves."""
    runs = (await place.connect()).checkpointer
    early, late = await runs.claim("r"), await runs.claim("r")
    await late.append(said("a"), head())
    return not await is_stopped(early, said("a"), turns=0)


async def deletes_without_owning(place: Tracked) -> bool:
    """Delete by a claim a run that another worker started."""
    runs = (await place.connect()).checkpointer
    claim = await runs.claim("r")
    await runs.append("r", said("a"), head())
    try:
        return await claim.delete()
    except RevisionConflict:
        return False


async def ignores_a_plain_save(place: Tracked) -> bool:
    """Save by a claim after a save without one."""
    runs, _, claim = await two_claims(place)
    await runs.append("r", said("b"), head())
    return not await is_stopped(claim, said("c"))


async def cannot_begin_anew(place: Tracked) -> bool:
    """Delete by a claim, and start the run again."""
    _, _, claim = await two_claims(place)
    await claim.delete()
    return await is_stopped(claim, said("b"))


async def revives_a_run(place: Tracked) -> bool:
    """Save by a claim after another worker deleted the run."""
    _, early, late = await two_claims(place)
    await late.delete()
    return not await is_stopped(early, said("x"))


MUTANTS = (
    Mutant(
        name="sets a claimed run running",
        says="A claim changes neither the head of a run nor its entries.",
        fails=frozenset({"CKP-CLAIM-001"}),
        provenance="UPDATE … SET status = 'running' as the way to claim a job",
        harness=lambda: MemoryMutant(checkpointer=SetsItRunning),
        probe=changes_a_status,
    ),
    Mutant(
        name="shows a claim's first revision",
        says="A claim says after each save at which revision the run is.",
        fails=frozenset({"CKP-CLAIM-002"}),
        provenance="a revision read from the snapshot that was claimed",
        harness=lambda: MemoryMutant(checkpointer=claims(ShowsItsFirstRevision)),
        probe=shows_an_old_revision,
    ),
    Mutant(
        name="saves heads unfenced",
        says="A claim that was overtaken can save nothing, a head included.",
        fails=frozenset({"CKP-CLAIM-003"}),
        provenance="a status update that was thought harmless",
        harness=lambda: MemoryMutant(checkpointer=claims(SavesHeadsUnfenced)),
        probe=saves_a_head_unfenced,
    ),
    Mutant(
        name="takes two claims of a handle for one",
        says="Two claims through one handle are fenced from each other.",
        fails=frozenset({"CKP-CLAIM-004"}),
        provenance="an identity that says which connection saves, and not which worker",
        harness=lambda: MemoryMutant(checkpointer=claims(OwnRevision)),
        probe=takes_two_claims_for_one,
    ),
    Mutant(
        name="deletes by a claim of nothing",
        says="The first to save owns a run that did not exist when it was claimed.",
        fails=frozenset({"CKP-CLAIM-005"}),
        provenance="'if self.revision:' where 0 is meant too",
        harness=lambda: MemoryMutant(checkpointer=claims(DeletesUnclaimed)),
        probe=deletes_without_owning,
    ),
    Mutant(
        name="fences claims from claims only",
        says="A save that took no notice of a claim overtakes it.",
        fails=frozenset({"CKP-CLAIM-006"}),
        provenance="agno-agi/agno#9450",
        harness=lambda: MemoryMutant(checkpointer=claims(FencesClaimsOnly)),
        probe=ignores_a_plain_save,
    ),
    Mutant(
        name="keeps the revision of a deleted run",
        says="A claim that deleted its run may start it again.",
        fails=frozenset({"CKP-CLAIM-007"}),
        provenance="a delete that returns early and forgets the state of its object",
        harness=lambda: MemoryMutant(checkpointer=claims(KeepsItsRevision)),
        probe=cannot_begin_anew,
    ),
    Mutant(
        name="revives a deleted run",
        says="A claim on a run that was deleted since cannot revive it.",
        fails=frozenset({"CKP-CLAIM-008"}),
        provenance="a retry that inserts where the update found no row",
        harness=lambda: MemoryMutant(checkpointer=claims(Revives)),
        probe=revives_a_run,
    ),
)
