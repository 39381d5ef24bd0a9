"""Whole logs from one storage to another: lossless, and resumable.

What is transferred is what was stored, byte for byte: fields and entry types this version does
not know included. Not transferred is what a storage makes up itself: revisions, and the numbers
of records, which start anew. Every log is written in order, its records known by their keys and
times, so that whatever was cut off goes on where it stopped, and doing it again moves nothing.
The head of a run is written last: until then the run cannot be read.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, TypeAlias

import msgspec

from durably._paging import all_logs
from durably._retry import until_unchallenged
from durably.archive import ARCHIVE
from durably.checks import check_count
from durably.errors import CopyConflict, InvalidFilter, RevisionConflict
from durably.logstore import Applied, Batch, LogId, LogState, LogStore, NewRecord, Range, Record

__all__ = [
    "KINDS",
    "Copied",
    "Described",
    "Place",
    "Progress",
    "Writer",
    "check_kinds",
    "copy_all",
    "copy_log",
    "described",
    "fork_log",
    "nobody",
]

KINDS = ("session", "run", "thread", ARCHIVE)
"""In the order in which they are transferred."""

READ_AT_ONCE = 64
"""Records, of one log."""

MOST_AT_ONCE = 256
"""Logs."""

LARGEST_BATCH = 4 * 1024 * 1024
"""Bytes after which a batch ends."""

Progress: TypeAlias = Callable[[LogId, int], object]
"""Told of a log that is done, and of how many records were moved for it."""


def nobody(*_: object) -> None:
    """Be told of progress, and do nothing about it."""


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """How many logs there were, how many records were moved, and how many were there before."""

    logs: int = 0
    records: int = 0
    known: int = 0

    def plus(self, other: "Copied") -> "Copied":
        """Return the sums."""
        return Copied(
            logs=self.logs + other.logs,
            records=self.records + other.records,
            known=self.known + other.known,
        )


def check_kinds(kinds: Sequence[str]) -> None:
    """Refuse kinds of log that are not transferred.

    Raises:
        InvalidFilter: one is none of ``KINDS``.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise InvalidFilter("kind", kind, known=KINDS)


async def copy_all(
    source: LogStore,
    target: LogStore,
    *,
    kinds: Sequence[str],
    parallel: int,
    progress: Progress,
) -> Copied:
    """Copy every log of some kinds, several at once; see ``Storage.copy_to``."""
    check_kinds(kinds)
    check_count("parallel", parallel, minimum=1, maximum=MOST_AT_ONCE)
    copied = Copied()
    running: set[asyncio.Task[Copied]] = set()
    try:
        for kind in kinds:
            async for info in all_logs(source, kind):
                log = LogId(kind=kind, id=info.id)
                running.add(asyncio.ensure_future(copy_log(source, log, target, log, progress)))
                if len(running) >= parallel:
                    copied = await _some_done(running, copied)
        while running:
            copied = await _some_done(running, copied)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return copied


async def _some_done(running: set[asyncio.Task[Copied]], copied: Copied) -> Copied:
    """Wait for a copy to end, and return what was copied in all; those that ended leave the set."""
    done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    running -= done
    for failure in [task.exception() for task in done]:
        if failure is not None:
            raise failure
    for task in done:
        copied = copied.plus(task.result())
    return copied


async def copy_log(
    source: LogStore, log: LogId, target: LogStore, copy: LogId, progress: Progress
) -> Copied:
    """Copy one log under the same or another id; one that is not there is no log.

    Raises:
        CopyConflict: the target has another log there, or the source was rewound meanwhile.
    """
    index = await source.read(log, Range(with_data=False))
    if index is None:
        return Copied()
    writer = await Writer.open(target, copy, described(index.state))
    missing = index.records[writer.skip([Place.of(record) for record in index.records]) :]
    for start in range(0, len(missing), READ_AT_ONCE):
        part = missing[start : start + READ_AT_ONCE]
        stored = await source.read(log, Range(after=part[0].seq - 1, until=part[-1].seq))
        records = () if stored is None else stored.records
        if [Place.of(record) for record in records] != [Place.of(record) for record in part]:
            raise CopyConflict(log)
        await writer.write(records, after=len(index.records) - len(missing) + start)
    await writer.finish(len(index.records))
    progress(copy, len(missing))
    return Copied(logs=1, records=len(missing), known=len(index.records) - len(missing))


async def fork_log(store: LogStore, kind: str, id_: str, new_id: str) -> Copied:
    """Copy one log within a store under a new id, a session with its archive."""
    copied = Copied()
    for each in ("session", ARCHIVE) if kind == "session" else (kind,):
        source, copy = LogId(kind=each, id=id_), LogId(kind=each, id=new_id)
        copied = copied.plus(await copy_log(store, source, store, copy, nobody))
    return copied


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """What is transferred of a log beside its records; times are epoch seconds.

    A time is None where it follows from the records, or cannot be kept.
    """

    head: bytes | None = None
    created_at: float | None = None
    updated_at: float | None = None


