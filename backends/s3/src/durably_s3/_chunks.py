"""Sealed chunks: immutable objects of records, with an index at their head.

A chunk is a header, an index and blocks. The header says how long the index is and its checksum.
The index, compressed, has a row per record with everything but its data, and says where the
blocks end; a block is the data of successive records, compressed where that pays. To know which
keys a chunk has, or what to cut, the first bytes of it suffice, and to read a record its block.
Chunks are merged without unpacking their blocks.
"""

import secrets
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

import msgspec

from durably.logstore import Record

__all__ = [
    "Block",
    "Chunk",
    "Index",
    "Row",
    "Sealed",
    "Span",
    "Spoiled",
    "TooNew",
    "blocks_of",
    "build",
    "check_magic",
    "concatenate",
    "index_range",
    "read_index",
    "read_records",
    "record_of",
    "spans_of",
    "split",
]

BLOCK_BYTES = 64 * 1024
"""Of data, before it is compressed; a larger record is a block of its own."""

FASTEST = 1
HEADER = struct.Struct(">4sII")
MAGIC = b"dch1"


class Spoiled(Exception):
    """Bytes that are not what was written; its text says how one can tell."""


class TooNew(Exception):
    """Bytes of a later format than this version's."""


def check_magic(found: bytes, known: bytes) -> None:
    """Check how an object begins: three letters for what it is, and a digit for its format.

    Raises:
        TooNew: the format is a later one.
        Spoiled: it is no such object.
    """
    if found[:3] == known[:3] and known[3:] < found[3:] <= b"9":
        raise TooNew
    if found != known:
        raise Spoiled("it does not begin as it must")


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A record without its data, and where that lies within its block, in bytes."""

    seq: int
    key: str
    entry_count: int
    stored_at: float
    revision: int
    start: int
    size: int


class Block(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How many bytes a block has, their checksum, of how many rows, and whether compressed."""

    size: int
    checksum: int
    rows: int
    packed: bool


class Index(msgspec.Struct, frozen=True, array_like=True):
    """What a chunk has, in the order in which it lies there."""

    rows: tuple[Row, ...]
    blocks: tuple[Block, ...]


class Chunk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a tip says of a chunk: its name, its level, what it has, and its length in bytes.

    ``index_size`` counts the index as it lies there, without the header.
    """

    name: str
    level: int
    first: int
    last: int
    record_count: int
    entry_count: int
    size: int
    index_size: int


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk that is to be written."""

    chunk: Chunk
    index: Index
    data: bytes


_encode = msgspec.msgpack.Encoder().encode
_index = msgspec.msgpack.Decoder(Index)


def build(records: Sequence[Record], *, level: int = 0, compress: bool = True) -> Sealed:
    """Return a chunk of records, which are ascending and not none."""
    rows: list[Row] = []
    blocks: list[tuple[Block, bytes]] = []
    for group in _groups(records):
        starts = accumulate((len(record.data or b"") for record in group), initial=0)
        rows += [_row(record, start) for record, start in zip(group, starts, strict=False)]
        blocks.append(_block([record.data or b"" for record in group], compress=compress))
    return _assemble(rows, blocks, level)


def _groups(records: Sequence[Record]) -> Iterator[list[Record]]:
    """Give successive records, as many as make a block."""
    group: list[Record] = []
    size = 0
    for record in records:
        length = len(record.data or b"")
        if group and size + length > BLOCK_BYTES:
            yield group
            group, size = [], 0
        group.append(record)
        size += length
    yield group


def _row(record: Record, start: int) -> Row:
    return Row(
        record.seq,
        record.key,
        record.entry_count,
        record.stored_at,
        record.revision,
        start,
        len(record.data or b""),
    )


def _block(bodies: Sequence[bytes], *, compress: bool) -> tuple[Block, bytes]:
    data = b"".join(bodies)
    smaller = zlib.compress(data, FASTEST) if compress else data
    packed = len(smaller) < len(data)
    stored = smaller if packed else data
    return Block(len(stored), zlib.crc32(stored), len(bodies), packed), stored


def _assemble(rows: Sequence[Row], blocks: Sequence[tuple[Block, bytes]], level: int) -> Sealed:
    index = Index(tuple(rows), tuple(block for block, _ in blocks))
    packed = zlib.compress(_encode(index), FASTEST)
    header = HEADER.pack(MAGIC, len(packed), zlib.crc32(packed))
    data = b"".join((header, packed, *(stored for _, stored in blocks)))
    chunk = Chunk(
        name=secrets.token_hex(16),
        level=level,
        first=rows[0].seq,
        last=rows[-1].seq,
        record_count=len(rows),
        entry_count=sum(row.entry_count for row in rows),
        size=len(data),
        index_size=len(packed),
    )
    return Sealed(chunk=chunk, index=index, data=data)


