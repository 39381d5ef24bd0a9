"""How much is held at once of a log that moves: by its bytes, whatever its records are."""

import contextlib

import pytest

import durably
from builders import result, said
from disturbed import Wrapper
from durably import CopyConflict, MemoryLogStore, Storage
from durably._paging import PORTION_BYTES, PORTION_RECORDS
from durably._writing import Described, Place, Writer
from durably.logstore import ALL, Batch, LogId, NewRecord, Record
from exports import lines

LOG = LogId(kind="session", id="s")
KIB = 1024
SIZES = {
    "small": [300] * 1000,
    "of a part's size": [PORTION_BYTES // 64] * 150,
    "large": [1500 * KIB] * 20,
    "larger than a part": [PORTION_BYTES + 1] * 4,
    "growing slowly": [int(20_000 * 1.005**number) for number in range(700)],
    "one large among small": [300] * 40 + [3000 * KIB] + [300] * 200,
}


class Weighed(Wrapper):
    """Notes of each read how many records it gave, and their bytes; of each append the same."""

    def __init__(self, store):
        super().__init__(store)
        self.reads = []
        self.appends = []

    async def read(self, log, span=ALL):
        stored = await super().read(log, span)
        if log.kind == LOG.kind and stored is not None and span.with_data:
            self.reads.append(_weight(stored.records))
        return stored

    async def append(self, log, batch):
        if log.kind == LOG.kind:
            self.appends.append(_weight(batch.records))
        return await super().append(log, batch)


def _weight(records):
    return len(records), sum(len(one.data) for one in records)


@pytest.fixture(params=SIZES.values(), ids=SIZES)
async def sizes(request):
    return request.param


@pytest.fixture
async def weighed(sizes):
    """A log store with a log of records of such sizes, all of one time."""
    store = Weighed(MemoryLogStore())
    async with Storage(store) as storage:
        for number, size in enumerate(sizes):
            record = NewRecord(key=f"r{number}", data=b'{"entries":[],"x":"%s"}' % (b"x" * size))
            await store.store.append(LOG, Batch(records=(record,), at=1.5))
        yield store, storage


def _check(moved, sizes):
    """Each part is of some records and some megabytes, or one record; all of it moves once."""
    largest = max(sizes) + 100
    for records, size in moved:
        assert records <= PORTION_RECORDS
        assert size <= max(PORTION_BYTES, largest) * 1.2
    assert sum(records for records, _ in moved) == len(sizes)
    least = max(len(sizes) / PORTION_RECORDS, sum(sizes) / PORTION_BYTES)
    assert len(moved) <= 2 * least + 6


async def test_a_copy_reads_and_writes_in_parts(weighed, sizes):
    """No read and no append of a copy has more than some megabytes, or is of one record."""
    store, storage = weighed
    there = Weighed(MemoryLogStore())
    async with Storage(there) as target:
        assert (await storage.copy_to(target)).records == len(sizes)
        _check(store.reads, sizes)
        assert sum(records for records, _ in there.appends) == len(sizes)
        for records, size in there.appends:
            assert size <= PORTION_BYTES or records == 1


async def test_an_export_reads_in_parts(weighed, sizes):
    """No read of an export gives more than some megabytes, or it is of one record."""
    store, storage = weighed
    assert len(await lines(storage)) == len(sizes) + 3
    _check(store.reads, sizes)


async def test_an_import_compares_in_parts(weighed, sizes):
    """What is there already is read in such parts, each record once; what is not there never."""
    store, storage = weighed
    found = await lines(storage)
    store.reads.clear()
    assert (await storage.import_lines(found)).known == len(sizes)
    _check(store.reads, sizes)
    there = Weighed(MemoryLogStore())
    async with Storage(there) as target:
        assert (await target.import_lines(found)).records == len(sizes)
        assert there.reads == []


async def test_an_import_holds_no_more_than_a_part(weighed, sizes):
    """Of the lines taken, those not yet stored are some megabytes at most, and the one in hand."""
    _, storage = weighed
    found = await lines(storage)
    there = Weighed(MemoryLogStore())
    most = 0

    def given():
        nonlocal most
        taken = 0
        for line in found:
            most = max(most, taken - sum(size for _, size in there.appends))
            taken += len(line)
            yield line

    async with Storage(there) as target:
        await target.import_lines(given())
    overhead = 100 * (len(found) + 1)
    assert most <= PORTION_BYTES + max(sizes) + overhead
    assert all(records <= PORTION_RECORDS for records, _ in there.appends)


async def test_many_small_records_come_64_at_a_time():
    """A log of small records is soon read in the largest parts there are."""
    store = Weighed(MemoryLogStore())
    async with Storage(store) as storage:
        for number in range(300):
            await storage.sessions.append("s", said("a"), run_id=f"r{number}")
        await lines(storage)
    assert [records for records, _ in store.reads] == [1, 4, 16, 64, 64, 64, 64, 23]


async def test_large_records_behind_small_ones_are_noticed_at_once():
    """Where records become large without warning one part is large, and the next one is not."""
    store = Weighed(MemoryLogStore())
    async with Storage(store) as storage:
        for number in range(160):
            text = "x" * (200 * KIB if number >= 21 else 1)
            await storage.sessions.append("s", said(text), run_id=f"r{number}")
        await lines(storage)
    assert [records for records, _ in store.reads] == [1, 4, 16, 64, 20, 20, 20, 15]


async def test_records_that_were_removed_end_no_log():
    """Gaps in the numbers of records, at the end too, are no missing records."""
    async with durably.open("memory://") as here, durably.open("memory://") as there:
        for number in range(90):
            await here.sessions.append("s", [result("c", "x" * number)], run_id=f"r{number}")
        await here.sessions.rewind("s", keep_entries=70)
        assert (await here.copy_to(there)).records == 70
        assert await lines(there) == await lines(here)
        assert (await here.copy_to(there)).known == 70


class Removed(Wrapper):
    """Lets the log that is written go before its n-th append."""

    def __init__(self, store, number):
        super().__init__(store)
        self._left = number

    async def append(self, log, batch):
        self._left -= log.kind == LOG.kind
        if self._left == 0:
            await self.store.delete(log)
        return await super().append(log, batch)


@pytest.mark.parametrize("way", ["copy", "import"])
@pytest.mark.parametrize("catalogued", [True, False])
async def test_what_is_deleted_in_the_target_meanwhile_is_no_half_log(way, catalogued):
    """Where the target's log goes between two parts, no part of it is written as if it were all."""
    async with durably.open("memory://") as here:
        if catalogued:
            await here.catalog.create("s")
        for number in range(10):
            entries = [result("c", f"{number}" * 1_000_000)]
            await here.sessions.append("s", entries, run_id=f"r{number}")
        found = await lines(here)
        for number in range(1, 13):
            inner = MemoryLogStore()
            async with (
                contextlib.aclosing(Storage(Removed(inner, number))) as target,
                Storage(inner) as there,
            ):
                try:
                    await (here.copy_to(target) if way == "copy" else target.import_lines(found))
                except CopyConflict:
                    assert number > 1
                stored = [one.run_id for one in await there.sessions.segments("s")]
                assert stored == [f"r{number}" for number in range(len(stored))]
                await here.copy_to(there)
                assert await lines(there) == found


async def test_nothing_comes_after_what_somebody_else_wrote_in_between():
    """Another copy's record and then a third one's: what is left does not follow that one."""
    async with durably.open("memory://") as here:
        for number in range(4):
            await here.sessions.append("s", said(f"{number}"), run_id=f"r{number}")
        first, second, *_ = (await here.log_store.read(LOG)).records
        inner = MemoryLogStore()

        class Intruded(Wrapper):
            async def append(self, log, batch):
                if [one.key for one in batch.records] == ["r1"]:
                    record = NewRecord(key=second.key, data=second.data)
                    await inner.append(log, Batch(records=(record,), at=second.stored_at))
                    await inner.append(log, Batch(records=(NewRecord(data=b"{}", key="x"),)))
                return await super().append(log, batch)

        async with Storage(inner) as there, contextlib.aclosing(Storage(Intruded(inner))) as target:
            with pytest.raises(CopyConflict):
                await here.copy_to(target)
            stored = (await there.log_store.read(LOG)).records
            assert [one.key for one in stored] == [first.key, second.key, "x"]


class Counting(list):
    """Counts how many of its items were looked at or copied."""

    count = 0

    def __getitem__(self, key):
        found = super().__getitem__(key)
        self.count += len(found) if isinstance(key, slice) else 1
        return found

    def __iter__(self):
        self.count += len(self)
        return super().__iter__()


async def test_a_batch_looks_at_nothing_but_its_own_records():
    """What is known of the records before is not gone through again for each batch."""
    async with contextlib.aclosing(MemoryLogStore()) as store:
        writer = await Writer.open(store, LOG, Described())
        writer._places = known = Counting()
        records = [
            Record(seq=n, key=f"r{n}", entry_count=1, stored_at=n, revision=0, data=b"{}")
            for n in range(2000)
        ]
        for start in range(0, 2000, 10):
            assert writer.skip([Place.of(records[start])], after=start) == 0
            await writer.write(records[start : start + 10], after=start)
        assert writer._places is known
        assert len(known) == 2000
        assert known.count <= 2000
        assert len((await store.read(LOG)).records) == 2000
