"""Backends whose limits are not those they declare."""

from typing import Any

import msgspec
from typing_extensions import override

from durably import Limits, LogStore, RecordTooLarge
from durably.checks import check_size
from durably.logstore import ALL, Applied, Batch, Log, LogId, Range
from durably_conformance.building import batch, head, log, said
from durably_conformance.selftest.delegating import StoreMutation
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.noticing import logs_of
from durably_conformance.selftest.table import Mutant, Variant
from durably_conformance.selftest.tracking import Tracked

SMALL = Limits(record_bytes=2**18, head_bytes=2**15)


class CutsRecords(StoreMutation):
    """Cuts what is longer than a column of a test's log may be."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        if log.kind == "test":
            records = [
                msgspec.structs.replace(one, data=one.data[: 2**20 - 1]) for one in batch.records
            ]
            batch = msgspec.structs.replace(batch, records=tuple(records))
        return await self.inner.append(log, batch)


class CutsHeads(StoreMutation):
    """Cuts a head of a test's log to 65,535 bytes."""

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        found = await self.inner.read(log, span)
        if found is None or log.kind != "test" or found.state.head is None:
            return found
        state = msgspec.structs.replace(found.state, head=found.state.head[:65_535])
        return msgspec.structs.replace(found, state=state)


class SmallStore(StoreMutation):
    """Takes small records and heads, but for what is ``unchecked``: of a kind, one of the two."""

    unchecked: tuple[str, str] = ("", "")

    def __init__(self, inner: LogStore, shared: dict[str, Any]) -> None:
        super().__init__(inner, shared)
        kept = {} if self.unchecked[1] == "record" else {"record_bytes": SMALL.record_bytes}
        self.limits = Limits(**kept)

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        sizes = [("record", len(one.data), SMALL.record_bytes) for one in batch.records]
        sizes.append(("head", len(batch.head or b""), SMALL.head_bytes))
        for what, size, limit in sizes:
            if (log.kind, what) != self.unchecked:
                check_size(log, what, size, limit)
        return await self.inner.append(log, batch)


class UncheckedRecords(SmallStore):
    """Takes records of a run of any size."""

    unchecked = ("run", "record")


class UncheckedHeads(SmallStore):
    """Takes heads of a run of any size."""

    unchecked = ("run", "head")


class SmallLimits(StoreMutation):
    """Has small limits, which core keeps."""

    def __init__(self, inner: LogStore, shared: dict[str, Any]) -> None:
        super().__init__(inner, shared)
        self.limits = SMALL


async def cuts_a_record(place: Tracked) -> bool:
    """Store a mebibyte."""
    store = (await place.connect()).log_store
    await store.append(log(), batch(bytes(2**20)))
    stored = await store.read(log())
    return stored is not None and stored.records[0].data != bytes(2**20)


async def cuts_a_head(place: Tracked) -> bool:
    """Store 64 KiB."""
    store = (await place.connect()).log_store
    await store.append(log(), batch(head=bytes(2**16)))
    stored = await store.read(log())
    return stored is not None and stored.state.head != bytes(2**16)


async def takes_large_records(place: Tracked) -> bool:
    """Save more than was declared."""
    limit = place.harness.limits.record_bytes
    if limit > 2**20:
        return False
    checkpointer = (await place.connect()).checkpointer
    try:
        await checkpointer.append("r", said("x" * limit), head())
    except RecordTooLarge:
        return False
    return True


async def takes_large_heads(place: Tracked) -> bool:
    """Save a larger head than was declared."""
    checkpointer = (await place.connect()).checkpointer
    try:
        await checkpointer.append("r", [], head(output="x" * place.harness.limits.head_bytes))
    except RecordTooLarge:
        return False
    return True


MUTANTS = (
    Mutant(
        name="long records are cut",
        says="A record of exactly the declared limit is stored whole.",
        fails=frozenset({"LIM-LOG-001"}),
        provenance="MySQL without strict mode, which cuts what a column cannot hold",
        harness=lambda: MemoryMutant(store=CutsRecords, wrapped=logs_of("test")),
        probe=cuts_a_record,
    ),
    Mutant(
        name="long heads are cut",
        says="A head of exactly the declared limit is stored whole.",
        fails=frozenset({"LIM-LOG-002"}),
        provenance="a TEXT column of MySQL, which holds 65,535 bytes",
        harness=lambda: MemoryMutant(store=CutsHeads, wrapped=logs_of("test")),
        probe=cuts_a_head,
    ),
    Mutant(
        name="records of a run are not measured",
        says="Entries that take more than the declared limit are refused.",
        fails=frozenset({"LIM-REC-001"}),
        provenance="a limit that is checked in one of two write paths",
        harness=lambda: MemoryMutant(store=UncheckedRecords, limits=SMALL),
        probe=takes_large_records,
    ),
    Mutant(
        name="heads of a run are not measured",
        says="A run's head that takes more than the declared limit is refused.",
        fails=frozenset({"LIM-HEAD-001"}),
        provenance="a limit that is checked for records alone",
        harness=lambda: MemoryMutant(store=UncheckedHeads, limits=SMALL),
        probe=takes_large_heads,
    ),
)

VARIANTS = (
    Variant(
        name="small limits",
        says="It takes 256 KiB a record and 32 KiB a head.",
        harness=lambda: MemoryMutant("small", store=SmallLimits, limits=SMALL),
    ),
)
