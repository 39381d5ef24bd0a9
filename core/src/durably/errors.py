"""Everything durably raises on purpose.

::

    DurablyError
    ├── InvalidId            ValueError       an id no backend may store
    ├── InvalidStatus        ValueError       a status that is none of those there are
    ├── InvalidLimit         ValueError       a count or time out of its range
    ├── InvalidUrl           ValueError       a storage URL that cannot be read
    ├── NotSerializable      TypeError        a value that JSON cannot hold exactly
    ├── RecordTooLarge       ValueError       a value above the backend's stated limit
    ├── InvalidConfig        ValueError       a configuration that cannot be read
    ├── UnknownScheme        ValueError       a URL scheme no backend answers to
    ├── BackendNotInstalled  ImportError      a known backend that is absent, or disabled
    ├── BackendConflict                       two distributions offer one scheme
    ├── BackendBroken        ImportError      an installed backend that cannot be used
    ├── ContractMismatch                      a backend made for another contract
    ├── Unsupported                           the engine lacks what the backend needs
    ├── RevisionConflict                      somebody else changed the log first
    ├── Unavailable          ConnectionError  the storage cannot be reached or written
    │   └── StorageBusy      TimeoutError     others held it for longer than the time-out
    ├── StorageClosed                         an operation after close
    ├── WrongLoop                             a storage used in a second event loop
    ├── WrongProcess                          a storage used in a forked child
    ├── CorruptRecord                         stored bytes that cannot be what we wrote
    ├── UnknownEntryType     LookupError      an entry of a kind this version does not know
    ├── SchemaTooNew                          written by a newer version, left untouched
    ├── ForeignData                           our names, but not our data, left untouched
    ├── MigrationError                        a step to a newer version failed, and was undone
    ├── CheckpointNotFound   LookupError      no such snapshot in the thread
    ├── StateNotFound        LookupError      no snapshot under the key
    ├── TreeNotFound         LookupError      no such tree
    ├── NodeNotFound         LookupError      no such node in the tree
    ├── InvalidNode          ValueError       a node that cannot be where it was to go
    ├── RunNotFound          LookupError      no such run
    ├── SessionExists        ValueError       a session that is in the catalog already
    ├── SessionNotFound      LookupError      a session that is not in the catalog
    ├── CopyConflict         ValueError       another log lies where one was to be copied to
    ├── InvalidExport        ValueError       a file that is no export, or a broken one
    ├── InvalidFilter        ValueError       a choice of what to read that is not understood
    ├── CursorMalformed      ValueError       text that is no cursor
    ├── CursorForeign        ValueError       a cursor of another session
    ├── CursorIncompatible   ValueError       a cursor of another format or filter
    ├── CursorExpired        LookupError      a cursor into what was rewound, cleared or replaced
    └── HistoryTooLarge      ValueError       a page that would have to look at too much

Each class names a situation, carries its data as attributes, and says in ``hint`` what to
do about it. No error carries stored content or a password.
"""

from typing import Any

from durably._typing import override

__all__ = [
    "BackendBroken",
    "BackendConflict",
    "BackendNotInstalled",
    "CheckpointNotFound",
    "ContractMismatch",
    "CopyConflict",
    "CorruptRecord",
    "CursorExpired",
    "CursorForeign",
    "CursorIncompatible",
    "CursorMalformed",
    "DurablyError",
    "ForeignData",
    "HistoryTooLarge",
    "InvalidConfig",
    "InvalidExport",
    "InvalidFilter",
    "InvalidId",
    "InvalidLimit",
    "InvalidNode",
    "InvalidStatus",
    "InvalidUrl",
    "MigrationError",
    "NodeNotFound",
    "NotSerializable",
    "RecordTooLarge",
    "RevisionConflict",
    "RunNotFound",
    "SchemaTooNew",
    "SessionExists",
    "SessionNotFound",
    "StateNotFound",
    "StorageBusy",
    "StorageClosed",
    "TreeNotFound",
    "Unavailable",
    "UnknownEntryType",
    "UnknownScheme",
    "Unsupported",
    "WrongLoop",
    "WrongProcess",
]


_SHOWN_BELOW = 10**20
"""A larger integer is not written out; Python refuses the text of very large ones."""


