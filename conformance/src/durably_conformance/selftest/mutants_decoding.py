"""Backends that read strictly, wrongly, or too trustingly."""

import contextlib
import importlib
import io
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

from typing_extensions import override

from durably import (
    CorruptRecord,
    CustomEntry,
    Entry,
    RunSnapshot,
    UnknownEntryType,
)
from durably.logstore import ALL, Batch, Log, LogId, NewRecord, Range
from durably.testing import Handle
from durably_conformance.selftest.delegating import (
    SessionMutation,
    StoreMutation,
)
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.noticing import logs_of
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked

UNKNOWN = b'{"entries":[{"type":"input","role":"user","content":"a"},{"type":"hologram"}]}'


class NamesTheFirst(SessionMutation):
    """Says of every unknown type that it is the first entry's."""

    @override
    async def load(self, session_id: str) -> list[Entry]:
        try:
            return await self.inner.load(session_id)
        except UnknownEntryType as error:
            raise UnknownEntryType(
                error.log, record=error.record, index=0, entry_type=error.entry_type
            ) from None


class ForbidsFields(StoreMutation):
    """Takes a run's record for corrupt if it has a field more."""

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        found = await self.inner.read(log, span)
        for record in found.records if found and log.kind == "run" else ():
            with suppress(ValueError):
                fields = json.loads(record.data or b"{}")
                if type(fields) is dict and fields.keys() - {"entries", "meta"}:
                    raise CorruptRecord(log, "it has a field more", record=record.key)
        return found


class KnowsCompactJson(StoreMutation):
    """Takes a run's record for corrupt if there are blanks in its JSON."""

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        found = await self.inner.read(log, span)
        for record in found.records if found and log.kind == "run" else ():
            if b'" : "' in (record.data or b""):
                raise CorruptRecord(log, "it has blanks", record=record.key)
        return found


class Revives(SessionMutation):
    """Imports the module that a stored value says it is of."""

    @override
    async def load(self, session_id: str) -> list[Entry]:
        entries = await self.inner.load(session_id)
        for entry in entries:
            data: object = entry.data if isinstance(entry, CustomEntry) else None
            if type(data) is dict:
                fields = cast("dict[str, str]", data)
                with suppress(ImportError):
                    importlib.import_module(fields.get("__module__", "json"))
        return entries


async def plant_x(handle: Handle, kind: str, data: bytes, *, head: bytes | None = None) -> None:
    """Store bytes as a record of the log ``x``."""
    batch = Batch(records=(NewRecord(key="base:k", data=data),), head=head)
    await handle.log_store.append(LogId(kind=kind, id="x"), batch)


async def names_the_first(place: Tracked) -> bool:
    """Plant an unknown entry behind a known one."""
    handle = await place.connect()
    await plant_x(handle, "session", UNKNOWN)
    try:
        return not await handle.sessions.load("x")
    except UnknownEntryType as error:
        return error.index != 1


async def run_of(place: Tracked, data: bytes, head: bytes) -> RunSnapshot | str | None:
    """Return a planted run, or what reading it raises."""
    handle = await place.connect()
    await plant_x(handle, "run", data, head=head)
    try:
        return await handle.checkpointer.load("x")
    except CorruptRecord as error:
        return error.reason


async def forbids_a_field(place: Tracked) -> bool:
    """Plant a record with a field more."""
    return await run_of(place, b'{"entries":[],"mood":1}', b'{"turns":1}') == "it has a field more"


async def knows_compact_json(place: Tracked) -> bool:
    """Plant a record with blanks."""
    data = b'{"entries":[{"type" : "custom","kind":"k"}]}'
    return await run_of(place, data, b'{"turns":1}') == "it has blanks"


async def imports_a_module(place: Tracked) -> bool:
    """Load a value that names a module which says so when it is imported."""
    sessions = (await place.connect()).sessions
    entries: Sequence[Entry] = [CustomEntry(kind="k", data={"__module__": "this"})]
    await sessions.append("s", entries)
    sys.modules.pop("this", None)
    with contextlib.redirect_stdout(io.StringIO()):
        await sessions.load("s")
    return "this" in sys.modules


MUTANTS = (
    Mutant(
        name="the index of an unknown entry is lost",
        says="An entry of an unknown type is named with its index.",
        fails=frozenset({"DEC-TYPE-001"}),
        provenance="an error made where the position is no longer known",
        harness=lambda: MemoryMutant(sessions=NamesTheFirst),
        probe=names_the_first,
    ),
    Mutant(
        name="unknown fields are forbidden",
        says="A field this version does not know stops nothing from being read.",
        fails=frozenset({"DEC-FIELD-001"}),
        provenance="a decoder with extra fields forbidden, as is good for requests",
        harness=lambda: MemoryMutant(store=ForbidsFields, wrapped=logs_of("run")),
        probe=forbids_a_field,
    ),
    Mutant(
        name="blanks are not read",
        says="An optional field that is not there gets its default.",
        fails=frozenset({"DEC-MISS-001"}),
        provenance="a record that is searched for the bytes of its fields",
        harness=lambda: MemoryMutant(store=KnowsCompactJson, wrapped=logs_of("run")),
        probe=knows_compact_json,
    ),
    Mutant(
        name="values are revived",
        says="Loading imports nothing that stored bytes name.",
        fails=frozenset({"DEC-CODE-001"}),
        provenance="langchain-ai/langgraph#8522",
        harness=lambda: MemoryMutant(sessions=Revives),
        probe=imports_a_module,
    ),
)
