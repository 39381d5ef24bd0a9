"""One named snapshot per key: the state of a conversation, whole, replaced by each save."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable

import msgspec

from durably._paging import filtered_page
from durably._records import payload, raw_items, raw_object
from durably._snapshots import encoded, join_snapshot, read_snapshot
from durably._typing import override
from durably.checks import MAX_LIST_LIMIT, check_count
from durably.errors import CorruptRecord, StateNotFound
from durably.logstore import (
    Batch,
    LogId,
    LogInfo,
    LogState,
    LogStore,
    NewRecord,
    Page,
    Range,
)
from durably.migrate import Migrators
from durably.runs import StateSnapshot

__all__ = ["LogStateStore", "StateInfo", "StateStore", "described", "state_of"]

KIND = "state"


class StateInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a listing of states, without content; times are epoch seconds.

    ``revision`` changes with every change of what is under the key, and is compared for equality
    only.
    """

    key: str
    revision: int
    created_at: float
    updated_at: float


class StateStore(ABC):
    """One snapshot per key.

    Of saves that meet, the last one wins whole; none is mixed with another. Reading is lenient
    and, where the store was made with migrators, brings a snapshot up to their version; what is
    stored stays as it is until it is saved again.
    """

    @abstractmethod
    async def save(self, key: str, snapshot: StateSnapshot) -> int:
        """Store a snapshot under a key, in place of the one that is there.

        Returns:
            The revision of what is under the key, as in ``StateInfo``.

        Raises:
            NotSerializable: it holds what JSON cannot give back exactly.
            InvalidStatus: its status is none of ``SNAPSHOT_STATUSES``.
            InvalidLimit: its version is not that of the migrators: stored, it would be migrated
                wrongly, or could not be read.
            RecordTooLarge: it is larger than the backend's limit.
        """

    @abstractmethod
    async def load(self, key: str) -> StateSnapshot:
        """Read the snapshot under a key.

        Returns:
            The snapshot, at the version of the migrators where there are any.

        Raises:
            StateNotFound: there is none.
            SchemaTooNew: it is of a later version than the migrators.
            MigrationError: a step of the migrators is missing, or failed.
            UnknownEntryType: a message is of a type this version does not know.
            CorruptRecord: stored bytes cannot be read.
        """

    @abstractmethod
    async def has(self, key: str) -> bool:
        """Say whether there is a snapshot under a key; no content is read.

        Returns:
            Whether there is one.
        """

    @abstractmethod
    async def delete(self, key: str) -> bool:
        """Remove the snapshot under a key.

        Returns:
            Whether there was one.
        """

    @abstractmethod
    async def list(self, *, after: str | None = None, limit: int = 100) -> Page[StateInfo]:
        """List the keys that have a snapshot, in the order of their UTF-8 bytes, without content.

        ``after`` is a key, exclusive, as in ``Page.next``; ``limit`` is 1 to 1,000.

        Returns:
            A page of keys with their times; ``next`` is None at the end.

        Raises:
            InvalidLimit: ``limit`` is out of its range.
            CorruptRecord: what is stored of one cannot be read.
        """


class LogStateStore(StateStore):
    """Snapshots kept in logs of the kind ``state``, one record each."""

    def __init__(
        self,
        store: LogStore,
        *,
        migrators: Migrators | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._migrators = migrators
        self._clock = clock

    @override
    async def save(self, key: str, snapshot: StateSnapshot) -> int:
        log = LogId(kind=KIND, id=key)
        fields, messages = encoded(snapshot, self._migrators)
        record = NewRecord(data=join_snapshot(fields, messages), entry_count=len(messages))
        batch = Batch(records=(record,), keep_last=1, at=self._clock())
        return (await self._store.append(log, batch)).revision

    @override
    async def load(self, key: str) -> StateSnapshot:
        log = LogId(kind=KIND, id=key)
        stored = await self._store.read(log, Range(newest=True, limit=1))
        if stored is None or not stored.records:
            raise StateNotFound(key)
        (record,) = stored.records
        fields = raw_object(payload(log, record), log, record.key)
        null = msgspec.Raw(b"null")
        items = raw_items(fields.get("messages", null), log, record.key)
        return read_snapshot(log, record.key, fields.get("snapshot", null), items, self._migrators)

    @override
    async def has(self, key: str) -> bool:
        stored = await self._store.read(LogId(kind=KIND, id=key), Range(limit=0))
        return stored is not None and stored.state.record_count > 0

    @override
    async def delete(self, key: str) -> bool:
        return await self._store.delete(LogId(kind=KIND, id=key))

    @override
    async def list(self, *, after: str | None = None, limit: int = 100) -> Page[StateInfo]:
        check_count("limit", limit, minimum=1, maximum=MAX_LIST_LIMIT)

        def accept(found: LogInfo) -> StateInfo:
            return described(found.id, state_of(KIND, found))

        return await filtered_page(
            self._store, KIND, after=after, limit=limit, accept=accept, is_narrow=False
        )


def state_of(kind: str, found: LogInfo) -> LogState:
    """Return the state of a log that was listed with it.

    Raises:
        CorruptRecord: it was listed without.
    """
    if found.state is None:
        raise CorruptRecord(LogId(kind=kind, id=found.id), "it was listed without its state")
    return found.state


def described(key: str, state: LogState) -> StateInfo:
    """Return the row of a listing of states."""
    return StateInfo(
        key=key,
        revision=state.revision,
        created_at=state.created_at,
        updated_at=state.updated_at,
    )
