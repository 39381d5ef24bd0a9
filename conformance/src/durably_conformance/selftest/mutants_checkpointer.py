"""Wrong checkpointers."""

from collections.abc import Sequence

from typing_extensions import override

from durably import Entry, RunHead
from durably_conformance.building import head, said
from durably_conformance.selftest.delegating import CheckpointerMutation
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class KeepsTheFirstHead(CheckpointerMutation):
    """Saves a run's first head again with every batch."""

    @override
    async def append(
        self,
        run_id: str,
        entries: Sequence[Entry],
        head: RunHead,
        *,
        expected_revision: int | None = None,
    ) -> int:
        stored = await self.inner.load(run_id)
        first = head if stored is None else stored.head
        return await self.inner.append(run_id, entries, first, expected_revision=expected_revision)


async def keeps_an_old_head(place: Tracked) -> bool:
    """Append twice and look at the head."""
    checkpointer = (await place.connect()).checkpointer
    await checkpointer.append("r", said("a"), head(turns=1))
    await checkpointer.append("r", said("b"), head(turns=2))
    run = await checkpointer.load("r")
    return run is not None and run.head.turns == 1


MUTANTS = (
    Mutant(
        name="keeps the first head",
        says="A run is all of its batches in order, with the last head.",
        fails=frozenset({"CKP-APP-001"}),
        provenance="INSERT OR IGNORE of the row that holds the head",
        harness=lambda: MemoryMutant(checkpointer=KeepsTheFirstHead),
        probe=keeps_an_old_head,
    ),
)
