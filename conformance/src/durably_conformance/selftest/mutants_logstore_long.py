"""Wrong log stores: what goes wrong once a log is long, and right as long as it is short."""

import asyncio

from typing_extensions import override

from durably import CorruptRecord
from durably.logstore import ALL, Applied, Batch, Log, LogId, NewRecord, Range, Rewrite
from durably_conformance.building import batch, log
from durably_conformance.logs import LONG, datas_in, fill_long, keys_in
from durably_conformance.selftest.altering import altered
from durably_conformance.selftest.delegating import StoreMutation
from durably_conformance.selftest.sparing import ScopedMutation, wrong
from durably_conformance.selftest.tracking import Tracked

__all__ = ["ForgetsOldKeys", "knows_no_old_batch"]

PIECE = 64 * 1024
NEAR = 40
"""Records of which a careless backend still knows everything."""


def is_long(found: Log | None) -> bool:
    """Whether a log does not fit into one piece."""
    return found is not None and sum(len(one.data or b"") for one in found.records) > PIECE


class NewestOfPieces(ScopedMutation):
    """Reads the newest from the pieces of a long log, and forgets those that are in none yet."""

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        whole = await self.inner.read(log)
        if whole is None or not (span.newest and is_long(whole)):
            return await self.inner.read(log, span)
        return await self.inner.read(log, altered(span, until=whole.records[-4].seq))


class ForgetsOldKeys(StoreMutation):
    """Knows the keys of a long log's newest records, and takes an older one for new."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        found = await self.inner.read(log)
        old = {one.key for one in found.records[:-NEAR]} if found and is_long(found) else set[str]()
        records = tuple(
            altered(one, key=f"{one.key} again") if one.key in old else one for one in batch.records
        )
        return await self.inner.append(log, altered(batch, records=records))


class ReadsInTwoSteps(ScopedMutation):
    """Reads the state of a long log first, and then its records."""

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        found = await self.inner.read(log, span)
        if found is None or not is_long(found):
            return found
        await asyncio.sleep(0)
        later = await self.inner.read(log, span)
        return found if later is None else altered(found, records=later.records)


class ReplacesTheNewest(ScopedMutation):
    """Looks for the records to be replaced among a long log's newest."""

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        found = await self.inner.read(log)
        if found is None or not is_long(found):
            return await self.inner.rewrite(log, change)
        near = {one.seq for one in found.records[-NEAR:]}
        replace = {seq: new for seq, new in change.replace.items() if seq in near}
        return await self.inner.rewrite(log, altered(change, replace=replace))


class EvictsWholePieces(ScopedMutation):
    """Evicts from a long log in pieces of eight records, and keeps the rest of the last one."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        bound = batch.keep_last
        if bound is None or not is_long(await self.inner.read(log)):
            return await self.inner.append(log, batch)
        return await self.inner.append(log, altered(batch, keep_last=-(-bound // 8) * 8))


class LeavesPieces(ScopedMutation):
    """Leaves a piece of a long log behind when that is deleted."""

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        was_long = is_long(await self.inner.read(log))
        done = await self.inner.delete(log, expected_revision=expected_revision)
        if done and was_long:
            await self.inner.append(LogId(kind="meta", id=f"of {log.id}"), Batch(head=b"piece"))
        return done


class GivesUp(ScopedMutation):
    """Says that a batch is in a long log where somebody else's came first, and stores nothing."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        before = await self.inner.read(log)
        if before is not None and is_long(before):
            await asyncio.sleep(0)
            now = await self.inner.read(log, Range(limit=0))
            if now is not None and now.state.revision != before.state.revision:
                return Applied(revision=now.state.revision, seq=now.state.next_seq - 1)
        return await self.inner.append(log, batch)


async def reads_no_newest(place: Tracked) -> bool:
    """Read the newest record of a long log."""
    store = (await place.connect()).log_store
    await fill_long(store)
    found = await store.read(LONG, Range(limit=1, newest=True))
    return found is None or [one.key for one in found.records] != ["09-11"]


