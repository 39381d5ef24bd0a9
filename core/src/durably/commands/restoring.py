"""An export on its way into a storage, as ``durably import`` tells of it."""

from collections.abc import Iterable, Iterator

import msgspec

from durably.codec import decode_with
from durably.commands.lines import MAX_LINE_BYTES, FileUnreadable, Lines
from durably.commands.progress import Meter
from durably.errors import CopyConflict, DurablyError, InvalidExport
from durably.logstore import LogId
from durably.storage import Storage
from durably.transfer import Copied

__all__ = ["Restored", "restore"]


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an export; ``conflicts`` names the logs that stayed as they were."""

    copied: Copied
    conflicts: list[LogId] = []


class _Named(msgspec.Struct, frozen=True):
    """What tells the lines of an export apart."""

    kind: str | None = None
    id: str = ""
    key: str | None = None


_named = msgspec.json.Decoder(_Named)


class _Watch:
    """Counts what is done of an export's logs: an import that ends in a conflict returns none."""

    def __init__(self, lines: Lines, meter: Meter) -> None:
        self.copied = Copied()
        self._lines = lines
        self._meter = meter
        self._log: tuple[str, str] | None = None
        self._records: dict[tuple[str, str], int] = {}

    def see(self, line: bytes) -> None:
        """Take note of a line; of one that cannot be read the import itself complains."""
        try:
            named = decode_with(_named, line)
        except msgspec.DecodeError:
            return
        if named.kind is not None:
            self._log = named.kind, named.id
            self._records.setdefault(self._log, 0)
        elif self._log is not None and named.key is not None:
            self._records[self._log] = self._records.get(self._log, 0) + 1

    def done(self, log: LogId, moved: int) -> None:
        """Take note of a log that is stored whole."""
        records = self._records.pop((log.kind, log.id), moved)
        self.copied = self.copied.plus(Copied(logs=1, records=moved, known=records - moved))
        self._meter.show(self._lines.position, self.copied.logs)

    def conflicts(self) -> list[LogId]:
        """Return the logs that were in the export and are not stored."""
        return [LogId(kind=kind, id=id_) for kind, id_ in self._records]


async def restore(storage: Storage, lines: Lines, found: Iterable[bytes | None]) -> Restored:
    """Store what an export holds; logs that conflict stay, and end no other.

    Raises:
        InvalidExport: it is broken, or a line is too long to be held.
        DurablyError: the file cannot be read on.
    """
    with Meter(lines.size, "logs") as meter:
        watch = _Watch(lines, meter)
        try:
            copied = await storage.import_lines(_watched(lines, found, watch), progress=watch.done)
        except CopyConflict:
            return Restored(copied=watch.copied, conflicts=watch.conflicts())
    return Restored(copied=copied)


def _watched(lines: Lines, found: Iterable[bytes | None], watch: _Watch) -> Iterator[bytes]:
    """Give the lines of an export.

    Raises:
        InvalidExport: one is too long to be held.
        DurablyError: the file cannot be read on.
    """
    try:
        for line in found:
            if line is None:
                raise InvalidExport(lines.number, f"it has over {MAX_LINE_BYTES} bytes")
            watch.see(line)
            yield line
    except FileUnreadable as error:
        raise DurablyError(str(error)) from error
