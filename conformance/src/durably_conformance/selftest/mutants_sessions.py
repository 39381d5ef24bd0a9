"""Wrong sessions."""

from collections.abc import Sequence

from typing_extensions import override

from durably import Entry, JsonObject
from durably_conformance.building import said
from durably_conformance.selftest.delegating import SessionMutation
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class LastWriteWins(SessionMutation):
    """Appends a run again under its id by replacing the session."""

    @override
    async def append(
        self,
        session_id: str,
        entries: Sequence[Entry],
        *,
        run_id: str | None = None,
        meta: JsonObject | None = None,
    ) -> str:
        if run_id in [one.run_id for one in await self.inner.segments(session_id)]:
            await self.inner.clear(session_id)
        return await self.inner.append(session_id, entries, run_id=run_id, meta=meta)


class DropsMeta(SessionMutation):
    """Keeps no meta."""

    @override
    async def append(
        self,
        session_id: str,
        entries: Sequence[Entry],
        *,
        run_id: str | None = None,
        meta: JsonObject | None = None,
    ) -> str:
        return await self.inner.append(session_id, entries, run_id=run_id)


async def lets_the_last_write_win(place: Tracked) -> bool:
    """Append two contents under one run_id."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", said("first"), run_id="r")
    await sessions.append("s", said("second"), run_id="r")
    return await sessions.load("s") != said("first")


async def loses_meta(place: Tracked) -> bool:
    """Append with meta and read it back."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", said("a"), meta={"a": 1})
    return (await sessions.segments("s"))[0].meta != {"a": 1}


MUTANTS = (
    Mutant(
        name="last write wins",
        says="A second append under a stored run_id changes nothing.",
        fails=frozenset({"SES-IDEM-001"}),
        provenance="INSERT OR REPLACE keyed by the run",
        harness=lambda: MemoryMutant(sessions=LastWriteWins),
        probe=lets_the_last_write_win,
    ),
    Mutant(
        name="drops meta",
        says="A run's meta comes back as it was appended.",
        fails=frozenset({"SES-APP-001"}),
        provenance="langchain-ai/langgraph#8701",
        harness=lambda: MemoryMutant(sessions=DropsMeta),
        probe=loses_meta,
    ),
)
