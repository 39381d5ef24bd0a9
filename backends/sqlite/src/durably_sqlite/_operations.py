"""The operations of the log store, each within a transaction on the connection's thread."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from durably import RevisionConflict, rules
from durably.logstore import (
    Applied,
    Batch,
    Log,
    LogId,
    LogInfo,
    Page,
    Range,
    Record,
    Rewrite,
)
from durably_sqlite import _queries as queries
from durably_sqlite._groups import Connection
from durably_sqlite._packing import pack
from durably_sqlite._rows import changes_of, oldest_of, records_of, state_of

__all__ = ["Scope", "append", "delete", "list_logs", "read", "rewrite"]

SEQ_BITS = 32
LARGEST_SEQ = (1 << SEQ_BITS) - 1
AFTER_ANY_SUFFIX = 64 * "\U0010ffff"
"""An id of at most 256 bytes with some prefix does not sort after the prefix and this."""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Which logs a store sees, and whether it compresses what it writes."""

    namespace: str
    compress: bool


class _Append(NamedTuple):
    """A batch, its log as it is, and which of its keys are there."""

    log: LogId
    batch: Batch
    found: "_Found | None"
    known: Mapping[str, rules.Known] = {}


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    log: LogId
    number: int
    tip: rules.Tip

    def place(self, seq: int) -> int:
        return _place(self.number, seq)


def _place(number: int, seq: int) -> int:
    """Return where a record lies: a seq no log can reach is held to the last place."""
    return number << SEQ_BITS | min(seq, LARGEST_SEQ)


def append(connection: Connection, scope: Scope, log: LogId, batch: Batch) -> Applied:
    """Append a batch, or find that it is there already.

    A single record is taken for new: the unique index objects if it is not. Only then, or where
    a conflict may turn out to be a repetition, are the keys looked up.
    """
    found: _Found | None = connection.tips.get((scope, log)) or _find(connection, scope, log)
    if found is None:
        return _append(connection, scope, _Append(log, batch, None))
    if len(batch.records) == 1:
        try:
            return _append(connection, scope, _Append(log, batch, found))
        except RevisionConflict:
            pass
        except sqlite3.IntegrityError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_UNIQUE:
                raise
    known = _known(connection, found, batch.record_keys)
    return _append(connection, scope, _Append(log, batch, found, known))


def _append(connection: Connection, scope: Scope, asked: _Append) -> Applied:
    found = asked.found
    decided = rules.admit(asked.log, found.tip if found else None, asked.batch, asked.known)
    if isinstance(decided, Applied):
        return decided
    number = found.number if found else _insert_log(connection, scope, asked.log, decided.tip)
    for record in decided.records:
        connection.execute(queries.INSERT_RECORD, _row(number, record, scope))
    tip = _evict(connection, asked.log, number, decided) if decided.excess else decided.tip
    if found or decided.excess:
        _update_log(connection, number, tip)
    connection.tips.put((scope, asked.log), _Found(log=asked.log, number=number, tip=tip))
    return decided.applied


def read(connection: sqlite3.Connection, scope: Scope, log: LogId, span: Range) -> Log | None:
    """Read state and records of one moment."""
    found = _find(connection, scope, log)
    if found is None:
        return None
    return Log(state=found.tip.state, records=_select(connection, found, span))


def rewrite(connection: Connection, scope: Scope, log: LogId, change: Rewrite) -> Applied:
    """Drop and replace records."""
    connection.tips.forget((scope, log))
    found = _find(connection, scope, log)
    touched = _touched(connection, found, change) if found else ()
    decided = rules.edit(log, found.tip if found else None, change, touched)
    if isinstance(decided, rules.Edit) and found:
        _apply(connection, scope, found, decided)
    return decided.applied if isinstance(decided, rules.Edit) else decided


def delete(connection: Connection, scope: Scope, log: LogId, expected_revision: int | None) -> bool:
    """Remove a log with its records."""
    connection.tips.forget((scope, log))
    found = _find(connection, scope, log)
    if found is None:
        return False
    rules.check_revision(log, found.tip, expected_revision)
    connection.execute(queries.DELETE_RECORDS, (found.place(0), found.place(LARGEST_SEQ)))
    connection.execute(queries.DELETE_LOG, (found.number,))
    return True


def list_logs(
    connection: sqlite3.Connection,
    scope: Scope,
    kind: str,
    *,
    prefix: str,
    after: str,
    limit: int,
    with_state: bool,
) -> Page[LogInfo]:
    """List ids in the order of their UTF-8 bytes, which is that of SQLite's BINARY collation."""
    rows = connection.execute(
        queries.LIST_STATES if with_state else queries.LIST_IDS,
        (scope.namespace, kind, after, prefix, prefix + AFTER_ANY_SUFFIX, limit + 1),
    ).fetchall()
    items = tuple(_info(kind, row) for row in rows[:limit])
    return Page(items=items, next=items[-1].id if len(rows) > limit else None)


def _info(kind: str, row: Sequence[Any]) -> LogInfo:
    id_, *state = row
    log = LogId(kind=kind, id=id_)
    return LogInfo(id=id_, state=state_of(log, state) if state else None)


