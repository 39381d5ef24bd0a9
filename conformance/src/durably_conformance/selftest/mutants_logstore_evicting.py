"""Wrong log stores: what a bound evicts, and how records are numbered."""

from typing_extensions import override

from durably.logstore import (
    Applied,
    Batch,
    LogId,
    LogState,
    Range,
    Rewrite,
)
from durably_conformance.building import batch, log
from durably_conformance.logs import datas_in, keyed, keys_in
from durably_conformance.selftest.altering import (
    AlteredBatch,
    AlteredState,
    Renumbered,
    altered,
)
from durably_conformance.selftest.sparing import ScopedMutation, wrong
from durably_conformance.selftest.tracking import Tracked


class EvictsBeforeItStores(ScopedMutation):
    """Evicts what is there before, and then stores the batch whole."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        if batch.keep_last is None or len(batch.records) <= batch.keep_last:
            return await self.inner.append(log, batch)
        return await self.inner.append(log, altered(batch, keep_last=len(batch.records)))


class KeepsTheBound(AlteredBatch):
    """Remembers the bound that a batch gave, for those that give none."""

    @override
    async def alter(self, log: LogId, batch: Batch) -> Batch:
        if batch.keep_last is not None:
            self.note(log, batch.keep_last)
            return batch
        return altered(batch, keep_last=self.noted(log, None) if batch.records else None)


class HeadsEvictNothing(AlteredBatch):
    """Looks at the bound where it stores a record."""

    @override
    async def alter(self, log: LogId, batch: Batch) -> Batch:
        if batch.records or await self.inner.read(log, Range(limit=0)) is None:
            return batch
        return altered(batch, keep_last=None)


class CountsTheEvicted(AlteredState):
    """Counts the entries of evicted records for ever."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        before = await self.inner.read(log)
        answer = await self.inner.append(log, batch)
        after = await self.inner.read(log)
        if before and after and not answer.duplicate:
            sent = sum(one.entry_count for one in batch.records)
            grown = after.state.entry_count - before.state.entry_count
            known = {one.key for one in before.records} & set(batch.record_keys)
            evicts = batch.keep_last is not None and not known
            self.note(log, self.noted(log, 0) + (sent - grown if evicts else 0))
        return answer

    @override
    def alter(self, log: LogId, state: LogState) -> LogState:
        return altered(state, entry_count=state.entry_count + self.noted(log, 0))


class EvictedKeysStayTaken(ScopedMutation):
    """Remembers the keys of records that were evicted."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        taken: frozenset[str] = self.noted(log, frozenset[str]())
        if batch.record_keys and set(batch.record_keys) <= taken:
            return Applied(revision=1, seq=1, duplicate=True)
        before = await self.inner.read(log)
        answer = await self.inner.append(log, batch)
        after = await self.inner.read(log)
        here = {one.key for one in (after.records if after else ())}
        gone = {one.key for one in (before.records if before else ())} - here
        self.note(log, taken | {key for key in gone if ":" not in key})
        return answer


class AnnouncesTheLastSeq(Renumbered):
    """Gives the last seq for the next."""

    @override
    def alter(self, log: LogId, state: LogState) -> LogState:
        state = super().alter(log, state)
        return altered(state, next_seq=state.next_seq - 1)


class NumbersFromTheLastThere(Renumbered):
    """Gives a record the seq after the last that is there."""

    @override
    def number(self, log: LogId, present: list[int], last: int) -> int:
        return max(present, default=0) + 1


class NumbersFromTheCount(Renumbered):
    """Gives a record a seq that counts the records appended, less those evicted."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        before = await self.inner.read(log)
        answer = await super().append(log, batch)
        after = await self.inner.read(log)
        if before and after and not answer.duplicate and batch.keep_last is not None:
            first = after.records[0].seq
            gone = sum(one.seq < first for one in before.records)
            self.note(log, self.noted(log, 0) + gone)
        return answer

    @override
    def number(self, log: LogId, present: list[int], last: int) -> int:
        gone: int = self.noted(log, 0)
        return last + 1 - min(gone, last)


async def keeps_all_of_a_large_batch(place: Tracked) -> bool:
    """Append two records and ask that one may stay."""
    store = (await place.connect()).log_store
    await store.append(log(), batch(b"a", b"b", keep_last=1))
    return await datas_in(store) != [b"b"]


