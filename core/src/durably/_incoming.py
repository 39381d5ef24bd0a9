"""One log of an export on its way into a storage."""

import base64
from collections import deque
from collections.abc import Awaitable, Generator
from contextlib import contextmanager

import msgspec

from durably._paging import PORTION_BYTES, PORTION_RECORDS, Portions
from durably._writing import Described, Place, Writer
from durably.checks import MAX_COUNT, check_seconds
from durably.errors import CopyConflict, InvalidExport, InvalidId, InvalidLimit
from durably.logstore import LogId, LogStore, NewRecord, Record
from durably.transfer import KINDS, Copied, Progress

__all__ = ["Incoming", "Line"]


class Line(msgspec.Struct, frozen=True):
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


class Incoming:
    """A log on its way in: what is there already is compared, the rest written in parts.

    Where another log has its id, or a record of it is there with other content, nothing more is
    written to it, and what comes of it is only looked at.
    """

    def __init__(self, store: LogStore, log: LogId, described: Described) -> None:
        self._store = store
        self._log = log
        self._described = described
        self._writer: Writer | None = None
        self._conflict: CopyConflict | None = None
        self._keys: set[str] = set()
        self._waiting: list[Record] = []
        self._waiting_bytes = 0
        self._portions: Portions | None = None
        self._theirs: deque[Record] = deque()
        self._moved = 0

    @classmethod
    def begin(cls, store: LogStore, number: int, line: Line) -> "Incoming":
        """Begin with a log that a line names."""
        if line.kind not in KINDS:
            raise InvalidExport(number, "it names a kind of log that cannot be imported")
        with _blaming(number):
            log = LogId(kind=line.kind, id=line.id)
            for time in (line.created_at, line.updated_at):
                check_seconds("a time", 0.0 if time is None else time, minimum=-MAX_COUNT)
        head = _stored(number, line, line.head)
        if head is None and line.created_at is not None:
            raise InvalidExport(number, "it has times of a head, and no head")
        what = Described(
            head=head,
            created_at=line.created_at,
            updated_at=line.updated_at,
        )
        return cls(store, log, what)

    async def take(self, number: int, line: Line) -> None:
        """Take a record: compare it, or write those that wait once they are many."""
        data = _stored(number, line, line.data)
        if data is None:
            raise InvalidExport(number, "a record without data")
        if line.key in self._keys:
            raise InvalidExport(number, "a record that was there before")
        with _blaming(number):
            NewRecord(key=line.key, entry_count=line.entries, data=data)
            check_seconds("at", line.at, minimum=-MAX_COUNT)
        record = Record(
            seq=len(self._keys),
            key=line.key,
            entry_count=line.entries,
            stored_at=line.at,
            revision=0,
            data=data,
        )
        self._keys.add(record.key)
        if self._conflict is None:
            await self._noting_conflict(self._put(record))

    async def _noting_conflict(self, step: Awaitable[None]) -> None:
        try:
            await step
        except CopyConflict as conflict:
            self._conflict = conflict
            self._waiting.clear()

    async def _open(self) -> Writer:
        if self._writer is None:
            self._writer = await Writer.open(self._store, self._log, self._described)
        return self._writer

    async def _put(self, record: Record) -> None:
        writer = await self._open()
        if writer.skip([Place.of(record)], after=record.seq):
            await self._compare(writer, record)
            return
        self._waiting.append(record)
        self._waiting_bytes += len(record.data or b"")
        if len(self._waiting) >= PORTION_RECORDS or self._waiting_bytes >= PORTION_BYTES:
            await self._flush(writer)

    async def _compare(self, writer: Writer, record: Record) -> None:
        """Refuse a record whose content is not that of the one in its place."""
        if self._portions is None:
            self._portions = writer.stored(after=record.seq)
        if not self._theirs:
            part = await anext(self._portions, None)
            self._theirs.extend(part.records if part else ())
        theirs = self._theirs.popleft() if self._theirs else None
        if theirs is None or (Place.of(theirs), theirs.data) != (Place.of(record), record.data):
            raise CopyConflict(self._log)

    async def _flush(self, writer: Writer) -> None:
        await writer.write(self._waiting, after=len(self._keys) - len(self._waiting))
        self._moved += len(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        self._portions = None
        self._theirs.clear()

    async def _complete(self) -> None:
        """Write what is left, and the head."""
        writer = await self._open()
        if not self._keys:
            writer.skip([])
        await self._flush(writer)
        await writer.finish(len(self._keys))

    async def finish(self, progress: Progress, conflicts: list[CopyConflict]) -> Copied:
        """End with the last record; a conflict joins those there were."""
        if self._conflict is None:
            await self._noting_conflict(self._complete())
        if self._conflict is not None:
            conflicts.append(self._conflict)
            return Copied()
        progress(self._log, self._moved)
        return Copied(logs=1, records=self._moved, known=len(self._keys) - self._moved)


def _stored(number: int, line: Line, raw: msgspec.Raw) -> bytes | None:
    """Return the content of a line as it was stored."""
    if line.base64 is None:
        return bytes(raw) or None
    try:
        return base64.b64decode(line.base64, validate=True)
    except ValueError:
        raise InvalidExport(number, "its base64 cannot be read") from None


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
