"""The one class a backend implements, and the values that cross it.

Everything durably keeps is a *log* of keyed records with one small mutable *head*, changed
together. The contracts of ``durably.contracts`` are written once, over ``LogStore``. The
values check themselves when they are made, so a log store only ever sees legal ones; the
rules it has to apply are the pure functions of ``durably.rules``.
"""

import itertools
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, Generic, TypeAlias, TypeVar

import msgspec

from durably._typing import override
from durably.capabilities import Capabilities, Limits
from durably.checks import (
    MAX_COUNT,
    MAX_ENTRIES,
    MAX_KEY_BYTES,
    check_bytes,
    check_count,
    check_id,
    check_namespace,
    check_revision_token,
    check_seconds,
)
from durably.errors import InvalidId, Unsupported

__all__ = [
    "ALL",
    "Applied",
    "Batch",
    "Log",
    "LogId",
    "LogInfo",
    "LogState",
    "LogStore",
    "NewRecord",
    "Page",
    "Range",
    "Record",
    "Rewrite",
    "check_namespace",
    "new_key",
]

T = TypeVar("T")

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]

_KIND = re.compile(r"[a-z0-9-]{1,32}", re.ASCII)


def new_key() -> str:
    """Return a fresh unique key of 32 hexadecimal characters."""
    return secrets.token_hex(16)


class _Value(msgspec.Struct, frozen=True, kw_only=True):
    pass


class LogId(_Value, frozen=True, kw_only=True):
    """Names one log: its ``kind`` (1 to 32 of a-z, 0-9, -) and its ``id`` (up to 256 bytes)."""

    kind: str
    id: str

    def __post_init__(self) -> None:
        if type(self.kind) is not str or not _KIND.fullmatch(self.kind):
            raise InvalidId("kind", self.kind, "it is not 1 to 32 of a-z, 0-9 and -")
        check_id(self.kind, self.id)

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.id!a}"


class NewRecord(_Value, frozen=True, kw_only=True):
    """A record to be stored.

    ``entry_count`` says how many entries ``data`` holds, so that counting, cutting and paging
    need no payload. ``key`` is unique among the records in the log, up to 1,024 bytes; where
    none is given the batch derives one from its own.
    """

    data: bytes
    entry_count: int = 1
    key: str | None = None

    def __post_init__(self) -> None:
        check_bytes("data", self.data)
        check_count("entry_count", self.entry_count, maximum=MAX_ENTRIES)
        if self.key is not None:
            check_id("record", self.key, max_bytes=MAX_KEY_BYTES)


class Record(_Value, frozen=True, kw_only=True, gc=False):
    """A stored record. ``data`` is None when it was read without; ``stored_at`` epoch seconds.

    ``revision`` is that of the change which stored the record.
    """

    seq: _Count
    key: str
    entry_count: _Count
    stored_at: float
    revision: int
    data: bytes | None = None


class LogState(_Value, frozen=True, kw_only=True):
    """The mutable side of a log.

    ``revision`` starts at a random number of 40 bits, so that a token never fits a log's next
    life, and rises by one with every change; it is compared for equality only. ``epoch`` is the
    revision of the last change that invalidated positions: creation, or a rewrite that dropped
    records or changed an entry_count. Times are epoch seconds.
    """

    revision: int
    epoch: int
    next_seq: _Count
    record_count: _Count
    entry_count: _Count
    head: bytes | None
    created_at: float
    updated_at: float


class Log(_Value, frozen=True, kw_only=True):
    """A log as it was at one moment: its state, and the records asked for, ascending."""

    state: LogState
    records: tuple[Record, ...]


