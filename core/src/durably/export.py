"""Logs as JSON Lines, and back: lossless, the same bytes from whatever backend.

The first line says what the file is, the last how long it is. Each log is a line that names it,
with its head, and a line for each of its records. What is JSON stands there as it was stored, byte
for byte; anything else, lone surrogates included, as base64. A log without records and without a
head has nothing that could be kept, and is left out.
"""

import base64
from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec

from durably._incoming import Incoming, Line
from durably._paging import Portions, all_logs
from durably._raw import join_object
from durably._writing import Described, described
from durably.codec import decode_with
from durably.errors import CopyConflict, InvalidExport
from durably.logstore import LogId, LogState, LogStore, Record
from durably.transfer import Copied, Progress, check_kinds

__all__ = ["FORMAT", "export_lines", "import_lines", "is_export"]

FORMAT = 1
PREAMBLE = b'{"durably":"export","format":%d}\n'
END = b'{"end":%d}\n'
"""The last line says how many there are between it and the first: a file cut off has none."""


class _Preamble(msgspec.Struct, frozen=True):
    durably: str
    format: int


_encoder = msgspec.json.Encoder()
_preamble = msgspec.json.Decoder(_Preamble)
_line = msgspec.json.Decoder(Line)
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
    first: LogState | None = None
    count = 0
    async for part in Portions(store, log):
        if first is None:
            first = part.state
            if first.head is None and not first.record_count:
                return
            yield _describe(log, described(first))
        if part.state.epoch != first.epoch:
            raise CopyConflict(log)
        for record in part.records:
            yield _record(record)
        count += len(part.records)
    if first is None:
        return
    if count != first.record_count:  # evicted meanwhile, or lost: it must not look whole
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
    pending: Incoming | None = None
    conflicts: list[CopyConflict] = []
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
            copied = copied.plus(await pending.finish(progress, conflicts))
        pending = None if is_whole else Incoming.begin(store, number, line)
    if not is_whole:
        raise InvalidExport(number, "the export ends after it, and is cut off")
    if conflicts:
        raise conflicts[0]
    return copied


def _check_preamble(text: bytes) -> None:
    if not is_export(text):
        raise InvalidExport(1, "this is no export of durably")
    found = decode_with(_preamble, text).format
    if found != FORMAT:
        raise InvalidExport(1, f"its format is {found}, this version reads {FORMAT}")


def _read(number: int, text: bytes) -> Line:
    try:
        return decode_with(_line, text)
    except msgspec.DecodeError as error:
        reason = str(error)
    raise InvalidExport(number, f"it cannot be read: {reason}")
