"""The specification: what a session, a checkpointer and a checkpoint saver promise.

All operations are asynchronous and keep the same promises on every backend. None or an empty
list means absent; an outage is never reported as absence. Nothing a caller passes in or gets
back is shared with the store. A refused call has changed no session, run or thread.

Besides what its docstring lists, every operation may raise ``InvalidId`` for an id that is
not 1 to 256 bytes of text without NUL and lone surrogates, and what the storage itself
raises: ``Unavailable``, ``StorageBusy``, ``StorageClosed``, ``SchemaTooNew``, ``ForeignData``;
and ``WrongLoop`` or ``WrongProcess`` in another event loop or process than the first operation.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence

from durably.archive import ResultArchive
from durably.checks import check_id
from durably.entries import Entry, JsonObject
from durably.errors import Unsupported
from durably.history import DEFAULT_PAGE, HistoryFilter, HistoryItem, HistoryPage, check_page, walk
from durably.logstore import Page
from durably.runs import (
    Checkpoint,
    Rewound,
    RunHead,
    RunInfo,
    RunSnapshot,
    RunStatus,
    Segment,
    StateSnapshot,
)

__all__ = ["CheckpointSaver", "Checkpointer", "Claim", "Session"]


class Session(ABC):
    """Conversations across runs, by ``session_id``: an append-only sequence of runs' segments.

    There is deliberately no replace: a stored run changes by ``rewind`` and
    ``trim_tool_results`` alone. Order is the order in which appends took effect, whatever a
    clock says.
    """

    @abstractmethod
    async def append(
        self,
        session_id: str,
        entries: Sequence[Entry],
        *,
        run_id: str | None = None,
        meta: JsonObject | None = None,
    ) -> str:
        """Append one run's entries as one segment, whole or not at all.

        The first write of a run_id in a session wins: appending it again changes nothing,
        whatever the second call carries, if it could be stored at all. A segment without
        entries is kept in its place. ``meta`` is the application's own JSON object, returned
        as it was given.

        Returns:
            The run_id; a fresh unique one where none was given.

        Raises:
            NotSerializable: an entry or ``meta`` holds what JSON cannot give back exactly.
            RecordTooLarge: the segment is larger than the backend's limit.
        """

    @abstractmethod
    async def segments(self, session_id: str) -> list[Segment]:
        """Read every run of a session, in order.

        Returns:
            The segments; an empty list if there is no such session.

        Raises:
            UnknownEntryType: an entry is of a type this version does not know.
            CorruptRecord: stored bytes cannot be read.
        """

    @abstractmethod
    async def load(self, session_id: str) -> list[Entry]:
        """Read the entries of every run of a session, one after the other.

        Returns:
            The entries; an empty list if there is no such session.

        Raises:
            UnknownEntryType: an entry is of a type this version does not know.
            CorruptRecord: stored bytes cannot be read.
        """

    async def history(
        self,
        session_id: str,
        *,
        limit: int = DEFAULT_PAGE,
        after: str | None = None,
        types: HistoryFilter | None = None,
    ) -> HistoryPage:
        """Read a page of a session's entries, oldest first, and no more than it takes.

        ``limit`` is 1 to 256 items. ``after`` is a page's ``next_cursor``: opaque text, of this
        session alone, that may be stored. A walk sees what its first page saw: entries appended
        since do not appear in it. ``types="messages"`` leaves out all but ``InputEntry`` and
        ``AssistantTextEntry``, and ``limit`` counts what is left. The last page has no cursor.
        A session store of a backend's own may do without.

        Returns:
            The page; one without items if there is no such session.

        Raises:
            InvalidLimit: ``limit`` is not an integer of 1 to 256.
            InvalidFilter: ``types`` is something else.
            CursorMalformed: ``after`` is no cursor.
            CursorForeign: it is of another session.
            CursorIncompatible: it is of another format, or of a walk with other ``types``.
            CursorExpired: the session was rewound, cleared or created anew since.
            HistoryTooLarge: with ``types``, a page would look at over 10,000 records or 16 MiB.
            UnknownEntryType: an entry is of a type this version does not know.
            CorruptRecord: stored bytes cannot be read.
        """
        _ = limit, after, types
        raise Unsupported(
            f"this session store has no history, asked for that of {session_id!a}",
            hint="Use segments() or load()",
        )

    def pages(
        self,
        session_id: str,
        *,
        limit: int = DEFAULT_PAGE,
        types: HistoryFilter | None = None,
    ) -> AsyncIterator[HistoryPage]:
        """Walk over a session's history: page after page, each read when it is asked for.

        At the end it stays exhausted and reads nothing any more. Arguments and errors are those
        of ``history``; what can be told from the arguments alone is raised at once.
        """
        check_id("session", session_id)
        check_page(limit, types)
        return walk(lambda cursor: self.history(session_id, limit=limit, after=cursor, types=types))

    async def last(
        self, session_id: str, *, runs: int | None = None, entries: int | None = None
    ) -> Sequence[HistoryItem]:
        """Read the end of a session, and no more than it takes: the last runs, or entries.

        One of the two is given. The last ``runs`` come whole, however many entries they have.

        Returns:
            The items, oldest first; an empty list if there is no such session.

        Raises:
            InvalidLimit: the count is not an integer of at least 1.
            InvalidFilter: both are given, or neither.
            UnknownEntryType: an entry is of a type this version does not know.
            CorruptRecord: stored bytes cannot be read.
        """
        _ = runs, entries
        raise Unsupported(
            f"this session store has no history, asked for the end of {session_id!a}",
            hint="Use segments() or load()",
        )

    @abstractmethod
    async def revision(self, session_id: str) -> int:
        """Read the token that changes with every change of the session.

        Returns:
            The revision, to be compared for equality only; 0 if there is no such session.
        """

    @abstractmethod
    async def clear(self, session_id: str) -> None:
        """Remove every run of a session, and its archive; their run_ids are free again.

        One that is in the catalog stays there, without runs. Nothing of another session is
        touched; clearing what does not exist does nothing.

        Raises:
            StorageBusy: others changed the session between reading and writing, every time.
        """

    @abstractmethod
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        """Drop everything after the first ``keep_entries`` entries of the flat ``load`` view.

        0 deletes every run; a count at or past the end changes nothing, empty runs at the end
        included. Otherwise runs stay up to the one that holds the last kept entry. If the cut
        lands inside that one, it is cut short: it keeps its run_id and loses its ``meta``, and
        every tool call left without a result in it; cut down to nothing, it goes. A run the cut
        does not land in is not touched. Run ids of deleted runs are free again. The change is
        one atomic step: a concurrent append is ordered before it, and is then subject to the
        cut, or after it. Entries and fields this version does not know keep their bytes.

        Returns:
            What was removed.

        Raises:
            InvalidLimit: ``keep_entries`` or ``expected_revision`` is not an integer of at
                least 0.
            RevisionConflict: the session is not at ``expected_revision``.
            StorageBusy: others changed the session between reading and writing, every time.
            CorruptRecord: the run to be cut short cannot be read.
        """

    @abstractmethod
    async def trim_tool_results(
        self,
        session_id: str,
        *,
        keep_chars: int = 400,
        keep_runs: int = 1,
        archive: ResultArchive | None = None,
    ) -> int:
        """Shorten the stored tool outputs of all but the last ``keep_runs`` runs, for good.

        A longer output becomes its first ``keep_chars`` characters plus a marker, and its
        ``trimmed_chars`` says how many characters went in all; its ``raw`` and ``parts`` go.
        Order, count, call ids and ``is_error`` stay. Trimming again to the same length does
        nothing, to a smaller one trims further; an output is never made longer. Entries and
        fields this version does not know keep their bytes. Into an ``archive`` the results go
        whole, before any is shortened here; its ``recall`` gives them back.

        Returns:
            The number of results trimmed by this call.

        Raises:
            InvalidLimit: ``keep_chars`` or ``keep_runs`` is not an integer of at least 0.
            StorageBusy: others changed the session between reading and writing, every time.
            CorruptRecord: a stored run cannot be read.
        """


class Checkpointer(ABC):
    """Progress within one run, by ``run_id``, its sole and global key.

    A run is a growing sequence of entries and one small head, changed together; entries already
    stored are never rewritten. What ``load`` returns is exactly what was stored, tool calls
    without a result included.
    """

    @abstractmethod
    async def append(
        self,
        run_id: str,
        entries: Sequence[Entry],
        head: RunHead,
        *,
        expected_revision: int | None = None,
    ) -> int:
        """Append entries and set the head, together; without entries, set the head alone.

        ``expected_revision`` is the revision the caller last saw, 0 for a run that must not
        exist; None takes no notice of others. Sending the same entries and head (its times
        aside) again with the same token through the same handle, as after a lost answer,
        changes nothing and returns the same revision, as long as fewer than 8 further changes
        were made. A checkpointer object is one handle: workers that share it use ``claim``,
        else two with equal saves are one worker to it. Revisions never repeat, also not after
        a delete: a stale worker cannot write into its run's next life.

        Returns:
            The revision after this append.

        Raises:
            InvalidLimit: ``expected_revision`` is not an integer of at least 0.
            RevisionConflict: the run is at another revision: the caller no longer owns it.
            NotSerializable: an entry or the head holds what JSON cannot give back exactly.
            InvalidStatus: the head's status is none of ``RUN_STATUSES``.
            RecordTooLarge: the entries, or the head, are larger than the backend's limit.
        """

    @abstractmethod
    async def load(self, run_id: str) -> RunSnapshot | None:
        """Read a run: entries, head and the revision they belong to.

        Returns:
            The snapshot; None if there is no such run.

        Raises:
            UnknownEntryType: an entry is of a type this version does not know.
            CorruptRecord: stored bytes cannot be read.
        """

    @abstractmethod
    async def delete(self, run_id: str, *, expected_revision: int | None = None) -> bool:
        """Remove a run.

        Returns:
            Whether there was one.

        Raises:
            InvalidLimit: ``expected_revision`` is not an integer of at least 0.
            RevisionConflict: the run exists at another revision than the expected one.
        """

    @abstractmethod
    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        idle_for: float | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[RunInfo]:
        """List runs in the order of their ids' UTF-8 bytes, without their entries.

        ``status`` narrows to runs of that status, ``idle_for`` to runs whose last save is at
        least so many seconds ago, which finds runs that a crash left ``running``. ``after`` is
        an id, exclusive, as in ``Page.next``; ``limit`` is 1 to 1,000.

        Returns:
            A page of runs; ``next`` is None at the end.

        Raises:
            InvalidLimit: ``limit`` or ``idle_for`` is out of its range.
            InvalidStatus: ``status`` is none of the four.
            CorruptRecord: the head of a run cannot be read.
        """

    @abstractmethod
    async def claim(self, run_id: str) -> "Claim":
        """Take a run over: whoever held it gets ``RevisionConflict`` at the next save.

        Merely to look, use ``load``: a claim is a save, and the run counts as not idle. An
        existing run's head is saved again, which moves its revision. Of several that claim
        one run at once, at least one succeeds, and the last to succeed owns it. A run that does
        not exist is owned by the first to append.

        Returns:
            The claim: a handle that carries the revision.

        Raises:
            RevisionConflict: another claim or save came in between.
            UnknownEntryType: an entry is of a type this version does not know.
            CorruptRecord: stored bytes cannot be read.
        """

    @abstractmethod
    def hold(self, run_id: str, snapshot: RunSnapshot | None) -> "Claim":
        """Return a claim on a run as it was loaded; nothing is read or written.

        ``snapshot`` None says that the run was not there. It is the first append of the claim
        that takes the run over, or conflicts: whoever must own a run before doing anything
        appends its head first. That is one load and one append, where ``claim`` after a
        ``load`` would read twice.

        Returns:
            The claim, at the snapshot's revision.

        Raises:
            ValueError: the snapshot is of another run.
        """


class Claim(ABC):
    """One worker's hold on one run: it carries the revision, so that nobody forgets it.

    Every save is fenced: once another worker has claimed or changed the run, this claim gets
    ``RevisionConflict`` and has written nothing. A claim belongs to one worker and is not for
    concurrent use.
    """

    @property
    @abstractmethod
    def run_id(self) -> str:
        """The run's id."""

    @property
    @abstractmethod
    def snapshot(self) -> RunSnapshot | None:
        """The run as it was when it was claimed; None if it did not exist."""

    @property
    @abstractmethod
    def revision(self) -> int:
        """The revision this claim last wrote or saw; 0 if there is no such run."""

    @abstractmethod
    async def append(self, entries: Sequence[Entry], head: RunHead) -> int:
        """Append entries and set the head, as ``Checkpointer.append`` at this claim's revision.

        After a cancellation or an error whose outcome is unknown, such as ``Unavailable``, the
        same call may be made again and stores nothing twice; another call completes the
        unfinished one first.

        Returns:
            The revision after this append.

        Raises:
            RevisionConflict: another worker took the run over.
            NotSerializable: an entry or the head holds what JSON cannot give back exactly.
            InvalidStatus: the head's status is none of ``RUN_STATUSES``.
            RecordTooLarge: the entries, or the head, are larger than the backend's limit.
        """

    @abstractmethod
    async def delete(self) -> bool:
        """Remove the run, after completing a save whose outcome is unknown.

        Returns:
            Whether there was one.

        Raises:
            RevisionConflict: another worker took the run over.
        """


