"""The operations of the log store, each on the connection's thread in one transaction."""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from durably import CorruptRecord, rules
from durably.logstore import (
    Applied,
    Batch,
    Log,
    LogId,
    LogInfo,
    LogState,
    Page,
    Range,
    Record,
    Rewrite,
)
from durably_sqlite import _queries as queries
from durably_sqlite._connection import transaction

__all__ = ["append", "delete", "list_logs", "read", "rewrite"]

SEQ_BITS = 32
LARGEST_SEQ = (1 << SEQ_BITS) - 1
AFTER_ANY_SUFFIX = 64 * "\U0010ffff"
"""An id of at most 256 bytes with some prefix does not sort after the prefix and this."""

S = TypeVar("S", bound=msgspec.Struct)

_changes = msgspec.msgpack.Decoder(tuple[rules.Change, ...])


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    log: LogId
    number: int
    tip: rules.Tip

    def place(self, seq: int) -> int:
        """Return where a record lies: a seq no log can reach is held to the last place."""
        return self.number << SEQ_BITS | min(seq, LARGEST_SEQ)

    def seq(self, place: int) -> int:
        return place & LARGEST_SEQ


def append(connection: sqlite3.Connection, namespace: str, log: LogId, batch: Batch) -> Applied:
    """Append a batch, or find that it is there already."""
    with transaction(connection):
        found = _find(connection, namespace, log)
        known = _known(connection, found, batch.record_keys) if found else {}
        decided = rules.admit(log, found.tip if found else None, batch, known)
        if isinstance(decided, Applied):
            return decided
        if found is None:
            found = _insert_log(connection, namespace, log, decided.tip)
        else:
            _update_log(connection, found, decided.tip)
        connection.executemany(queries.INSERT_RECORD, _rows(found, decided.records))
        if decided.excess:
            _evict(connection, found, decided)
        return decided.applied


def read(connection: sqlite3.Connection, namespace: str, log: LogId, span: Range) -> Log | None:
    """Read state and records of one moment."""
    with transaction(connection, writing=False):
        found = _find(connection, namespace, log)
        if found is None:
            return None
        records = () if span.limit == 0 else rules.select(_walk(connection, found, span), span)
        return Log(state=found.tip.state, records=records)


def rewrite(connection: sqlite3.Connection, namespace: str, log: LogId, change: Rewrite) -> Applied:
    """Drop and replace records."""
    with transaction(connection):
        found = _find(connection, namespace, log)
        touched = _touched(connection, found, change) if found else ()
        decided = rules.edit(log, found.tip if found else None, change, touched)
        if isinstance(decided, rules.Edit) and found:
            _apply(connection, found, decided)
        return decided.applied if isinstance(decided, rules.Edit) else decided


def delete(
    connection: sqlite3.Connection, namespace: str, log: LogId, expected_revision: int | None
) -> bool:
    """Remove a log with its records."""
    with transaction(connection):
        found = _find(connection, namespace, log)
        if found is None:
            return False
        rules.check_revision(log, found.tip, expected_revision)
        connection.execute(queries.DELETE_RECORDS, (found.place(0), found.place(LARGEST_SEQ)))
        connection.execute(queries.DELETE_LOG, (found.number,))
        return True


def list_logs(
    connection: sqlite3.Connection,
    namespace: str,
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
        (namespace, kind, after, prefix, prefix + AFTER_ANY_SUFFIX, limit + 1),
    ).fetchall()
    items = tuple(_info(kind, row) for row in rows[:limit])
    return Page(items=items, next=items[-1].id if len(rows) > limit else None)


def _info(kind: str, row: Sequence[Any]) -> LogInfo:
    id_, *state = row
    log = LogId(kind=kind, id=id_)
    return LogInfo(id=id_, state=_checked(log, state, LogState) if state else None)


def _find(connection: sqlite3.Connection, namespace: str, log: LogId) -> _Found | None:
    row = connection.execute(queries.FIND_LOG, (namespace, log.kind, log.id)).fetchone()
    if row is None:
        return None
    number, *state, changes = row
    try:
        remembered = _changes.decode(changes)
    except (TypeError, msgspec.DecodeError):
        raise CorruptRecord(log, "its remembered changes are spoiled") from None
    tip = rules.Tip(state=_checked(log, state, LogState), changes=remembered)
    return _Found(log=log, number=number, tip=tip)


