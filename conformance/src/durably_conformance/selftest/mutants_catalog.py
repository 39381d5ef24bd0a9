"""Wrong catalogs: sessions made twice, found where there are none, or told of wrongly."""

import asyncio
import contextlib
import math
from typing import Any

import msgspec
from typing_extensions import override

from durably import (
    DurablyError,
    JsonObject,
    NotSerializable,
    SessionCatalog,
    SessionExists,
    SessionInfo,
    SessionNotFound,
)
from durably_conformance.building import fill
from durably_conformance.offering import upkeep_of
from durably_conformance.selftest.delegating_upkeep import CatalogMutation
from durably_conformance.selftest.spoiling import wrong
from durably_conformance.selftest.tracking import Tracked

altered = msgspec.structs.replace


class WholeSeconds(CatalogMutation):
    """Keeps the time of creation in whole seconds."""

    @override
    async def create(
        self, session_id: str | None = None, *, metadata: JsonObject | None = None
    ) -> SessionInfo:
        made = await self.inner.create(session_id, metadata=metadata)
        return altered(made, created_at=float(math.floor(made.created_at)))


class CreatesTheSameAgain(CatalogMutation):
    """Creates a session again where its metadata is the same."""

    @override
    async def create(
        self, session_id: str | None = None, *, metadata: JsonObject | None = None
    ) -> SessionInfo:
        try:
            return await self.inner.create(session_id, metadata=metadata)
        except SessionExists as error:
            found = await self.inner.get(error.session_id)
            if found.metadata != metadata:
                raise
            return found


class LooksThenCreates(CatalogMutation):
    """Looks whether a session is there, and then puts it there, whoever did so meanwhile."""

    @override
    async def create(
        self, session_id: str | None = None, *, metadata: JsonObject | None = None
    ) -> SessionInfo:
        try:
            await self.inner.get(session_id or "none")
        except SessionNotFound:
            await asyncio.sleep(0)
        else:
            raise SessionExists(session_id or "none")
        try:
            return await self.inner.create(session_id, metadata=metadata)
        except SessionExists as error:
            return await self.inner.touch(error.session_id, metadata=metadata)


class CountsRunsAsEntries(CatalogMutation):
    """Tells of as many entries as there are runs."""

    @override
    async def get(self, session_id: str) -> SessionInfo:
        found = await self.inner.get(session_id)
        return altered(found, entry_count=found.run_count)


class FindsStrays(CatalogMutation):
    """Finds every session that has runs."""

    @override
    async def get(self, session_id: str) -> SessionInfo:
        try:
            return await self.inner.get(session_id)
        except SessionNotFound:
            page = await self.inner.list(uncatalogued=True)
            found = [one for one in page.items if one.session_id == session_id]
            if not found:
                raise
            return found[0]


class CreatesByTouching(CatalogMutation):
    """Creates with a touch what is not there."""

    @override
    async def touch(self, session_id: str, *, metadata: JsonObject | None = None) -> SessionInfo:
        try:
            return await self.inner.touch(session_id, metadata=metadata)
        except SessionNotFound:
            return await self.inner.create(session_id, metadata=metadata)


class MergesMetadata(CatalogMutation):
    """Keeps the fields of metadata that a touch does not give."""

    @override
    async def touch(self, session_id: str, *, metadata: JsonObject | None = None) -> SessionInfo:
        if type(metadata) is dict:
            with contextlib.suppress(SessionNotFound):
                metadata = (await self.inner.get(session_id)).metadata | metadata
        return await self.inner.touch(session_id, metadata=metadata)


class WritesAsText(CatalogMutation):
    """Writes metadata that is no JSON as text."""

    @override
    async def create(
        self, session_id: str | None = None, *, metadata: JsonObject | None = None
    ) -> SessionInfo:
        try:
            return await self.inner.create(session_id, metadata=metadata)
        except NotSerializable:
            text: JsonObject = {"text": str(metadata)}
            return await self.inner.create(session_id, metadata=text)


