"""Wrong checkpointers: the same save sent again, and what is taken for it."""

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from durably import Checkpointer, Entry, RevisionConflict, RunHead
from durably_conformance.building import head, said
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.spoiling_runs import SavingMutation, conflict, peek
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class FencedMutation(SavingMutation):
    """Passes saves without a revision on, and makes the others by ``fenced``."""

    def __init__(self, inner: Checkpointer, shared: dict[str, Any]) -> None:
        super().__init__(inner, shared)
        self.sent: dict[tuple[str, int], Any] = {}

    async def fenced(self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int) -> int:
        """Save at a revision."""
        return await self.inner.append(run_id, entries, head, expected_revision=at)

    @override
    async def save(
        self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int | None
    ) -> int:
        if type(at) is not int or at < 0:
            return await super().save(run_id, entries, head, at)
        return await self.fenced(run_id, entries, head, at)


class NeverStartsTwice(FencedMutation):
    """Refuses to start a run that is there, also where it was started by the same save."""

    @override
    async def fenced(self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int) -> int:
        if at == 0 and entries and await peek(self.inner, run_id) is not None:
            raise conflict(run_id, at)
        return await super().fenced(run_id, entries, head, at)


class KnowsNoHeads(FencedMutation):
    """Knows a save again by its entries alone."""

    @override
    async def fenced(self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int) -> int:
        stored = None if entries else await peek(self.inner, run_id)
        if stored is not None and stored.revision == at + 1:
            raise conflict(run_id, at)
        return await super().fenced(run_id, entries, head, at)


class ComparesTimes(FencedMutation):
    """Compares the times of a head, too, when it looks for a save."""

    @override
    async def fenced(self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int) -> int:
        if self.sent.setdefault((str(run_id), at), head.started_at) != head.started_at:
            raise conflict(run_id, at)
        return await super().fenced(run_id, entries, head, at)


class KnowsTheLastChange(FencedMutation):
    """Knows a save again only while it is the run's last change."""

    @override
    async def fenced(self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int) -> int:
        saved = await super().fenced(run_id, entries, head, at)
        stored = await peek(self.inner, run_id)
        if stored is not None and stored.revision != saved:
            raise conflict(run_id, at)
        return saved


class TrustsAnOldSave(FencedMutation):
    """Makes a save again that it sent before and that is known no more."""

    @override
    async def fenced(self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int) -> int:
        try:
            saved = await super().fenced(run_id, entries, head, at)
        except RevisionConflict:
            if self.sent.get((run_id, at)) != (list(entries), head):
                raise
            return await self.inner.append(run_id, entries, head)
        self.sent[run_id, at] = (list(entries), head)
        return saved


class KnowsByRevision(FencedMutation):
    """Takes every further save at a revision that it used for the same."""

    @override
    async def fenced(self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int) -> int:
        if at and (run_id, at) in self.sent:
            return int(self.sent[run_id, at])
        saved = await super().fenced(run_id, entries, head, at)
        self.sent[run_id, at] = saved
        return saved


class KnowsByContent(FencedMutation):
    """Knows a save again by its content, whoever sends it."""

    @override
    async def fenced(self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int) -> int:
        this = repr((run_id, entries, head, at))
        stored = await peek(self.inner, run_id)
        if stored is not None and self.shared.get(this) == stored.revision:
            return stored.revision
        saved = await super().fenced(run_id, entries, head, at)
        self.shared[this] = saved
        return saved


async def _again(
    place: Tracked,
    entries: list[Entry],
    *,
    first: int | None = None,
    further: int = 0,
    again: float = 1.0,
) -> int:
    """Make a save twice, with changes in between, and say how often it was stored; 0: refused."""
    one = (await place.connect()).checkpointer
    start = first if first is not None else await one.append("r", said("x"), head(started_at=1.0))
    await one.append("r", entries, head(started_at=1.0), expected_revision=start)
    for _ in range(further):
        await one.append("r", [], head())
    before = await one.load("r")
    try:
        await one.append("r", entries, head(started_at=again), expected_revision=start)
    except RevisionConflict:
        return 0
    return 1 if before == await one.load("r") else 2


