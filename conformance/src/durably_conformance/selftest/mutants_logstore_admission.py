"""Wrong log stores: what they look at first, and what they do with records that are there."""

from typing_extensions import override

from durably import RevisionConflict
from durably.logstore import Applied, Batch, LogId, Range, Rewrite
from durably_conformance.building import batch, log
from durably_conformance.logs import datas_in, keyed
from durably_conformance.selftest.altering import AlteredBatch, altered
from durably_conformance.selftest.sparing import ScopedMutation, wrong
from durably_conformance.selftest.tracking import Tracked


class RevisionFirst(ScopedMutation):
    """Looks at the revision before it looks whether it knows the batch."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        found = await self.inner.read(log, Range(limit=0))
        actual = found.state.revision if found else 0
        if batch.expected_revision not in (None, actual):
            raise RevisionConflict(log, expected=batch.expected_revision or 0, actual=actual)
        return await self.inner.append(log, batch)


class RecordKeysFirst(AlteredBatch):
    """Looks whether it knows the records before it looks at the revision."""

    @override
    async def alter(self, log: LogId, batch: Batch) -> Batch:
        found = await self.inner.read(log, Range(keys=frozenset(batch.record_keys)))
        known = found is not None and len(found.records) == len(batch.records) > 0
        return altered(batch, expected_revision=None) if known else batch


class OverwritesRecords(ScopedMutation):
    """Replaces a record that is stored again."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        found = await self.inner.read(log)
        given = {one.key: one for one in batch.records}
        for one in found.records if found else ():
            new = given.get(one.key)
            if found is not None and new is not None and new.data != one.data:
                replace = {one.seq: altered(new, key=None)}
                change = Rewrite(expected_revision=found.state.revision, replace=replace)
                await self.inner.rewrite(log, change)
        return await self.inner.append(log, batch)


class SetsTheHeadAnyway(ScopedMutation):
    """Sets the head also where all the records are known."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        answer = await self.inner.append(log, batch)
        own = batch.record_keys[:1] == (f"{batch.key}:0",)
        if answer.duplicate and batch.records and batch.head is not None and not own:
            await self.inner.append(log, Batch(head=batch.head))
        return answer


async def refuses_its_own_batch(place: Tracked) -> bool:
    """Send a batch that expects a revision twice."""
    store, one = (await place.connect()).log_store, batch(b"a", expected_revision=0)
    await store.append(log(), one)
    try:
        return not (await store.append(log(), one)).duplicate
    except RevisionConflict:
        return True


async def takes_a_stale_batch_for_known(place: Tracked) -> bool:
    """Create a log with a record that another has created it with."""
    store = (await place.connect()).log_store
    await store.append(log(), keyed("a"))
    try:
        return (await store.append(log(), keyed("a", expected_revision=0))).duplicate
    except RevisionConflict:
        return False


async def overwrites_a_record(place: Tracked) -> bool:
    """Store other data under a key that is there."""
    store = (await place.connect()).log_store
    await store.append(log(), keyed("a"))
    other = altered(keyed("a").records[0], data=b"other")
    await store.append(log(), Batch(records=(other, *keyed("b").records)))
    return (await datas_in(store))[0] != b"a"


async def changes_the_head_anyway(place: Tracked) -> bool:
    """Store a known record with another head."""
    store = (await place.connect()).log_store
    await store.append(log(), keyed("a", head=b"first"))
    await store.append(log(), keyed("a", head=b"second"))
    found = await store.read(log())
    return found is not None and found.state.head != b"first"


MUTANTS = (
    wrong(
        "looks at the revision before the batch key",
        RevisionFirst,
        refuses_its_own_batch,
        fails="LOG-IDEM-005",
        says="A batch that is known by its key is a duplicate, not a conflict.",
        provenance="a conditional PUT that meets the client library's own first attempt",
    ),
    wrong(
        "looks at record keys before the revision",
        RecordKeysFirst,
        takes_a_stale_batch_for_known,
        fails="LOG-IDEM-006",
        says="A batch of known records is a conflict where its revision is not the log's.",
        provenance="a copy into a log that exists already, reported as done",
    ),
    wrong(
        "overwrites records",
        OverwritesRecords,
        overwrites_a_record,
        fails="LOG-IDEM-007",
        says="A record whose key is in the log is left as it is.",
        provenance="langchain-ai/langgraph#1395",
    ),
    wrong(
        "sets the head though nothing is new",
        SetsTheHeadAnyway,
        changes_the_head_anyway,
        fails="LOG-IDEM-008",
        says="A batch of records that are all there changes nothing, the head included.",
        provenance="an upsert of the head beside an INSERT OR IGNORE of the records",
    ),
)
