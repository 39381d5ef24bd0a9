"""Wrong log stores: what a read gives, and of which records."""

from typing_extensions import override

from durably.logstore import ALL, Log, LogId, LogState, Range
from durably_conformance.building import batch, log
from durably_conformance.selftest.altering import AlteredLog, AlteredRange, altered
from durably_conformance.selftest.mutants_logstore_ranges import count
from durably_conformance.selftest.sparing import ScopedMutation, wrong
from durably_conformance.selftest.tracking import Tracked

NOTHING = LogState(
    revision=0,
    epoch=0,
    next_seq=1,
    record_count=0,
    entry_count=0,
    head=None,
    created_at=0.0,
    updated_at=0.0,
)


class MissingIsEmpty(ScopedMutation):
    """Gives the state of a log that is not there as that of an empty one."""

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        found = await self.inner.read(log, span)
        return Log(state=NOTHING, records=()) if found is None and span.limit == 0 else found


class NoKeysIsAll(AlteredRange):
    """Takes an empty set of keys for none given."""

    @override
    def alter(self, span: Range) -> Range:
        return altered(span, keys=span.keys or None)


class CountsGoWithData(AlteredLog):
    """Keeps the entry_count with the data, and reads without both."""

    @override
    def alter(self, found: Log, span: Range) -> Log:
        if span.with_data:
            return found
        return altered(found, records=tuple(altered(one, entry_count=0) for one in found.records))


class LimitFirst(AlteredLog):
    """Applies a limit before it looks at the keys."""

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        found = await self.inner.read(log, altered(span, keys=None))
        if found is None or span.keys is None:
            return found
        records = tuple(one for one in found.records if one.key in span.keys)
        return altered(found, records=records)


class CountsWhatItRead(AlteredLog):
    """Counts the records it read in place of the log's."""

    @override
    def alter(self, found: Log, span: Range) -> Log:
        count = len(found.records) or found.state.record_count
        return altered(found, state=altered(found.state, record_count=count))


async def reads_what_is_not_there(place: Tracked) -> bool:
    """Read the state of no log."""
    return await (await place.connect()).log_store.read(log(), Range(limit=0)) is not None


async def reads_all_for_no_keys(place: Tracked) -> bool:
    """Read the records of no keys."""
    return await count(place, Range(keys=frozenset())) != 0


async def counts_nothing_without_data(place: Tracked) -> bool:
    """Read a record without data."""
    store = (await place.connect()).log_store
    await store.append(log(), batch(b"a"))
    found = await store.read(log(), Range(with_data=False))
    return found is not None and found.records[0].entry_count != 1


async def limits_what_it_does_not_give(place: Tracked) -> bool:
    """Read one record of a key that is not the first."""
    return await count(place, Range(keys=frozenset({"b"}), limit=1)) != 1


async def counts_the_range(place: Tracked) -> bool:
    """Read one record and look how many the log has."""
    store = (await place.connect()).log_store
    await store.append(log(), batch(b"a", b"b"))
    found = await store.read(log(), Range(limit=1))
    return found is not None and found.state.record_count != 2


MUTANTS = (
    wrong(
        "a missing log is an empty one",
        MissingIsEmpty,
        reads_what_is_not_there,
        fails="LOG-READ-001",
        says="A log that is not there reads as None, whatever is asked of it.",
        provenance="HGETALL of a key that does not exist",
    ),
    wrong(
        "no keys are all keys",
        NoKeysIsAll,
        reads_all_for_no_keys,
        fails="LOG-READ-006",
        says="A range of no keys reads no record.",
        provenance="langchain-ai/langgraphjs#2504",
    ),
    wrong(
        "reads entry_counts with the data alone",
        CountsGoWithData,
        counts_nothing_without_data,
        fails="LOG-READ-007",
        says="Without data everything else of a record comes back.",
        provenance="a record kept as one blob that is not read",
    ),
    wrong(
        "limits before it selects",
        LimitFirst,
        limits_what_it_does_not_give,
        fails="LOG-READ-008",
        says="A limit counts only the records that bounds and keys select.",
        provenance="openai/openai-agents-python#3174",
    ),
    wrong(
        "counts the records it read",
        CountsWhatItRead,
        counts_the_range,
        fails="LOG-READ-009",
        says="The state that comes with a range is the whole log's.",
        provenance="a count taken from the page at hand",
    ),
)
