"""Wrong checkpoint savers."""

from typing_extensions import override

from durably import Checkpoint
from durably_conformance.building import snapshot
from durably_conformance.selftest.delegating import SaverMutation
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class LatestByClock(SaverMutation):
    """Takes the snapshot with the latest time for the latest."""

    @override
    async def latest(self, thread_id: str) -> Checkpoint | None:
        found = await self.inner.list(thread_id)
        return max(found, key=lambda one: one.stored_at, default=None)


async def goes_by_the_clock(place: Tracked) -> bool:
    """Append twice, with the clock set back in between."""
    now = [200.0]
    saver = (await place.connect(clock=lambda: now[0])).checkpoint_saver()
    await saver.append("t", snapshot("a"))
    now[0] = 100.0
    last = await saver.append("t", snapshot("b"))
    latest = await saver.latest("t")
    return latest is None or latest.seq != last


MUTANTS = (
    Mutant(
        name="latest by clock",
        says="The latest snapshot is the last one appended, whatever the clock says.",
        fails=frozenset({"CKS-SEQ-002"}),
        provenance="ORDER BY created_at DESC LIMIT 1",
        harness=lambda: MemoryMutant(saver=LatestByClock),
        probe=goes_by_the_clock,
    ),
)
