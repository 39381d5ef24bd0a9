"""Wrong log stores: which rewrites move the epoch."""

from typing_extensions import override

from durably.logstore import Applied, LogId, LogState, Range, Rewrite
from durably_conformance.selftest.altering import AlteredState, altered
from durably_conformance.selftest.mutants_logstore_rewriting import replaced
from durably_conformance.selftest.sparing import wrong
from durably_conformance.selftest.tracking import Tracked


class CutsKeepTheEpoch(AlteredState):
    """Gives a log a new epoch where a record was dropped, not where one was cut short."""

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        before = await self.inner.read(log, Range(limit=0))
        answer = await self.inner.rewrite(log, change)
        after = await self.inner.read(log, Range(limit=0))
        if before and after and before.state.record_count == after.state.record_count:
            self.note(log, self.noted(log, None) or before.state.epoch)
        else:
            self.note(log, None)
        return answer

    @override
    def alter(self, log: LogId, state: LogState) -> LogState:
        return altered(state, epoch=self.noted(log, None) or state.epoch)


class EveryRewriteIsAnEpoch(AlteredState):
    """Gives a log a new epoch wherever a record was replaced."""

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        found = await self.inner.read(log)
        answer = await self.inner.rewrite(log, change)
        if any(one.seq in change.replace for one in (found.records if found else ())):
            self.note(log, answer.revision)
        return answer

    @override
    def alter(self, log: LogId, state: LogState) -> LogState:
        return altered(state, epoch=max(state.epoch, self.noted(log, 0)))


async def keeps_the_epoch_of_a_cut(place: Tracked) -> bool:
    """Replace a record by one of fewer entries."""
    state = await replaced(place, 0)
    return state is not None and state.epoch != state.revision


async def makes_an_epoch_of_nothing(place: Tracked) -> bool:
    """Replace a record's data alone."""
    state = await replaced(place, 1, b"new")
    return state is not None and state.epoch == state.revision


MUTANTS = (
    wrong(
        "a cut keeps the epoch",
        CutsKeepTheEpoch,
        keeps_the_epoch_of_a_cut,
        fails="LOG-EPOCH-001",
        says="A rewrite that changes an entry_count moves the epoch.",
        provenance="positions thought to move only where a row goes",
    ),
    wrong(
        "every replaced record is an epoch",
        EveryRewriteIsAnEpoch,
        makes_an_epoch_of_nothing,
        fails="LOG-EPOCH-002",
        says="New data of equal count does not move the epoch.",
        provenance="cursors that expire whenever anything was trimmed",
    ),
)
