"""Wrong trims: with any count, or at the cost of others, or of what they do not know."""

import asyncio
import json
from collections.abc import Sequence

import msgspec
from typing_extensions import override

from durably import (
    CorruptRecord,
    Entry,
    InvalidLimit,
    JsonObject,
    ResultArchive,
    Segment,
    ToolResultEntry,
)
from durably.logstore import Applied, LogId, Rewrite
from durably_conformance.building import result, said
from durably_conformance.selftest.delegating import SessionMutation, StoreMutation
from durably_conformance.selftest.noticing import logs_of
from durably_conformance.selftest.spoiling import (
    SpoiledAppend,
    readable,
    rebuild,
    scratch,
    store_raw,
    wrong,
)
from durably_conformance.selftest.tracking import Tracked

LONG = "abcd" * 100


class TakesAnotherOutputForAnother(SpoiledAppend):
    """Stores a run again whose results are longer than the stored ones."""

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        for one in await readable(self.inner, session_id):
            trimmed = [e for e in one.entries if isinstance(e, ToolResultEntry) and e.trimmed_chars]
            if one.run_id == run_id and trimmed:
                run = Segment(run_id=one.run_id, entries=list(entries), meta=meta)
                return await self.replace(session_id, run)
        return await super().put(session_id, entries, run_id, meta)


class CutsFromTheEnd(SessionMutation):
    """Takes a negative number of characters for one from the end."""

    @override
    async def trim_tool_results(
        self,
        session_id: str,
        *,
        keep_chars: int = 400,
        keep_runs: int = 1,
        archive: ResultArchive | None = None,
    ) -> int:
        if type(keep_chars) is int and keep_chars < 0:
            keep_chars = max(0, 1000 + keep_chars)
        return await self.inner.trim_tool_results(
            session_id, keep_chars=keep_chars, keep_runs=keep_runs, archive=archive
        )


class CountsTheTrimmed(SessionMutation):
    """Counts results that earlier trims shortened."""

    @override
    async def trim_tool_results(
        self,
        session_id: str,
        *,
        keep_chars: int = 400,
        keep_runs: int = 1,
        archive: ResultArchive | None = None,
    ) -> int:
        count = await self.inner.trim_tool_results(
            session_id, keep_chars=keep_chars, keep_runs=keep_runs, archive=archive
        )
        if count or keep_runs:
            return count
        entries = [one for run in await readable(self.inner, session_id) for one in run.entries]
        return sum(isinstance(one, ToolResultEntry) and one.trimmed_chars > 0 for one in entries)


class WritesBack(SessionMutation):
    """Reads the session, trims it, and writes it back over whatever came in between."""

    @override
    async def trim_tool_results(
        self,
        session_id: str,
        *,
        keep_chars: int = 400,
        keep_runs: int = 1,
        archive: ResultArchive | None = None,
    ) -> int:
        stored = await readable(self.inner, session_id)
        if not stored or archive is not None:
            return await self.inner.trim_tool_results(
                session_id, keep_chars=keep_chars, keep_runs=keep_runs, archive=archive
            )
        copied = await scratch(stored)
        count = await copied.trim_tool_results("s", keep_chars=keep_chars, keep_runs=keep_runs)
        await asyncio.sleep(0)
        if count:
            await rebuild(self.inner, session_id, await copied.segments("s"))
        return count


class WritesJsonAnew(StoreMutation):
    """Decodes and encodes again what a trim shortens."""

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        if log.kind == "session" and change.drop_after is None:
            anew = {
                seq: msgspec.structs.replace(one, data=json.dumps(json.loads(one.data)).encode())
                for seq, one in change.replace.items()
            }
            change = msgspec.structs.replace(change, replace=anew)
        return await self.inner.rewrite(log, change)


