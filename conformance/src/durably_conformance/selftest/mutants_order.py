"""Wrong sessions: their runs come back in another order, or not all of them."""

import msgspec
from typing_extensions import override

from durably import Entry, Segment
from durably.logstore import ALL, Log, LogId, Range
from durably_conformance.building import said
from durably_conformance.selftest.delegating import SessionMutation, StoreMutation
from durably_conformance.selftest.noticing import logs_of
from durably_conformance.selftest.spoiling import wrong
from durably_conformance.selftest.tracking import Tracked


class SortsByRunId(SessionMutation):
    """Reads runs with a number at the end of their ids in the order of these texts."""

    @override
    async def segments(self, session_id: str) -> list[Segment]:
        found = await self.inner.segments(session_id)
        return sorted(found, key=lambda one: one.run_id.partition("-")[2])

    @override
    async def load(self, session_id: str) -> list[Entry]:
        return [entry for one in await self.segments(session_id) for entry in one.entries]


class SortsByTime(StoreMutation):
    """Reads the runs of a session in the order of their times."""

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        found = await self.inner.read(log, span)
        if found is None or log.kind != "session":
            return found
        records = sorted(found.records, key=lambda one: one.stored_at)
        return msgspec.structs.replace(found, records=tuple(records))


class ReadsAPage(SessionMutation):
    """Reads the newest hundred runs of a session and calls them all."""

    @override
    async def segments(self, session_id: str) -> list[Segment]:
        return (await self.inner.segments(session_id))[-100:]

    @override
    async def load(self, session_id: str) -> list[Entry]:
        return [entry for one in await self.segments(session_id) for entry in one.entries]


async def sorts_by_id(place: Tracked) -> bool:
    """Append two runs whose ids are in the other order."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", said("a"), run_id="run-2")
    await sessions.append("s", said("b"), run_id="run-1")
    return await sessions.load("s") == said("b", "a")


async def sorts_by_time(place: Tracked) -> bool:
    """Append twice, with the clock set back in between."""
    now = [200.0]
    sessions = (await place.connect(clock=lambda: now[0])).sessions
    await sessions.append("s", said("a"))
    now[0] = 100.0
    await sessions.append("s", said("b"))
    return await sessions.load("s") == said("b", "a")


async def reads_a_page(place: Tracked) -> bool:
    """Append many runs and count them."""
    sessions = (await place.connect()).sessions
    for number in range(120):
        await sessions.append("s", said(f"{number}"))
    return len(await sessions.load("s")) < 120


MUTANTS = (
    wrong(
        "sorts by run id",
        "Runs come back in the order of their appends.",
        "SES-APP-002",
        "anomalyco/opencode#7425",
        sorts_by_id,
        sessions=SortsByRunId,
    ),
    wrong(
        "sorts runs by time",
        "Order is that of the appends, whatever the clock says.",
        "SES-APP-002 SES-REW-015 SES-TRIM-014",
        "openai/openai-agents-python#1900",
        sorts_by_time,
        store=SortsByTime,
        wrapped=logs_of("session"),
    ),
    wrong(
        "reads one page",
        "However many runs a session has, all of them come back.",
        "SES-APP-008",
        "aws/bedrock-agentcore-sdk-python#206",
        reads_a_page,
        sessions=ReadsAPage,
    ),
)