class Batch(_Value, frozen=True, kw_only=True):
    """Records and a head to be appended together.

    ``head`` None leaves the head as it is. ``expected_revision`` 0 means that the log must not
    exist, None that its revision does not matter. ``keep_last`` drops all but the newest so many
    records in the same step. ``key`` is the identity of this change: sending the same batch
    again stores nothing twice. ``at`` is the time to be stamped, in epoch seconds.
    """

    records: tuple[NewRecord, ...] = ()
    head: bytes | None = None
    expected_revision: int | None = None
    keep_last: int | None = None
    key: str = msgspec.field(default_factory=new_key)
    at: float = msgspec.field(default_factory=time.time)

    def __post_init__(self) -> None:
        if not self.records and self.head is None:
            raise ValueError("an empty batch: give it records, a head, or both")
        msgspec.structs.force_setattr(self, "at", check_seconds("at", self.at, minimum=-MAX_COUNT))
        if self.head is not None:
            check_bytes("head", self.head)
        check_id("batch", self.key, max_bytes=MAX_KEY_BYTES - 16)
        check_revision_token(self.expected_revision)
        if self.keep_last is not None:
            check_count("keep_last", self.keep_last, minimum=1)
        records = self.records
        if any(record.key is None for record in records):
            records = tuple(map(self._keyed, records, itertools.count()))
        if len(records) > 1 and len({record.key for record in records}) < len(records):
            raise ValueError("one key twice in a batch")
        msgspec.structs.force_setattr(self, "records", tuple(records))

    def _keyed(self, record: NewRecord, position: int) -> NewRecord:
        if record.key is not None:
            return record
        return msgspec.structs.replace(record, key=f"{self.key}:{position}")

    @property
    def record_keys(self) -> tuple[str, ...]:
        """The keys of the records, in order; each has one."""
        return tuple(record.key for record in self.records if record.key is not None)


class Applied(_Value, frozen=True, kw_only=True):
    """What became of a change.

    ``revision`` is the log's after it; ``seq`` that of the batch's last record, stored now or
    before, 0 without records; ``duplicate`` says that nothing was changed this time.
    """

    revision: int
    seq: int = 0
    duplicate: bool = False


class Rewrite(_Value, frozen=True, kw_only=True):
    """A change to records already stored: compare-and-set on ``expected_revision``.

    ``drop_after`` drops every record of a greater seq, ``drop`` single ones; ``replace`` gives
    records new data and entry_count (they keep their key and time). Unknown seqs are ignored.
    ``head`` None leaves the head as it is. ``key`` and ``at`` as in ``Batch``.
    """

    expected_revision: int
    drop_after: int | None = None
    drop: frozenset[int] = frozenset()
    replace: Mapping[int, NewRecord] = {}
    head: bytes | None = None
    key: str = msgspec.field(default_factory=new_key)
    at: float = msgspec.field(default_factory=time.time)

    def __post_init__(self) -> None:
        check_revision_token(self.expected_revision, minimum=1)
        check_id("batch", self.key, max_bytes=MAX_KEY_BYTES - 16)
        msgspec.structs.force_setattr(self, "at", check_seconds("at", self.at, minimum=-MAX_COUNT))
        if self.head is not None:
            check_bytes("head", self.head)
        if self.drop_after is not None:
            check_count("drop_after", self.drop_after)
        for seq in (*self.drop, *self.replace):
            check_count("seq", seq)
        if any(new.key is not None for new in self.replace.values()):
            raise ValueError("a replaced record keeps its key: give none")
        if any(self.drops(seq) for seq in self.replace):
            raise ValueError("a record cannot be dropped and replaced at once")

    def drops(self, seq: int) -> bool:
        """Whether the record of this seq goes."""
        return seq in self.drop or (self.drop_after is not None and seq > self.drop_after)


class Range(_Value, frozen=True, kw_only=True):
    """Which records to read.

    ``after`` is exclusive, ``until`` inclusive. ``limit`` counts records, 0 reads the state
    alone; ``entry_limit`` stops after the record that reaches so many entries. With ``newest``
    both count from the newest record; the answer is ascending all the same. ``keys`` narrows to
    these keys; without ``with_data`` the records come without their data.
    """

    after: int = 0
    until: int | None = None
    limit: int | None = None
    entry_limit: int | None = None
    newest: bool = False
    keys: frozenset[str] | None = None
    with_data: bool = True

    def __post_init__(self) -> None:
        check_count("after", self.after)
        if self.until is not None:
            check_count("until", self.until)
        if self.limit is not None:
            check_count("limit", self.limit)
        if self.entry_limit is not None:
            check_count("entry_limit", self.entry_limit, minimum=1)
        for key in self.keys or ():
            check_id("record", key, max_bytes=MAX_KEY_BYTES)