def index_range(chunk: Chunk) -> tuple[int, int]:
    """Return the first byte of a chunk's header and index, and the one after their last."""
    return 0, HEADER.size + chunk.index_size


def read_index(chunk: Chunk, data: bytes) -> Index:
    """Return the index of a chunk from its first bytes.

    Raises:
        Spoiled: they are not what was written.
    """
    end = HEADER.size + chunk.index_size
    if len(data) < end:
        raise Spoiled(f"its index has {len(data)} bytes of {end}")
    magic, size, checksum = HEADER.unpack_from(data)
    stored = data[HEADER.size : end]
    check_magic(magic, MAGIC)
    if (size, checksum) != (chunk.index_size, zlib.crc32(stored)):
        raise Spoiled("its index is not what was written")
    try:
        return _index.decode(zlib.decompress(stored))
    except (zlib.error, msgspec.DecodeError) as error:
        raise Spoiled(f"its index cannot be read: {type(error).__name__}") from None


def split(chunk: Chunk, data: bytes) -> tuple[Index, list[bytes]]:
    """Return the index and the blocks of a whole chunk.

    Raises:
        Spoiled: it is not what was written.
    """
    if len(data) != chunk.size:
        raise Spoiled(f"it has {len(data)} bytes, not {chunk.size}")
    index = read_index(chunk, data)
    start = HEADER.size + chunk.index_size
    return index, [data[one:other] for one, other in _bounds(index, start)]


def _bounds(index: Index, start: int) -> Iterator[tuple[int, int]]:
    """Give where each block begins and ends."""
    return pairwise(accumulate((block.size for block in index.blocks), initial=start))


class Span(msgspec.Struct, frozen=True):
    """Successive blocks of a chunk: the first and the one after the last, and so their bytes."""

    first: int
    stop: int
    start: int
    end: int


def spans_of(chunk: Chunk, index: Index, seqs: frozenset[int]) -> list[Span]:
    """Return where the blocks of some records lie in their chunk."""
    spans: list[Span] = []
    bounds = _bounds(index, HEADER.size + chunk.index_size)
    for number, (rows, (start, end)) in enumerate(zip(_rows(index), bounds, strict=True)):
        if not any(row.seq in seqs for row in rows):
            continue
        span = Span(number, number + 1, start, end)
        if spans and spans[-1].stop == number:
            before = spans.pop()
            span = Span(before.first, span.stop, before.start, end)
        spans.append(span)
    return spans


def blocks_of(index: Index, parts: Iterable[tuple[Span, bytes]]) -> list[bytes | None]:
    """Return the blocks of a chunk, of which some are there, by the spans they fill."""
    blocks: list[bytes | None] = [None] * len(index.blocks)
    for span, data in parts:
        sizes = [block.size for block in index.blocks[span.first : span.stop]]
        for number, (start, end) in enumerate(pairwise(accumulate(sizes, initial=0)), span.first):
            blocks[number] = data[start:end]
    return blocks


def _rows(index: Index) -> Iterator[tuple[Row, ...]]:
    """Give the rows of each block."""
    first = 0
    for block in index.blocks:
        yield index.rows[first : first + block.rows]
        first += block.rows


def read_records(index: Index, blocks: Sequence[bytes | None]) -> Iterator[Record]:
    """Give the records of those blocks that are there.

    Raises:
        Spoiled: a block is not what was written.
    """
    for block, rows, stored in zip(index.blocks, _rows(index), blocks, strict=True):
        if stored is not None:
            data = _unpacked(block, stored)
            for row in rows:
                yield record_of(row, data[row.start : row.start + row.size])


def _unpacked(block: Block, stored: bytes) -> bytes:
    if len(stored) != block.size or zlib.crc32(stored) != block.checksum:
        raise Spoiled("a block of it is not what was written")
    return zlib.decompress(stored) if block.packed else stored


def record_of(row: Row, data: bytes | None) -> Record:
    """Return the record of a row, with its data or without."""
    return Record(
        seq=row.seq,
        key=row.key,
        entry_count=row.entry_count,
        stored_at=row.stored_at,
        revision=row.revision,
        data=data,
    )


def concatenate(
    parts: Iterable[tuple[Index, Sequence[bytes]]], *, level: int, low: int
) -> Sealed | None:
    """Return one chunk of successive ones, without what has a seq up to ``low``; None if empty."""
    rows: list[Row] = []
    blocks: list[tuple[Block, bytes]] = []
    for index, bodies in parts:
        for block, lying, stored in zip(index.blocks, _rows(index), bodies, strict=True):
            kept = [row for row in lying if row.seq > low]
            if kept:
                rows += kept
                blocks.append((msgspec.structs.replace(block, rows=len(kept)), stored))
    return _assemble(rows, blocks, level) if rows else None
