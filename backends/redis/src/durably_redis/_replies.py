"""From what the server answers to durably's values."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from durably import CorruptRecord, RevisionConflict
from durably.logstore import Applied, Log, LogId, LogState, Record

__all__ = ["applied", "half_of", "log_of_answer", "state_of", "whole_log"]


def applied(log: LogId, reply: Sequence[bytes], expected: int | None) -> Applied:
    """Return what became of a change.

    Raises:
        RevisionConflict: the log is at another revision.
        CorruptRecord: a part of the log is missing.
    """
    verdict = reply[0]
    if verdict == b"conflict":
        raise RevisionConflict(log, expected=expected or 0, actual=int(reply[1]))
    if verdict == b"corrupt":
        raise CorruptRecord(log, reply[1].decode())
    return Applied(revision=int(reply[1]), seq=int(reply[2]), duplicate=verdict == b"duplicate")


def half_of(log: LogId) -> CorruptRecord:
    """Return what is to be said of a log of which a part is missing."""
    return CorruptRecord(log, "a part of it is missing, as after an eviction")


def state_of(log: LogId, state: bytes, head: bytes | None) -> LogState:
    """Return the state that a log's hash holds as text.

    Raises:
        CorruptRecord: it cannot be read.
    """
    try:
        revision, epoch, next_seq, count, entries, created_at, updated_at = state.split(b" ")
        return LogState(
            revision=int(revision),
            epoch=int(epoch),
            next_seq=int(next_seq),
            record_count=int(count),
            entry_count=int(entries),
            head=head,
            created_at=float(created_at),
            updated_at=float(updated_at),
        )
    except ValueError:
        raise CorruptRecord(log, "its state cannot be read") from None


def whole_log(log: LogId, answer: tuple[int, Sequence[bytes]]) -> Log | None:
    """Return a whole log from how many records its order has and what its hash holds.

    Raises:
        CorruptRecord: a part of it is missing or cannot be read.
    """
    ordered, flat = answer
    if not flat and not ordered:
        return None
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    if b"s" not in fields:
        raise half_of(log)
    state = state_of(log, fields[b"s"], fields.get(b"head"))
    found: list[Record] = []
    for name, index in fields.items():
        if name[:1] == b"=":
            data = fields.get(b"#" + index[: index.find(b" ")])
            if data is None:
                raise CorruptRecord(log, "its data is missing", record=_text(log, name[1:]))
            found.append(_indexed(log, name[1:], index, data))
    if not len(found) == ordered == state.record_count:
        raise half_of(log)
    found.sort(key=attrgetter("seq"))
    return Log(state=state, records=tuple(found))


def log_of_answer(
    log: LogId, answer: Sequence[Any], *, with_data: bool, newest: bool
) -> Log | None:
    """Return what the script that reads answered.

    Raises:
        CorruptRecord: a part of it is missing or cannot be read.
    """
    if not answer:
        return None
    if answer[0] == b"corrupt":
        raise half_of(log)
    rows = [answer[place : place + 3] for place in range(2, len(answer), 3)]
    found: list[Record] = []
    for key, index, data in rows:
        if index is None or (with_data and data is None):
            raise CorruptRecord(log, "a part of it is missing", record=_text(log, key))
        found.append(_indexed(log, key, index, data if with_data else None))
    if newest:
        found.reverse()
    return Log(state=state_of(log, answer[0], answer[1]), records=tuple(found))


def _indexed(log: LogId, key: bytes, index: bytes, data: bytes | None) -> Record:
    try:
        seq, entry_count, revision, stored_at = index.decode().split(" ")
        return Record(
            seq=int(seq),
            key=key.decode(),
            entry_count=int(entry_count),
            stored_at=float(stored_at),
            revision=int(revision),
            data=data,
        )
    except ValueError:
        raise CorruptRecord(log, "its index cannot be read", record=_text(log, key)) from None


def _text(log: LogId, key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise CorruptRecord(log, "the key of a record is not UTF-8") from None
