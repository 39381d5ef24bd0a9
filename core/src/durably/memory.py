"""The log store that keeps nothing: ``memory://``, and the oracle of the model tests."""

import copy
import platform
import threading
from collections.abc import Iterable
from itertools import islice

from durably import rules
from durably._typing import override
from durably.capabilities import Capabilities, Durability, Writers
from durably.checks import check_namespace
from durably.errors import StorageClosed
from durably.logstore import (
    ALL,
    Applied,
    Batch,
    Log,
    LogId,
    LogInfo,
    LogStore,
    Page,
    Range,
    Record,
    Rewrite,
)

__all__ = ["MemoryLogStore"]


class _MemoryLog:
    """A log, its records by seq, ascending, and their seqs by key."""

    def __init__(self, tip: rules.Tip) -> None:
        self.tip = tip
        self.records: dict[int, Record] = {}
        self.seqs: dict[str, int] = {}

    def known(self, keys: Iterable[str]) -> dict[str, rules.Known]:
        """Return which of some keys are in the log."""
        seqs = {key: self.seqs[key] for key in keys if key in self.seqs}
        return {key: rules.Known(seq, self.records[seq].revision) for key, seq in seqs.items()}

    def add(self, records: Iterable[Record]) -> None:
        """Add new records, or overwrite those of the same seq."""
        for record in records:
            self.records[record.seq] = record
            self.seqs[record.key] = record.seq

    def remove(self, seqs: Iterable[int]) -> list[Record]:
        """Remove records and return them."""
        removed = [self.records.pop(seq) for seq in seqs]
        for record in removed:
            del self.seqs[record.key]
        return removed


class _Shelf:
    """The logs of one storage, and the lock that makes each operation one step."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.logs: dict[tuple[str, LogId], _MemoryLog] = {}


class _Opened:
    """A shelf as a store and its scoped views use it, until the store is closed."""

    def __init__(self, shelf: _Shelf) -> None:
        self.closed = False
        self._shelf = shelf

    @property
    def shelf(self) -> _Shelf:
        if self.closed:
            raise StorageClosed
        return self._shelf


def _shelf(name: str | None) -> _Shelf:
    if name is None:
        return _Shelf()
    with _shelves_lock:
        return _shelves.setdefault(name, _Shelf())


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
        self._opened = _Opened(_shelf(name))
        self._owner = True

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        shelf = self._opened.shelf
        with shelf.lock:
            stored = shelf.logs.get((self._namespace, log))
            known = stored.known(batch.record_keys) if stored else {}
            decided = rules.admit(log, stored.tip if stored else None, batch, known)
            if isinstance(decided, Applied):
                return decided
            if stored is None:
                stored = shelf.logs[self._namespace, log] = _MemoryLog(decided.tip)
            stored.add(decided.records)
            evicted = stored.remove(list(islice(stored.records, decided.excess)))
            stored.tip = rules.evict(
                decided.tip,
                records=len(evicted),
                entries=sum(record.entry_count for record in evicted),
            )
            return decided.applied

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        shelf = self._opened.shelf
        with shelf.lock:
            stored = shelf.logs.get((self._namespace, log))
            if stored is None:
                return None
            records = stored.records.values()
            ordered = reversed(records) if span.newest else records
            return Log(state=stored.tip.state, records=rules.select(ordered, span))

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        shelf = self._opened.shelf
        with shelf.lock:
            stored = shelf.logs.get((self._namespace, log))
            records = stored.records.values() if stored else ()
            decided = rules.edit(log, stored.tip if stored else None, change, records)
            if isinstance(decided, rules.Edit) and stored:
                stored.remove(decided.dropped)
                stored.add(decided.replaced)
                stored.tip = decided.tip
            return decided.applied if isinstance(decided, rules.Edit) else decided

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        shelf = self._opened.shelf
        with shelf.lock:
            stored = shelf.logs.get((self._namespace, log))
            if stored is None:
                return False
            rules.check_revision(log, stored.tip, expected_revision)
            del shelf.logs[self._namespace, log]
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
        shelf = self._opened.shelf
        with shelf.lock:
            found = sorted(
                (log.id, stored.tip.state if with_state else None)
                for (namespace, log), stored in shelf.logs.items()
                if namespace == self._namespace
                and log.kind == kind
                and log.id.startswith(prefix)
                and log.id > after
            )
        rows = tuple(LogInfo(id=id_, state=state) for id_, state in found[:limit])
        return Page(items=rows, next=rows[-1].id if len(found) > limit else None)

    @override
    def scoped(self, namespace: str) -> "MemoryLogStore":
        check_namespace(namespace)
        view = copy.copy(self)
        view._namespace = namespace  # noqa: SLF001 - one of us
        view._owner = False  # noqa: SLF001 - one of us
        return view

    @override
    async def describe(self) -> dict[str, str]:
        _ = self._opened.shelf
        return {"engine": f"memory of this process, Python {platform.python_version()}"}

    @override
    async def aclose(self) -> None:
        if self._owner:
            self._opened.closed = True