async def refuses_the_start_again(place: Tracked) -> bool:
    """Start a run twice by the same save."""
    return await _again(place, said("a"), first=0) == 0


async def refuses_a_head_again(place: Tracked) -> bool:
    """Save the same head twice."""
    return await _again(place, []) == 0


async def refuses_another_time(place: Tracked) -> bool:
    """Make the same save twice with another start."""
    return await _again(place, said("a"), again=2.0) == 0


async def refuses_after_another(place: Tracked) -> bool:
    """Make the same save twice, with one change in between."""
    return await _again(place, said("a"), further=1) == 0


async def makes_a_late_save(place: Tracked) -> bool:
    """Save the same head twice, with many changes in between."""
    return await _again(place, [], further=20) == 2


async def swallows_another_save(place: Tracked) -> bool:
    """Make two saves at one revision."""
    one = (await place.connect()).checkpointer
    token = await one.append("r", said("a"), head())
    saved = await one.append("r", said("b"), head(), expected_revision=token)
    try:
        return await one.append("r", said("c"), head(), expected_revision=token) == saved
    except RevisionConflict:
        return False


async def takes_two_for_one(place: Tracked) -> bool:
    """Make equal saves through two handles."""
    one, other = (await place.connect()).checkpointer, (await place.connect()).checkpointer
    saved = await one.append("r", said("a"), head(), expected_revision=0)
    try:
        return await other.append("r", said("a"), head(), expected_revision=0) == saved
    except RevisionConflict:
        return False


MUTANTS = (
    Mutant(
        name="never starts a run twice",
        says="The same save sent again at the same revision changes nothing.",
        fails=frozenset({"CKP-RETRY-001"}),
        provenance="INSERT of a new run, whose conflict with itself is not looked at",
        harness=lambda: MemoryMutant(checkpointer=NeverStartsTwice),
        probe=refuses_the_start_again,
    ),
    Mutant(
        name="knows no head again",
        says="A save without entries is known again as one with entries is.",
        fails=frozenset({"CKP-RETRY-002"}),
        provenance="identities kept with the records, of which a head alone has none",
        harness=lambda: MemoryMutant(checkpointer=KnowsNoHeads),
        probe=refuses_a_head_again,
    ),
    Mutant(
        name="compares the times of saves",
        says="A save sent again with other times in its head is known.",
        fails=frozenset({"CKP-RETRY-003"}),
        provenance="a digest of the whole request as its identity",
        harness=lambda: MemoryMutant(checkpointer=ComparesTimes),
        probe=refuses_another_time,
    ),
    Mutant(
        name="knows the last change alone",
        says="A save is known again as long as fewer than 8 further changes were made.",
        fails=frozenset({"CKP-RETRY-004"}),
        provenance="one column for the key of the last change",
        harness=lambda: MemoryMutant(checkpointer=KnowsTheLastChange),
        probe=refuses_after_another,
    ),
    Mutant(
        name="makes a forgotten save again",
        says="A save sent again after very many changes is never made.",
        fails=frozenset({"CKP-RETRY-005"}),
        provenance="a cache of identities whose entries expire, with a retry behind it",
        harness=lambda: MemoryMutant(checkpointer=TrustsAnOldSave),
        probe=makes_a_late_save,
    ),
    Mutant(
        name="knows saves by their revision",
        says="Another save at a revision that was used is never taken for the first.",
        fails=frozenset({"CKP-RETRY-006"}),
        provenance="agno-agi/agno#7986",
        harness=lambda: MemoryMutant(checkpointer=KnowsByRevision),
        probe=swallows_another_save,
    ),
    Mutant(
        name="knows saves by their content",
        says="An equal save through another handle is another worker's.",
        fails=frozenset({"CKP-RETRY-007"}),
        provenance="an identity that says what is saved, and not who saves it",
        harness=lambda: MemoryMutant(checkpointer=KnowsByContent),
        probe=takes_two_for_one,
    ),
)
