"""Wrong checkpointers: a save at a revision that is not the run's."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from typing_extensions import override

from durably import Checkpointer, Entry, RevisionConflict, RunHead
from durably_conformance.building import head, said
from durably_conformance.selftest.delegating import CheckpointerMutation
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.spoiling_runs import SavingMutation, conflict, peek
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class SetsTheHeadFirst(SavingMutation):
    """Sets the head of a run before it finds the conflict."""

    @override
    async def save(
        self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int | None
    ) -> int:
        try:
            return await super().save(run_id, entries, head, at)
        except RevisionConflict:
            stored = await peek(self.inner, run_id)
            if stored is not None and 0 < stored.head.turns < head.turns:
                await self.inner.append(run_id, [], head)
            raise


class MakesAMissingRun(SavingMutation):
    """Takes a run that is not there for one that may be made, whatever its revision was."""

    @override
    async def save(
        self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int | None
    ) -> int:
        try:
            return await super().save(run_id, entries, head, at)
        except RevisionConflict:
            if await peek(self.inner, run_id) is not None:
                raise
            return await self.inner.append(run_id, entries, head)


class CountsLivesFromOne(SavingMutation):
    """Takes the n-th revision of a run's former life for the n-th of this one."""

    @override
    async def save(
        self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int | None
    ) -> int:
        old, new = self.shared.setdefault(str(run_id), ([], []))
        token = at
        if token in old and old.index(token) < len(new):
            token = new[old.index(token)]
        saved = await self.inner.append(run_id, entries, head, expected_revision=token)
        new.append(saved)
        return saved

    @override
    async def delete(self, run_id: str, *, expected_revision: int | None = None) -> bool:
        deleted = await self.inner.delete(run_id, expected_revision=expected_revision)
        if deleted:
            self.shared[run_id] = self.shared.get(run_id, ([], []))[1], []
        return deleted


class JudgesByTime(SavingMutation):
    """Takes a save for stale that comes at an earlier time than the one before."""

    @override
    async def save(
        self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int | None
    ) -> int:
        before = await peek(self.inner, run_id)
        saved = await super().save(run_id, entries, head, at)
        after = await peek(self.inner, run_id)
        if before and after and (after.head.updated_at or 0) < (before.head.updated_at or 0):
            raise conflict(run_id, at)
        return saved


class ChecksInAnotherStep(SavingMutation):
    """Looks at the revision, and writes in a second step, whatever came in between."""

    @override
    async def save(
        self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int | None
    ) -> int:
        busy: Counter[object] = self.shared.setdefault("busy", Counter())
        this = repr((run_id, at))
        busy[this] += 1
        try:
            if at is not None:
                await asyncio.sleep(0)
            token = None if busy[this] > 1 else at
            return await self.inner.append(run_id, entries, head, expected_revision=token)
        finally:
            await asyncio.sleep(0)
            busy[this] -= 1


class DeletesAtZero(CheckpointerMutation):
    """Takes the revision 0 for none when it deletes."""

    @override
    async def delete(self, run_id: str, *, expected_revision: int | None = None) -> bool:
        odd = type(expected_revision) is not int
        token = expected_revision if odd else expected_revision or None
        return await self.inner.delete(run_id, expected_revision=token)


async def refused(checkpointer: Checkpointer, token: int, head: RunHead) -> bool:
    """Whether a save of one entry at a revision is refused."""
    try:
        await checkpointer.append("r", said("late"), head, expected_revision=token)
    except RevisionConflict:
        return True
    return False


async def writes_the_head_of_a_refused_save(place: Tracked) -> bool:
    """Save at a stale revision and look at the head."""
    checkpointer = (await place.connect()).checkpointer
    token = await checkpointer.append("r", said("a"), head(turns=1))
    await checkpointer.append("r", said("b"), head(turns=2))
    late = await refused(checkpointer, token, head(turns=3))
    run = await checkpointer.load("r")
    return late and run is not None and run.head.turns == 3