async def _catalog(place: Tracked) -> SessionCatalog:
    return upkeep_of(await place.connect(), "catalog").catalog


async def _is_done(call: Any) -> bool:  # noqa: ANN401 - what is awaited
    """Return whether a call is not refused."""
    try:
        await call
    except DurablyError:
        return False
    return True


async def tells_whole_seconds(place: Tracked) -> bool:
    """Create a session at half past something."""
    handle = await place.connect(clock=lambda: 10.5)
    return (await upkeep_of(handle).catalog.create("s")).created_at == 10


async def creates_the_same_again(place: Tracked) -> bool:
    """Create a session twice."""
    catalog = await _catalog(place)
    await catalog.create("s", metadata={})
    return await _is_done(catalog.create("s", metadata={}))


async def creates_twice_at_once(place: Tracked) -> bool:
    """Create a session twice at once."""
    catalog = await _catalog(place)
    calls = [_is_done(catalog.create("s", metadata={"n": n})) for n in range(2)]
    return all(await asyncio.gather(*calls))


async def counts_runs(place: Tracked) -> bool:
    """Create a session with a run of two entries."""
    handle = await place.connect()
    await fill(handle.sessions, "s", "a2")
    await upkeep_of(handle).catalog.create("s")
    return (await upkeep_of(handle).catalog.get("s")).entry_count == 1


async def finds_a_stray(place: Tracked) -> bool:
    """Get a session that nobody created."""
    handle = await place.connect()
    await fill(handle.sessions, "s", "a1")
    return await _is_done(upkeep_of(handle).catalog.get("s"))


async def creates_by_touching(place: Tracked) -> bool:
    """Touch a session that nobody created."""
    return await _is_done((await _catalog(place)).touch("s"))


async def merges_metadata(place: Tracked) -> bool:
    """Give a session other metadata."""
    catalog = await _catalog(place)
    await catalog.create("s", metadata={"a": 1})
    return (await catalog.touch("s", metadata={"b": 1})).metadata == {"a": 1, "b": 1}


async def writes_as_text(place: Tracked) -> bool:
    """Create a session with metadata that is no JSON."""
    return await _is_done((await _catalog(place)).create("s", metadata={"k": {1}}))


MUTANTS = (
    wrong(
        "a catalog of whole seconds",
        "A session is told of with the time at which it was created.",
        "CAT-001",
        "int(time.time())",
        tells_whole_seconds,
        catalog=WholeSeconds,
    ),
    wrong(
        "creates the same again",
        "To create what is there is SessionExists.",
        "CAT-002",
        "INSERT OR IGNORE, and what is there given as if it were new",
        creates_the_same_again,
        catalog=CreatesTheSameAgain,
    ),
    wrong(
        "looks, then creates",
        "Of several that create one id at once, one succeeds.",
        "CAT-003",
        "SELECT, then INSERT OR REPLACE",
        creates_twice_at_once,
        catalog=LooksThenCreates,
    ),
    wrong(
        "counts runs as entries",
        "Runs and entries are counted.",
        "CAT-004",
        "COUNT(*) of the wrong table",
        counts_runs,
        catalog=CountsRunsAsEntries,
    ),
    wrong(
        "finds what nobody created",
        "What is not in the catalog is SessionNotFound, be there runs or not.",
        "CAT-005",
        "a session that is there as soon as somebody writes to it",
        finds_a_stray,
        catalog=FindsStrays,
    ),
    wrong(
        "creates by touching",
        "A touch creates nothing.",
        "CAT-005",
        "an upsert in the place of an UPDATE",
        creates_by_touching,
        catalog=CreatesByTouching,
    ),
    wrong(
        "merges metadata",
        "Metadata is replaced as a whole.",
        "CAT-006",
        "dict.update",
        merges_metadata,
        catalog=MergesMetadata,
    ),
    wrong(
        "writes metadata as text",
        "Metadata that JSON cannot give back is NotSerializable.",
        "CAT-011",
        "json.dumps(default=str)",
        writes_as_text,
        catalog=WritesAsText,
    ),
)
