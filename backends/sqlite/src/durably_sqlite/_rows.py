"""From rows, in which SQLite lets any column hold anything, to durably's values."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from durably import CorruptRecord, rules
from durably.logstore import LogId, LogState, Record

__all__ = ["changes_of", "oldest_of", "records_of", "state_of"]

T = TypeVar("T")

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_State: TypeAlias = tuple[int, int, _Count, _Count, _Count, bytes | None, float, float]
_Record: TypeAlias = tuple[_Count, str, _Count, float, int, bytes | None]

_changes = msgspec.msgpack.Decoder(tuple[rules.Change, ...])


def state_of(log: LogId, columns: Sequence[Any]) -> LogState:
    """Return the state of a log.

    Raises:
        CorruptRecord: a column holds what it cannot.
    """
    row: _State = _checked(log, columns, _State)
    revision, epoch, next_seq, record_count, entry_count, head, created_at, updated_at = row
    return LogState(
        revision=revision,
        epoch=epoch,
        next_seq=next_seq,
        record_count=record_count,
        entry_count=entry_count,
        head=head,
        created_at=created_at,
        updated_at=updated_at,
    )


def changes_of(log: LogId, column: bytes) -> tuple[rules.Change, ...]:
    """Return the changes a log remembers.

    Raises:
        CorruptRecord: they cannot be read.
    """
    try:
        return _changes.decode(column)
    except (TypeError, msgspec.DecodeError):
        raise CorruptRecord(log, "its remembered changes are spoiled") from None


def records_of(log: LogId, rows: Iterable[sqlite3.Row | Sequence[Any]]) -> tuple[Record, ...]:
    """Return records, in the order of their rows.

    Raises:
        CorruptRecord: a column holds what it cannot.
    """
    checked: list[_Record] = _checked(log, rows, list[_Record])
    return tuple(
        Record(
            seq=seq,
            key=key,
            entry_count=entry_count,
            stored_at=stored_at,
            revision=revision,
            data=data,
        )
        for seq, key, entry_count, stored_at, revision, data in checked
    )


def oldest_of(log: LogId, columns: Sequence[Any]) -> tuple[int, int]:
    """Return the last place of the oldest records, and how many entries those hold.

    Raises:
        CorruptRecord: a column holds what it cannot.
    """
    measured: tuple[int, int] = _checked(log, columns, tuple[int, int])
    return measured


def _checked(log: LogId, columns: object, type_: Any) -> Any:  # noqa: ANN401 - a type form
    try:
        return msgspec.convert(columns, type_)
    except msgspec.ValidationError as error:
        raise CorruptRecord(log, f"a column of its rows is spoiled: {error}") from None
