"""Bounded reading of a session: no more records than what is returned lies in."""

from collections.abc import Iterator, Sequence

import msgspec

from durably._cursors import Cursor, check_current, read_cursor, start, write_cursor
from durably._records import decode_segment, payload
from durably.checks import MAX_COUNT, check_count
from durably.entries import AssistantTextEntry, Entry, InputEntry
from durably.errors import CorruptRecord, HistoryTooLarge, InvalidFilter
from durably.history import (
    MAX_SCANNED_BYTES,
    MAX_SCANNED_RECORDS,
    HistoryFilter,
    HistoryItem,
    HistoryPage,
    check_page,
)
from durably.logstore import Log, LogId, LogStore, Range, Record

__all__ = ["read_last", "read_page"]

FIRST_SCAN, LARGEST_SCAN = 8, 1024
"""Entries that a scan asks for at once, unless those before were so large that it asks for less."""

GROWTH = 4
"""How many times as many a scan asks for when it goes on."""

_MESSAGES = (InputEntry, AssistantTextEntry)


async def read_page(
    store: LogStore, log: LogId, *, limit: int, after: str | None, types: HistoryFilter | None
) -> HistoryPage:
    """Read a page; see ``Session.history``."""
    check_page(limit, types)
    cursor = None if after is None else read_cursor(after, log.id, types)
    records = None if types is None else MAX_SCANNED_RECORDS
    asked = limit if types is None else min(limit, FIRST_SCAN)
    stored = await store.read(log, _span(cursor, asked, records))
    if cursor is not None:
        check_current(cursor, log.id, None if stored is None else stored.state)
    if stored is None:
        return HistoryPage(items=())
    cursor = start(log.id, types, stored.state) if cursor is None else cursor
    page = _Page(log, limit, cursor)
    page.take(stored.records)
    while page.wants_more and types is not None:
        asked = page.affordable(GROWTH * asked)
        stored = await store.read(log, _span(page.cursor, asked, page.records_left))
        check_current(cursor, log.id, None if stored is None else stored.state)
        page.take(stored.records if stored else ())
    return page.done()


def _span(cursor: Cursor | None, limit: int, records: int | None) -> Range:
    if cursor is None:
        return Range(entry_limit=limit, limit=records)
    return Range(
        after=max(0, cursor.seq - 1),
        until=cursor.until,
        entry_limit=min(cursor.offset + limit, MAX_COUNT),
        limit=records,
    )


class _Page:
    """A page that is being filled, and the cursor behind what was looked at."""

    def __init__(self, log: LogId, limit: int, cursor: Cursor) -> None:
        self.cursor = cursor
        self._log = log
        self._limit = limit
        self._began = cursor.index
        self._items: list[HistoryItem] = []
        self._records = 0
        self._bytes = 0

    @property
    def wants_more(self) -> bool:
        """Whether it is not full, and there is more to look at."""
        return len(self._items) < self._limit and self.cursor.index < self.cursor.total

    @property
    def records_left(self) -> int:
        """How many more records it may look at.

        Raises:
            HistoryTooLarge: none.
        """
        if self._records >= MAX_SCANNED_RECORDS:
            raise self._too_large()
        return MAX_SCANNED_RECORDS - self._records

    def affordable(self, count: int) -> int:
        """Return how many entries to ask for: as many as its bytes will do for, by the mean."""
        looked_at = max(1, self.cursor.index - self._began)
        mean = self._bytes // looked_at + 1
        return max(1, min(count, LARGEST_SCAN, (MAX_SCANNED_BYTES - self._bytes) // mean))

    def take(self, records: Sequence[Record]) -> None:
        """Take what it can of the next records.

        Raises:
            CorruptRecord: there are fewer entries than there must be.
            HistoryTooLarge: it leaves so much out that it cannot be filled within its bounds.
        """
        before = self.cursor
        for record in records:
            if not self.wants_more:
                return
            if self.cursor.types is not None:
                self._count(record)
            self._take(record)
        if self.wants_more and (before.types is None or self.cursor == before):
            raise _short(self._log, self.cursor.index, self.cursor.total)

    def _count(self, record: Record) -> None:
        self._records += 1
        self._bytes += len(payload(self._log, record))
        if self._records > MAX_SCANNED_RECORDS or self._bytes > MAX_SCANNED_BYTES:
            raise self._too_large()

    def _too_large(self) -> HistoryTooLarge:
        return HistoryTooLarge(
            self._log, max_records=MAX_SCANNED_RECORDS, max_bytes=MAX_SCANNED_BYTES
        )

    def _take(self, record: Record) -> None:
        """Take the entries of a record from the cursor on, and move the cursor behind them."""
        cursor = self.cursor
        entries = _entries(self._log, record)
        offset = cursor.offset if record.seq == cursor.seq else 0
        index, taken = cursor.index, offset
        for entry in entries[offset:]:
            if len(self._items) == self._limit or index == cursor.total:
                break
            if cursor.types is None or isinstance(entry, _MESSAGES):
                self._items.append(HistoryItem(index=index, run_id=record.key, entry=entry))
            index, taken = index + 1, taken + 1
        is_whole = taken == len(entries)
        self.cursor = msgspec.structs.replace(
            cursor,
            seq=record.seq + 1 if is_whole else record.seq,
            offset=0 if is_whole else taken,
            index=index,
        )

    def done(self) -> HistoryPage:
        """Return the page."""
        is_last = self.cursor.index >= self.cursor.total
        next_cursor = None if is_last else write_cursor(self.cursor)
        return HistoryPage(items=tuple(self._items), next_cursor=next_cursor)


def _short(log: LogId, found: int, counted: int) -> CorruptRecord:
    return CorruptRecord(log, f"it has {found} entries, its state says {counted}")


def _entries(log: LogId, record: Record) -> list[Entry]:
    """Return the entries of a record, as many as it says it has.

    Raises:
        CorruptRecord: there are not.
    """
    entries = decode_segment(log, record).entries
    if len(entries) != record.entry_count:
        raise CorruptRecord(log, "some of its entries are missing", record=record.key)
    return entries


async def read_last(
    store: LogStore, log: LogId, *, runs: int | None, entries: int | None
) -> list[HistoryItem]:
    """Read the end of a session; see ``Session.last``."""
    if (runs is None) == (entries is None):
        raise InvalidFilter("last", None, known=("runs", "entries"))
    for name, count in (("runs", runs), ("entries", entries)):
        if count is not None:
            check_count(name, count, minimum=1)
    limit, entry_limit = (None if one is None else min(one, MAX_COUNT) for one in (runs, entries))
    stored = await store.read(log, Range(newest=True, limit=limit, entry_limit=entry_limit))
    if stored is None:
        return []
    if runs is not None and len(stored.records) < min(runs, stored.state.record_count):
        raise CorruptRecord(log, "some of its records are missing")
    items = list(_numbered(log, stored))
    if entries is not None and len(items) < min(entries, stored.state.entry_count):
        raise _short(log, len(items), stored.state.entry_count)
    return items if entries is None else items[-entries:]


def _numbered(log: LogId, stored: Log) -> Iterator[HistoryItem]:
    """Give the entries of a log's newest records, with their places among all of them."""
    index = stored.state.entry_count - sum(record.entry_count for record in stored.records)
    for record in stored.records:
        for entry in _entries(log, record):
            yield HistoryItem(index=index, run_id=record.key, entry=entry)
            index += 1