def _find(connection: sqlite3.Connection, scope: Scope, log: LogId) -> _Found | None:
    row = connection.execute(queries.FIND_LOG, (scope.namespace, log.kind, log.id)).fetchone()
    if row is None:
        return None
    number, *state, changes = row
    tip = rules.Tip(state=state_of(log, state), changes=changes_of(log, changes))
    return _Found(log=log, number=number, tip=tip)


def _columns(tip: rules.Tip) -> tuple[Any, ...]:
    return (*msgspec.structs.astuple(tip.state), msgspec.msgpack.encode(tip.changes))


def _insert_log(connection: sqlite3.Connection, scope: Scope, log: LogId, tip: rules.Tip) -> int:
    values = (scope.namespace, log.kind, log.id, *_columns(tip))
    return connection.execute(queries.INSERT_LOG, values).lastrowid or 0


def _update_log(connection: sqlite3.Connection, number: int, tip: rules.Tip) -> None:
    connection.execute(queries.UPDATE_LOG, (*_columns(tip), number))


def _known(
    connection: sqlite3.Connection, found: _Found, keys: Iterable[str]
) -> dict[str, rules.Known]:
    known: dict[str, rules.Known] = {}
    for key in keys:
        row = connection.execute(queries.FIND_KEY, (found.number, key)).fetchone()
        if row is not None:
            place, revision = row
            known[key] = rules.Known(place & LARGEST_SEQ, revision)
    return known


def _row(number: int, record: Record, scope: Scope) -> tuple[Any, ...]:
    return (
        _place(number, record.seq),
        number,
        record.key,
        record.entry_count,
        record.stored_at,
        record.revision,
        *_body(record, scope),
    )


def _body(record: Record, scope: Scope) -> tuple[bytes | None, bytes | None]:
    """Return the columns ``data`` and ``packed``, of which one is empty."""
    packed = pack(record.data) if scope.compress and record.data is not None else None
    return (record.data, None) if packed is None else (None, packed)


def _evict(
    connection: sqlite3.Connection, log: LogId, number: int, admission: rules.Admission
) -> rules.Tip:
    """Remove the oldest records, and return the tip without them."""
    span = (_place(number, 0), _place(number, LARGEST_SEQ), admission.excess)
    measured = connection.execute(queries.MEASURE_OLDEST, span).fetchone()
    last, entries = oldest_of(log, measured)
    connection.execute(queries.DELETE_RECORDS, (_place(number, 0), last))
    return rules.evict(admission.tip, records=admission.excess, entries=entries)


def _select(connection: sqlite3.Connection, found: _Found, span: Range) -> tuple[Record, ...]:
    """Return the records of a range; SQLite itself does what it can of it."""
    if span.limit == 0:
        return ()
    if span.keys is not None or span.entry_limit is not None:
        return rules.select(_walk(connection, found, span), span)
    rows = _query(connection, span, *_bounds(found, span), span.limit).fetchall()
    if span.newest:
        rows.reverse()
    return records_of(found.log, rows)


def _bounds(found: _Found, span: Range) -> tuple[int, int]:
    until = LARGEST_SEQ if span.until is None else span.until
    return found.place(span.after + 1), found.place(until)


def _query(
    connection: sqlite3.Connection, span: Range, low: int, high: int, limit: int | None = None
) -> sqlite3.Cursor:
    query = queries.READ_DESCENDING if span.newest else queries.READ_ASCENDING
    return connection.execute(query, (span.with_data, low, high, -1 if limit is None else limit))


def _walk(connection: sqlite3.Connection, found: _Found, span: Range) -> Iterator[Record]:
    """Yield the records a range may hold, in the order of reading."""
    spans = [_bounds(found, span)]
    if span.keys is not None:
        known = _known(connection, found, span.keys).values()
        places = sorted((found.place(one.seq) for one in known), reverse=span.newest)
        spans = [(place, place) for place in places]
    for low, high in spans:
        for row in _query(connection, span, low, high):
            yield from records_of(found.log, [row])


def _touched(connection: sqlite3.Connection, found: _Found, change: Rewrite) -> Iterator[Record]:
    """Yield the records a change drops or replaces, each once and without data."""
    cut = LARGEST_SEQ if change.drop_after is None else change.drop_after
    spans = [(found.place(cut + 1), found.place(LARGEST_SEQ))] if cut < LARGEST_SEQ else []
    singles = (change.drop | change.replace.keys()) if change.drop or change.replace else ()
    spans += [(found.place(seq), found.place(seq)) for seq in singles if seq <= cut]
    for low, high in spans:
        for row in _query(connection, Range(with_data=False), low, high):
            yield from records_of(found.log, [row])


def _apply(connection: sqlite3.Connection, scope: Scope, found: _Found, edit: rules.Edit) -> None:
    places = (found.place(seq) for seq in edit.dropped)
    connection.executemany(queries.DELETE_RECORDS, ((place, place) for place in places))
    connection.executemany(
        queries.UPDATE_RECORD,
        ((one.entry_count, *_body(one, scope), found.place(one.seq)) for one in edit.replaced),
    )
    _update_log(connection, found.number, edit.tip)