def _checked(log: LogId, columns: Sequence[Any], type_: type[S]) -> S:
    """Return the columns of a row, which SQLite lets hold anything, as the value they make."""
    try:
        return msgspec.convert(dict(zip(type_.__struct_fields__, columns, strict=True)), type_)
    except msgspec.ValidationError as error:
        raise CorruptRecord(log, f"a column of its row is spoiled: {error}") from None


def _columns(tip: rules.Tip) -> tuple[Any, ...]:
    return (*msgspec.structs.astuple(tip.state), msgspec.msgpack.encode(tip.changes))


def _insert_log(
    connection: sqlite3.Connection, namespace: str, log: LogId, tip: rules.Tip
) -> _Found:
    values = (namespace, log.kind, log.id, *_columns(tip))
    number = connection.execute(queries.INSERT_LOG, values).lastrowid or 0
    return _Found(log=log, number=number, tip=tip)


def _update_log(connection: sqlite3.Connection, found: _Found, tip: rules.Tip) -> None:
    connection.execute(queries.UPDATE_LOG, (*_columns(tip), found.number))


def _known(
    connection: sqlite3.Connection, found: _Found, keys: Iterable[str]
) -> dict[str, rules.Known]:
    known: dict[str, rules.Known] = {}
    for key in keys:
        row = connection.execute(queries.FIND_KEY, (found.number, key)).fetchone()
        if row is not None:
            place, revision = row
            known[key] = rules.Known(found.seq(place), revision)
    return known


def _rows(found: _Found, records: Iterable[Record]) -> Iterator[tuple[Any, ...]]:
    for record in records:
        yield (
            found.place(record.seq),
            found.number,
            record.key,
            record.entry_count,
            record.stored_at,
            record.revision,
            record.data,
        )


def _evict(connection: sqlite3.Connection, found: _Found, admission: rules.Admission) -> None:
    last, entries = connection.execute(
        queries.MEASURE_OLDEST, (found.place(0), found.place(LARGEST_SEQ), admission.excess)
    ).fetchone()
    connection.execute(queries.DELETE_RECORDS, (found.place(0), last))
    tip = rules.evict(admission.tip, records=admission.excess, entries=entries)
    _update_log(connection, found, tip)


def _walk(connection: sqlite3.Connection, found: _Found, span: Range) -> Iterator[Record]:
    """Yield the records a range may hold, in the order of reading."""
    query = queries.READ_DESCENDING if span.newest else queries.READ_ASCENDING
    first = found.place(span.after + 1)
    last = found.place(LARGEST_SEQ if span.until is None else span.until)
    spans = [(first, last)]
    if span.keys is not None:
        known = _known(connection, found, span.keys).values()
        places = sorted((found.place(one.seq) for one in known), reverse=span.newest)
        spans = [(place, place) for place in places]
    for low, high in spans:
        for row in connection.execute(query, (span.with_data, low, high)):
            yield _record(found, row)


def _record(found: _Found, row: Sequence[Any]) -> Record:
    place, *rest = row
    return _checked(found.log, (found.seq(place), *rest), Record)


def _touched(connection: sqlite3.Connection, found: _Found, change: Rewrite) -> Iterator[Record]:
    """Yield the records a change drops or replaces, each once and without data."""
    cut = LARGEST_SEQ if change.drop_after is None else change.drop_after
    spans = [(found.place(cut + 1), found.place(LARGEST_SEQ))] if cut < LARGEST_SEQ else []
    singles = (change.drop | change.replace.keys()) if change.drop or change.replace else ()
    spans += [(found.place(seq), found.place(seq)) for seq in singles if seq <= cut]
    for low, high in spans:
        for row in connection.execute(queries.READ_ASCENDING, (False, low, high)):
            yield _record(found, row)


def _apply(connection: sqlite3.Connection, found: _Found, edit: rules.Edit) -> None:
    places = (found.place(seq) for seq in edit.dropped)
    connection.executemany(queries.DELETE_RECORDS, ((place, place) for place in places))
    connection.executemany(
        queries.UPDATE_RECORD,
        ((one.data, one.entry_count, found.place(one.seq)) for one in edit.replaced),
    )
    _update_log(connection, found, edit.tip)
