"""The ``Checkpointer`` contract over a log store: a record is one batch of a run's entries."""

import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from hashlib import blake2b

import msgspec

from durably._records import (
    decode_head,
    decode_segment,
    encode_entries,
    encode_head,
    encode_segment,
)
from durably._typing import override
from durably.contracts import Checkpointer, Claim
from durably.entries import Entry
from durably.errors import CorruptRecord, InvalidLimit
from durably.logstore import (
    MAX_LIST_LIMIT,
    Batch,
    Log,
    LogId,
    LogInfo,
    LogState,
    LogStore,
    NewRecord,
    Page,
    check_count,
    new_key,
)
from durably.runs import RUN_STATUSES, RunHead, RunInfo, RunSnapshot, RunStatus

__all__ = ["LogCheckpointer"]

KIND = "run"


class LogCheckpointer(Checkpointer):
    """Runs kept in logs of the kind ``run``, the run's head in the head of the log.

    One object is one handle: a repeated call is recognised by the handle it comes through.
    """

    def __init__(self, store: LogStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock
        self._nonce = new_key()

    @override
    async def append(
        self,
        run_id: str,
        entries: Sequence[Entry],
        head: RunHead,
        *,
        expected_revision: int | None = None,
    ) -> int:
        log = _log(run_id)
        encoded = encode_entries(entries)
        data = encode_segment(encoded) if encoded else b""
        body = _encode_head(head)
        batch = Batch(
            records=(NewRecord(data=data, entry_count=len(encoded)),) if encoded else (),
            head=body,
            expected_revision=expected_revision,
            key=self._identity(expected_revision, data, head),
            at=self._clock(),
        )
        return (await self._store.append(log, batch)).revision

    def _identity(self, expected_revision: int | None, data: bytes, head: RunHead) -> str:
        """Return the key by which a repeated save is known: times aside, what is saved."""
        if expected_revision is None:
            return new_key()
        timeless = _encode_head(msgspec.structs.replace(head, started_at=None))
        parts = (self._nonce.encode(), str(expected_revision).encode(), timeless, data)
        return blake2b(b"\0".join(parts), digest_size=16).hexdigest()

    @override
    async def load(self, run_id: str) -> RunSnapshot | None:
        log = _log(run_id)
        stored = await self._store.read(log)
        return None if stored is None else _snapshot(log, stored)

    @override
    async def delete(self, run_id: str, *, expected_revision: int | None = None) -> bool:
        if expected_revision is not None:
            check_count("expected_revision", expected_revision)
        return await self._store.delete(_log(run_id), expected_revision=expected_revision)

    @override
    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        idle_for: float | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[RunInfo]:
        if status is not None and status not in RUN_STATUSES:
            raise ValueError(f"status must be one of {', '.join(RUN_STATUSES)}")
        check_count("limit", limit, minimum=1, maximum=MAX_LIST_LIMIT)
        saved_by = None if idle_for is None else self._clock() - _seconds("idle_for", idle_for)
        found: list[RunInfo] = []
        async for run in self._walk("" if after is None else after, limit):
            if status not in (None, run.head.status) or not _saved_by(run, saved_by):
                continue
            if len(found) == limit:
                return Page(items=tuple(found), next=found[-1].run_id)
            found.append(run)
        return Page(items=tuple(found))

    async def _walk(self, after: str, limit: int) -> AsyncIterator[RunInfo]:
        while True:
            page = await self._store.list(KIND, after=after, limit=limit, with_state=True)
            for row in page.items:
                yield _info(row)
            if page.next is None:
                return
            after = page.next

    @override
    async def claim(self, run_id: str) -> Claim:
        log = _log(run_id)
        handle = LogCheckpointer(self._store, clock=self._clock)
        stored = await self._store.read(log)
        if stored is None:
            return _LogClaim(handle, run_id, None)
        snapshot = _snapshot(log, stored)
        batch = Batch(head=stored.state.head, expected_revision=snapshot.revision, at=self._clock())
        applied = await self._store.append(log, batch)
        return _LogClaim(
            handle, run_id, msgspec.structs.replace(snapshot, revision=applied.revision)
        )


class _LogClaim(Claim):
    """A claim with a handle of its own, so that two workers with equal saves stay two."""

    def __init__(
        self, checkpointer: LogCheckpointer, run_id: str, snapshot: RunSnapshot | None
    ) -> None:
        self._checkpointer = checkpointer
        self._run_id = run_id
        self._snapshot = snapshot
        self._revision = 0 if snapshot is None else snapshot.revision

    @property
    @override
    def run_id(self) -> str:
        return self._run_id

    @property
    @override
    def snapshot(self) -> RunSnapshot | None:
        return self._snapshot

    @property
    @override
    def revision(self) -> int:
        return self._revision

    @override
    async def append(self, entries: Sequence[Entry], head: RunHead) -> int:
        self._revision = await self._checkpointer.append(
            self._run_id, entries, head, expected_revision=self._revision
        )
        return self._revision

    @override
    async def delete(self) -> bool:
        deleted = await self._checkpointer.delete(self._run_id, expected_revision=self._revision)
        self._revision = 0
        return deleted


def _log(run_id: str) -> LogId:
    return LogId(kind=KIND, id=run_id)


def _encode_head(head: RunHead) -> bytes:
    """Encode what a head says; ``updated_at`` is the log's own."""
    if type(head) is RunHead:
        head = msgspec.structs.replace(head, updated_at=None)
    return encode_head(head)


def _decode_head(log: LogId, state: LogState) -> RunHead:
    head = decode_head(log, state.head)
    started_at = state.created_at if head.started_at is None else head.started_at
    return msgspec.structs.replace(head, started_at=started_at, updated_at=state.updated_at)


def _snapshot(log: LogId, stored: Log) -> RunSnapshot:
    return RunSnapshot(
        run_id=log.id,
        revision=stored.state.revision,
        head=_decode_head(log, stored.state),
        entries=[
            entry for record in stored.records for entry in decode_segment(log, record).entries
        ],
    )


def _info(row: LogInfo) -> RunInfo:
    log = _log(row.id)
    if row.state is None:
        raise CorruptRecord(log, "it was listed without its state")
    return RunInfo(
        run_id=row.id,
        revision=row.state.revision,
        head=_decode_head(log, row.state),
        entry_count=row.state.entry_count,
    )


def _saved_by(run: RunInfo, latest: float | None) -> bool:
    return latest is None or (run.head.updated_at or 0.0) <= latest


def _seconds(name: str, value: float) -> float:
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise InvalidLimit(name, value, minimum=0, what="a number of seconds")
    return value