async def knows_no_old_batch(place: Tracked) -> bool:
    """Send the first batch of a long log again."""
    store = (await place.connect()).log_store
    sent = await fill_long(store)
    return not (await store.append(LONG, sent[0])).duplicate


async def counts_what_it_does_not_read(place: Tracked) -> bool:
    """Read a long log while a batch is appended."""
    store = (await place.connect()).log_store
    await fill_long(store)
    both = store.read(LONG), store.append(LONG, batch(b"a"))
    found, _ = await asyncio.gather(*both, return_exceptions=True)
    return isinstance(found, CorruptRecord)


async def replaces_no_old_record(place: Tracked) -> bool:
    """Replace the first record of a long log."""
    store = (await place.connect()).log_store
    await fill_long(store)
    first = await store.read(LONG, Range(limit=1))
    if first is not None:
        new = {first.records[0].seq: NewRecord(data=b"new")}
        await store.rewrite(LONG, Rewrite(expected_revision=first.state.revision, replace=new))
    return (await datas_in(store, LONG))[0] != b"new"


async def keeps_too_many(place: Tracked) -> bool:
    """Keep one record of a long log."""
    store = (await place.connect()).log_store
    await fill_long(store)
    await store.append(LONG, Batch(head=b"", keep_last=1))
    return len(await keys_in(store, LONG)) != 1


async def leaves_a_piece(place: Tracked) -> bool:
    """Compare what lies there before a long log and after it."""
    store = (await place.connect()).log_store
    await store.append(log("stays"), batch(b"a"))
    before = await place.dump()
    await fill_long(store)
    await store.delete(LONG)
    return await place.dump() != before


async def loses_a_large_batch(place: Tracked) -> bool:
    """Append two batches to a long log at once."""
    one, other = (await place.connect()).log_store, (await place.connect()).log_store
    await fill_long(one)
    await asyncio.gather(one.append(LONG, batch(b"a")), other.append(LONG, batch(b"b")))
    return len(await keys_in(one, LONG)) != 122


MUTANTS = (
    wrong(
        "reads the newest of a long log from its pieces",
        NewestOfPieces,
        reads_no_newest,
        fails="LOG-LONG-001",
        if_long=True,
        says="The newest records are the newest, wherever they lie.",
        provenance="a read of sealed segments that leaves out the open one",
    ),
    wrong(
        "forgets the keys of a long log",
        ForgetsOldKeys,
        knows_no_old_batch,
        fails="LOG-LONG-002",
        if_long=True,
        says="A batch whose records are in the log is known after any number of changes.",
        provenance="a narrow form of a window of ids, as queues deduplicate by",
    ),
    wrong(
        "reads a long log in two steps",
        ReadsInTwoSteps,
        counts_what_it_does_not_read,
        fails="LOG-LONG-003",
        if_long=True,
        says="State and records are of one moment.",
        provenance="a narrow form of PostHog/posthog#34648",
    ),
    wrong(
        "replaces the newest records of a long log alone",
        ReplacesTheNewest,
        replaces_no_old_record,
        fails="LOG-LONG-004",
        if_long=True,
        says="A rewrite replaces every record that it names.",
        provenance="a rewrite of the open segment alone",
    ),
    wrong(
        "evicts whole pieces of a long log",
        EvictsWholePieces,
        keeps_too_many,
        fails="LOG-LONG-005",
        if_long=True,
        says="keep_last leaves no more records than it says.",
        provenance="XTRIM of Redis with ~, which removes whole nodes",
    ),
    wrong(
        "leaves a piece of a long log",
        LeavesPieces,
        leaves_a_piece,
        fails="LOG-LONG-006",
        if_long=True,
        says="A deleted log leaves nothing behind.",
        provenance="a narrow form of redis-developer/langgraph-redis#51",
    ),
    wrong(
        "gives up on a long log",
        GivesUp,
        loses_a_large_batch,
        fails="LOG-LONG-007",
        if_long=True,
        says="A batch that was acknowledged is in the log.",
        provenance="a compare-and-set whose failure nobody looks at",
    ),
)
