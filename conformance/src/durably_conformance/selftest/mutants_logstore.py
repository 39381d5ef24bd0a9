"""Wrong log stores: what an append stores and answers."""

import unicodedata

import msgspec
from typing_extensions import override

from durably.logstore import Applied, Batch, Log, LogId, LogState, NewRecord, Range
from durably_conformance.building import batch, log
from durably_conformance.logs import keyed, keys_in
from durably_conformance.selftest.altering import AlteredBatch, AlteredLog, AlteredState, altered
from durably_conformance.selftest.sparing import ScopedMutation, wrong
from durably_conformance.selftest.tracking import Tracked


class CutsNulAtTheEnd(AlteredBatch):
    """Keeps data in a column of fixed width, filled up with NUL."""

    @override
    async def alter(self, log: LogId, batch: Batch) -> Batch:
        records = [altered(one, data=one.data.rstrip(b"\x00")) for one in batch.records]
        return altered(batch, records=tuple(records))


class CountsEmptyAsOne(AlteredState):
    """Counts at least one entry for each record."""

    @override
    def alter(self, log: LogId, state: LogState) -> LogState:
        return altered(state, entry_count=max(state.entry_count, state.record_count))


class WholeSeconds(AlteredBatch):
    """Keeps times in whole seconds."""

    @override
    async def alter(self, log: LogId, batch: Batch) -> Batch:
        return altered(batch, at=float(int(batch.at)))


class AnswersTheFirstSeq(ScopedMutation):
    """Answers with the seq of the first record it inserted."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        answer = await self.inner.append(log, batch)
        if answer.duplicate or not batch.records:
            return answer
        return altered(answer, seq=answer.seq - len(batch.records) + 1)


class LastRevisionForAll(AlteredLog):
    """Keeps no revision with a record, and gives the log's."""

    @override
    def alter(self, found: Log, span: Range) -> Log:
        records = [altered(one, revision=found.state.revision) for one in found.records]
        return altered(found, records=tuple(records))


class OrderedByTime(AlteredLog):
    """Orders records by the time they are stamped with."""

    @override
    def alter(self, found: Log, span: Range) -> Log:
        return altered(found, records=tuple(sorted(found.records, key=lambda one: one.stored_at)))


class NormalisesKeys(AlteredBatch):
    """Normalises the keys of records."""

    @override
    async def alter(self, log: LogId, batch: Batch) -> Batch:
        records = [
            altered(one, key=unicodedata.normalize("NFC", one.key or "")) for one in batch.records
        ]
        return altered(batch, records=tuple(records))


class NeedsARecord(AlteredBatch):
    """Makes a log by inserting a record, an empty one where there is none."""

    @override
    async def alter(self, log: LogId, batch: Batch) -> Batch:
        if batch.records or await self.inner.read(log) is not None:
            return batch
        return altered(batch, records=(NewRecord(data=b"", entry_count=0, key="first"),))


class ClearsTheHead(AlteredState):
    """Writes the whole row with each batch, the head included."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        head = b"no head" if batch.head is None else batch.head
        return await self.inner.append(log, altered(batch, head=head))

    @override
    def alter(self, log: LogId, state: LogState) -> LogState:
        return altered(state, head=None) if state.head == b"no head" else state


class EmptyIsNoHead(AlteredBatch):
    """Asks whether a head is true, not whether there is one."""

    @override
    async def alter(self, log: LogId, batch: Batch) -> Batch:
        found = await self.inner.read(log)
        if found is None or batch.head != b"":
            return batch
        return altered(batch, head=found.state.head)


async def cuts_data_short(place: Tracked) -> bool:
    """Store bytes that end with NUL and read them."""
    store = (await place.connect()).log_store
    await store.append(log(), batch(b"a\x00"))
    found = await store.read(log())
    return found is not None and found.records[0].data != b"a\x00"


async def counts_what_is_not_there(place: Tracked) -> bool:
    """Store a record of no entries, and look at the count."""
    store = (await place.connect()).log_store
    await store.append(log(), Batch(records=(NewRecord(data=b"", entry_count=0),)))
    found = await store.read(log())
    return found is not None and found.state.entry_count != 0


async def stamps_another_time(place: Tracked) -> bool:
    """Give a time and read it."""
    store = (await place.connect()).log_store
    await store.append(log(), batch(b"a", at=5.5))
    found = await store.read(log())
    return found is not None and found.records[0].stored_at != 5.5


async def answers_another_seq(place: Tracked) -> bool:
    """Append two records and compare the seq answered with the last one's."""
    store = (await place.connect()).log_store
    answer = await store.append(log(), batch(b"a", b"b"))
    found = await store.read(log())
    return found is not None and found.records[-1].seq != answer.seq


