"""Wrong log stores: where a range begins and ends."""

from typing_extensions import override

from durably.logstore import Batch, Log, NewRecord, Range
from durably_conformance.building import batch, log
from durably_conformance.logs import keyed
from durably_conformance.selftest.altering import AlteredLog, AlteredRange, altered
from durably_conformance.selftest.sparing import wrong
from durably_conformance.selftest.tracking import Tracked


class AfterInclusive(AlteredRange):
    """Begins with the record at ``after``."""

    @override
    def alter(self, span: Range) -> Range:
        return altered(span, after=max(0, span.after - 1))


class UntilExclusive(AlteredRange):
    """Ends before the record at ``until``."""

    @override
    def alter(self, span: Range) -> Range:
        return altered(span, until=None if span.until is None else max(0, span.until - 1))


class ZeroIsAll(AlteredRange):
    """Asks whether a limit is true, not whether there is one."""

    @override
    def alter(self, span: Range) -> Range:
        return span if span.newest else altered(span, limit=span.limit or None)


class NewestDescending(AlteredLog):
    """Gives the newest records in the order in which it finds them."""

    @override
    def alter(self, found: Log, span: Range) -> Log:
        return altered(found, records=found.records[::-1] if span.newest else found.records)


class NewestIsOldest(AlteredRange):
    """Takes no notice of ``newest``."""

    @override
    def alter(self, span: Range) -> Range:
        return altered(span, newest=False)


class EntriesAreRecords(AlteredRange):
    """Counts records where entries are to be counted."""

    @override
    def alter(self, span: Range) -> Range:
        if span.entry_limit is None:
            return span
        return altered(span, limit=span.entry_limit, entry_limit=None)


class ThirtyTwoBits(AlteredRange):
    """Keeps a bound in 32 bits."""

    @override
    def alter(self, span: Range) -> Range:
        until = None if span.until is None else span.until % 2**32
        return altered(span, after=span.after % 2**32, until=until)


class AThousandAtMost(AlteredRange):
    """Reads a thousand records where it was asked for all."""

    @override
    def alter(self, span: Range) -> Range:
        return altered(span, limit=1000 if span.limit is None else span.limit)


async def count(place: Tracked, span: Range, *sent: Batch) -> int:
    """Append and return how many records a range reads."""
    store = (await place.connect()).log_store
    for one in sent or (keyed("a"), keyed("b"), keyed("c")):
        await store.append(log(), one)
    found = await store.read(log(), span)
    return -1 if found is None else len(found.records)


async def reads_what_came_before(place: Tracked) -> bool:
    """Read after the seq of the first record of two."""
    store = (await place.connect()).log_store
    first = (await store.append(log(), batch(b"a"))).seq
    await store.append(log(), batch(b"b"))
    found = await store.read(log(), Range(after=first))
    return found is not None and len(found.records) != 1


async def leaves_out_the_end(place: Tracked) -> bool:
    """Read until the seq of the only record."""
    store = (await place.connect()).log_store
    first = (await store.append(log(), batch(b"a"))).seq
    found = await store.read(log(), Range(until=first))
    return found is not None and len(found.records) != 1


async def reads_all_for_none(place: Tracked) -> bool:
    """Read with a limit of 0."""
    return await count(place, Range(limit=0)) != 0


async def gives_the_newest_first(place: Tracked) -> bool:
    """Read the newest two records."""
    store = (await place.connect()).log_store
    await store.append(log(), keyed("a", "b"))
    found = await store.read(log(), Range(newest=True))
    return found is not None and [one.key for one in found.records] != ["a", "b"]


async def gives_the_oldest_for_the_newest(place: Tracked) -> bool:
    """Read the newest record of two."""
    store = (await place.connect()).log_store
    await store.append(log(), keyed("a", "b"))
    found = await store.read(log(), Range(newest=True, limit=1))
    return found is not None and found.records[0].key != "b"


async def counts_records_for_entries(place: Tracked) -> bool:
    """Read as many records as hold two entries, where the first does."""
    two = NewRecord(data=b"", entry_count=2)
    return await count(place, Range(entry_limit=2), Batch(records=(two,)), batch(b"b")) != 1


async def wraps_around(place: Tracked) -> bool:
    """Read after a number that no seq reaches."""
    return await count(place, Range(after=2**32)) != 0


async def stops_at_a_thousand(place: Tracked) -> bool:
    """Read 1,001 records, the last two alone."""
    many = keyed(*map(str, range(1001)))
    return await count(place, Range(until=2**40), many) != 1001


MUTANTS = (
    wrong(
        "after is inclusive",
        AfterInclusive,
        reads_what_came_before,
        fails="LOG-READ-002",
        says="A range begins behind after.",
        provenance="google/adk-python#911",
    ),
    wrong(
        "until is exclusive",
        UntilExclusive,
        leaves_out_the_end,
        fails="LOG-READ-002",
        says="A range ends with until.",
        provenance="a slice of a list",
    ),
    wrong(
        "a limit of 0 is no limit",
        ZeroIsAll,
        reads_all_for_none,
        fails="LOG-READ-003",
        says="A limit of 0 gives no record.",
        provenance="openai/openai-agents-python#3960",
    ),
    wrong(
        "the newest come first",
        NewestDescending,
        gives_the_newest_first,
        fails="LOG-READ-004",
        says="The newest records come ascending.",
        provenance="ORDER BY seq DESC LIMIT ?, not turned round afterwards",
    ),
    wrong(
        "the oldest in place of the newest",
        NewestIsOldest,
        gives_the_oldest_for_the_newest,
        fails="LOG-READ-004 LOG-READ-005 LOG-READ-008",
        says="With newest a limit gives the newest records.",
        provenance="yaalalabs/agent-kernel#739",
    ),
    wrong(
        "counts records for entries",
        EntriesAreRecords,
        counts_records_for_entries,
        fails="LOG-READ-005",
        says="An entry_limit counts the entries of records.",
        provenance="openai/openai-agents-python#3738",
    ),
    wrong(
        "keeps bounds in 32 bits",
        ThirtyTwoBits,
        wraps_around,
        fails="LOG-READ-010",
        says="A bound that no seq will reach is a number like any other.",
        provenance="a seq packed into half of a 64-bit key",
    ),
    wrong(
        "reads a thousand records at most",
        AThousandAtMost,
        stops_at_a_thousand,
        fails="LOG-READ-011",
        says="A read without a limit gives every record.",
        provenance="aws/bedrock-agentcore-sdk-python#206",
    ),
)
