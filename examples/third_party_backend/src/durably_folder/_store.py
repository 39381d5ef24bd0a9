"""``FolderLogStore``: what durably asks of a storage, with ``durably.rules`` deciding."""

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

from typing_extensions import override

from durably import (
    Capabilities,
    Durability,
    DurablyError,
    LogStore,
    Page,
    StorageClosed,
    Unavailable,
    Writers,
    rules,
)
from durably.logstore import (
    ALL,
    Applied,
    Batch,
    Log,
    LogId,
    LogInfo,
    Range,
    Record,
    Rewrite,
    check_namespace,
)
from durably_folder import _files as files

__all__ = ["FolderLogStore"]

P = ParamSpec("P")
T = TypeVar("T")


class FolderLogStore(LogStore):
    """Logs in a folder on a local disk, which any number of processes of one host may share.

    Raises:
        InvalidId: ``namespace`` is neither empty nor legal as an id.
    """

    capabilities = Capabilities(durability=Durability.POWER_LOSS, writers=Writers.ONE_HOST)

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        namespace: str = "",
        owner: "FolderLogStore | None" = None,
    ) -> None:
        check_namespace(namespace)
        self._root = Path(folder).absolute()
        self._namespace = namespace
        self._owner = owner
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether this store was closed, or the one of which it is a scope."""
        return self._closed or (self._owner is not None and self._owner.is_closed)

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        return await self._in_thread(self._append, log, batch)

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        return await self._in_thread(self._read, log, span)

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        return await self._in_thread(self._rewrite, log, change)

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        return await self._in_thread(self._delete, log, expected_revision)

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
        return await self._in_thread(self._list, kind, prefix, after, limit, with_state=with_state)

    @override
    def scoped(self, namespace: str) -> "FolderLogStore":
        return FolderLogStore(self._root, namespace=namespace, owner=self)

    @override
    async def aclose(self) -> None:
        self._closed = True

    async def _in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Work on files off the event loop; cancelled, a change is still made whole."""
        if self.is_closed:
            raise StorageClosed
        try:
            return await asyncio.to_thread(work, *args, **kwargs)
        except DurablyError:  # some of them are OSErrors, too
            raise
        except OSError as error:
            raise Unavailable(f"{self._root} cannot be used: {error.strerror}") from error

    def _path(self, log: LogId) -> Path:
        return files.log_path(self._root, self._namespace, log)

    def _append(self, log: LogId, batch: Batch) -> Applied:
        with files.locked(self._root):
            stored = files.read(self._path(log), log)
            records = stored.records if stored else ()
            known = {record.key: rules.Known(record.seq, record.revision) for record in records}
            decided = rules.admit(log, stored.tip if stored else None, batch, known)
            if isinstance(decided, Applied):
                return decided
            files.write(self._path(log), _appended(records, decided))
            return decided.applied

    def _read(self, log: LogId, span: Range) -> Log | None:
        stored = files.read(self._path(log), log, with_records=span.limit != 0)
        if stored is None:
            return None
        ordered: Iterable[Record] = reversed(stored.records) if span.newest else stored.records
        return Log(state=stored.tip.state, records=rules.select(ordered, span))

    def _rewrite(self, log: LogId, change: Rewrite) -> Applied:
        with files.locked(self._root):
            stored = files.read(self._path(log), log)
            records = stored.records if stored else ()
            decided = rules.edit(log, stored.tip if stored else None, change, records)
            if isinstance(decided, Applied):
                return decided
            files.write(self._path(log), _edited(records, decided))
            return decided.applied

    def _delete(self, log: LogId, expected_revision: int | None) -> bool:
        with files.locked(self._root):
            stored = files.read(self._path(log), log, with_records=False)
            if stored is None:
                return False
            rules.check_revision(log, stored.tip, expected_revision)
            files.remove(self._path(log))
            return True

    def _list(
        self, kind: str, prefix: str, after: str, limit: int, *, with_state: bool
    ) -> Page[LogInfo]:
        folder = files.kind_folder(self._root, self._namespace, kind)
        found = [id_ for id_ in files.ids_below(folder) if id_.startswith(prefix) and id_ > after]
        found.sort()  # by code points, which is the order of UTF-8 bytes
        page = found[:limit]
        items = [LogInfo(id=id_) for id_ in page]
        if with_state:
            items = [info for id_ in page if (info := self._with_state(kind, id_))]
        return Page(items=tuple(items), next=page[-1] if len(found) > limit else None)

    def _with_state(self, kind: str, id_: str) -> LogInfo | None:
        """Return a row of a listing, None if the log was deleted since it was found."""
        log = LogId(kind=kind, id=id_)
        stored = files.read(self._path(log), log, with_records=False)
        return LogInfo(id=id_, state=stored.tip.state) if stored else None


def _appended(records: Sequence[Record], decided: rules.Admission) -> files.File:
    """Return a log's file after an append, without the records that it evicts."""
    everything = [*records, *decided.records]
    gone, kept = everything[: decided.excess], everything[decided.excess :]
    entries = sum(record.entry_count for record in gone)
    return files.File(
        tip=rules.evict(decided.tip, records=len(gone), entries=entries), records=kept
    )


def _edited(records: Sequence[Record], decided: rules.Edit) -> files.File:
    """Return a log's file after a rewrite."""
    dropped = frozenset(decided.dropped)
    replaced = {record.seq: record for record in decided.replaced}
    kept = [replaced.get(record.seq, record) for record in records if record.seq not in dropped]
    return files.File(tip=decided.tip, records=kept)
