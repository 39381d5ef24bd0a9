"""``Storage``: one opened backend, and all the contracts over it."""

import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from types import TracebackType
from typing import Self

from durably import recovery
from durably._gate import FORMAT_LOG, Gate
from durably._tree_pages import list_trees
from durably.archive import LogResultArchive, ResultArchive
from durably.capabilities import Capabilities, Limits
from durably.catalog import LogSessionCatalog, SessionCatalog
from durably.checkpointer import LogCheckpointer
from durably.checkpoints import LogCheckpointSaver
from durably.contracts import Checkpointer, CheckpointSaver, Session
from durably.export import export_lines, import_lines
from durably.logstore import LogStore, Page, Range
from durably.migrate import Migrators
from durably.retention import Prunable, Pruned, Retention, prune
from durably.runs import Rewound
from durably.sessions import LogSession
from durably.states import LogStateStore, StateStore
from durably.transfer import KINDS, Copied, Progress, check_kinds, copy_all, fork_log, nobody
from durably.tree_contracts import SessionTree
from durably.tree_states import TreeStateStore
from durably.tree_values import TreeInfo
from durably.trees import LogSessionTree

__all__ = ["Storage"]


class Storage:
    """One storage: an async context manager that closes its log store on leaving.

    A log store connects with its first operation, so a storage can be made before an event
    loop runs; that operation binds it to its process and event loop. ``clock`` gives epoch
    seconds; it stamps times and never decides an order.
    """

    def __init__(self, log_store: LogStore, *, clock: Callable[[], float] = time.time) -> None:
        gate = log_store if isinstance(log_store, Gate) else Gate(log_store, clock=clock)
        self._log_store = gate
        self._owner = gate is not log_store
        self._clock = clock
        self._sessions = LogSession(self._log_store, clock=clock)
        self._checkpointer = LogCheckpointer(self._log_store, clock=clock)
        self._archive = LogResultArchive(self._log_store, clock=clock)
        self._catalog = LogSessionCatalog(self._log_store, self._checkpointer, clock=clock)
        self._states = LogStateStore(self._log_store, clock=clock)

    @property
    def sessions(self) -> Session:
        """Conversations across runs."""
        return self._sessions

    @property
    def checkpointer(self) -> Checkpointer:
        """Progress within runs."""
        return self._checkpointer

    def checkpoint_saver(
        self,
        *,
        max_checkpoints_per_thread: int | None = None,
        migrators: Migrators | None = None,
    ) -> CheckpointSaver:
        """Return a saver of threads' snapshots, unbounded unless asked.

        With ``migrators`` it returns snapshots at their version, and raises ``SchemaTooNew`` for
        a later one, ``MigrationError`` where a step is missing or fails, and ``InvalidLimit``
        for appending another version; what is stored stays as it is.

        Raises:
            InvalidLimit: ``max_checkpoints_per_thread`` is not an integer of at least 1.
        """
        return LogCheckpointSaver(
            self._log_store,
            max_checkpoints_per_thread=max_checkpoints_per_thread,
            migrators=migrators,
            clock=self._clock,
        )

    @property
    def states(self) -> StateStore:
        """One snapshot per key."""
        return self._states

    def state_store(self, *, migrators: Migrators | None = None) -> StateStore:
        """Return a store like ``states``, whose snapshots are brought up to date by migrators."""
        return LogStateStore(self._log_store, migrators=migrators, clock=self._clock)

    def tree(self, tree_id: str) -> SessionTree:
        """Return a tree of a conversation and its branches; the first append makes it.

        Raises:
            InvalidId: ``tree_id`` is no legal id.
        """
        return LogSessionTree(self._log_store, tree_id, clock=self._clock)

    async def trees(self, *, after: str | None = None, limit: int = 100) -> Page[TreeInfo]:
        """List trees in the order of their ids' UTF-8 bytes, without their nodes.

        Those that are not complete, since a copy or fork was cut off, are left out. ``after`` is
        an id, exclusive, as in ``Page.next``; ``limit`` is 1 to 1,000.

        Returns:
            A page of trees; ``next`` is None at the end.

        Raises:
            InvalidLimit: ``limit`` is out of its range.
            CorruptRecord: the head of a tree cannot be read.
        """
        return await list_trees(self._log_store, after=after, limit=limit)

    def tree_states(self, *, migrators: Migrators | None = None) -> TreeStateStore:
        """Return a store like ``states`` that keeps snapshots as trees, with what they were."""
        return TreeStateStore(self._log_store, migrators=migrators, clock=self._clock)

    @property
    def catalog(self) -> SessionCatalog:
        """Which sessions there are."""
        return self._catalog

    @property
    def archive(self) -> ResultArchive:
        """Where full tool results go when sessions are trimmed."""
        return self._archive

    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        """Rewind a session as ``sessions.rewind`` does, and remove the runs' checkpoints.

        Those of the runs that go are removed first: else a later resume would replay what was
        undone. After a crash in between, or when another change comes in between, the session is
        as it was and can be rewound again; the checkpoints of runs it holds whole are not missed.

        Returns:
            What was removed.

        Raises:
            InvalidLimit: ``keep_entries`` or ``expected_revision`` is not an integer of at
                least 0.
            RevisionConflict: the session is not at ``expected_revision``.
            StorageBusy: others changed the session between reading and writing, every time.
            CorruptRecord: the run to be cut short cannot be read.
        """
        return await recovery.rewind(
            self._log_store,
            self.sessions,
            self.checkpointer,
            session_id,
            keep_entries=keep_entries,
            expected_revision=expected_revision,
        )

    async def finish(self, run_id: str, session_id: str) -> bool:
        """Record an abandoned run as a finished segment of a session, and remove its checkpoint.

        The run is claimed first, so that its worker, if it still lives, cannot go on. Tool calls
        without a result are left out, and so is what the head says but its times. The segment is
        stored before the checkpoint goes, so it can be repeated after a crash, and repeating it
        after success changes nothing.

        Returns:
            Whether this call finished it; False if the session has the run already.

        Raises:
            RunNotFound: there is no such run, and the session has none either.
            RevisionConflict: another worker claimed or saved the run in between.
            RecordTooLarge: the run as one segment is larger than the backend's limit.
            UnknownEntryType: an entry is of a type this version does not know.
            CorruptRecord: stored bytes cannot be read.
        """
        return await recovery.finish(
            self._log_store,
            self.sessions,
            self.checkpointer,
            run_id,
            session_id,
            now=self._clock(),
        )

    async def prune(
        self,
        kind: Prunable,
        *,
        older_than: float | None = None,
        keep_last: int | None = None,
        dry_run: bool = False,
        progress: Callable[[str], object] = nobody,
    ) -> Pruned:
        """Remove old sessions, runs, threads, states or trees; a session goes with its archive.

        The checkpoints of a session's runs are runs, and pruned as such.
        Kept is what was changed within ``older_than`` seconds, and the ``keep_last`` changed
        last; where both are given, what either keeps stays. What is changed meanwhile stays,
        too. With ``dry_run`` nothing is removed. ``progress`` is called with each id. It may be
        stopped at any moment and run again.

        Returns:
            The ids of what was removed.

        Raises:
            InvalidFilter: ``kind`` is none of ``session``, ``run``, ``thread``, ``state`` and
                ``tree``, or nothing says what to keep.
            InvalidLimit: ``older_than`` or ``keep_last`` is out of its range.
            CorruptRecord: the state of one cannot be read.
        """
        retention = Retention(older_than=older_than, keep_last=keep_last)
        return await prune(
            self._log_store,
            kind,
            retention,
            now=self._clock(),
            dry_run=dry_run,
            progress=progress,
        )

    async def copy_to(
        self,
        target: "Storage",
        *,
        kinds: Sequence[str] = KINDS,
        parallel: int = 8,
        progress: Progress = nobody,
    ) -> Copied:
        """Copy sessions, runs, threads, archives, states and trees into another storage.

        Content, keys, heads and times come over byte for byte; a thread's snapshots are
        numbered anew. So many logs are copied at once as ``parallel`` says, 1 to 256. Copying
        again moves what is missing and nothing else, so it may be stopped at any moment; a run
        or tree cannot be read before it is whole. What has gone on in the target stays as it is
        there, and what was trimmed or evicted since stays, too: records are told apart by key,
        time and number of entries. Of a state saved in both the later one stays. Another namespace
        is copied from its own ``scoped`` view. ``progress`` is called with each log that is done
        and the number of its records moved.

        Returns:
            How much was moved, and how much was there.

        Raises:
            InvalidFilter: ``kinds`` has one that there is not.
            InvalidLimit: ``parallel`` is out of its range.
            CopyConflict: another log has the id, and stays; or the source was rewound meanwhile.
                It is raised once all other logs are copied.
            RecordTooLarge: something is larger than the target's limit.
        """
        return await copy_all(
            self._log_store, target.log_store, kinds=kinds, parallel=parallel, progress=progress
        )

    async def fork(self, id_: str, new_id: str, *, kind: str = "session") -> Copied:
        """Copy one session, run, thread, state or tree under a new id; both go on apart.

        A session comes with its archive, and all with its times, by which it is pruned.
        Repeating it after it was cut off completes it.

        Returns:
            How much was moved; no log at all where there is none of that id.

        Raises:
            InvalidFilter: ``kind`` is none that there is.
            CopyConflict: there is another log of the new id; nothing of it was changed.
        """
        check_kinds([kind])
        return await fork_log(self._log_store, kind, id_, new_id)

    def export(
        self,
        *,
        kinds: Sequence[str] = KINDS,
        ids: Sequence[str] | None = None,
        progress: Progress = nobody,
    ) -> AsyncIterator[bytes]:
        """Give what is stored as lines of JSON: all of it, or what has certain ids.

        Content is as it was stored, byte for byte, and the lines are the same on whatever
        backend. Each log is as it was when its first line was read.

        Raises:
            InvalidFilter: ``kinds`` has one that there is not.
            CopyConflict: a log was rewound or deleted while its lines were read.
        """
        return export_lines(self._log_store, kinds=kinds, ids=ids, progress=progress)

    async def import_lines(self, lines: Iterable[bytes], *, progress: Progress = nobody) -> Copied:
        """Store what an export holds; what is there already is not stored again.

        A record that is there is compared, byte for byte.

        Returns:
            How much was stored, and how much was there.

        Raises:
            InvalidExport: the lines are no export, or broken; what came before stays stored.
            CopyConflict: another log has an id, or one with other content, as after it was trimmed
                here; it stays as it is from there on. It is raised once all others are stored.
            RecordTooLarge: something in it is larger than this backend's limit.
        """
        return await import_lines(self._log_store, lines, progress)

    @property
    def log_store(self) -> LogStore:
        """The log store behind all of it, for tools that list, move and repair logs."""
        return self._log_store

    @property
    def capabilities(self) -> Capabilities:
        """What this backend declares about itself."""
        return self._log_store.capabilities

    @property
    def limits(self) -> Limits:
        """The largest sizes this backend accepts."""
        return self._log_store.limits

    def scoped(self, namespace: str) -> "Storage":
        """Return the same storage in another namespace; the two share a connection, and no data.

        Namespaces do not nest: the same name is the same namespace, whatever this one's is.

        It is closed with this one; closing it closes nothing else.

        Raises:
            InvalidId: the namespace is neither empty nor legal as an id.
            Unsupported: the backend has no namespaces.
        """
        return Storage(self._log_store.scoped(namespace), clock=self._clock)

    async def ping(self) -> None:
        """Make one round trip to the storage.

        Raises:
            Unavailable: the storage cannot be reached.
            StorageBusy: others held it for longer than the time-out.
            StorageClosed: it is closed.
        """
        await self._log_store.read(FORMAT_LOG, Range(limit=0))

    def __del__(self) -> None:
        """Warn of a storage that was used and never closed."""
        if getattr(self, "_owner", False) and self._log_store.is_in_use:
            warnings.warn(
                "a durably.Storage was not closed: use 'async with' or await aclose()",
                ResourceWarning,
                source=self,
                stacklevel=1,
            )

    async def aclose(self) -> None:
        """Close the log store; every later operation raises ``StorageClosed``.

        Closing twice does nothing.
        """
        await self._log_store.aclose()

    async def __aenter__(self) -> Self:
        """Connect, and refuse a storage this version cannot read.

        Raises:
            Unavailable: the storage cannot be reached.
            StorageBusy: others held it for longer than the time-out.
            SchemaTooNew: a newer version wrote it.
            ForeignData: something else has our names there.
            StorageClosed: this object was closed before.
            WrongLoop: it was first used in another event loop.
            WrongProcess: it was first used in another process.
        """
        try:
            await self._log_store.check()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