async def forgets_a_records_revision(place: Tracked) -> bool:
    """Append twice and look at the first record's revision."""
    store = (await place.connect()).log_store
    first = await store.append(log(), batch(b"a"))
    await store.append(log(), batch(b"b"))
    found = await store.read(log())
    return found is not None and found.records[0].revision != first.revision


async def orders_by_time(place: Tracked) -> bool:
    """Append while the clock goes back."""
    store = (await place.connect()).log_store
    await store.append(log(), msgspec.structs.replace(keyed("a"), at=9.0))
    await store.append(log(), msgspec.structs.replace(keyed("b"), at=5.0))
    return await keys_in(store) != ["a", "b"]


async def merges_two_forms(place: Tracked) -> bool:
    """Store two forms of one letter as keys."""
    store = (await place.connect()).log_store
    await store.append(log(), keyed("\u00e9"))
    await store.append(log(), keyed("e\u0301"))
    return len(await keys_in(store)) != 2


async def makes_up_a_record(place: Tracked) -> bool:
    """Make a log of a head and count its records."""
    store = (await place.connect()).log_store
    await store.append(log(), Batch(head=b"h"))
    return await keys_in(store) != []


async def loses_a_head(place: Tracked) -> bool:
    """Append without a head to a log that has one."""
    store = (await place.connect()).log_store
    await store.append(log(), Batch(head=b"h"))
    await store.append(log(), batch(b"a"))
    found = await store.read(log())
    return found is not None and found.state.head != b"h"


async def keeps_the_old_head(place: Tracked) -> bool:
    """Replace a head by an empty one."""
    store = (await place.connect()).log_store
    await store.append(log(), Batch(head=b"h"))
    await store.append(log(), Batch(head=b""))
    found = await store.read(log())
    return found is not None and found.state.head != b""


MUTANTS = (
    wrong(
        "cuts NUL from the end of data",
        CutsNulAtTheEnd,
        cuts_data_short,
        fails="LOG-APP-001",
        says="Records come back with the bytes they were given.",
        provenance="a BINARY column of fixed width",
    ),
    wrong(
        "counts a record of no entries as one",
        CountsEmptyAsOne,
        counts_what_is_not_there,
        fails="LOG-APP-002",
        says="A log's state counts the entries its records hold.",
        provenance="entry_count or 1",
    ),
    wrong(
        "keeps times in whole seconds",
        WholeSeconds,
        stamps_another_time,
        fails="LOG-APP-003",
        says="Times are the batches' own.",
        provenance="langchain-ai/langchain-azure#1057",
    ),
    wrong(
        "answers the first seq of a batch",
        AnswersTheFirstSeq,
        answers_another_seq,
        fails="LOG-APP-004",
        says="An append answers with the seq of the batch's last record.",
        provenance="the last insert id of a multi-row INSERT, which in MySQL is the first row's",
    ),
    wrong(
        "keeps no revision with a record",
        LastRevisionForAll,
        forgets_a_records_revision,
        fails="LOG-APP-005",
        says="A record carries the revision of the change that stored it.",
        provenance="a column left out and filled from the log's row on reading",
    ),
    wrong(
        "orders records by time",
        OrderedByTime,
        orders_by_time,
        fails="LOG-APP-006",
        says="Records are in the order in which they were appended.",
        provenance="openai/openai-agents-python#1900",
    ),
    wrong(
        "normalises keys of records",
        NormalisesKeys,
        merges_two_forms,
        fails="LOG-KEY-001",
        says="Keys of records that differ in anything are different.",
        provenance="file names on a file system that normalises Unicode",
    ),
    wrong(
        "makes a log with an empty record",
        NeedsARecord,
        makes_up_a_record,
        fails="LOG-HEAD-001",
        says="A head alone makes a log and adds no record.",
        provenance="a log that exists by its rows alone",
    ),
    wrong(
        "clears the head with each append",
        ClearsTheHead,
        loses_a_head,
        fails="LOG-HEAD-002",
        says="A batch without a head leaves the head as it is.",
        provenance="INSERT OR REPLACE of the whole row",
    ),
    wrong(
        "takes an empty head for none",
        EmptyIsNoHead,
        keeps_the_old_head,
        fails="LOG-HEAD-003",
        says="A head of no bytes is a head.",
        provenance="if batch.head: in place of is not None",
    ),
)
