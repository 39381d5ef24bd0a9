"""One log on its way into a storage: written after nothing but its own beginning."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from durably._paging import Portions, in_batches
from durably._retry import until_unchallenged
from durably.errors import CopyConflict, RevisionConflict
from durably.logstore import Applied, Batch, LogId, LogState, LogStore, NewRecord, Range, Record

__all__ = ["UNFINISHED", "Described", "Place", "Writer", "as_new", "described"]


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """What is transferred of a log beside its records; times are epoch seconds.

    A time is None where it follows from the records, or cannot be kept.
    """

    head: bytes | None = None
    created_at: float | None = None
    updated_at: float | None = None


UNFINISHED = b"null"
"""The head of a run or tree on its way in: with it nobody can read it, or take it for whole."""

STATE = "state"
"""The kind of log of which only the last record is kept."""

RUN = "run"
"""The kind of log whose head belongs to its records."""


def described(state: LogState) -> Described:
    """Return what is transferred of a state."""
    if state.head is None:
        return Described()
    return Described(head=state.head, created_at=state.created_at, updated_at=state.updated_at)


class Place(NamedTuple):
    """What a record is known by without its data."""

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
        self._seqs: list[int] = []
        self._revision = 0
        self._head: bytes | None = None
        self._created_at: float | None = None
        self._updated_at: float | None = None
        self._has_changed = False
        self._is_ahead = False

    @classmethod
    async def open(cls, store: LogStore, log: LogId, described: Described) -> "Writer":
        """Look what is there, and create a log that keeps the time of its creation.

        The head of a session, which is its entry in the catalog, is there from the beginning.
        """
        writer = cls(store, log, described)
        await writer.look()
        if described.updated_at is not None:
            writer._is_ahead = writer._has_gone_on(described.updated_at)
        if described.created_at is not None:
            head = described.head if log.kind == "session" else UNFINISHED
            batch = Batch(head=head, at=described.created_at)
            await writer._append(batch, [], after=0, unless=lambda: writer._revision != 0)
        return writer

    async def look(self) -> None:
        """See what is there now."""
        found = await self._store.read(self._log, Range(with_data=False))
        records = () if found is None else found.records
        self._places = [Place.of(record) for record in records]
        self._seqs = [record.seq for record in records]
        self._revision = 0 if found is None else found.state.revision
        self._head = None if found is None else found.state.head
        self._created_at = None if found is None else found.state.created_at
        self._updated_at = None if found is None else found.state.updated_at

    @property
    def there(self) -> int:
        """How many records there are."""
        return len(self._places)

    def check_own(self, places: Sequence[Place]) -> None:
        """Refuse a log under a new id that does not begin as the one that is copied to it.

        Raises:
            CopyConflict: it does not.
        """
        if self._places and self._places[0] not in places[:1]:
            raise CopyConflict(self._log)

    def stored(self, *, after: int) -> Portions:
        """Give what was there when it was looked at last, after so many of the log's records."""
        return Portions(self._store, self._log, after=self._seqs[after] - 1)

    def skip(self, places: Sequence[Place], *, after: int = 0) -> int:
        """Return how many of a log's records that come after so many others are there already.

        A log that has all of them and more has grown since; its head is left as it is. What is
        there before the first of a thread was evicted from where they come from. Of two saves
        of a state the later one stays.

        Raises:
            CopyConflict: others are there in their place.
        """
        if self._log.kind == STATE and places and self._places:
            mine, theirs = places[-1].stored_at, self._places[-1].stored_at
            if mine < theirs:
                return len(places)
            if mine > theirs:
                self._places, self._seqs = [], []
        if self._log.kind == "thread" and not after and places and places[0] in self._places:
            first = self._places.index(places[0])
            self._places, self._seqs = self._places[first:], self._seqs[first:]
        there = self._places[after : after + len(places)]
        if list(places[: len(there)]) != there or self._is_another(after + len(there)):
            raise CopyConflict(self._log)
        return len(there)

    def _is_another(self, known: int) -> bool:
        """Whether a log of which no record is known was created as another one."""
        created_at = self._described.created_at
        return not known and self._created_at not in {None, created_at} and created_at is not None

    async def write(self, records: Sequence[Record], *, after: int) -> None:
        """Append records, with the times they have, that come after so many others.

        Raises:
            CopyConflict: somebody wrote something else there meanwhile, or removed some of it; or
                it is a run that went on in both places: its head would not be that of its records.
        """
        if records and self._is_ahead and self._log.kind == RUN:
            raise CopyConflict(self._log)
        done = 0
        for batch in _batches(records):
            places = [Place.of(one) for one in records[done : done + len(batch.records)]]
            await self._append(batch, places, after=after + done)
            done += len(places)

    async def finish(self, count: int) -> None:
        """Set the head of a log that is to have so many records, unless it has a later one.

        Raises:
            CopyConflict: somebody removed some of them meanwhile.
        """
        head, at = self._described.head, self._described.updated_at
        if head is None or at is None:
            return

        def is_settled() -> bool:
            is_there = (self._head, self._updated_at) == (head, at)
            return self.there > count or is_there or self._is_ahead or self._has_gone_on(at)

        await self._append(Batch(head=head, at=at), [], after=count, unless=is_settled)

    def _has_gone_on(self, at: float) -> bool:
        """Whether the log was complete before, and was changed after a time."""
        is_complete = not self._has_changed and self._head not in {None, UNFINISHED}
        return is_complete and self._updated_at is not None and self._updated_at > at

    async def _append(
        self,
        batch: Batch,
        places: Sequence[Place],
        *,
        after: int,
        unless: Callable[[], bool] = lambda: False,
    ) -> None:
        """Append what comes after so many records, ``unless`` what others wrote settles it."""

        async def attempt() -> Applied | None:
            if unless():
                return None
            if self.there < after:
                raise CopyConflict(self._log)
            self.skip(places, after=after)
            change = msgspec.structs.replace(
                batch,
                expected_revision=self._revision,
                keep_last=1 if self._log.kind == STATE else None,
            )
            try:
                return await self._store.append(self._log, change)
            except RevisionConflict:
                wanted = [*self._places[:after], *places]
                await self.look()
                self.skip(wanted)
                if self._revision == 0:  # it was removed, and with it when it was created
                    raise CopyConflict(self._log) from None
                raise

        applied = await until_unchallenged(attempt)
        if applied is None:
            return
        self._revision = applied.revision
        self._places += places[self.there - after :]
        self._head = self._head if batch.head is None else batch.head
        self._updated_at = batch.at
        self._has_changed = True


def _batches(records: Iterable[Record]) -> Iterator[Batch]:
    """Give the records in batches of one time and some megabytes each."""
    for at, group in groupby(records, key=lambda record: record.stored_at):
        for batch in in_batches(map(as_new, group)):
            yield Batch(records=batch, at=at)


def as_new(record: Record) -> NewRecord:
    """Return a record that was read as one to be stored elsewhere."""
    return NewRecord(key=record.key, entry_count=record.entry_count, data=record.data or b"")