class PassesOverBrokenRuns(SessionMutation):
    """Trims nothing and says so where a run cannot be read."""

    @override
    async def trim_tool_results(
        self,
        session_id: str,
        *,
        keep_chars: int = 400,
        keep_runs: int = 1,
        archive: ResultArchive | None = None,
    ) -> int:
        try:
            return await self.inner.trim_tool_results(
                session_id, keep_chars=keep_chars, keep_runs=keep_runs, archive=archive
            )
        except CorruptRecord:
            return 0


async def counts_again(place: Tracked) -> bool:
    """Trim twice and count."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", [result("c", LONG)])
    await sessions.trim_tool_results("s", keep_chars=10, keep_runs=0)
    return await sessions.trim_tool_results("s", keep_chars=10, keep_runs=0) == 1


async def brings_an_output_back(place: Tracked) -> bool:
    """Append a trimmed run again."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", [result("c", LONG)], run_id="r")
    await sessions.trim_tool_results("s", keep_chars=10, keep_runs=0)
    await sessions.append("s", [result("c", LONG)], run_id="r")
    return await sessions.load("s") == [result("c", LONG)]


async def takes_a_negative_count(place: Tracked) -> bool:
    """Keep less than nothing."""
    sessions = (await place.connect()).sessions
    try:
        await sessions.trim_tool_results("s", keep_chars=-1)
    except InvalidLimit:
        return False
    return True


async def loses_an_append(place: Tracked) -> bool:
    """Append while a trim is under way."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", [result("c", LONG)])
    trimming = asyncio.create_task(sessions.trim_tool_results("s", keep_runs=0, keep_chars=10))
    await asyncio.sleep(0)
    await sessions.append("s", said("x"))
    await trimming
    return len(await sessions.load("s")) == 1


async def writes_other_bytes(place: Tracked) -> bool:
    """Trim beside an entry with a number written in an odd way."""
    handle = await place.connect()
    trimmed = b'{"type":"tool_result","call_id":"c","output":"%s"}' % LONG.encode()
    data = b'{"entries":[{"type":"x","n":1.0E2},' + trimmed + b"]}"
    await store_raw(handle.log_store, "s", data, entry_count=2)
    await handle.sessions.trim_tool_results("s", keep_chars=10, keep_runs=0)
    stored = await handle.log_store.read(LogId(kind="session", id="s"))
    return b"1.0E2" not in ((stored.records[0].data if stored else None) or b"")


async def says_nothing(place: Tracked) -> bool:
    """Trim a run that is not JSON."""
    handle = await place.connect()
    await store_raw(handle.log_store, "s", b"broken")
    try:
        return await handle.sessions.trim_tool_results("s", keep_runs=0) == 0
    except CorruptRecord:
        return False


MUTANTS = (
    wrong(
        "counts what was trimmed",
        "Trimming again to the same length does nothing.",
        "SES-TRIM-002",
        "the number of rows that match taken for the number that changed",
        counts_again,
        sessions=CountsTheTrimmed,
    ),
    wrong(
        "takes a trimmed run for another",
        "A trimmed run is still stored.",
        "SES-TRIM-010",
        "a retry recognised by what it carries",
        brings_an_output_back,
        sessions=TakesAnotherOutputForAnother,
    ),
    wrong(
        "cuts from the end",
        "A negative number of characters is refused.",
        "SES-TRIM-011",
        "text[:keep_chars]",
        takes_a_negative_count,
        sessions=CutsFromTheEnd,
    ),
    wrong(
        "writes back what it trimmed",
        "A trim loses nothing that others append.",
        "SES-TRIM-012",
        "agno-agi/agno#9450",
        loses_an_append,
        sessions=WritesBack,
    ),
    wrong(
        "writes a trimmed run anew",
        "What this version does not know keeps its bytes beside a trimmed result.",
        "SES-TRIM-013",
        "peters/horizon#397",
        writes_other_bytes,
        store=WritesJsonAnew,
        wrapped=logs_of("session"),
    ),
    wrong(
        "passes over broken runs",
        "A trim that meets a run it cannot read says so.",
        "SES-TRIM-014",
        "agno-agi/agno#7879",
        says_nothing,
        sessions=PassesOverBrokenRuns,
    ),
)
