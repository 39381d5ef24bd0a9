"""Wrong copies: contracts that keep what a caller holds, or hand out what they keep."""

import copy
from collections.abc import Sequence

import msgspec
from typing_extensions import override

from durably import (
    Checkpoint,
    Entry,
    JsonObject,
    RunHead,
    RunSnapshot,
    Segment,
    StateSnapshot,
)
from durably_conformance.building import said
from durably_conformance.selftest.delegating import (
    CheckpointerMutation,
    SaverMutation,
    SessionMutation,
)
from durably_conformance.selftest.spoiling import SpoiledAppend, wrong
from durably_conformance.selftest.tracking import Tracked


class KeepsTheCallersMeta(SpoiledAppend):
    """Keeps the meta of a run as the caller's own object."""

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        given = await super().put(session_id, entries, run_id, meta)
        if meta is not None:
            self.shared.setdefault(f"meta {session_id} {given}", (copy.deepcopy(meta), meta))
        return given

    @override
    async def segments(self, session_id: str) -> list[Segment]:
        found = await self.inner.segments(session_id)
        return [
            msgspec.structs.replace(one, meta=copy.deepcopy(live))
            if (live := self._live(session_id, one)) is not None
            else one
            for one in found
        ]

    def _live(self, session_id: str, one: Segment) -> JsonObject | None:
        was, live = self.shared.get(f"meta {session_id} {one.run_id}", (None, None))
        return live if one.meta is not None and one.meta == was else None


class HandsOutItsSegments(SessionMutation):
    """Keeps what it read last, as long as the session does not change, and hands it out again."""

    @override
    async def segments(self, session_id: str) -> list[Segment]:
        found = await self.inner.segments(session_id)
        key = f"read {session_id} {await self.inner.revision(session_id)}"
        kept: list[Segment] = self.shared.setdefault(key, found)
        return list(kept)


class KeepsTheCallersHead(CheckpointerMutation):
    """Keeps the usage in a run's head as the caller's own object."""

    @override
    async def append(
        self,
        run_id: str,
        entries: Sequence[Entry],
        head: RunHead,
        *,
        expected_revision: int | None = None,
    ) -> int:
        revision = await self.inner.append(
            run_id, entries, head, expected_revision=expected_revision
        )
        self.shared[f"usage {run_id} {revision}"] = head.usage
        return revision

    @override
    async def load(self, run_id: str) -> RunSnapshot | None:
        found = await self.inner.load(run_id)
        if found is None or f"usage {run_id} {found.revision}" not in self.shared:
            return found
        live = copy.deepcopy(self.shared[f"usage {run_id} {found.revision}"])
        return found.replace(head=found.head.replace(usage=live))


class HandsOutItsRun(CheckpointerMutation):
    """Keeps what it read last, as long as the run does not change, and hands it out again."""

    @override
    async def load(self, run_id: str) -> RunSnapshot | None:
        found = await self.inner.load(run_id)
        if found is None:
            return None
        kept: RunSnapshot = self.shared.setdefault(f"read {run_id} {found.revision}", found)
        return kept


class KeepsTheCallersSnapshot(SaverMutation):
    """Keeps the ``extra`` of a snapshot as the caller's own object."""

    @override
    async def append(self, thread_id: str, snapshot: StateSnapshot) -> int:
        seq = await self.inner.append(thread_id, snapshot)
        if snapshot.extra:
            self.shared[f"extra {thread_id} {seq}"] = snapshot.extra
        return seq

    @override
    async def latest(self, thread_id: str) -> Checkpoint | None:
        found = await self.inner.latest(thread_id)
        if found is None or f"extra {thread_id} {found.seq}" not in self.shared:
            return found
        live = copy.deepcopy(self.shared[f"extra {thread_id} {found.seq}"])
        return found.replace(snapshot=found.snapshot.replace(extra=live))


