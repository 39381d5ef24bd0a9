"""Pages of logs that are looked at one by one, some of which are left out, and of one's records."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import TypeVar

from durably._typing import override
from durably.checks import MAX_LIST_LIMIT
from durably.logstore import Log, LogId, LogInfo, LogStore, NewRecord, Page, Range

__all__ = [
    "PORTION_BYTES",
    "PORTION_RECORDS",
    "Portions",
    "all_logs",
    "filtered_page",
    "in_batches",
]

T = TypeVar("T")

PORTION_BYTES = 4 * 1024 * 1024
PORTION_RECORDS = 64
"""What is held at once of a log that is moved, where no single record is larger."""

GROWTH = 4
"""How many times as many records as a portion had the next one has at most."""


async def filtered_page(
    store: LogStore,
    kind: str,
    *,
    after: str | None,
    limit: int,
    accept: Callable[[LogInfo], T | None],
    is_narrow: bool,
) -> Page[T]:
    """Return a page of what ``accept`` makes of logs with their states; None leaves one out.

    ``is_narrow`` says that logs may be left out at all; such a page is short only at the end.
    """
    rows = min(limit + 1, MAX_LIST_LIMIT) if is_narrow else limit
    position: str | None = "" if after is None else after
    found: list[T] = []
    last = ""
    while position is not None:
        page = await store.list(kind, after=position, limit=rows, with_state=True)
        for info in page.items:
            accepted = accept(info)
            if accepted is None:
                continue
            if len(found) == limit:
                return Page(items=tuple(found), next=last)
            found.append(accepted)
            last = info.id
        position = page.next
        rows = min(2 * rows, MAX_LIST_LIMIT)
        if not is_narrow:
            break
    return Page(items=tuple(found), next=position)


async def all_logs(
    store: LogStore, kind: str, *, with_state: bool = False
) -> AsyncIterator[LogInfo]:
    """Give every log of a kind, page by page."""
    position: str | None = ""
    while position is not None:
        page = await store.list(kind, after=position, limit=MAX_LIST_LIMIT, with_state=with_state)
        for info in page.items:
            yield info
        position = page.next


def in_batches(
    records: Iterable[NewRecord], *, most: int | None = None
) -> Iterator[tuple[NewRecord, ...]]:
    """Give records that are to be stored, ``PORTION_BYTES`` or one record at a time.

    ``most`` bounds their number, too.
    """
    batch: list[NewRecord] = []
    size = 0
    for record in records:
        is_full = size + len(record.data) > PORTION_BYTES or len(batch) == most
        if batch and is_full:
            yield tuple(batch)
            batch, size = [], 0
        batch.append(record)
        size += len(record.data)
    if batch:
        yield tuple(batch)


class Portions(AsyncIterator[Log]):
    """Reads a log's records in order, a portion at a time, up to the last there was at first.

    A store cannot be asked for so many bytes, so each portion has as many records as
    ``PORTION_BYTES`` would hold of the largest in the one before: one at first, then at most
    ``GROWTH`` times as many, and ``PORTION_RECORDS`` in the end. Where the log goes, it ends.
    """

    def __init__(
        self, store: LogStore, log: LogId, *, after: int = 0, until: int | None = None
    ) -> None:
        self._store = store
        self._log = log
        self._after = after
        self._until = until
        self._limit = 1
        self._is_done = False

    @override
    async def __anext__(self) -> Log:
        span = Range(after=self._after, until=self._until, limit=self._limit)
        part = None if self._is_done else await self._store.read(self._log, span)
        if part is None:
            self._is_done = True
            raise StopAsyncIteration
        self._move_behind(part)
        return part

    def _move_behind(self, part: Log) -> None:
        if self._until is None:
            self._until = part.state.next_seq - 1
        self._is_done = len(part.records) < self._limit or part.records[-1].seq >= self._until
        if not self._is_done:
            self._after = part.records[-1].seq
            largest = max(len(record.data or b"") for record in part.records)
            affordable = PORTION_BYTES // max(1, largest)
            self._limit = max(1, min(GROWTH * self._limit, PORTION_RECORDS, affordable))