class CheckpointSaver(ABC):
    """A sequence of snapshots of a thread, by ``thread_id``.

    ``seq`` strictly increases within a thread, also across eviction; the latest snapshot is the
    last one appended, whatever a clock says. What is written for a snapshot is what changed
    since the one before it, so that saving a growing conversation again and again costs a small
    multiple of its final size; everything but the messages is stored with each. Unbounded,
    unless the saver was made with a bound: then only the newest snapshots are there.
    """

    @abstractmethod
    async def append(self, thread_id: str, snapshot: StateSnapshot) -> int:
        """Store a snapshot as the thread's latest.

        Returns:
            Its seq.

        Raises:
            NotSerializable: it holds what JSON cannot give back exactly.
            InvalidStatus: its status is none of ``SNAPSHOT_STATUSES``.
            RecordTooLarge: the whole snapshot is larger than the backend's limit.
            CorruptRecord: the thread's stored snapshots cannot be read.
        """

    @abstractmethod
    async def latest(self, thread_id: str) -> Checkpoint | None:
        """Read the snapshot appended last.

        Returns:
            The checkpoint; None if the thread has none.

        Raises:
            UnknownEntryType: a message is of a type this version does not know.
            CorruptRecord: stored bytes cannot be read.
        """

    @abstractmethod
    async def get(self, thread_id: str, seq: int) -> Checkpoint:
        """Read one snapshot.

        Returns:
            The checkpoint.

        Raises:
            CheckpointNotFound: the thread has no snapshot of that seq, or evicted it.
            InvalidLimit: ``seq`` is not an integer of at least 1.
            UnknownEntryType: a message is of a type this version does not know.
            CorruptRecord: stored bytes cannot be read.
        """

    @abstractmethod
    async def list(
        self, thread_id: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Checkpoint]:
        """Read snapshots, newest first: those with a seq below ``before``, at most ``limit``.

        ``limit`` is 1 to 1,000.

        Returns:
            The checkpoints; an empty list if there are none.

        Raises:
            InvalidLimit: ``limit`` or ``before`` is out of its range.
            UnknownEntryType: a message is of a type this version does not know.
            CorruptRecord: stored bytes cannot be read.
        """

    @abstractmethod
    async def delete(self, thread_id: str) -> bool:
        """Remove a thread with all of its snapshots.

        Returns:
            Whether there was one.
        """
