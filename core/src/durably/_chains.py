"""How snapshots of a thread share their messages: pure functions over records.

A *base* record holds all messages of its snapshot; a *delta* holds those that follow the first
``shared`` of the snapshot before it, and names its base. A snapshot is read by playing its base
and the deltas up to it. A new base is due once the deltas since the last one have grown to a
good part of its size: what is written in all stays within a small multiple of the final size,
and so does what is read. A record's key says which of the two it is, so that what no snapshot
needs any more is known from the index alone.
"""

from collections.abc import Sequence
from hashlib import blake2b

import msgspec

from durably._raw import RawObject, join_items, join_object
from durably._records import payload, raw_items, raw_object
from durably.codec import dump_json, load_json
from durably.errors import CorruptRecord
from durably.logstore import Applied, Log, LogId, NewRecord, Record

__all__ = [
    "Played",
    "Saved",
    "Tail",
    "advance",
    "base_of",
    "base_record",
    "needed",
    "next_record",
    "play",
    "tail_of",
]

LONG_CHAIN = 64
"""Deltas after which a base is due as soon as they hold half of its size."""

_BASE = "base:"
_DELTA = "delta:"


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot as it is to be stored: its messages, and everything else, encoded."""

    key: str
    snapshot: bytes
    messages: list[bytes]

    def digests(self) -> tuple[bytes, ...]:
        """Return what tells the messages apart, 16 bytes for each."""
        return tuple(map(_digest, self.messages))


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """What a writer must know of a thread to append the next snapshot as a delta.

    ``bases`` says of each record in the log, oldest first, whether it is a base; only a bounded
    saver keeps it.
    """

    revision: int
    base_seq: int
    digests: tuple[bytes, ...]
    deltas: int = 0
    delta_bytes: int = 0
    bases: tuple[bool, ...] = ()


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """A record with all messages of its snapshot, those it shares included."""

    record: Record
    snapshot: msgspec.Raw
    messages: list[msgspec.Raw]


def _digest(message: bytes) -> bytes:
    return blake2b(message, digest_size=16).digest()


def base_record(saved: Saved) -> NewRecord:
    """Return the record that holds all of a snapshot."""
    fields: RawObject = {
        "messages": join_items(saved.messages),
        "snapshot": msgspec.Raw(saved.snapshot),
    }
    return NewRecord(
        key=_BASE + saved.key, entry_count=len(saved.messages), data=join_object(fields)
    )


def _delta_record(tail: Tail, saved: Saved, shared: int) -> NewRecord:
    fresh = saved.messages[shared:]
    fields: RawObject = {
        "base": msgspec.Raw(dump_json(tail.base_seq)),
        "shared": msgspec.Raw(dump_json(shared)),
        "messages": join_items(fresh),
        "snapshot": msgspec.Raw(saved.snapshot),
    }
    return NewRecord(key=_DELTA + saved.key, entry_count=len(fresh), data=join_object(fields))


def next_record(tail: Tail | None, saved: Saved, base: NewRecord) -> NewRecord:
    """Return the record to append for a snapshot: a delta, or its base where one is due."""
    if tail is None:
        return base
    shared = 0
    for old, new in zip(tail.digests, saved.digests(), strict=False):
        if old != new:
            break
        shared += 1
    delta = _delta_record(tail, saved, shared)
    grown = tail.delta_bytes + len(delta.data)
    long = tail.deltas >= LONG_CHAIN and 2 * grown >= len(base.data)
    return base if long or grown >= len(base.data) else delta


def advance(
    tail: Tail | None, saved: Saved, record: NewRecord, applied: Applied, bound: int | None
) -> Tail:
    """Return the tail after a record was appended."""
    is_delta = tail is not None and not _is_base(record.key)
    bases = flags(tail, record)
    return Tail(
        revision=applied.revision,
        base_seq=tail.base_seq if tail and is_delta else applied.seq,
        digests=saved.digests(),
        deltas=tail.deltas + 1 if tail and is_delta else 0,
        delta_bytes=tail.delta_bytes + len(record.data) if tail and is_delta else 0,
        bases=() if bound is None else bases[-needed(bases, bound) :],
    )


def flags(tail: Tail | None, record: NewRecord) -> tuple[bool, ...]:
    """Say of each record of a thread, with a new one at the end, whether it is a base."""
    return (*(tail.bases if tail else ()), _is_base(record.key))


def needed(bases: Sequence[bool], bound: int) -> int:
    """Return how many of the newest records the newest ``bound`` snapshots are played from."""
    oldest = max(0, len(bases) - bound)
    while oldest > 0 and not bases[oldest]:
        oldest -= 1
    return len(bases) - oldest


def _is_base(key: str | None) -> bool:
    return key is not None and key.startswith(_BASE)


def tail_of(log: LogId, newest: Log, index: Sequence[Record]) -> Tail:
    """Return the tail of a thread from its newest snapshot's records and, if kept, its index.

    Raises:
        CorruptRecord: the records cannot be read.
    """
    base, *deltas = newest.records
    messages = play(log, newest.records)[-1].messages
    return Tail(
        revision=newest.state.revision,
        base_seq=base.seq,
        digests=tuple(_digest(bytes(message)) for message in messages),
        deltas=len(deltas),
        delta_bytes=sum(len(payload(log, record)) for record in deltas),
        bases=tuple(_is_base(record.key) for record in index),
    )


def base_of(log: LogId, record: Record) -> int:
    """Return the seq of the base a record is played from: its own, if it is one.

    Raises:
        CorruptRecord: the record cannot be read.
    """
    if _is_base(record.key):
        return record.seq
    return _number(log, record, raw_object(payload(log, record), log, record.key), "base")


def play(log: LogId, records: Sequence[Record]) -> list[Played]:
    """Return the snapshots of a base and the records that follow it.

    Raises:
        CorruptRecord: a record cannot be read, or does not fit those before it.
    """
    played: list[Played] = []
    messages: list[msgspec.Raw] = []
    for record in records:
        fields = raw_object(payload(log, record), log, record.key)
        shared = 0 if _is_base(record.key) else _number(log, record, fields, "shared")
        if shared > len(messages):
            raise CorruptRecord(log, "the messages it shares are missing", record=record.key)
        fresh = raw_items(fields.get("messages", msgspec.Raw(b"null")), log, record.key)
        messages = messages[:shared] + fresh
        snapshot = fields.get("snapshot", msgspec.Raw(b"null"))
        played.append(Played(record=record, snapshot=snapshot, messages=messages))
    return played


def _number(log: LogId, record: Record, fields: RawObject, name: str) -> int:
    value = load_json(bytes(fields.get(name, msgspec.Raw(b"null"))))
    if type(value) is not int or value < 0:
        raise CorruptRecord(log, f"its {name!r} is not a number", record=record.key)
    return value
