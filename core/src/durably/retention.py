"""What is kept for how long: pruning by age and by count, safe to stop and to run again."""

import heapq
import math
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Literal, TypeAlias, get_args

import msgspec

from durably._paging import all_logs
from durably.archive import ARCHIVE
from durably.checks import check_count, check_seconds
from durably.errors import CorruptRecord, InvalidFilter, RevisionConflict
from durably.logstore import Batch, LogId, LogState, LogStore, Range

__all__ = ["Prunable", "Pruned", "Retention", "prune"]

Prunable: TypeAlias = Literal["session", "run", "thread", "state", "tree"]

KINDS: tuple[Prunable, ...] = get_args(Prunable)

GOING = b'{"session":"pruned"}'
"""The head of an archive whose session is being pruned."""


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed, or with ``dry_run`` would be, in the order of the ids' UTF-8 bytes.

    ``examined`` counts all there were of that kind.
    """

    ids: tuple[str, ...]
    examined: int


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept: what was changed within ``older_than`` seconds, and the newest ``keep_last``.

    Where both are given, only what neither keeps goes.

    Raises:
        InvalidFilter: neither is given.
        InvalidLimit: one of them is no such number.
    """

    older_than: float | None = None
    keep_last: int | None = None

    def __post_init__(self) -> None:
        if self.older_than is None and self.keep_last is None:
            raise InvalidFilter("what to prune", None, known=("older_than", "keep_last"))
        if self.older_than is not None:
            check_seconds("older_than", self.older_than)
        if self.keep_last is not None:
            check_count("keep_last", self.keep_last)


async def prune(
    store: LogStore,
    kind: Prunable,
    retention: Retention,
    *,
    now: float,
    dry_run: bool,
    progress: Callable[[str], object],
) -> Pruned:
    """Remove what is not kept; see ``Storage.prune``."""
    if kind not in KINDS:
        raise InvalidFilter("kind", kind, known=KINDS)
    kept_from = await _oldest_kept(store, kind, retention.keep_last or 0)
    removed: list[str] = []
    examined = 0
    async for log, state in _logs(store, kind):
        examined += 1
        young = retention.older_than is not None and state.updated_at > now - retention.older_than
        if young or (state.updated_at, log.id) >= kept_from:
            continue
        if dry_run or await _remove(store, log, state.revision, now):
            removed.append(log.id)
            progress(log.id)
    if kind == "session" and not dry_run:
        await _sweep_archives(store)
    return Pruned(ids=tuple(removed), examined=examined)


async def _oldest_kept(store: LogStore, kind: str, count: int) -> tuple[float, str]:
    """Return the time and the id of the oldest of those changed last: later ones are kept, too."""
    if not count:
        return math.inf, ""
    newest: list[tuple[float, str]] = []
    async for log, state in _logs(store, kind):
        heapq.heappush(newest, (state.updated_at, log.id))
        if len(newest) > count:
            heapq.heappop(newest)
    return newest[0] if len(newest) == count else (-math.inf, "")


async def _logs(store: LogStore, kind: str) -> AsyncIterator[tuple[LogId, LogState]]:
    async for info in all_logs(store, kind, with_state=True):
        log = LogId(kind=kind, id=info.id)
        if info.state is None:
            raise CorruptRecord(log, "it was listed without its state")
        yield log, info.state


async def _remove(store: LogStore, log: LogId, revision: int, now: float) -> bool:
    """Remove a log, a session with its archive, unless somebody changed it meanwhile.

    The archive is marked first, so that one left behind by a crash is known for what it is: an
    archive may belong to a session in another storage.
    """
    if log.kind == "session":
        archive = LogId(kind=ARCHIVE, id=log.id)
        if await store.read(archive, Range(limit=0)) is not None:
            await store.append(archive, Batch(head=GOING, at=now))
    try:
        return await store.delete(log, expected_revision=revision)
    except RevisionConflict:
        return False


async def _sweep_archives(store: LogStore) -> None:
    """Remove the archives of sessions that were pruned, but for those used again meanwhile."""
    async for log, state in _logs(store, ARCHIVE):
        if state.head != GOING:
            continue
        if await store.read(LogId(kind="session", id=log.id), Range(limit=0)) is None:
            with suppress(RevisionConflict):
                await store.delete(log, expected_revision=state.revision)
