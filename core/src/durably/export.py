"""Logs as JSON Lines, and back: lossless, the same bytes from whatever backend.

The first line says what the file is, the last how long it is. Each log is a line that names it,
with its head, and a line for each of its records. What is JSON stands there as it was stored, byte
for byte; anything else, lone surrogates included, as base64. A log without records and without a
head has nothing that could be kept, and is left out.
"""

import base64
from collections.abc import AsyncIterator, Generator, Iterable, Sequence
from contextlib import contextmanager

import msgspec

from durably._paging import all_logs
from durably._raw import join_object
from durably._writing import Described, Place, Writer, described
from durably.checks import MAX_COUNT, check_seconds
from durably.codec import decode_with
from durably.errors import CopyConflict, InvalidExport, InvalidId, InvalidLimit
from durably.logstore import LogId, LogStore, NewRecord, Range, Record
from durably.transfer import KINDS, READ_AT_ONCE, Copied, Progress, check_kinds

__all__ = ["FORMAT", "export_lines", "import_lines", "is_export"]

FORMAT = 1
PREAMBLE = b'{"durably":"export","format":%d}\n'
END = b'{"end":%d}\n'
"""The last line says how many there are between it and the first: a file cut off has none."""


class _Preamble(msgspec.Struct, frozen=True):
    durably: str
    format: int


class _Line(msgspec.Struct, frozen=True):
    """A line of any sort; one that names a log has a ``kind``, the last one ``end``."""

    end: int | None = None
    kind: str | None = None
    id: str = ""
    head: msgspec.Raw = msgspec.Raw()
    created_at: float | None = None
    updated_at: float | None = None
    key: str = ""
    entries: int = 0
    at: float = 0.0
    data: msgspec.Raw = msgspec.Raw()
    base64: str | None = None


_encoder = msgspec.json.Encoder()
_preamble = msgspec.json.Decoder(_Preamble)
_line = msgspec.json.Decoder(_Line)
_raw = msgspec.json.Decoder(msgspec.Raw)


async def export_lines(
    store: LogStore, *, kinds: Sequence[str], ids: Sequence[str] | None, progress: Progress
) -> AsyncIterator[bytes]:
    """Give the lines of an export; see ``Storage.export``."""
    check_kinds(kinds)
    yield PREAMBLE % FORMAT
    count = 0
    for kind in kinds:
        async for log in _chosen(store, kind, ids):
            async for line in _log_lines(store, log, progress):
                count += 1
                yield line
    yield END % count


async def _chosen(store: LogStore, kind: str, ids: Sequence[str] | None) -> AsyncIterator[LogId]:
    if ids is None:
        async for info in all_logs(store, kind):
            yield LogId(kind=kind, id=info.id)
    else:
        for log in sorted({LogId(kind=kind, id=id_) for id_ in ids}, key=lambda log: log.id):
            yield log


async def _log_lines(store: LogStore, log: LogId, progress: Progress) -> AsyncIterator[bytes]:
    """Give the lines of one log, as it is when the first of them is read."""
    first = await store.read(log, Range(limit=READ_AT_ONCE))
    if first is None or (first.state.head is None and not first.state.record_count):
        return
    yield _describe(log, described(first.state))
    until, count, records = first.state.next_seq - 1, 0, first.records
    while True:
        for record in records:
            yield _record(record)
        count += len(records)
        if len(records) < READ_AT_ONCE:
            break
        span = Range(after=records[-1].seq, until=until, limit=READ_AT_ONCE)
        part = await store.read(log, span)
        if part is None or part.state.epoch != first.state.epoch:
            raise CopyConflict(log)
        records = part.records
    if count != first.state.record_count:  # evicted meanwhile, or lost: it must not look whole
        raise CopyConflict(log)
    progress(log, count)


def _describe(log: LogId, what: Described) -> bytes:
    fields = {"kind": _value(log.kind), "id": _value(log.id)}
    if what.head is not None:
        fields |= _content(what.head, "head")
    for name, time in (("created_at", what.created_at), ("updated_at", what.updated_at)):
        if time is not None:
            fields[name] = _value(time)
    return join_object(fields) + b"\n"


def _record(record: Record) -> bytes:
    fields = {
        "key": _value(record.key),
        "entries": _value(record.entry_count),
        "at": _value(record.stored_at),
    }
    return join_object(fields | _content(record.data or b"", "data")) + b"\n"


def _value(value: object) -> msgspec.Raw:
    return msgspec.Raw(_encoder.encode(value))


def _content(data: bytes, name: str) -> dict[str, msgspec.Raw]:
    """Return what was stored as it is, or in base64 where it is not JSON on one line."""
    if _is_line(data):
        return {name: msgspec.Raw(data)}
    return {"base64": _value(base64.b64encode(data).decode())}


def _is_line(data: bytes) -> bool:
    try:
        whole = bytes(decode_with(_raw, data)) == data
        data.decode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return whole and b"\n" not in data and b"\r" not in data