class HandsOutItsSnapshot(SaverMutation):
    """Keeps every snapshot that it read by seq, and hands it out again."""

    @override
    async def get(self, thread_id: str, seq: int) -> Checkpoint:
        found = await self.inner.get(thread_id, seq)
        key = f"read {thread_id} {seq} {found.stored_at}"
        kept: Checkpoint = self.shared.setdefault(key, found)
        return kept


async def follows_meta(place: Tracked) -> bool:
    """Append with meta and change it."""
    sessions, meta = (await place.connect()).sessions, {"a": 1}
    await sessions.append("s", said("a"), meta=meta)
    meta["a"] = 2
    return (await sessions.segments("s"))[0].meta == {"a": 2}


async def returns_changed_segments(place: Tracked) -> bool:
    """Change what was read and read again."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", said("a"))
    (await sessions.segments("s"))[0].entries.clear()
    return (await sessions.segments("s"))[0].entries == []


async def follows_usage(place: Tracked) -> bool:
    """Save a head and change it."""
    checkpointer, usage = (await place.connect()).checkpointer, {"a": 1}
    await checkpointer.append("r", said("a"), RunHead(usage=usage))
    usage["a"] = 2
    run = await checkpointer.load("r")
    return run is not None and run.head.usage == {"a": 2}


async def returns_a_changed_run(place: Tracked) -> bool:
    """Change what was read and read again."""
    checkpointer = (await place.connect()).checkpointer
    await checkpointer.append("r", said("a"), RunHead())
    seen = said("a")
    for _ in range(2):
        run = await checkpointer.load("r")
        seen = [] if run is None else list(run.entries)
        if run is not None:
            run.entries.clear()
    return seen == []


async def follows_extra(place: Tracked) -> bool:
    """Save a snapshot and change it."""
    saver, extra = (await place.connect()).checkpoint_saver(), {"a": 1}
    await saver.append("t", StateSnapshot(extra=extra))
    extra["a"] = 2
    latest = await saver.latest("t")
    return latest is not None and latest.snapshot.extra == {"a": 2}


async def returns_a_changed_snapshot(place: Tracked) -> bool:
    """Change what was read and read again."""
    saver = (await place.connect()).checkpoint_saver()
    seq = await saver.append("t", StateSnapshot(extra={"a": 1}))
    (await saver.get("t", seq)).snapshot.extra["a"] = 2
    return (await saver.get("t", seq)).snapshot.extra == {"a": 2}


LIVE = "a store in memory that keeps the object it was given"
CACHE = "a cache of decoded values without copies"

MUTANTS = (
    wrong(
        "keeps the caller's meta",
        "What a caller passes to a session is not shared with the store.",
        "SES-ALIAS-001",
        LIVE,
        follows_meta,
        sessions=KeepsTheCallersMeta,
    ),
    wrong(
        "hands out its segments",
        "What a session returns is not shared with the store.",
        "SES-ALIAS-002",
        CACHE,
        returns_changed_segments,
        sessions=HandsOutItsSegments,
    ),
    wrong(
        "keeps the caller's head",
        "What a caller passes to a checkpointer is not shared with the store.",
        "CKP-ALIAS-001",
        LIVE,
        follows_usage,
        checkpointer=KeepsTheCallersHead,
    ),
    wrong(
        "hands out its run",
        "What a checkpointer returns is not shared with the store.",
        "CKP-ALIAS-002",
        CACHE,
        returns_a_changed_run,
        checkpointer=HandsOutItsRun,
    ),
    wrong(
        "keeps the caller's snapshot",
        "What a caller passes to a saver is not shared with the store.",
        "CKS-ALIAS-001",
        LIVE,
        follows_extra,
        saver=KeepsTheCallersSnapshot,
    ),
    wrong(
        "hands out its snapshots",
        "What a saver returns is not shared with the store.",
        "CKS-ALIAS-002",
        CACHE,
        returns_a_changed_snapshot,
        saver=HandsOutItsSnapshot,
    ),
)