def _restore(
    cls: type["DurablyError"], args: tuple[Any, ...], state: dict[str, Any]
) -> "DurablyError":
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class DurablyError(Exception):
    """The base of all of them; ``hint`` says what to do, or is empty."""

    hint: str

    def __init__(self, message: str, *, hint: str = "") -> None:
        stop = "" if message.endswith("?") else "."
        super().__init__(f"{message}{stop} {hint}" if hint else message)
        self.hint = hint

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """Survive pickling, so that a worker process can hand an error to its parent."""
        return _restore, (type(self), self.args, self.__dict__)


def _shortened(text: str, length: int = 80) -> str:
    shown = ascii(text)
    return shown if len(shown) <= length else f"{shown[:length]}…"


class InvalidId(DurablyError, ValueError):
    """An id that no backend may store; nothing was touched."""

    def __init__(self, kind: str, value: object, reason: str) -> None:
        shown = _shortened(value) if isinstance(value, str) else type(value).__name__
        super().__init__(
            f"invalid {kind} id {shown}: {reason}",
            hint="Use non-empty text without NUL or lone surrogates",
        )
        self.kind = kind
        self.value = value
        self.reason = reason


class InvalidLimit(DurablyError, ValueError):
    """A count or a time that is out of its range or not a number; nothing was touched."""

    def __init__(
        self,
        name: str,
        value: object,
        *,
        minimum: int,
        maximum: int | None = None,
        what: str = "an integer",
    ) -> None:
        numeric = isinstance(value, float) or (isinstance(value, int) and abs(value) < _SHOWN_BELOW)
        shown = value if numeric else type(value).__name__
        upper = "" if maximum is None else f" and at most {maximum}"
        super().__init__(f"{name} must be {what} of at least {minimum}{upper}, got {shown}")
        self.name = name
        self.value = value
        self.minimum = minimum
        self.maximum = maximum


class InvalidStatus(DurablyError, ValueError):
    """A status that is none of those there are; nothing was touched."""

    def __init__(self, name: str, value: object, *, known: tuple[str, ...]) -> None:
        shown = _shortened(value) if isinstance(value, str) else type(value).__name__
        super().__init__(f"{name} is {shown}, and must be one of {', '.join(known)}")
        self.name = name
        self.value = value
        self.known = known


class InvalidUrl(DurablyError, ValueError):
    """A storage URL that cannot be read; passwords in it are not repeated."""


class NotSerializable(DurablyError, TypeError):
    """A value that JSON cannot give back exactly; nothing was written."""

    def __init__(self, path: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"cannot store {path}: {reason}", hint=hint)
        self.path = path
        self.reason = reason


class RecordTooLarge(DurablyError, ValueError):
    """A record or head above the backend's stated limit, in bytes; nothing was written."""

    def __init__(self, log: object, what: str, *, size: int, limit: int) -> None:
        super().__init__(
            f"the {what} for {log} has {size} bytes, the limit is {limit}",
            hint="Store large content elsewhere and keep a reference to it",
        )
        self.log = log
        self.what = what
        self.size = size
        self.limit = limit


class InvalidConfig(DurablyError, ValueError):
    """A configuration that cannot be read; secrets in it are not repeated."""


class UnknownScheme(DurablyError, ValueError):
    """A URL scheme that no backend answers to."""

    def __init__(self, scheme: str, *, installed: tuple[str, ...], suggestion: str | None) -> None:
        guess = f", did you mean {suggestion!r}?" if suggestion else "."
        super().__init__(
            f"unknown backend {_shortened(scheme)}{guess} Installed: {', '.join(installed)}"
        )
        self.scheme = scheme
        self.installed = installed
        self.suggestion = suggestion


class BackendNotInstalled(DurablyError, ImportError):
    """A known backend that is not installed, not installed whole, or disabled."""


class BackendConflict(DurablyError):
    """Two distributions offer one scheme; neither is used."""

    def __init__(self, scheme: str, distributions: tuple[str, ...]) -> None:
        super().__init__(
            f"{scheme}:// is offered by {', '.join(distributions)}",
            hint="Uninstall one, or register the one you want: durably.plugins.register(plugin)",
        )
        self.scheme = scheme
        self.distributions = distributions


class BackendBroken(DurablyError, ImportError):
    """An installed backend that cannot be imported, or describes itself wrongly."""


