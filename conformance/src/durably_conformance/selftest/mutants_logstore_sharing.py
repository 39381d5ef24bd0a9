"""Wrong log stores: what others see and do meanwhile."""

import asyncio

from typing_extensions import override

from durably.logstore import ALL, Applied, Batch, Log, LogId, NewRecord, Range, Rewrite
from durably_conformance.building import batch, log
from durably_conformance.logs import datas_in
from durably_conformance.selftest.altering import AlteredState, altered
from durably_conformance.selftest.sparing import ScopedMutation, wrong
from durably_conformance.selftest.tracking import Tracked


class HeadAfterRecords(AlteredState):
    """Writes the records of a large batch in one step and its head in another."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        found = await self.inner.read(log, Range(limit=0))
        if found is None or batch.head is None or len(batch.records) < 4:
            return await self.inner.append(log, batch)
        await self.inner.append(log, altered(batch, head=found.state.head))
        await asyncio.sleep(0)
        return await self.inner.append(log, Batch(head=batch.head, at=batch.at))


class RewritesTwice(ScopedMutation):
    """Replaces in one step and drops in another, when it has to do both for many records."""

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        if len(change.replace) < 3:
            return await self.inner.rewrite(log, change)
        first = altered(change, drop=frozenset(), key=f"{change.key} first")
        revision = (await self.inner.rewrite(log, first)).revision
        await asyncio.sleep(0)
        return await self.inner.rewrite(
            log, altered(change, replace={}, head=None, expected_revision=revision)
        )


class ReadsTwice(ScopedMutation):
    """Reads the head in one step and the records in another."""

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        before = await self.inner.read(log, Range(limit=0))
        await asyncio.sleep(0)
        found = await self.inner.read(log, span)
        if before is None or found is None:
            return found
        return altered(found, state=altered(found.state, head=before.state.head))


class WritesOneByOne(ScopedMutation):
    """Writes the records of a batch one by one, while others write."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        self.shared["writers"] = self.shared.get("writers", 0) + 1
        await asyncio.sleep(0)
        try:
            if self.shared["writers"] == 1 or batch.expected_revision is not None:
                return await self.inner.append(log, batch)
            for one in batch.records[:-1]:
                await self.inner.append(log, altered(batch, records=(one,), key=f"{one.key}"))
                await asyncio.sleep(0)
            return await self.inner.append(log, altered(batch, records=batch.records[-1:]))
        finally:
            self.shared["writers"] -= 1


class LosesUpdates(ScopedMutation):
    """Reads the whole log, and writes it back with the batch, while others do the same."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        writing: set[LogId] = self.shared.setdefault("writing", set())
        if log in writing and len(batch.records) > 2:
            return await self.inner.append(log, Batch(head=b"", at=batch.at))
        writing.add(log)
        await asyncio.sleep(0)
        answer = await self.inner.append(log, batch)
        writing.discard(log)
        return answer


class LooksUpThenInserts(ScopedMutation):
    """Looks in one step whether it knows a batch, and stores it in another."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        underway: set[str] = self.shared.setdefault("underway", set())
        if batch.key in underway:
            fresh = [NewRecord(data=one.data) for one in batch.records]
            return await self.inner.append(log, Batch(records=tuple(fresh), head=batch.head))
        underway.add(batch.key)
        await asyncio.sleep(0)
        try:
            return await self.inner.append(log, batch)
        finally:
            underway.discard(batch.key)


async def _seen_meanwhile(place: Tracked) -> list[int]:
    """Append four records and a head, again and again, and return what sums a reader sees."""
    one, other = [(await place.connect()).log_store for _ in range(2)]
    await one.append(log(), batch(*(b"0",) * 4, head=b"0"))

    async def write() -> None:
        for number in range(1, 4):
            await one.append(log(), batch(*(b"0",) * 4, head=b"%d" % number))

    running, seen = asyncio.ensure_future(write()), list[int]()
    while not running.done():
        found = await other.read(log())
        if found is not None:
            seen.append(len(found.records) - 4 * int(found.state.head or b"0"))
        await asyncio.sleep(0)
    return seen


async def shows_half_an_append(place: Tracked) -> bool:
    """Look at a log while another handle appends to it."""
    return set(await _seen_meanwhile(place)) != {4}


async def shows_half_a_rewrite(place: Tracked) -> bool:
    """Look at a log while another handle rewrites it."""
    store = (await place.connect()).log_store
    now = await store.append(log(), batch(b"0", b"0", b"0", b"0"))
    new = dict.fromkeys(range(1, 4), NewRecord(data=b"1"))
    change = Rewrite(expected_revision=now.revision, replace=new, drop=frozenset({4}))
    running, seen = asyncio.ensure_future(store.rewrite(log(), change)), {b"0000"}
    while not running.done():
        seen.add(b"".join(data or b"" for data in await datas_in(store)))
        await asyncio.sleep(0)
    return not seen <= {b"0000", b"111"}


async def _stored_at_once(place: Tracked, one: Batch, other: Batch) -> list[bytes | None]:
    """Append two batches at once, and return what is stored."""
    stores = [(await place.connect()).log_store for _ in range(2)]
    two = zip(stores, (one, other), strict=True)
    await asyncio.gather(*(store.append(log(), each) for store, each in two))
    return await datas_in(stores[0])


async def mixes_two_batches(place: Tracked) -> bool:
    """Append two batches at once, and see whether their records lie together."""
    found = await _stored_at_once(place, batch(*(b"a",) * 3), batch(*(b"b",) * 3))
    return found not in ([b"a"] * 3 + [b"b"] * 3, [b"b"] * 3 + [b"a"] * 3)


async def loses_a_batch(place: Tracked) -> bool:
    """Append two batches at once, and count."""
    return len(await _stored_at_once(place, batch(*(b"a",) * 3), batch(*(b"b",) * 3))) != 6


async def stores_one_batch_twice(place: Tracked) -> bool:
    """Send one batch twice at once, and count."""
    one = batch(b"a")
    return len(await _stored_at_once(place, one, one)) != 1


MUTANTS = (
    wrong(
        "writes the head after the records",
        HeadAfterRecords,
        shows_half_an_append,
        fails="LOG-ATOM-001",
        says="A reader sees all records of a batch together with its head, or none of it.",
        provenance="PostHog/posthog#34648",
    ),
    wrong(
        "rewrites in two steps",
        RewritesTwice,
        shows_half_a_rewrite,
        fails="LOG-ATOM-002",
        says="A reader sees everything a rewrite did, or none of it.",
        provenance="openai/openai-agents-python#4202",
    ),
    wrong(
        "reads in two steps",
        ReadsTwice,
        shows_half_an_append,
        fails="LOG-ATOM-001 LOG-ATOM-002",
        says="Head and records of a read are of one revision.",
        provenance="two SELECTs without a transaction around them",
    ),
    wrong(
        "writes records one by one",
        WritesOneByOne,
        mixes_two_batches,
        fails="LOG-CONC-001",
        says="Each of several batches appended at once lies together.",
        provenance="openai/openai-agents-python#2843",
    ),
    wrong(
        "loses one of two appends",
        LosesUpdates,
        loses_a_batch,
        fails="LOG-CONC-001",
        says="Of batches that several handles append at once none is lost.",
        provenance="agno-agi/agno#7479",
    ),
    wrong(
        "looks a batch up, then inserts it",
        LooksUpThenInserts,
        stores_one_batch_twice,
        fails="LOG-CONC-002",
        says="A batch that several handles send at once is stored once.",
        provenance="SELECT, and INSERT if there was nothing",
    ),
)
