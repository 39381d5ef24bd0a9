"""Backends that hide what they cannot read, or let it hide other things."""

from contextlib import suppress

from typing_extensions import override

from durably import (
    Checkpoint,
    CorruptRecord,
    Entry,
    Page,
    RunInfo,
    RunSnapshot,
    RunStatus,
    StorageBusy,
    UnknownEntryType,
)
from durably_conformance.building import snapshot
from durably_conformance.selftest.delegating import (
    CheckpointerMutation,
    SaverMutation,
    SessionMutation,
)
from durably_conformance.selftest.mutants_decoding import UNKNOWN, plant_x, run_of
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class BrokenEntryIsAbsence(CheckpointerMutation):
    """Says that there is no run where an entry of it is broken."""

    @override
    async def load(self, run_id: str) -> RunSnapshot | None:
        try:
            return await self.inner.load(run_id)
        except CorruptRecord as error:
            if error.index is None:
                raise
            return None


class BrokenRecordIsAbsence(CheckpointerMutation):
    """Says that there is no run where a record of it is broken."""

    @override
    async def load(self, run_id: str) -> RunSnapshot | None:
        try:
            return await self.inner.load(run_id)
        except CorruptRecord as error:
            if error.record is None or error.index is not None:
                raise
            return None


class ListsNothing(CheckpointerMutation):
    """Lists no run where the head of one is broken."""

    @override
    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        idle_for: float | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[RunInfo]:
        try:
            return await self.inner.runs(status=status, idle_for=idle_for, after=after, limit=limit)
        except CorruptRecord:
            return Page(items=())


class StaysAborted(SessionMutation):
    """Reads nothing any more, by this handle, after it met an entry of an unknown type."""

    aborted = False

    @override
    async def load(self, session_id: str) -> list[Entry]:
        if self.aborted:
            raise StorageBusy("the transaction is aborted")
        try:
            return await self.inner.load(session_id)
        except UnknownEntryType:
            self.aborted = True
            raise


class ReadsAllForOne(SaverMutation):
    """Decodes the whole thread to give one snapshot."""

    @override
    async def get(self, thread_id: str, seq: int) -> Checkpoint:
        found = await self.inner.get(thread_id, seq)
        await self.inner.list(thread_id, limit=1000)
        return found


async def hides_a_broken_entry(place: Tracked) -> bool:
    """Plant a broken entry."""
    return await run_of(place, b'{"entries":[17]}', b'{"turns":1}') is None


async def hides_a_broken_record(place: Tracked) -> bool:
    """Plant a broken record."""
    return await run_of(place, b"hello", b'{"turns":1}') is None


async def hides_a_broken_head(place: Tracked) -> bool:
    """Plant a broken head, and list."""
    handle = await place.connect()
    await plant_x(handle, "run", b'{"entries":[]}', head=b"{")
    try:
        return not (await handle.checkpointer.runs()).items
    except CorruptRecord:
        return False


async def stays_aborted(place: Tracked) -> bool:
    """Read what is unknown, then what is fine."""
    handle = await place.connect()
    await plant_x(handle, "session", UNKNOWN)
    with suppress(UnknownEntryType):
        await handle.sessions.load("x")
    try:
        return await handle.sessions.load("fine") != []
    except StorageBusy:
        return True


async def reads_all_for_one(place: Tracked) -> bool:
    """Get a snapshot beside an unknown one."""
    handle = await place.connect()
    await plant_x(handle, "thread", b'{"messages":[{"type":"hologram"}],"snapshot":{}}')
    saver = handle.checkpoint_saver()
    try:
        await saver.get("x", await saver.append("x", snapshot("a")))
    except UnknownEntryType:
        return True
    return False


MUTANTS = (
    Mutant(
        name="a run with a broken entry is absent",
        says="An entry that cannot be one is CorruptRecord.",
        fails=frozenset({"DEC-BROKEN-001"}),
        provenance="agno-agi/agno#7879",
        harness=lambda: MemoryMutant(checkpointer=BrokenEntryIsAbsence),
        probe=hides_a_broken_entry,
    ),
    Mutant(
        name="a run with a broken record is absent",
        says="Bytes that cannot be a record are CorruptRecord.",
        fails=frozenset({"DEC-BROKEN-002"}),
        provenance="agno-agi/agno#7879",
        harness=lambda: MemoryMutant(checkpointer=BrokenRecordIsAbsence),
        probe=hides_a_broken_record,
    ),
    Mutant(
        name="a broken head empties the listing",
        says="A run whose head cannot be read is CorruptRecord to list.",
        fails=frozenset({"DEC-BROKEN-003"}),
        provenance="agno-agi/agno#7879",
        harness=lambda: MemoryMutant(checkpointer=ListsNothing),
        probe=hides_a_broken_head,
    ),
    Mutant(
        name="a handle stays aborted",
        says="Beside one that cannot be read every other is.",
        fails=frozenset({"DEC-OTHER-001"}),
        provenance="a transaction that an error aborted and nobody rolled back",
        harness=lambda: MemoryMutant(sessions=StaysAborted),
        probe=stays_aborted,
    ),
    Mutant(
        name="one snapshot needs the whole thread",
        says="A snapshot with a message of an unknown type hides no other one.",
        fails=frozenset({"DEC-OTHER-002"}),
        provenance="a thread that is decoded whole and then searched",
        harness=lambda: MemoryMutant(saver=ReadsAllForOne),
        probe=reads_all_for_one,
    ),
)