class ContractMismatch(DurablyError):
    """A backend made for another contract than this durably's."""

    def __init__(
        self, backend: str, *, implemented: tuple[int, int], spoken: tuple[int, int]
    ) -> None:
        theirs, ours = (".".join(map(str, version)) for version in (implemented, spoken))
        super().__init__(
            f"{backend} implements contract {theirs}, this durably speaks {ours}",
            hint="Upgrade the older of the two",
        )
        self.backend = backend
        self.implemented = implemented
        self.spoken = spoken


class Unsupported(DurablyError):
    """The engine underneath lacks something the backend needs or was asked for."""


class RevisionConflict(DurablyError):
    """The log is not at the revision the caller last saw; nothing was written.

    ``actual`` is 0 where the log does not exist.
    """

    def __init__(self, log: object, *, expected: int, actual: int) -> None:
        super().__init__(
            f"{log} is at revision {actual}, not at the expected {expected}",
            hint="Load it again before you write; a worker whose claim gets this has lost the run",
        )
        self.log = log
        self.expected = expected
        self.actual = actual


class Unavailable(DurablyError, ConnectionError):
    """The storage cannot be reached, read or written."""


class StorageBusy(Unavailable, TimeoutError):
    """Others held the storage for longer than the time-out; nothing was written."""


class StorageClosed(DurablyError):
    """The storage was closed before this operation."""

    def __init__(self) -> None:
        super().__init__("this storage is closed", hint="Open it again with durably.open(url)")


class WrongLoop(DurablyError):
    """A storage is bound to the event loop of its first operation; nothing was touched."""

    def __init__(self) -> None:
        super().__init__(
            "this storage was first used in another event loop",
            hint="Open one in each loop: async with durably.open(url)",
        )


class WrongProcess(DurablyError):
    """A storage is bound to the process of its first operation; nothing was touched."""

    def __init__(self) -> None:
        super().__init__(
            "this storage was first used in another process, of which this one is a fork",
            hint="Open one in each process, after the fork",
        )


class CorruptRecord(DurablyError):
    """Stored bytes that cannot be what was written; they were left as they are.

    ``record`` is the record's key, ``index`` the entry's position in it; both None where the
    fault lies elsewhere.
    """

    def __init__(
        self, log: object, reason: str, *, record: str | None = None, index: int | None = None
    ) -> None:
        place = _place(log, record, index)
        super().__init__(
            f"{place} is corrupt: {reason}", hint="Restore it from a backup, or delete it"
        )
        self.log = log
        self.record = record
        self.index = index
        self.reason = reason


class UnknownEntryType(DurablyError, LookupError):
    """An entry of a type this version does not know; its bytes were left as they are."""

    def __init__(self, log: object, *, record: str, index: int, entry_type: str) -> None:
        super().__init__(
            f"{_place(log, record, index)} has the unknown type {_shortened(entry_type)}",
            hint="A newer durably wrote it: upgrade durably to read it",
        )
        self.log = log
        self.record = record
        self.index = index
        self.entry_type = entry_type


class SchemaTooNew(DurablyError):
    """Written by a newer version; not a byte was changed."""

    def __init__(self, place: str, *, found: int, supported: int, distribution: str) -> None:
        super().__init__(
            f"{place} has format {found}, this version knows formats up to {supported}",
            hint=f"Upgrade {distribution}",
        )
        self.found = found
        self.supported = supported
        self.distribution = distribution


class ForeignData(DurablyError):
    """Our names are taken by data that is not ours; not a byte was changed."""


class MigrationError(DurablyError):
    """A step to a newer layout or version failed; the storage is as it was before."""

    def __init__(self, place: str, *, found: int, wanted: int, reason: str) -> None:
        super().__init__(
            f"{place} could not be brought from version {found} to {wanted}: {reason}",
            hint="It is unchanged and can be used with the version that wrote it",
        )
        self.found = found
        self.wanted = wanted
        self.reason = reason


class CheckpointNotFound(DurablyError, LookupError):
    """The thread has no snapshot of that number, or has evicted it; ``seq`` None: it has none."""

    def __init__(self, thread_id: str, seq: int | None = None) -> None:
        number = "" if seq is None else f" {seq}"
        super().__init__(f"thread {_shortened(thread_id)} has no checkpoint{number}")
        self.thread_id = thread_id
        self.seq = seq


