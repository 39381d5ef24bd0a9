"""The one gate every operation of a storage passes: open? of a known format? of legal size?"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable

import msgspec

from durably._typing import override
from durably.checks import MAX_LIST_LIMIT, check_count, check_id, check_size
from durably.errors import (
    CorruptRecord,
    RevisionConflict,
    SchemaTooNew,
    StorageClosed,
    WrongLoop,
    WrongProcess,
)
from durably.logstore import (
    ALL,
    Applied,
    Batch,
    Log,
    LogId,
    LogInfo,
    LogStore,
    NewRecord,
    Page,
    Range,
    Rewrite,
)

__all__ = ["FORMAT", "FORMAT_LOG", "Gate"]

FORMAT = 1
"""The version of what core writes into records and heads."""

FORMAT_LOG = LogId(kind="meta", id="format")


_WHOLE = (ALL, Range(with_data=False))
"""The ranges that ask for every record of a log."""


class _Marker(msgspec.Struct, frozen=True):
    format: int


_marker = msgspec.json.Decoder(_Marker)


class Home:
    """The process and the event loop of a storage's first operation, to which it is bound.

    Connections do not survive a fork, and an answer is delivered to the loop that asked.
    """

    def __init__(self) -> None:
        self._process: int | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def check(self) -> None:
        """Bind to this process and loop, or refuse if they are others than those bound to.

        Raises:
            WrongProcess: this is a fork of the process of the first operation.
            WrongLoop: this is another event loop.
        """
        if self._process is None:
            self._process, self._loop = os.getpid(), asyncio.get_running_loop()
        elif self._process != os.getpid():
            raise WrongProcess
        elif self._loop is not asyncio.get_running_loop():
            raise WrongLoop

    def is_here(self) -> bool:
        """Whether there was a first operation, in this process."""
        return self._process == os.getpid()

    def is_another_process(self) -> bool:
        """Whether there was a first operation, in another process."""
        return self._process not in (None, os.getpid())


class Gate(LogStore):
    """A log store as a storage uses it.

    The first operation reads the format marker of the store's namespace, the first change
    writes it where it is missing, so that merely looking into an empty storage writes nothing.
    """

    def __init__(
        self,
        store: LogStore,
        *,
        clock: Callable[[], float] = time.time,
        home: "Home | None" = None,
    ) -> None:
        self.capabilities = store.capabilities
        self.limits = store.limits
        self.home = Home() if home is None else home
        self._store = store
        self._clock = clock
        self._known = False
        self._marked = False
        self._closed = False

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        self._check_sizes(log, batch.records, batch.head)
        await self.check(writing=True)
        return await self._store.append(log, batch)

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        await self.check()
        stored = await self._store.read(log, span)
        if stored is not None and span in _WHOLE:
            _check_complete(log, stored)
        return stored

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        self._check_sizes(log, change.replace.values(), change.head)
        await self.check(writing=True)
        return await self._store.rewrite(log, change)

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        await self.check()
        return await self._store.delete(log, expected_revision=expected_revision)

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
        check_count("limit", limit, minimum=1, maximum=MAX_LIST_LIMIT)
        for bound in (prefix, after):
            if bound != "":
                check_id(kind, bound)
        await self.check()
        return await self._store.list(
            kind, prefix=prefix, after=after, limit=limit, with_state=with_state
        )

    @override
    def scoped(self, namespace: str) -> "Gate":
        return Gate(self._store.scoped(namespace), clock=self._clock, home=self.home)

    @property
    def is_in_use(self) -> bool:
        """Whether it was used in this process and not closed."""
        return self.home.is_here() and not self._closed

    @override
    async def maintain(self) -> None:
        await self.check()
        await self._store.maintain()

    @override
    async def describe(self) -> dict[str, str]:
        await self.check()
        return await self._store.describe()

    @override
    async def aclose(self) -> None:
        self._closed = True
        if not self.home.is_another_process():
            await self._store.aclose()

    def _check_sizes(self, log: LogId, records: Iterable[NewRecord], head: bytes | None) -> None:
        for record in records:
            check_size(log, "record", len(record.data), self.limits.record_bytes)
        if head is not None:
            check_size(log, "head", len(head), self.limits.head_bytes)

    async def check(self, *, writing: bool = False) -> None:
        """Look at the format marker, unless that was done, and write it before a change.

        Raises:
            SchemaTooNew: a newer version wrote this storage.
            StorageClosed: the storage is closed.
            WrongLoop: it was first used in another event loop.
            WrongProcess: it was first used in another process.
        """
        if self._closed:
            raise StorageClosed
        self.home.check()
        if not self._known:
            self._marked = await self._read_marker()
            self._known = True
        if writing and not self._marked:
            await self._write_marker()
            self._marked = True

    async def _read_marker(self) -> bool:
        stored = await self._store.read(FORMAT_LOG, Range(limit=0))
        if stored is None:
            return False
        try:
            found = _marker.decode(stored.state.head or b"").format
        except msgspec.DecodeError as error:
            raise CorruptRecord(FORMAT_LOG, f"its head cannot be read: {error}") from error
        if found > FORMAT:
            raise SchemaTooNew(
                "this storage", found=found, supported=FORMAT, distribution="durably"
            )
        return True

    async def _write_marker(self) -> None:
        head = msgspec.json.encode(_Marker(format=FORMAT))
        marker = Batch(head=head, expected_revision=0, at=self._clock())
        try:
            await self._store.append(FORMAT_LOG, marker)
        except RevisionConflict:
            await self._read_marker()


def _check_complete(log: LogId, stored: Log) -> None:
    """Refuse a log of which a part is missing: a shorter history must never look like a whole."""
    if len(stored.records) != stored.state.record_count:
        raise CorruptRecord(
            log, f"it has {len(stored.records)} records, its state says {stored.state.record_count}"
        )
