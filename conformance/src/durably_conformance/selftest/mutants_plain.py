"""Plain mistakes, as whole as somebody makes them: each fails every check it deserves to."""

import asyncio
import re
from collections.abc import Sequence

import msgspec
from typing_extensions import override

from durably import Entry, JsonObject, Page, Rewound, RunHead, Segment
from durably.logstore import Applied, Batch, LogId, LogInfo
from durably_conformance.building import log, said
from durably_conformance.logs import ids, keyed
from durably_conformance.selftest.delegating import SessionMutation, StoreMutation
from durably_conformance.selftest.noticing import logs_of
from durably_conformance.selftest.sparing import ScopedMutation
from durably_conformance.selftest.sparing import wrong as wrong_store
from durably_conformance.selftest.spoiling import SpoiledAppend, readable, rebuild, wrong
from durably_conformance.selftest.tracking import Tracked


class Upserts(SpoiledAppend):
    """Puts a run in the place of the one that has its run_id."""

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        if run_id is None or not await self.knows(session_id, run_id):
            return await super().put(session_id, entries, run_id, meta)
        run = Segment(run_id=run_id, entries=list(entries), meta=meta)
        return await self.replace(session_id, run)


class ReadsThenWrites(SpoiledAppend):
    """Reads a session, and writes it back whole with one run more."""

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        stored = await readable(self.inner, session_id)
        await asyncio.sleep(0)
        await rebuild(self.inner, session_id, stored)
        return await super().put(session_id, entries, run_id, meta)


class NoFence(StoreMutation):
    """Takes every save of a run, whatever revision it expects."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        if log.kind == "run":
            batch = msgspec.structs.replace(batch, expected_revision=None)
        return await self.inner.append(log, batch)

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        fence = None if log.kind == "run" else expected_revision
        return await self.inner.delete(log, expected_revision=fence)


class RewindsUnfenced(SessionMutation):
    """Rewinds whatever revision is expected."""

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        return await self.inner.rewind(session_id, keep_entries=keep_entries)


class JoinsKeys(SpoiledAppend):
    """Knows a run by its session_id and its run_id with a colon between them."""

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        owners: dict[str, str] = self.shared.setdefault("owners", {})
        if run_id and owners.setdefault(f"{session_id}:{run_id}", session_id) != session_id:
            return run_id
        return await super().put(session_id, entries, run_id, meta)

    @override
    async def clear(self, session_id: str) -> None:
        owners: dict[str, str] = self.shared.setdefault("owners", {})
        for key in [key for key, owner in owners.items() if owner == session_id]:
            del owners[key]
        await self.inner.clear(session_id)


class LikesPrefixes(ScopedMutation):
    """Compares a prefix as LIKE does: with wildcards, and without case."""

    @override
    async def list(
        self,
        kind: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int = 100,
        with_state: bool = False,
    ) -> Page[LogInfo]:
        page = await self.inner.list(kind, after=after, limit=1000, with_state=with_state)
        pattern = re.escape(prefix).replace("%", ".*").replace("_", ".")
        rows = [row for row in page.items if re.match(pattern, row.id, re.IGNORECASE | re.DOTALL)]
        more = len(rows) > limit or page.next is not None
        kept = tuple(rows[:limit])
        following = (kept[-1].id if len(rows) > limit else page.next) if more else None
        return Page(items=kept, next=following)


async def replaces_a_run(place: Tracked) -> bool:
    """Append twice under one run_id."""
    sessions = (await place.connect()).sessions
    for text in ("first", "second"):
        await sessions.append("s", said(text), run_id="r")
    return await sessions.load("s") == said("second")


async def loses_a_run(place: Tracked) -> bool:
    """Append two runs at once."""
    sessions = [(await place.connect()).sessions for _ in range(2)]
    await asyncio.gather(*(one.append("s", said("a")) for one in sessions))
    return len(await sessions[0].load("s")) < 2


async def saves_over_another(place: Tracked) -> bool:
    """Save a run twice on top of its first revision."""
    runs = (await place.connect()).checkpointer
    first = await runs.append("r", said("a"), RunHead())
    for text in ("b", "c"):
        try:
            await runs.append("r", said(text), RunHead(), expected_revision=first)
        except Exception:  # noqa: BLE001 - any refusal will do
            return False
    return True


async def rewinds_anyhow(place: Tracked) -> bool:
    """Rewind a session that has changed."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", said("a"))
    seen = await sessions.revision("s")
    await sessions.append("s", said("b"))
    try:
        await sessions.rewind("s", keep_entries=0, expected_revision=seen)
    except Exception:  # noqa: BLE001 - any refusal will do
        return False
    return True


async def takes_two_runs_for_one(place: Tracked) -> bool:
    """Append runs whose ids are the same once joined."""
    sessions = (await place.connect()).sessions
    await sessions.append("a", said("x"), run_id="b:c")
    await sessions.append("a:b", said("y"), run_id="c")
    return await sessions.load("a:b") == []


async def takes_a_wildcard(place: Tracked) -> bool:
    """List what begins with a percent sign."""
    store = (await place.connect()).log_store
    await store.append(log("a"), keyed("k"))
    return await ids(store, prefix="%") == ["a"]


MUTANTS = (
    wrong(
        "an upsert",
        "The first write under a run_id wins.",
        "SES-IDEM-001 SES-IDEM-002 SES-REV-001 SES-REW-006 SES-TRIM-010",
        "INSERT … ON CONFLICT DO UPDATE in every append",
        replaces_a_run,
        sessions=Upserts,
    ),
    wrong(
        "a session read, and written back",
        "Of appends at once none is lost.",
        "SES-CONC-001 SES-HIS-003 SES-REV-001 SES-REW-012 SES-REW-015 SES-TRIM-014 VAL-HALF-001",
        "a session kept as one JSON value that is loaded, extended and saved",
        loses_a_run,
        sessions=ReadsThenWrites,
    ),
    wrong(
        "no fence at all",
        "A save on top of a stale revision is refused.",
        "CKP-CLAIM-003 CKP-CLAIM-004 CKP-CLAIM-005 CKP-CLAIM-006 CKP-CLAIM-008 CKP-CLAIM-009"
        " CKP-FENCE-001 CKP-FENCE-002 CKP-FENCE-003 CKP-FENCE-005 CKP-FENCE-006"
        " CKP-HOLD-002 CKP-HOLD-003 CKP-HOLD-004 CKP-HOLD-005"
        " CKP-RETRY-005 CKP-RETRY-006 CKP-RETRY-007",
        "an UPDATE without the revision in its WHERE",
        saves_over_another,
        store=NoFence,
        wrapped=logs_of("run"),
    ),
    wrong(
        "no fence before a rewind",
        "A rewind on top of a stale revision is refused.",
        "SES-REW-010 SES-REW-011",
        "an argument that is accepted and passed on to nobody",
        rewinds_anyhow,
        sessions=RewindsUnfenced,
    ),
    wrong(
        "keys joined by a colon",
        "Whatever two ids are made of, they name two things.",
        "SES-ID-005",
        "langchain-ai/langchain-redis#67",
        takes_two_runs_for_one,
        sessions=JoinsKeys,
    ),
    wrong_store(
        "prefixes compared by LIKE",
        LikesPrefixes,
        takes_a_wildcard,
        fails="LOG-LIST-004",
        says="A prefix is plain text.",
        provenance="langchain-ai/langgraph#8300",
    ),
)
