"""The log store that keeps nothing: ``memory://``, and the oracle of the model tests."""

import threading

import msgspec

from durably import rules
from durably._typing import override
from durably.capabilities import Capabilities, Durability, Writers
from durably.errors import StorageClosed
from durably.logstore import (
    ALL,
    Applied,
    Batch,
    Log,
    LogId,
    LogInfo,
    LogState,
    LogStore,
    Page,
    Range,
    Record,
    Rewrite,
    check_namespace,
)

__all__ = ["MemoryLogStore"]


class _MemoryLog(msgspec.Struct, frozen=True, kw_only=True):
    tip: rules.Tip
    records: tuple[Record, ...] = ()


class _Shelf:
    """The logs of one storage, and the lock that makes each operation one step."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.logs: dict[tuple[str, LogId], _MemoryLog] = {}


_shelves: dict[str, _Shelf] = {}
_shelves_lock = threading.Lock()


class MemoryLogStore(LogStore):
    """Logs in this process's memory, gone when it ends.

    Without a ``name`` the storage is private to this object; those of one name share theirs for
    as long as the process lives. Two namespaces share nothing.

    Raises:
        InvalidId: ``namespace`` is neither empty nor legal as an id.
    """

    capabilities = Capabilities(durability=Durability.NOTHING, writers=Writers.ONE_PROCESS)

    def __init__(self, name: str | None = None, *, namespace: str = "") -> None:
        check_namespace(namespace)
        self._namespace = namespace
        self._closed = False
        if name is None:
            self._shelf = _Shelf()
        else:
            with _shelves_lock:
                self._shelf = _shelves.setdefault(name, _Shelf())

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        with self._open_shelf().lock:
            stored = self._shelf.logs.get((self._namespace, log))
            tip = stored.tip if stored else None
            records = stored.records if stored else ()
            wanted = set(batch.record_keys)
            known = {
                record.key: rules.Known(record.seq, record.revision)
                for record in records
                if record.key in wanted
            }
            decided = rules.admit(log, tip, batch, known)
            if isinstance(decided, Applied):
                return decided
            self._keep(log, decided, records)
            return decided.applied

    def _keep(self, log: LogId, admission: rules.Admission, records: tuple[Record, ...]) -> None:
        records += admission.records
        evicted = records[: admission.excess]
        tip = rules.evict(
            admission.tip,
            records=len(evicted),
            entries=sum(record.entry_count for record in evicted),
        )
        self._shelf.logs[self._namespace, log] = _MemoryLog(
            tip=tip, records=records[admission.excess :]
        )

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        stored = self._open_shelf().logs.get((self._namespace, log))
        if stored is None:
            return None
        ordered = reversed(stored.records) if span.newest else stored.records
        return Log(state=stored.tip.state, records=rules.select(ordered, span))

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        with self._open_shelf().lock:
            stored = self._shelf.logs.get((self._namespace, log))
            tip = stored.tip if stored else None
            records = stored.records if stored else ()
            decided = rules.edit(log, tip, change, records)
            if isinstance(decided, Applied):
                return decided
            replaced = {record.seq: record for record in decided.replaced}
            self._shelf.logs[self._namespace, log] = _MemoryLog(
                tip=decided.tip,
                records=tuple(
                    replaced.get(record.seq, record)
                    for record in records
                    if not change.drops(record.seq)
                ),
            )
            return decided.applied

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        with self._open_shelf().lock:
            stored = self._shelf.logs.get((self._namespace, log))
            if stored is None:
                return False
            rules.check_revision(log, stored.tip, expected_revision)
            del self._shelf.logs[self._namespace, log]
            return True

    @override
    async def list(
        self,
        kind: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int = 100,
        with_state: bool = False,
    ) -> Page[LogInfo]:
        with self._open_shelf().lock:
            found = sorted(
                log.id
                for namespace, log in self._shelf.logs
                if namespace == self._namespace
                and log.kind == kind
                and log.id.startswith(prefix)
                and log.id > after
            )
            rows = tuple(
                LogInfo(id=id_, state=self._state(kind, id_) if with_state else None)
                for id_ in found[:limit]
            )
        return Page(items=rows, next=rows[-1].id if len(found) > limit else None)

    def _state(self, kind: str, id_: str) -> LogState:
        return self._shelf.logs[self._namespace, LogId(kind=kind, id=id_)].tip.state

    @override
    async def aclose(self) -> None:
        self._closed = True

    def _open_shelf(self) -> _Shelf:
        if self._closed:
            raise StorageClosed
        return self._shelf