class StateNotFound(DurablyError, LookupError):
    """There is no snapshot under the key."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"there is no state {_shortened(key)}", hint="List what there is with states.list()"
        )
        self.key = key


class TreeNotFound(DurablyError, LookupError):
    """There is no such tree."""

    def __init__(self, tree_id: str) -> None:
        super().__init__(
            f"there is no tree {_shortened(tree_id)}",
            hint="It is made by the first append; list what there is with storage.trees()",
        )
        self.tree_id = tree_id


class NodeNotFound(DurablyError, LookupError):
    """The tree has no such node; nothing was changed."""

    def __init__(self, tree_id: str, node_id: str) -> None:
        super().__init__(f"tree {_shortened(tree_id)} has no node {_shortened(node_id)}")
        self.tree_id = tree_id
        self.node_id = node_id


class InvalidNode(DurablyError, ValueError):
    """A node that cannot be where it was to go; nothing was changed."""

    def __init__(self, tree_id: str, node_id: str, reason: str) -> None:
        super().__init__(
            f"node {_shortened(node_id)} of tree {_shortened(tree_id)} is refused: {reason}"
        )
        self.tree_id = tree_id
        self.node_id = node_id
        self.reason = reason


class RunNotFound(DurablyError, LookupError):
    """There is no such run, and its session has none either."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"there is no run {_shortened(run_id)}",
            hint="List what there is with checkpointer.runs()",
        )
        self.run_id = run_id


class SessionExists(DurablyError, ValueError):
    """The session is in the catalog already; nothing was changed."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {_shortened(session_id)} exists", hint="Take another id, or use it as it is"
        )
        self.session_id = session_id


class SessionNotFound(DurablyError, LookupError):
    """The session is not in the catalog, whether it has runs or not."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"there is no session {_shortened(session_id)} in the catalog",
            hint="Create it: storage.catalog.create(session_id)",
        )
        self.session_id = session_id


class CopyConflict(DurablyError, ValueError):
    """What lies where a log was to be copied to is not the beginning of it; it was left alone."""

    def __init__(self, log: object) -> None:
        super().__init__(
            f"{log} is there with other content, or was changed meanwhile",
            hint="Try again where others write to it; else choose another id, or delete it first",
        )
        self.log = log


class InvalidExport(DurablyError, ValueError):
    """A file that is no export of durably's, or is broken at a line; what came before is stored."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(
            f"line {line} of the export: {reason}", hint="Export it again, then import that"
        )
        self.line = line
        self.reason = reason


class InvalidFilter(DurablyError, ValueError):
    """A choice of what to read that is not understood; nothing was read."""

    def __init__(self, name: str, value: object, *, known: tuple[str, ...]) -> None:
        shown = _shortened(value) if isinstance(value, str) else type(value).__name__
        super().__init__(
            f"{name} is missing" if value is None else f"{name} cannot be {shown}",
            hint=f"It can be {' or '.join(known)}",
        )
        self.name = name
        self.value = value
        self.known = known


class CursorMalformed(DurablyError, ValueError):
    """Text that is no cursor, or not a whole one; nothing was read."""

    def __init__(self) -> None:
        super().__init__("this is no cursor", hint="Pass a page's next_cursor as it is")


class CursorForeign(DurablyError, ValueError):
    """A cursor of another session; nothing was read."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"the cursor is not of session {_shortened(session_id)}",
            hint="Pass it with the session it was made for",
        )
        self.session_id = session_id


class CursorIncompatible(DurablyError, ValueError):
    """A cursor of another format, or of a walk with another filter; nothing was read."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the cursor cannot be used: {reason}", hint="Start again without one")
        self.reason = reason


class CursorExpired(DurablyError, LookupError):
    """A cursor whose positions do not hold any more."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {_shortened(session_id)} was rewound, cleared or created anew",
            hint="Start again without a cursor",
        )
        self.session_id = session_id


class HistoryTooLarge(DurablyError, ValueError):
    """A page that leaves entries out, and would have to look at too many to be filled."""

    def __init__(self, log: object, *, max_records: int, max_bytes: int) -> None:
        super().__init__(
            f"a page of {log} would look at more than {max_records} records or {max_bytes} bytes",
            hint="Ask for fewer items at once, or for all entries",
        )
        self.log = log
        self.max_records = max_records
        self.max_bytes = max_bytes


def _place(log: object, record: str | None, index: int | None) -> str:
    parts = [] if index is None else [f"entry {index}"]
    if record is not None:
        parts.append(f"record {_shortened(record)}")
    return " of ".join([*parts, str(log)])
