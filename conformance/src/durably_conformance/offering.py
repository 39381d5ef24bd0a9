"""What a handle offers: writing something by whatever is declared, and what lies beside that."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Protocol, cast

from durably import (
    CheckpointSaver,
    Copied,
    Migrators,
    Page,
    ResultArchive,
    Rewound,
    SessionCatalog,
    SessionTree,
    StateStore,
    TreeInfo,
    TreeStateStore,
    Unsupported,
)
from durably.retention import Prunable, Pruned
from durably.testing import Handle
from durably_conformance.building import batch, head, log, said, snapshot
from durably_conformance.context import DoesNotApply, T

__all__ = [
    "Upkeep",
    "count_something",
    "migrating_saver",
    "state_stores",
    "upkeep_of",
    "write_something",
]


class Upkeep(Protocol):
    """What a handle may have beside the contracts, with the meaning it has in ``Storage``."""

    @property
    def catalog(self) -> SessionCatalog:
        """Which sessions there are."""
        ...

    @property
    def archive(self) -> ResultArchive:
        """Where full tool results go when sessions are trimmed."""
        ...

    @property
    def states(self) -> StateStore:
        """One snapshot per key."""
        ...

    def state_store(self, *, migrators: Migrators | None = None) -> StateStore:
        """Return a store like ``states``, with migrators."""
        ...

    def tree(self, tree_id: str) -> SessionTree:
        """Return a tree of a conversation and its branches."""
        ...

    async def trees(self, *, after: str | None = None, limit: int = 100) -> Page[TreeInfo]:
        """List trees."""
        ...

    def tree_states(self, *, migrators: Migrators | None = None) -> TreeStateStore:
        """Return a store like ``states`` that keeps snapshots as trees."""
        ...

    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        """Rewind a session, and remove the checkpoints of the runs that go."""
        ...

    async def finish(self, run_id: str, session_id: str) -> bool:
        """Record an abandoned run as a run of a session."""
        ...

    async def prune(
        self,
        kind: Prunable,
        *,
        older_than: float | None = None,
        keep_last: int | None = None,
        dry_run: bool = False,
        progress: Callable[[str], object] = ...,
    ) -> Pruned:
        """Remove old sessions, runs or threads."""
        ...

    async def copy_to(self, target: Handle) -> Copied:
        """Copy everything into another storage."""
        ...

    async def fork(self, id_: str, new_id: str, *, kind: str = "session") -> Copied:
        """Copy one session, run or thread under a new id."""
        ...

    def export(self, *, ids: Sequence[str] | None = None) -> AsyncIterator[bytes]:
        """Give what is stored as lines of JSON."""
        ...

    async def import_lines(self, lines: Iterable[bytes]) -> Copied:
        """Store what an export holds."""
        ...


def upkeep_of(handle: Handle, *names: str) -> Upkeep:
    """Return a handle as one that has these, too.

    Raises:
        DoesNotApply: it has not: its backend brings contracts of its own, and no more.
    """
    for name in names:
        if not _has(handle, name):
            raise DoesNotApply(f"its handles have no {name}")
    return cast("Upkeep", handle)


def _has(handle: Handle, name: str) -> bool:
    try:
        return getattr(handle, name, None) is not None
    except Unsupported:
        return False


def state_stores(handle: Handle) -> dict[str, StateStore]:
    """Return each store of snapshots by key that a handle has, by what it is called.

    Raises:
        DoesNotApply: it has none.
    """
    found = {"states": upkeep_of(handle, "states").states}
    if _has(handle, "tree_states"):
        found["tree_states"] = upkeep_of(handle).tree_states()
    return found


def migrating_saver(handle: Handle, migrators: Migrators) -> CheckpointSaver:
    """Return a saver with migrators.

    Raises:
        DoesNotApply: the handle makes none.
    """
    make = cast("Callable[..., CheckpointSaver]", handle.checkpoint_saver)
    parameters = inspect.signature(make).parameters.values()
    if not any(one.name == "migrators" or one.kind is one.VAR_KEYWORD for one in parameters):
        raise DoesNotApply("its savers take no migrators")
    return make(migrators=migrators)


async def write_something(t: T, handle: Handle) -> None:
    """Store something by the first contract that is declared."""
    if t.capabilities.log_store:
        await handle.log_store.append(log("har"), batch(b"1"))
    elif t.capabilities.sessions:
        await handle.sessions.append("har", said("1"))
    elif t.capabilities.checkpointer:
        await handle.checkpointer.append("har", said("1"), head())
    else:
        await handle.checkpoint_saver().append("har", snapshot("1"))


async def count_something(t: T, handle: Handle) -> int:
    """Return how much of it there is."""
    if t.capabilities.log_store:
        stored = await handle.log_store.read(log("har"))
        return 0 if stored is None else len(stored.records)
    if t.capabilities.sessions:
        return len(await handle.sessions.load("har"))
    if t.capabilities.checkpointer:
        run = await handle.checkpointer.load("har")
        return 0 if run is None else len(run.entries)
    return len(await handle.checkpoint_saver().list("har"))
