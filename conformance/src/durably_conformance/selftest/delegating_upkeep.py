"""What lies beside the contracts, passed on: a mutant overrides the one thing it spoils."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, cast

from typing_extensions import override

from durably import (
    Copied,
    JsonObject,
    Page,
    ResultArchive,
    Rewound,
    SessionCatalog,
    SessionInfo,
    Storage,
    ToolResultEntry,
    TreeInfo,
)
from durably.retention import Prunable, Pruned
from durably.testing import Handle

__all__ = ["ArchiveMutation", "CatalogMutation", "UpkeepMutation"]


class CatalogMutation(SessionCatalog):
    """Passes every operation on to ``inner``; ``shared`` is common to all handles of a place."""

    def __init__(self, inner: SessionCatalog, shared: dict[str, Any]) -> None:
        self.inner = inner
        self.shared = shared

    @override
    async def create(
        self, session_id: str | None = None, *, metadata: JsonObject | None = None
    ) -> SessionInfo:
        return await self.inner.create(session_id, metadata=metadata)

    @override
    async def get(self, session_id: str) -> SessionInfo:
        return await self.inner.get(session_id)

    @override
    async def list(
        self,
        *,
        where: JsonObject | None = None,
        after: str | None = None,
        limit: int = 100,
        uncatalogued: bool = False,
    ) -> Page[SessionInfo]:
        return await self.inner.list(
            where=where, after=after, limit=limit, uncatalogued=uncatalogued
        )

    @override
    async def touch(self, session_id: str, *, metadata: JsonObject | None = None) -> SessionInfo:
        return await self.inner.touch(session_id, metadata=metadata)

    @override
    async def delete(self, session_id: str, *, checkpoints: bool = False) -> bool:
        return await self.inner.delete(session_id, checkpoints=checkpoints)


class ArchiveMutation(ResultArchive):
    """Passes every operation on to ``inner``; ``shared`` is common to all handles of a place."""

    def __init__(self, inner: ResultArchive, shared: dict[str, Any]) -> None:
        self.inner = inner
        self.shared = shared

    @override
    async def store(self, session_id: str, results: Sequence[tuple[str, bytes]]) -> None:
        await self.inner.store(session_id, results)

    @override
    async def recall(self, session_id: str, call_id: str) -> list[ToolResultEntry]:
        return await self.inner.recall(session_id, call_id)

    @override
    async def delete(self, session_id: str) -> bool:
        return await self.inner.delete(session_id)


class UpkeepMutation:
    """Passes on to a storage what it does itself, its contracts aside."""

    def __init__(self, inner: Storage, shared: dict[str, Any]) -> None:
        self.inner = inner
        self.shared = shared

    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        """Rewind a session, and remove the checkpoints of the runs that go."""
        return await self.inner.rewind(
            session_id, keep_entries=keep_entries, expected_revision=expected_revision
        )

    async def finish(self, run_id: str, session_id: str) -> bool:
        """Record an abandoned run as a run of a session."""
        return await self.inner.finish(run_id, session_id)

    async def prune(
        self,
        kind: Prunable,
        *,
        older_than: float | None = None,
        keep_last: int | None = None,
        dry_run: bool = False,
        progress: Callable[[str], object] = str,
    ) -> Pruned:
        """Remove old sessions, runs or threads."""
        return await self.inner.prune(
            kind, older_than=older_than, keep_last=keep_last, dry_run=dry_run, progress=progress
        )

    async def trees(self, *, after: str | None = None, limit: int = 100) -> Page[TreeInfo]:
        """List trees."""
        return await self.inner.trees(after=after, limit=limit)

    async def copy_to(self, target: Handle) -> Copied:
        """Copy everything into another storage."""
        return await self.inner.copy_to(cast("Storage", target))

    async def fork(self, id_: str, new_id: str, *, kind: str = "session") -> Copied:
        """Copy one session, run or thread under a new id."""
        return await self.inner.fork(id_, new_id, kind=kind)

    def export(self, *, ids: Sequence[str] | None = None) -> AsyncIterator[bytes]:
        """Give what is stored as lines of JSON."""
        return self.inner.export(ids=ids)

    async def import_lines(self, lines: Iterable[bytes]) -> Copied:
        """Store what an export holds."""
        return await self.inner.import_lines(lines)
