"""How snapshots of a thread share their messages: pure functions over records.

A *base* record holds all messages of its snapshot; a *delta* holds those that follow the first
``shared`` of the snapshot before it, and says how many records ``back`` its base is. A snapshot
is read by playing its base and the deltas up to it. A new base is due once the deltas since
the last one have grown to a good part of its size: what is written in all stays within a small
multiple of the final size, and so does what is read. A record's key says which of the two it
is, so that what no snapshot needs any more is known from the index alone.
"""

from collections.abc import Sequence
from hashlib import blake2b
from itertools import takewhile
from typing import Annotated

import msgspec

from durably._raw import RawObject, join_items, join_object
from durably._records import payload, raw_items, raw_object
from durably._snapshots import join_snapshot
from durably.checks import MAX_COUNT
from durably.codec import dump_json
from durably.errors import CorruptRecord
from durably.logstore import Applied, Log, LogId, NewRecord, Record, new_key

__all__ = [
    "Played",
    "Saved",
    "Tail",
    "advance",
    "distance",
    "flags",
    "kept",
    "next_record",
    "play",
    "saved",
    "starts_with_base",
    "tail_of",
]

LONG_CHAIN = 64
"""Deltas after which a base is due as soon as they hold half of its size."""

_count = msgspec.json.Decoder(Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)])
_BASE = "base:"
_DELTA = "delta:"


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot as it is to be stored.

    Its messages with their digests, everything else, all encoded, and the base made of them.
    """

    key: str
    snapshot: bytes
    messages: list[bytes]
    digests: tuple[bytes, ...]
    base: NewRecord


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """What a writer must know of a thread to append the next snapshot as a delta.

    ``deltas`` counts those since the last base. ``bases`` says of each record in the log,
    oldest first, whether it is a base; only a bounded saver keeps it.
    """

    revision: int
    digests: tuple[bytes, ...]
    deltas: int = 0
    delta_bytes: int = 0
    bases: tuple[bool, ...] = ()


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """A record with all messages of its snapshot, those it shares included."""

    record: Record
    snapshot: msgspec.Raw
    messages: list[msgspec.Raw]


def saved(snapshot: bytes, messages: list[bytes]) -> Saved:
    """Return an encoded snapshot as it is to be stored, under a fresh key."""
    key = new_key()
    return Saved(
        key=key,
        snapshot=snapshot,
        messages=messages,
        digests=tuple(map(_digest, messages)),
        base=NewRecord(key=_BASE + key, data=join_snapshot(snapshot, messages)),
    )


def _digest(message: bytes) -> bytes:
    return blake2b(message, digest_size=16).digest()


def _delta_record(tail: Tail, saved: Saved, shared: int) -> NewRecord:
    fields: RawObject = {
        "back": msgspec.Raw(dump_json(tail.deltas + 1)),
        "shared": msgspec.Raw(dump_json(shared)),
        "messages": join_items(saved.messages[shared:]),
        "snapshot": msgspec.Raw(saved.snapshot),
    }
    return NewRecord(key=_DELTA + saved.key, data=join_object(fields))


def next_record(tail: Tail | None, saved: Saved) -> NewRecord:
    """Return the record to append for a snapshot: a delta, or a base where one is due."""
    base = saved.base
    if tail is None:
        return base
    delta = _delta_record(tail, saved, _shared(tail.digests, saved.digests))
    grown = tail.delta_bytes + len(delta.data)
    long = tail.deltas >= LONG_CHAIN and 2 * grown >= len(base.data)
    return base if long or grown >= len(base.data) else delta


def _shared(old: Sequence[bytes], new: Sequence[bytes]) -> int:
    """Return how many of the first messages are the same."""
    pairs = zip(old, new, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def advance(
    tail: Tail | None, saved: Saved, record: NewRecord, applied: Applied, bases: tuple[bool, ...]
) -> Tail:
    """Return the tail after a record was appended; ``bases`` are those left in the log."""
    delta = None if _is_base(record.key) else tail
    return Tail(
        revision=applied.revision,
        digests=saved.digests,
        deltas=delta.deltas + 1 if delta else 0,
        delta_bytes=delta.delta_bytes + len(record.data) if delta else 0,
        bases=bases,
    )


def flags(tail: Tail | None, record: NewRecord) -> tuple[bool, ...]:
    """Say of each record of a thread, with a new one at the end, whether it is a base."""
    return (*(tail.bases if tail else ()), _is_base(record.key))


def kept(bases: tuple[bool, ...], bound: int) -> tuple[bool, ...]:
    """Return the end of ``bases`` that the newest ``bound`` snapshots are played from."""
    oldest = max(0, len(bases) - bound)
    while oldest > 0 and not bases[oldest]:
        oldest -= 1
    return bases[oldest:]


def _is_base(key: str | None) -> bool:
    return key is not None and key.startswith(_BASE)


def tail_of(log: LogId, newest: Log, index: Sequence[Record]) -> Tail:
    """Return the tail of a thread from its newest snapshot's records and, if kept, its index.

    Raises:
        CorruptRecord: the records cannot be read.
    """
    deltas = newest.records[1:]
    messages = play(log, newest.records)[-1].messages
    return Tail(
        revision=newest.state.revision,
        digests=tuple(_digest(bytes(message)) for message in messages),
        deltas=len(deltas),
        delta_bytes=sum(len(payload(log, record)) for record in deltas),
        bases=tuple(_is_base(record.key) for record in index),
    )


def distance(log: LogId, record: Record) -> int:
    """Return how many records before this one its base is; 0 for a base.

    Raises:
        CorruptRecord: the record cannot be read.
    """
    if _is_base(record.key):
        return 0
    return _number(log, record, raw_object(payload(log, record), log, record.key), "back")


def starts_with_base(records: Sequence[Record]) -> bool:
    """Whether the first of some records is a base."""
    return bool(records) and _is_base(records[0].key)


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
    try:
        return _count.decode(fields.get(name, msgspec.Raw(b"null")))
    except msgspec.DecodeError as error:
        raise CorruptRecord(log, f"its {name!r} is no number", record=record.key) from error
