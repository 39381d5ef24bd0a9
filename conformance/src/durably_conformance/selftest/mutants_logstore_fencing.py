"""Wrong log stores: which revision they take for the expected one."""

import asyncio

from typing_extensions import override

from durably import RevisionConflict
from durably.logstore import Applied, Batch, LogId, Range
from durably_conformance.building import batch, log
from durably_conformance.selftest.altering import AlteredBatch, altered
from durably_conformance.selftest.sparing import ScopedMutation, wrong
from durably_conformance.selftest.tracking import Tracked


class SilentConflict(ScopedMutation):
    """Refuses a stale batch without the revision the log is at."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        try:
            return await self.inner.append(log, batch)
        except RevisionConflict as error:
            if error.actual:
                raise RevisionConflict(log, expected=error.expected, actual=0) from error
            raise


class MakesWhatIsMissing(AlteredBatch):
    """Takes no notice of the expected revision where there is no log."""

    @override
    async def alter(self, log: LogId, batch: Batch) -> Batch:
        missing = await self.inner.read(log, Range(limit=0)) is None
        return altered(batch, expected_revision=None) if missing else batch


class ZeroIsNoMatter(AlteredBatch):
    """Asks whether the expected revision is true, not whether there is one."""

    @override
    async def alter(self, log: LogId, batch: Batch) -> Batch:
        return altered(batch, expected_revision=batch.expected_revision or None)


class NoFence(AlteredBatch):
    """Takes no notice of the expected revision."""

    @override
    async def alter(self, log: LogId, batch: Batch) -> Batch:
        return altered(batch, expected_revision=None)


class StaleByTime(ScopedMutation):
    """Takes a writer for stale whose time is not later than the log's."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        found = await self.inner.read(log, Range(limit=0))
        current = found is not None and batch.expected_revision == found.state.revision
        if found is not None and current and batch.at == found.state.updated_at:
            raise RevisionConflict(log, expected=found.state.revision, actual=1)
        return await self.inner.append(log, batch)


class LooksThenWrites(ScopedMutation):
    """Looks at the revision in one step and writes in another."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        found = await self.inner.read(log, Range(limit=0))
        actual = found.state.revision if found else 0
        if batch.expected_revision is None or batch.expected_revision != actual:
            return await self.inner.append(log, batch)
        await asyncio.sleep(0)
        return await self.inner.append(log, altered(batch, expected_revision=None))


async def says_nothing_of_the_actual(place: Tracked) -> bool:
    """Send a stale batch and look at the error."""
    store = (await place.connect()).log_store
    now = (await store.append(log(), batch(b"a"))).revision
    try:
        await store.append(log(), batch(b"b", expected_revision=now + 7))
    except RevisionConflict as error:
        return error.actual != now
    return False


async def makes_a_log_that_is_expected(place: Tracked) -> bool:
    """Expect a revision of a log that is not there."""
    store = (await place.connect()).log_store
    try:
        await store.append(log(), batch(b"a", expected_revision=7))
    except RevisionConflict:
        return False
    return True


async def makes_a_log_twice(place: Tracked) -> bool:
    """Expect twice that there is no log."""
    store = (await place.connect()).log_store
    await store.append(log(), batch(b"a", expected_revision=0))
    try:
        await store.append(log(), batch(b"b", expected_revision=0))
    except RevisionConflict:
        return False
    return True


async def refuses_a_quick_writer(place: Tracked) -> bool:
    """Append twice at one time with the right tokens."""
    store = (await place.connect()).log_store
    token = (await store.append(log(), batch(b"a", at=5.0))).revision
    try:
        await store.append(log(), batch(b"b", at=5.0, expected_revision=token))
    except RevisionConflict:
        return True
    return False


async def lets_two_win(place: Tracked) -> bool:
    """Append twice at once at one revision."""
    store = (await place.connect()).log_store
    two = (store.append(log(), batch(b"a", expected_revision=0)) for _ in range(2))
    answers = await asyncio.gather(*two, return_exceptions=True)
    return not any(isinstance(answer, RevisionConflict) for answer in answers)


MUTANTS = (
    wrong(
        "a conflict without the actual revision",
        SilentConflict,
        says_nothing_of_the_actual,
        fails="LOG-FENCE-001",
        says="A conflict names the expected and the actual revision.",
        provenance="an UPDATE … WHERE revision = ? that touched no row, and no look at why",
    ),
    wrong(
        "makes a log whatever is expected",
        MakesWhatIsMissing,
        makes_a_log_that_is_expected,
        fails="LOG-FENCE-002",
        says="Expecting a revision of a log that is not there makes none.",
        provenance="an upsert: the condition is on the UPDATE, and the INSERT has none",
    ),
    wrong(
        "takes 0 for no expectation",
        ZeroIsNoMatter,
        makes_a_log_twice,
        fails="LOG-FENCE-002 LOG-FENCE-004 LOG-IDEM-006 LOG-IDEM-011",
        says="Expecting 0 makes a log once.",
        provenance="if expected_revision: in place of is not None",
    ),
    wrong(
        "no fence",
        NoFence,
        makes_a_log_twice,
        fails="LOG-FENCE-001 LOG-FENCE-002 LOG-FENCE-004 LOG-IDEM-006 LOG-IDEM-011 LOG-REV-001"
        " LOG-REV-002",
        says="A batch for another revision is a conflict.",
        provenance="dapr/python-sdk#872",
    ),
    wrong(
        "judges staleness by time",
        StaleByTime,
        refuses_a_quick_writer,
        fails="LOG-FENCE-003",
        says="The revision last seen is accepted, though no time has passed.",
        provenance="google/adk-python#3717",
    ),
    wrong(
        "compares the revision, then writes",
        LooksThenWrites,
        lets_two_win,
        fails="LOG-FENCE-004",
        says="Of several handles that append at one expected revision, exactly one succeeds.",
        provenance="langchain-ai/langgraph#8796",
    ),
)