async def makes_a_deleted_run(place: Tracked) -> bool:
    """Save at the revision of a run that was deleted."""
    checkpointer = (await place.connect()).checkpointer
    token = await checkpointer.append("r", said("a"), head())
    await checkpointer.delete("r")
    return not await refused(checkpointer, token, head())


async def writes_into_the_next_life(place: Tracked) -> bool:
    """Save at the revision of a run's former life."""
    checkpointer = (await place.connect()).checkpointer
    token = await checkpointer.append("r", said("a"), head())
    await checkpointer.delete("r")
    await checkpointer.append("r", said("b"), head())
    return not await refused(checkpointer, token, head())


async def refuses_an_earlier_time(place: Tracked) -> bool:
    """Save on at the run's revision, with the clock set back."""
    now = [200.0]
    checkpointer = (await place.connect(clock=lambda: now[0])).checkpointer
    token = await checkpointer.append("r", said("a"), head())
    now[0] = 100.0
    return await refused(checkpointer, token, head())


async def lets_two_win(place: Tracked) -> bool:
    """Start one run twice at once."""
    checkpointers = [(await place.connect()).checkpointer for _ in range(2)]
    outcomes = await asyncio.gather(*(refused(one, 0, head()) for one in checkpointers))
    return not any(outcomes)


async def deletes_at_zero(place: Tracked) -> bool:
    """Delete a run on condition that there is none."""
    checkpointer = (await place.connect()).checkpointer
    await checkpointer.append("r", said("a"), head())
    try:
        return await checkpointer.delete("r", expected_revision=0)
    except RevisionConflict:
        return False


MUTANTS = (
    Mutant(
        name="sets the head of a refused save",
        says="A refused save writes nothing, the head included.",
        fails=frozenset({"CKP-FENCE-001"}),
        provenance="an UPDATE of the head ahead of the guarded INSERT, without a transaction",
        harness=lambda: MemoryMutant(checkpointer=SetsTheHeadFirst),
        probe=writes_the_head_of_a_refused_save,
    ),
    Mutant(
        name="makes a run that was deleted",
        says="A revision other than 0 fits only a run that exists.",
        fails=frozenset({"CKP-FENCE-002"}),
        provenance="an upsert whose condition is only asked of a row that exists",
        harness=lambda: MemoryMutant(checkpointer=MakesAMissingRun),
        probe=makes_a_deleted_run,
    ),
    Mutant(
        name="counts each life of a run from one",
        says="No revision of a run's former life fits its next one.",
        fails=frozenset({"CKP-FENCE-003"}),
        provenance="a version column that starts at 1 in every row",
        harness=lambda: MemoryMutant(checkpointer=CountsLivesFromOne),
        probe=writes_into_the_next_life,
    ),
    Mutant(
        name="judges saves by time",
        says="A worker saves on at its revision, whatever the clock says.",
        fails=frozenset({"CKP-FENCE-004"}),
        provenance="google/adk-python#3717",
        harness=lambda: MemoryMutant(checkpointer=JudgesByTime),
        probe=refuses_an_earlier_time,
    ),
    Mutant(
        name="checks the revision in another step",
        says="Of several saves at one revision at once exactly one succeeds.",
        fails=frozenset({"CKP-FENCE-005"}),
        provenance="langchain-ai/langgraph#8796",
        harness=lambda: MemoryMutant(checkpointer=ChecksInAnotherStep),
        probe=lets_two_win,
    ),
    Mutant(
        name="deletes at revision 0",
        says="A delete at a revision that is not the run's is refused.",
        fails=frozenset({"CKP-FENCE-006"}),
        provenance="'if expected_revision:' where 0 is meant too",
        harness=lambda: MemoryMutant(checkpointer=DeletesAtZero),
        probe=deletes_at_zero,
    ),
)
