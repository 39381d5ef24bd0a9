"""Backends that do not mark their format, or do not mind another one."""

import asyncio
from typing import Any

import msgspec
from typing_extensions import override

from durably import LogStore, SchemaTooNew, StorageBusy
from durably.logstore import ALL, Applied, Batch, Log, LogId, Range
from durably_conformance.building import said
from durably_conformance.planting import FORMAT_LOG, format_of, plant_format
from durably_conformance.selftest.delegating import StoreMutation
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class TakesAnyFormat(StoreMutation):
    """Says that the format is the one it knows, whatever it is."""

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        found = await self.inner.read(log, span)
        if log != FORMAT_LOG or found is None or b"000" not in (found.state.head or b""):
            return found
        state = msgspec.structs.replace(found.state, head=b'{"format":1}')
        return msgspec.structs.replace(found, state=state)


class MarksNothing(StoreMutation):
    """Marks a fresh storage with the format 0."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        if log == FORMAT_LOG and batch.expected_revision == 0:
            batch = msgspec.structs.replace(batch, head=b'{"format":0}')
        return await self.inner.append(log, batch)


class OneOpener(StoreMutation):
    """Gives up where eight opened the storage before anything was in it."""

    def __init__(self, inner: LogStore, shared: dict[str, Any]) -> None:
        super().__init__(inner, shared)
        shared["opened"] = shared.get("opened", 0) + 1

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        found = await self.inner.read(log, span)
        if log == FORMAT_LOG and found is None and self.shared["opened"] == 8:
            raise StorageBusy("the schema is being made by somebody else")
        return found


async def takes_a_newer_format(place: Tracked) -> bool:
    """Mark the storage as one of a newer version, and write to it."""
    handle = await place.connect()
    await handle.sessions.append("s", said("a"))
    await plant_format(handle, 9000)
    try:
        await (await place.connect()).sessions.append("s", said("b"))
    except SchemaTooNew:
        return False
    return True


async def marks_nothing(place: Tracked) -> bool:
    """Write, and look at the mark."""
    handle = await place.connect()
    await handle.sessions.append("s", said("a"))
    return await format_of(handle) == 0


async def lets_one_open(place: Tracked) -> bool:
    """Open eight, and use them all."""
    handles = [await place.connect() for _ in range(8)]
    calls = (one.sessions.append("s", said("a")) for one in handles)
    answers = await asyncio.gather(*calls, return_exceptions=True)
    return any(isinstance(one, StorageBusy) for one in answers)


MUTANTS = (
    Mutant(
        name="a newer format is taken for the known one",
        says="Where a newer version wrote, every operation is SchemaTooNew.",
        fails=frozenset({"SCH-NEW-001"}),
        provenance="peters/horizon#397",
        harness=lambda: MemoryMutant(store=TakesAnyFormat),
        probe=takes_a_newer_format,
    ),
    Mutant(
        name="no format is marked",
        says="After the first write the storage says which format it has.",
        fails=frozenset({"SCH-MARK-001"}),
        provenance="a version constant that nobody set before the first release",
        harness=lambda: MemoryMutant(store=MarksNothing),
        probe=marks_nothing,
    ),
    Mutant(
        name="the eighth opener gives up",
        says="Eight that open an empty storage at once all write.",
        fails=frozenset({"SCH-OPEN-001"}),
        provenance="openai/openai-agents-python#4987",
        harness=lambda: MemoryMutant(store=OneOpener),
        probe=lets_one_open,
    ),
)
