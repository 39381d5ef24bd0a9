"""The ``Checkpointer`` contract over a log store: a record is one batch of a run's entries."""

import time
from collections.abc import Callable, Sequence
from hashlib import blake2b

import msgspec

from durably._paging import filtered_page
from durably._records import (
    decode_head,
    decode_segment,
    encode_head,
    encode_segment,
)
from durably._typing import override
from durably.checks import (
    MAX_LIST_LIMIT,
    check_count,
    check_revision_token,
    check_seconds,
    check_status,
)
from durably.contracts import Checkpointer, Claim
from durably.entries import Entry
from durably.errors import CorruptRecord, RecordTooLarge, RevisionConflict
from durably.logstore import (
    Batch,
    Log,
    LogId,
    LogInfo,
    LogState,
    LogStore,
    NewRecord,
    Page,
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
        batch = _batch(entries, head, expected_revision, self._nonce, self._clock())
        return (await self._store.append(log, batch)).revision

    @override
    async def load(self, run_id: str) -> RunSnapshot | None:
        log = _log(run_id)
        stored = await self._store.read(log)
        return None if stored is None else _snapshot(log, stored)

    @override
    async def delete(self, run_id: str, *, expected_revision: int | None = None) -> bool:
        check_revision_token(expected_revision)
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
        if status is not None:
            check_status("status", status, RUN_STATUSES)
        check_count("limit", limit, minimum=1, maximum=MAX_LIST_LIMIT)
        saved_by = None if idle_for is None else self._clock() - check_seconds("idle_for", idle_for)

        def accept(found: LogInfo) -> RunInfo | None:
            run = _info(found)
            wanted = status in {None, run.head.status} and _saved_by(run, saved_by)
            return run if wanted else None

        return await filtered_page(
            self._store,
            KIND,
            after=after,
            limit=limit,
            accept=accept,
            is_narrow=status is not None or saved_by is not None,
        )

    @override
    async def claim(self, run_id: str) -> Claim:
        log = _log(run_id)
        stored = await self._store.read(log)
        if stored is None:
            return _LogClaim(self._store, self._clock, log, None)
        snapshot = _snapshot(log, stored)
        batch = Batch(head=stored.state.head, expected_revision=snapshot.revision, at=self._clock())
        applied = await self._store.append(log, batch)
        snapshot = msgspec.structs.replace(snapshot, revision=applied.revision)
        return _LogClaim(self._store, self._clock, log, snapshot)

    @override
    def hold(self, run_id: str, snapshot: RunSnapshot | None) -> Claim:
        log = _log(run_id)
        if snapshot is not None and snapshot.run_id != run_id:
            raise ValueError(f"{log} cannot be held by a snapshot of run {snapshot.run_id!a}")
        return _LogClaim(self._store, self._clock, log, snapshot)


class _LogClaim(Claim):
    """A claim with a nonce of its own, so that two workers with equal saves stay two.

    ``_unsure`` is a save whose outcome is not known; the next call sends it again first, which
    its key makes harmless.
    """

    def __init__(
        self,
        store: LogStore,
        clock: Callable[[], float],
        log: LogId,
        snapshot: RunSnapshot | None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._log = log
        self._snapshot = snapshot
        self._revision = 0 if snapshot is None else snapshot.revision
        self._nonce = new_key()
        self._unsure: Batch | None = None

    @property
    @override
    def run_id(self) -> str:
        return self._log.id

    @property
    @override
    def snapshot(self) -> RunSnapshot | None:
        return self._snapshot

    @property
    @override
    def revision(self) -> int:
        return self._revision

    @override
    def __repr__(self) -> str:
        return f"Claim(run_id={self.run_id!r}, revision={self.revision})"

    @override
    async def append(self, entries: Sequence[Entry], head: RunHead) -> int:
        batch = self._batch(entries, head)
        if self._unsure is not None and self._unsure.key != batch.key:
            await self._send(self._unsure)
            batch = self._batch(entries, head)
        return await self._send(batch)

    @override
    async def delete(self) -> bool:
        if self._unsure is not None:
            await self._send(self._unsure)
        deleted = await self._store.delete(self._log, expected_revision=self._revision)
        self._revision = 0
        return deleted

    def _batch(self, entries: Sequence[Entry], head: RunHead) -> Batch:
        return _batch(entries, head, self._revision, self._nonce, self._clock())

    async def _send(self, batch: Batch) -> int:
        self._unsure = batch
        try:
            applied = await self._store.append(self._log, batch)
        except (RecordTooLarge, RevisionConflict):
            self._unsure = None
            raise
        self._unsure = None
        self._revision = applied.revision
        return applied.revision


def _batch(
    entries: Sequence[Entry],
    head: RunHead,
    expected_revision: int | None,
    nonce: str,
    at: float,
) -> Batch:
    """Return the change that saves entries and head.

    With an expected revision its key is what is saved, times aside, and who saves it: so a
    repeated save is known for what it is.
    """
    data, count = encode_segment(entries)
    body = _encode_head(head)
    if expected_revision is None:
        key = new_key()
    else:
        check_revision_token(expected_revision)
        parts = (nonce.encode(), str(expected_revision).encode(), _timeless(head, body), data)
        key = blake2b(b"\0".join(parts), digest_size=16).hexdigest()
    return Batch(
        records=(NewRecord(data=data, entry_count=count),) if count else (),
        head=body,
        expected_revision=expected_revision,
        key=key,
        at=at,
    )


def _log(run_id: str) -> LogId:
    return LogId(kind=KIND, id=run_id)


def _encode_head(head: RunHead) -> bytes:
    """Encode what a head says; ``updated_at`` is the log's own."""
    if type(head) is RunHead and head.updated_at is not None:
        head = msgspec.structs.replace(head, updated_at=None)
    return encode_head(head)


def _timeless(head: RunHead, body: bytes) -> bytes:
    """Return what a head says but for its times; ``body`` is all it says."""
    if head.started_at is None:
        return body
    return _encode_head(msgspec.structs.replace(head, started_at=None))


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
