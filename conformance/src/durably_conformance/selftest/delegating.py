"""A log store and contracts that pass everything on: a mutant overrides the one thing it spoils."""

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from durably import (
    Checkpoint,
    Checkpointer,
    CheckpointSaver,
    Claim,
    Entry,
    HistoryItem,
    HistoryPage,
    JsonObject,
    LogStore,
    Page,
    ResultArchive,
    Rewound,
    RunHead,
    RunInfo,
    RunSnapshot,
    RunStatus,
    Segment,
    Session,
    StateSnapshot,
)
from durably.history import DEFAULT_PAGE, HistoryFilter
from durably.logstore import ALL, Applied, Batch, Log, LogId, LogInfo, Range, Rewrite

__all__ = ["CheckpointerMutation", "SaverMutation", "SessionMutation", "StoreMutation"]


class StoreMutation(LogStore):
    """Passes every operation on to ``inner``; ``shared`` is common to all handles of a place."""

    def __init__(self, inner: LogStore, shared: dict[str, Any]) -> None:
        self.inner = inner
        self.shared = shared
        self.capabilities = inner.capabilities
        self.limits = inner.limits

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        return await self.inner.append(log, batch)

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        return await self.inner.read(log, span)

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        return await self.inner.rewrite(log, change)

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        return await self.inner.delete(log, expected_revision=expected_revision)

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
        return await self.inner.list(
            kind, prefix=prefix, after=after, limit=limit, with_state=with_state
        )

    @override
    def scoped(self, namespace: str) -> LogStore:
        return type(self)(self.inner.scoped(namespace), self.shared)

    @override
    async def aclose(self) -> None:
        await self.inner.aclose()


class SessionMutation(Session):
    """Passes every operation on to ``inner``; ``shared`` is common to all handles of a place."""

    def __init__(self, inner: Session, shared: dict[str, Any]) -> None:
        self.inner = inner
        self.shared = shared

    @override
    async def append(
        self,
        session_id: str,
        entries: Sequence[Entry],
        *,
        run_id: str | None = None,
        meta: JsonObject | None = None,
    ) -> str:
        return await self.inner.append(session_id, entries, run_id=run_id, meta=meta)

    @override
    async def segments(self, session_id: str) -> list[Segment]:
        return await self.inner.segments(session_id)

    @override
    async def load(self, session_id: str) -> list[Entry]:
        return await self.inner.load(session_id)

    @override
    async def history(
        self,
        session_id: str,
        *,
        limit: int = DEFAULT_PAGE,
        after: str | None = None,
        types: HistoryFilter | None = None,
    ) -> HistoryPage:
        return await self.inner.history(session_id, limit=limit, after=after, types=types)

    @override
    async def last(
        self, session_id: str, *, runs: int | None = None, entries: int | None = None
    ) -> Sequence[HistoryItem]:
        return await self.inner.last(session_id, runs=runs, entries=entries)

    @override
    async def revision(self, session_id: str) -> int:
        return await self.inner.revision(session_id)

    @override
    async def clear(self, session_id: str) -> None:
        await self.inner.clear(session_id)

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        return await self.inner.rewind(
            session_id, keep_entries=keep_entries, expected_revision=expected_revision
        )

    @override
    async def trim_tool_results(
        self,
        session_id: str,
        *,
        keep_chars: int = 400,
        keep_runs: int = 1,
        archive: ResultArchive | None = None,
    ) -> int:
        return await self.inner.trim_tool_results(
            session_id, keep_chars=keep_chars, keep_runs=keep_runs, archive=archive
        )


class CheckpointerMutation(Checkpointer):
    """Passes every operation on to ``inner``; ``shared`` is common to all handles of a place."""

    def __init__(self, inner: Checkpointer, shared: dict[str, Any]) -> None:
        self.inner = inner
        self.shared = shared

    @override
    async def append(
        self,
        run_id: str,
        entries: Sequence[Entry],
        head: RunHead,
        *,
        expected_revision: int | None = None,
    ) -> int:
        return await self.inner.append(run_id, entries, head, expected_revision=expected_revision)

    @override
    async def load(self, run_id: str) -> RunSnapshot | None:
        return await self.inner.load(run_id)

    @override
    async def delete(self, run_id: str, *, expected_revision: int | None = None) -> bool:
        return await self.inner.delete(run_id, expected_revision=expected_revision)

    @override
    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        idle_for: float | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[RunInfo]:
        return await self.inner.runs(status=status, idle_for=idle_for, after=after, limit=limit)

    @override
    async def claim(self, run_id: str) -> Claim:
        return await self.inner.claim(run_id)

    @override
    def hold(self, run_id: str, snapshot: RunSnapshot | None) -> Claim:
        return self.inner.hold(run_id, snapshot)


class SaverMutation(CheckpointSaver):
    """Passes every operation on to ``inner``; ``shared`` is common to all handles of a place."""

    def __init__(self, inner: CheckpointSaver, shared: dict[str, Any]) -> None:
        self.inner = inner
        self.shared = shared

    @override
    async def append(self, thread_id: str, snapshot: StateSnapshot) -> int:
        return await self.inner.append(thread_id, snapshot)

    @override
    async def latest(self, thread_id: str) -> Checkpoint | None:
        return await self.inner.latest(thread_id)

    @override
    async def get(self, thread_id: str, seq: int) -> Checkpoint:
        return await self.inner.get(thread_id, seq)

    @override
    async def list(
        self, thread_id: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Checkpoint]:
        return await self.inner.list(thread_id, before=before, limit=limit)

    @override
    async def delete(self, thread_id: str) -> bool:
        return await self.inner.delete(thread_id)