ALL = Range()


class LogInfo(_Value, frozen=True, kw_only=True):
    """One row of a listing; ``state`` is None unless it was asked for."""

    id: str
    state: LogState | None = None


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Some rows of a listing; ``next`` is what to pass as ``after``, None at the end.

    A page may be shorter than its limit, or empty, and still have a ``next``.
    """

    items: tuple[T, ...]
    next: str | None = None


class LogStore(ABC):
    """Logs with heads, on one storage, in one namespace.

    An acknowledged change must be durable as the declared capabilities say, and be seen by
    every other handle, process and host. Cancelling a call at any await must leave all of its
    change or nothing, and no lock or transaction. Every operation may raise ``Unavailable``,
    ``StorageBusy``, ``StorageClosed``, ``CorruptRecord``, ``SchemaTooNew`` and ``ForeignData``;
    a driver's own errors must not escape. What else an operation raises its docstring says.
    """

    capabilities: Capabilities
    limits: Limits = Limits()

    @abstractmethod
    async def append(self, log: LogId, batch: Batch) -> Applied:
        """Append the records and set the head, atomically; a reader must see all or none.

        In this order: a batch whose own key is known (from its records, or among the log's last
        8 changes) gets its first answer again with ``duplicate``; a revision other than the
        expected one is a conflict; a record whose key is in the log is left as it is; and if
        the batch has records and none of them is new, nothing changes, the head included, and
        the answer is a ``duplicate``. The store must assign seqs that strictly increase within
        the log and are never reused, also not after a rewrite or an eviction. An eviction by
        ``keep_last`` happens in the same step and does not change the epoch. The bytes written
        must not grow with the log.

        Returns:
            The log's revision after the change and the seq of the batch's last record.

        Raises:
            RevisionConflict: the log is not at ``batch.expected_revision``; nothing changed.
        """

    @abstractmethod
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        """Read the state and a range of records, all of one revision.

        Returns:
            The log, its records ascending by seq; None if there is no such log.
        """

    @abstractmethod
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        """Drop and replace records and set the head, atomically.

        A change whose key is among the log's last 8 gets its first answer again with
        ``duplicate``.

        Returns:
            The log's revision after the change; ``seq`` is 0.

        Raises:
            RevisionConflict: the log is not at ``change.expected_revision``, or missing.
        """

    @abstractmethod
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        """Remove everything of that log and nothing else.

        Returns:
            Whether there was such a log. False may follow an own earlier attempt.

        Raises:
            RevisionConflict: the log exists at another revision than the expected one.
        """

    @abstractmethod
    async def list(
        self,
        kind: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int = 100,
        with_state: bool = False,
    ) -> Page[LogInfo]:
        """List the logs of a kind in the order of their ids' UTF-8 bytes.

        ``prefix`` is plain text, ``after`` an id and exclusive, ``limit`` 1 to 1,000; a storage
        checks all three before it asks. A walk by ``after`` must survive inserts and deletes,
        and read no record.

        Returns:
            A page of ids, with their states if asked for.
        """

    def scoped(self, namespace: str) -> "LogStore":
        """Return this store in another namespace, over the same connection.

        Two namespaces share nothing. Closing what is returned closes nothing; it is closed with
        this store.

        Raises:
            InvalidId: the namespace is neither empty nor legal as an id.
            Unsupported: this store has no namespaces, which is the default.
        """
        raise Unsupported(
            f"{type(self).__name__} has no namespaces, so not {namespace!a}",
            hint="Open a storage of its own instead",
        )

    async def maintain(self) -> None:  # noqa: B027 - not every store has something to tidy
        """Tidy up what earlier operations left behind; the default has nothing to do."""

    async def describe(self) -> dict[str, str]:
        """Say what is underneath, for a person who diagnoses: at most one round trip.

        ``engine`` names the engine and its version; the rest are its settings that matter, as
        the engine itself answers them. No value holds a secret.

        Returns:
            Facts by name; the default has none.
        """
        return {}

    @abstractmethod
    async def aclose(self) -> None:
        """Release everything; a second call does nothing."""
