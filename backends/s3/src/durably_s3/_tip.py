"""The tip of a log: the one mutable object, small whatever the log's length.

It holds the state and the remembered changes, what the sealed chunks are, and the newest records,
which no chunk has yet. A header says how long its two parts are and their checksums; what a
listing needs lies in the first part, so that its first bytes are enough. Whatever is added to
it is a new layout: a reader that passed over it would drop it with the next change. ETags must
not recur, and whoever wrote a tip must know it again: no two are equal, each has a mark.
"""

import secrets
import struct
import zlib
from typing import Annotated, TypeAlias, TypeVar

import msgspec

from durably import rules
from durably.logstore import LogState, Record
from durably_s3._chunks import Chunk, Spoiled, check_magic

__all__ = ["FRONT_BYTES", "TOMBSTONE_BYTES", "Tip", "encode", "read", "read_state", "tombstone"]

T = TypeVar("T")

HEADER = struct.Struct(">4sIIII")
MAGIC = b"dtp1"
TOMBSTONE = b"gone"
TOMBSTONE_BYTES = 16
MARK_BYTES = 8
FRONT_BYTES = 8 * 1024
"""What a listing reads of a tip: header and first part, unless the head is a large one."""


_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class _State(msgspec.Struct, frozen=True, array_like=True):
    revision: int
    epoch: int
    next_seq: _Count
    record_count: _Count
    entry_count: _Count
    created_at: float
    updated_at: float
    head: bytes | None


class _Change(msgspec.Struct, frozen=True, array_like=True, gc=False):
    digest: bytes
    revision: int
    seq: int


class _Front(msgspec.Struct, frozen=True, array_like=True):
    state: _State
    changes: tuple[_Change, ...]
    low: int
    chunks: tuple[Chunk, ...]
    mark: bytes


class _Newest(msgspec.Struct, frozen=True, array_like=True, gc=False):
    seq: int
    key: str
    entry_count: int
    stored_at: float
    revision: int
    data: bytes


class Tip(msgspec.Struct, frozen=True, kw_only=True):
    """A log's state and where its records are: in chunks, oldest first, and the newest here.

    Records with a seq up to ``low`` were evicted, whatever the chunks still have of them.
    """

    rules: rules.Tip
    low: int = 0
    chunks: tuple[Chunk, ...] = ()
    tail: tuple[Record, ...] = ()


_encoder = msgspec.msgpack.Encoder()
_front = msgspec.msgpack.Decoder(_Front)
_tail: msgspec.msgpack.Decoder[tuple[_Newest, ...]] = msgspec.msgpack.Decoder(tuple[_Newest, ...])


def encode(tip: Tip) -> bytes:
    """Return bytes of a tip; no two times the same."""
    state = tip.rules.state
    front = _encoder.encode(
        _Front(
            _State(
                state.revision,
                state.epoch,
                state.next_seq,
                state.record_count,
                state.entry_count,
                state.created_at,
                state.updated_at,
                state.head,
            ),
            tuple(_Change(one.digest, one.revision, one.seq) for one in tip.rules.changes),
            tip.low,
            tip.chunks,
            secrets.token_bytes(MARK_BYTES),
        )
    )
    tail = _encoder.encode([_newest(record) for record in tip.tail])
    header = HEADER.pack(MAGIC, len(front), len(tail), zlib.crc32(front), zlib.crc32(tail))
    return header + front + tail


def _newest(record: Record) -> _Newest:
    return _Newest(
        record.seq,
        record.key,
        record.entry_count,
        record.stored_at,
        record.revision,
        record.data or b"",
    )


def read(data: bytes) -> Tip | None:
    """Return the tip of some bytes, None for those of a tombstone.

    Raises:
        Spoiled: they are neither.
    """
    if len(data) == TOMBSTONE_BYTES and data.startswith(TOMBSTONE):
        return None
    front_size, tail_size, checksum = _header(data)
    end = HEADER.size + front_size
    if len(data) != end + tail_size:
        raise Spoiled(f"it has {len(data)} bytes, not {end + tail_size}")
    if zlib.crc32(data[end:]) != checksum:
        raise Spoiled("its newest records are not what was written")
    front = _read_front(data[HEADER.size : end])
    return Tip(
        rules=rules.Tip(
            state=_state(front.state),
            changes=tuple(
                rules.Change(digest=one.digest, revision=one.revision, seq=one.seq)
                for one in front.changes
            ),
        ),
        low=front.low,
        chunks=front.chunks,
        tail=tuple(_record(one) for one in _decoded(_tail, data[end:])),
    )


def read_state(data: bytes) -> LogState | int | None:
    """Return the state from a tip's first bytes, None for a tombstone, or how many are needed.

    Raises:
        Spoiled: they are neither.
    """
    if len(data) == TOMBSTONE_BYTES and data.startswith(TOMBSTONE):
        return None
    front_size, _, _ = _header(data)
    end = HEADER.size + front_size
    return end if len(data) < end else _state(_read_front(data[HEADER.size : end]).state)


def _header(data: bytes) -> tuple[int, int, int]:
    """Return the lengths of both parts and the checksum of the second; the first is checked."""
    if len(data) < HEADER.size:
        raise Spoiled(f"it has {len(data)} bytes")
    magic, front_size, tail_size, front_sum, tail_sum = HEADER.unpack_from(data)
    check_magic(magic, MAGIC)
    front = data[HEADER.size : HEADER.size + front_size]
    if len(front) == front_size and zlib.crc32(front) != front_sum:
        raise Spoiled("its state is not what was written")
    return front_size, tail_size, tail_sum


def _read_front(data: bytes) -> _Front:
    return _decoded(_front, data)


def _decoded(decoder: msgspec.msgpack.Decoder[T], data: bytes) -> T:
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        raise Spoiled(f"it cannot be read: {error}") from None


def _state(stored: _State) -> LogState:
    return LogState(
        revision=stored.revision,
        epoch=stored.epoch,
        next_seq=stored.next_seq,
        record_count=stored.record_count,
        entry_count=stored.entry_count,
        head=stored.head,
        created_at=stored.created_at,
        updated_at=stored.updated_at,
    )


def _record(newest: _Newest) -> Record:
    return Record(
        seq=newest.seq,
        key=newest.key,
        entry_count=newest.entry_count,
        stored_at=newest.stored_at,
        revision=newest.revision,
        data=newest.data,
    )


def tombstone() -> bytes:
    """Return what is put over the tip of a log that is to go; no two are equal."""
    return TOMBSTONE + secrets.token_bytes(TOMBSTONE_BYTES - len(TOMBSTONE))