UNFINISHED = b"null"
"""The head of a run on its way in: with it nobody can read the run, or take it for whole."""


def described(state: LogState) -> Described:
    """Return what is transferred of a state."""
    if state.head is None:
        return Described()
    return Described(head=state.head, created_at=state.created_at, updated_at=state.updated_at)


class Place(NamedTuple):
    """What a record is known by without its data: no other log's record has all of it."""

    key: str
    entry_count: int
    stored_at: float

    @classmethod
    def of(cls, record: Record) -> "Place":
        """Return that of a record."""
        return cls(record.key, record.entry_count, record.stored_at)


class Writer:
    """Writes one log from where an earlier attempt stopped, after nothing but its own beginning."""

    def __init__(self, store: LogStore, log: LogId, described: Described) -> None:
        self._store = store
        self._log = log
        self._described = described
        self._places: list[Place] = []
        self._revision = 0
        self._head: bytes | None = None
        self._updated_at: float | None = None
        self._has_changed = False

    @classmethod
    async def open(cls, store: LogStore, log: LogId, described: Described) -> "Writer":
        """Look what is there, and create a log that keeps the time of its creation.

        The head of a session, which is its entry in the catalog, is there from the beginning.
        """
        writer = cls(store, log, described)
        await writer.look()
        if writer._revision == 0 and described.created_at is not None:
            head = described.head if log.kind == "session" else UNFINISHED
            await writer._append(Batch(head=head, at=described.created_at), [])
        return writer

    async def look(self) -> None:
        """See what is there now."""
        found = await self._store.read(self._log, Range(with_data=False))
        self._places = [] if found is None else [Place.of(record) for record in found.records]
        self._revision = 0 if found is None else found.state.revision
        self._head = None if found is None else found.state.head
        self._updated_at = None if found is None else found.state.updated_at

    @property
    def there(self) -> int:
        """How many records there are."""
        return len(self._places)

    def skip(self, places: Sequence[Place]) -> int:
        """Return how many of a log's records, from the first on, are there already.

        A log that has all of them and more has grown since; its head is left as it is. What is
        there before the first of a thread was evicted from where they come from.

        Raises:
            CopyConflict: what is there is not the beginning of them.
        """
        if self._log.kind == "thread" and places and places[0] in self._places:
            self._places = self._places[self._places.index(places[0]) :]
        both = min(len(places), self.there)
        if list(places[:both]) != self._places[:both]:
            raise CopyConflict(self._log)
        return both

    async def write(self, records: Sequence[Record], *, after: int) -> None:
        """Append records, with the times they have, that come after so many others.

        Raises:
            CopyConflict: somebody wrote something else there meanwhile.
        """
        places = self._places[:after]
        for batch in _batches(records):
            done = len(places) - after
            places = places + [Place.of(one) for one in records[done : done + len(batch.records)]]
            await self._append(batch, places)

    async def finish(self, count: int) -> None:
        """Set the head of a log that is to have so many records, unless it has a later one."""
        head, at = self._described.head, self._described.updated_at
        if head is None or at is None or self.there > count:
            return
        if (self._head, self._updated_at) == (head, at) or self._has_gone_on(at):
            return
        await self._append(Batch(head=head, at=at), self._places)

    def _has_gone_on(self, at: float) -> bool:
        """Whether the log was complete before, and was changed after a time."""
        is_complete = not self._has_changed and self._head not in {None, UNFINISHED}
        return is_complete and self._updated_at is not None and self._updated_at > at

    async def _append(self, batch: Batch, wanted: list[Place]) -> None:
        """Append what makes it the records wanted; another that writes the same is no conflict."""

        async def attempt() -> Applied:
            change = msgspec.structs.replace(batch, expected_revision=self._revision)
            try:
                return await self._store.append(self._log, change)
            except RevisionConflict:
                await self.look()
                self.skip(wanted)
                raise

        applied = await until_unchallenged(attempt)
        self._revision = applied.revision
        self._places = max(wanted, self._places, key=len)
        self._head = self._head if batch.head is None else batch.head
        self._updated_at = batch.at
        self._has_changed = True


def _batches(records: Iterable[Record]) -> Iterator[Batch]:
    """Give the records in batches of one time and some megabytes each."""
    for at, group in groupby(records, key=lambda record: record.stored_at):
        batch: list[NewRecord] = []
        size = 0
        for record in group:
            data = record.data or b""
            if batch and size + len(data) > LARGEST_BATCH:
                yield Batch(records=tuple(batch), at=at)
                batch, size = [], 0
            batch.append(NewRecord(key=record.key, entry_count=record.entry_count, data=data))
            size += len(data)
        yield Batch(records=tuple(batch), at=at)
