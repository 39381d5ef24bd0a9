"""The ``CheckpointSaver`` contract over a log store: a record is one snapshot of a thread.

Snapshots share their messages as ``durably._chains`` says. A delta only makes sense after the
very record it was made for, so it is appended at the revision at which that record was the
last; whoever loses that race reads the thread again.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec

from durably import _chains as chains
from durably._retry import until_unchallenged
from durably._snapshots import encoded, read_snapshot
from durably._typing import override
from durably.checks import MAX_LIST_LIMIT, check_count, check_size
from durably.contracts import CheckpointSaver
from durably.errors import CheckpointNotFound, CorruptRecord
from durably.logstore import Batch, Log, LogId, LogStore, Range, Record
from durably.migrate import Migrators
from durably.rules import check_revision
from durably.runs import Checkpoint, StateSnapshot

__all__ = ["LogCheckpointSaver"]

CACHED_THREADS = 128


class LogCheckpointSaver(CheckpointSaver):
    """Threads kept in logs of the kind ``thread``.

    With ``max_checkpoints_per_thread`` only the newest so many snapshots of a thread can be
    read, and every append removes the older records that none of them is played from. With
    ``migrators`` what is read is brought up to their version, and what is appended must have it.
    """

    def __init__(
        self,
        store: LogStore,
        *,
        max_checkpoints_per_thread: int | None = None,
        migrators: Migrators | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if max_checkpoints_per_thread is not None:
            check_count("max_checkpoints_per_thread", max_checkpoints_per_thread, minimum=1)
        self._store = store
        self._clock = clock
        self._bound = max_checkpoints_per_thread
        self._migrators = migrators
        self._tails: OrderedDict[str, chains.Tail] = OrderedDict()

    @override
    async def append(self, thread_id: str, snapshot: StateSnapshot) -> int:
        log = _log(thread_id)
        saved = chains.saved(*encoded(snapshot, self._migrators))
        check_size(log, "record", len(saved.base.data), self._store.limits.record_bytes)
        return await until_unchallenged(lambda: self._append(log, saved))

    async def _append(self, log: LogId, saved: chains.Saved) -> int:
        tail = self._tails.pop(log.id, None) or await self._tail(log)
        record = chains.next_record(tail, saved)
        bases: tuple[bool, ...] = ()
        if self._bound is not None:
            bases = chains.kept(chains.flags(tail, record), self._bound)
        batch = Batch(
            records=(record,),
            expected_revision=0 if tail is None else tail.revision,
            keep_last=len(bases) or None,
            key=saved.key,
            at=self._clock(),
        )
        applied = await self._store.append(log, batch)
        self._tails[log.id] = chains.advance(tail, saved, record, applied, bases)
        if len(self._tails) > CACHED_THREADS:
            self._tails.popitem(last=False)
        return applied.seq

    async def _tail(self, log: LogId) -> chains.Tail | None:
        newest = await self._chain(log, Range(newest=True, limit=1))
        if newest is None:
            return None
        index: Sequence[Record] = ()
        if self._bound is not None:
            stored = await self._store.read(log, Range(with_data=False))
            check_revision(log, stored, newest.state.revision)
            index = stored.records if stored else ()
        return chains.tail_of(log, newest, index)

    async def _chain(self, log: LogId, span: Range) -> Log | None:
        """Read a range, and before it what its first record is played from."""
        while True:
            stored = await self._store.read(log, span)
            if stored is None or not stored.records:
                return None
            first = stored.records[0]
            back = chains.distance(log, first)
            if back == 0:
                return stored
            before = Range(until=first.seq - 1, newest=True, limit=back)
            earlier = await self._store.read(log, before)
            if earlier is None or earlier.state.epoch != stored.state.epoch:
                continue
            if len(earlier.records) == back and chains.starts_with_base(earlier.records):
                records = earlier.records + stored.records
                return msgspec.structs.replace(stored, records=records)
            await self._check_evicted(log, first)

    async def _check_evicted(self, log: LogId, record: Record) -> None:
        """Pass if a record went between two reads; a record without its base is corrupt."""
        span = Range(after=record.seq - 1, until=record.seq, with_data=False)
        stored = await self._store.read(log, span)
        if stored is not None and [one.key for one in stored.records] == [record.key]:
            raise CorruptRecord(log, "the record it builds upon is missing", record=record.key)

    @override
    async def latest(self, thread_id: str) -> Checkpoint | None:
        log = _log(thread_id)
        newest = await self._chain(log, Range(newest=True, limit=1))
        return self._checkpoint(log, chains.play(log, newest.records)[-1]) if newest else None

    @override
    async def get(self, thread_id: str, seq: int) -> Checkpoint:
        check_count("seq", seq, minimum=1)
        found = await self._list(_log(thread_id), seq + 1, 1)
        if not found or found[0].seq != seq:
            raise CheckpointNotFound(thread_id, seq)
        return found[0]

    @override
    async def list(
        self, thread_id: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Checkpoint]:
        if before is not None:
            check_count("before", before, minimum=1)
        check_count("limit", limit, minimum=1, maximum=MAX_LIST_LIMIT)
        return await self._list(_log(thread_id), before, limit)

    async def _list(self, log: LogId, before: int | None, limit: int) -> Sequence[Checkpoint]:
        until = None if before is None else before - 1
        oldest = await self._oldest_visible(log)
        span = Range(after=oldest - 1, until=until, limit=limit, newest=True)
        stored = await self._chain(log, span)
        played = chains.play(log, stored.records) if stored else []
        shown = [one for one in played if one.record.seq >= oldest][-limit:]
        return [self._checkpoint(log, one) for one in reversed(shown)]

    async def _oldest_visible(self, log: LogId) -> int:
        if self._bound is None:
            return 1
        span = Range(newest=True, limit=self._bound, with_data=False)
        stored = await self._store.read(log, span)
        return stored.records[0].seq if stored and stored.records else 1

    def _checkpoint(self, log: LogId, played: chains.Played) -> Checkpoint:
        record = played.record
        snapshot = read_snapshot(log, record.key, played.snapshot, played.messages, self._migrators)
        return Checkpoint(
            thread_id=log.id, seq=record.seq, stored_at=record.stored_at, snapshot=snapshot
        )

    @override
    async def delete(self, thread_id: str) -> bool:
        log = _log(thread_id)
        self._tails.pop(thread_id, None)
        return await self._store.delete(log)


def _log(thread_id: str) -> LogId:
    return LogId(kind="thread", id=thread_id)