def is_export(first: bytes) -> bool:
    """Whether a file with this first line is an export."""
    try:
        return decode_with(_preamble, first).durably == "export"
    except msgspec.DecodeError:
        return False


async def import_lines(store: LogStore, lines: Iterable[bytes], progress: Progress) -> Copied:
    """Store what an export holds; see ``Storage.import_lines``."""
    copied = Copied()
    numbered = enumerate(lines, 1)
    _check_preamble(next(numbered, (1, b""))[1])
    pending: _Incoming | None = None
    number, count, is_whole = 1, 0, False
    for number, text in numbered:
        if not text.strip():
            continue
        line = _read(number, text)
        if is_whole or line.end not in {None, count}:
            raise InvalidExport(number, "lines are missing before it, or it is not the last")
        is_whole = line.end is not None
        count += 1
        if not is_whole and line.kind is None:
            if pending is None:
                raise InvalidExport(number, "a record without a log")
            await pending.take(number, line)
            continue
        if pending is not None:
            copied = copied.plus(await pending.finish(progress))
        pending = None if is_whole else await _Incoming.open(store, number, line)
    if not is_whole:
        raise InvalidExport(number, "the export ends after it, and is cut off")
    return copied


def _check_preamble(text: bytes) -> None:
    if not is_export(text):
        raise InvalidExport(1, "this is no export of durably")
    found = decode_with(_preamble, text).format
    if found != FORMAT:
        raise InvalidExport(1, f"its format is {found}, this version reads {FORMAT}")


def _read(number: int, text: bytes) -> _Line:
    try:
        return decode_with(_line, text)
    except msgspec.DecodeError as error:
        reason = str(error)
    raise InvalidExport(number, f"it cannot be read: {reason}")


def _stored(number: int, line: _Line, raw: msgspec.Raw) -> bytes | None:
    """Return the content of a line as it was stored."""
    if line.base64 is None:
        return bytes(raw) or None
    try:
        return base64.b64decode(line.base64, validate=True)
    except ValueError:
        raise InvalidExport(number, "its base64 cannot be read") from None


class _Incoming:
    """A log on its way in: what is there already is skipped, the rest written in parts."""

    def __init__(self, log: LogId, writer: Writer) -> None:
        self._log = log
        self._writer = writer
        self._places: list[Place] = []
        self._keys: set[str] = set()
        self._records: list[Record] = []
        self._moved = 0

    @classmethod
    async def open(cls, store: LogStore, number: int, line: _Line) -> "_Incoming":
        """Begin with a log that a line names."""
        if line.kind not in KINDS:
            raise InvalidExport(number, "it names a kind of log that cannot be imported")
        with _blaming(number):
            log = LogId(kind=line.kind, id=line.id)
            for time in (line.created_at, line.updated_at):
                check_seconds("a time", 0.0 if time is None else time, minimum=-MAX_COUNT)
        what = Described(
            head=_stored(number, line, line.head),
            created_at=line.created_at,
            updated_at=line.updated_at,
        )
        return cls(log, await Writer.open(store, log, what))

    async def take(self, number: int, line: _Line) -> None:
        """Take a record, and write those that wait once they are many."""
        data = _stored(number, line, line.data)
        if data is None:
            raise InvalidExport(number, "a record without data")
        if line.key in self._keys:
            raise InvalidExport(number, "a record that was there before")
        with _blaming(number):
            NewRecord(key=line.key, entry_count=line.entries, data=data)
            check_seconds("at", line.at, minimum=-MAX_COUNT)
        record = Record(
            seq=len(self._places),
            key=line.key,
            entry_count=line.entries,
            stored_at=line.at,
            revision=0,
            data=data,
        )
        self._keys.add(record.key)
        self._places.append(Place.of(record))
        if len(self._places) == 1:
            self._writer.skip(self._places)
        if len(self._places) > self._writer.there:
            self._records.append(record)
        if len(self._records) >= READ_AT_ONCE:
            await self._flush()

    async def _flush(self) -> None:
        self._writer.skip(self._places)
        await self._writer.write(self._records, after=len(self._places) - len(self._records))
        self._moved += len(self._records)
        self._records.clear()

    async def finish(self, progress: Progress) -> Copied:
        """Write what is left, and the head."""
        await self._flush()
        await self._writer.finish(len(self._places))
        progress(self._log, self._moved)
        return Copied(logs=1, records=self._moved, known=len(self._places) - self._moved)


@contextmanager
def _blaming(number: int) -> Generator[None, None, None]:
    """Say of what is refused that it stands on a line."""
    try:
        yield
    except InvalidId as error:
        reason = f"its {error.kind} id is invalid: {error.reason}"
    except InvalidLimit as error:
        reason = f"its {error.name} is out of range"
    else:
        return
    raise InvalidExport(number, reason)