async def evicts_unasked(place: Tracked) -> bool:
    """Append without a bound after a batch that gave one."""
    store = (await place.connect()).log_store
    await store.append(log(), batch(b"a", keep_last=1))
    await store.append(log(), batch(b"b"))
    return await datas_in(store) != [b"a", b"b"]


async def evicts_nothing_with_a_head(place: Tracked) -> bool:
    """Give a bound with a head alone."""
    store = (await place.connect()).log_store
    await store.append(log(), batch(b"a", b"b"))
    await store.append(log(), Batch(head=b"h", keep_last=1))
    return await datas_in(store) != [b"b"]


async def counts_what_was_evicted(place: Tracked) -> bool:
    """Evict a record and count the entries."""
    store = (await place.connect()).log_store
    await store.append(log(), batch(b"a"))
    await store.append(log(), batch(b"b", keep_last=1))
    found = await store.read(log())
    return found is not None and found.state.entry_count != 1


async def keeps_an_evicted_key(place: Tracked) -> bool:
    """Store the key of an evicted record again."""
    store = (await place.connect()).log_store
    await store.append(log(), keyed("a"))
    await store.append(log(), altered(keyed("b"), keep_last=1))
    await store.append(log(), keyed("a"))
    return await keys_in(store) != ["b", "a"]


async def announces_a_taken_seq(place: Tracked) -> bool:
    """Compare next_seq with the seq of the last record."""
    store = (await place.connect()).log_store
    await store.append(log(), batch(b"a"))
    found = await store.read(log())
    return found is not None and found.state.next_seq <= found.records[-1].seq


async def uses_a_dropped_seq_again(place: Tracked) -> bool:
    """Append, drop it, append again, and compare the seqs."""
    store = (await place.connect()).log_store
    first = await store.append(log(), batch(b"a"))
    await store.rewrite(log(), Rewrite(expected_revision=first.revision, drop_after=0))
    return (await store.append(log(), batch(b"b"))).seq <= first.seq


async def uses_an_evicted_seq_again(place: Tracked) -> bool:
    """Append three times with a bound of one, and compare the seqs."""
    store = (await place.connect()).log_store
    seqs = [(await store.append(log(), batch(b"a", keep_last=1))).seq for _ in range(3)]
    return seqs != sorted(set(seqs))


MUTANTS = (
    wrong(
        "evicts before it stores",
        EvictsBeforeItStores,
        keeps_all_of_a_large_batch,
        fails="LOG-KEEP-001",
        says="A batch with keep_last leaves the newest so many records, of its own ones, too.",
        provenance="a trim before the insert in place of after it",
    ),
    wrong(
        "remembers a batch's bound",
        KeepsTheBound,
        evicts_unasked,
        fails="LOG-KEEP-002",
        says="A batch without keep_last evicts nothing.",
        provenance="a maximum length set for a stream once and for all",
    ),
    wrong(
        "heads evict nothing",
        HeadsEvictNothing,
        evicts_nothing_with_a_head,
        fails="LOG-KEEP-003",
        says="A batch without records evicts as well.",
        provenance="an early return where there is nothing to insert",
    ),
    wrong(
        "counts evicted entries",
        CountsTheEvicted,
        counts_what_was_evicted,
        fails="LOG-KEEP-004",
        says="After an eviction the state counts the entries that are left.",
        provenance="a counter that the delete beside it forgets",
    ),
    wrong(
        "evicted keys stay taken",
        EvictedKeysStayTaken,
        keeps_an_evicted_key,
        fails="LOG-KEEP-005",
        says="The key of a record that was evicted may be stored again.",
        provenance="redis-developer/langgraph-redis#13",
    ),
    wrong(
        "announces the last seq",
        AnnouncesTheLastSeq,
        announces_a_taken_seq,
        fails="LOG-SEQ-001",
        says="No record's seq is at or above the log's next_seq.",
        provenance="the last number used, kept where the next one is asked for",
    ),
    wrong(
        "numbers from the last record there",
        NumbersFromTheLastThere,
        uses_a_dropped_seq_again,
        fails="LOG-SEQ-002",
        says="The seq of a record that a rewrite dropped is never given to another.",
        provenance="SELECT max(seq) + 1",
    ),
    wrong(
        "numbers from the count of records",
        NumbersFromTheCount,
        uses_an_evicted_seq_again,
        fails="LOG-SEQ-003",
        says="The seq of a record that was evicted is never given to another.",
        provenance="SELECT count(*) + 1",
    ),
)
