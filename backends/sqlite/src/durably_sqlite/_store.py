"""``SQLiteLogStore``: the log store on one SQLite database."""

import asyncio
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import aiosqlite
from typing_extensions import override

from durably import (
    Capabilities,
    Durability,
    InvalidUrl,
    LogStore,
    StorageClosed,
    Writers,
    WrongLoop,
)
from durably.checks import check_id, check_namespace
from durably.logstore import ALL, Applied, Batch, Log, LogId, LogInfo, Page, Range, Rewrite
from durably_sqlite import _operations as operations
from durably_sqlite._connection import (
    JOURNAL_MODES,
    SYNCHRONOUS,
    Job,
    Settings,
    database,
    factory,
    prepare,
)
from durably_sqlite._errors import translate

__all__ = ["SQLiteLogStore"]

T = TypeVar("T")

MAX_BUSY_TIMEOUT = 3600
"""Seconds."""

FOREIGN_CLOSE = 2
"""Seconds."""


class _Stoppable(Protocol):
    """What aiosqlite leaves untyped: ends the thread without being awaited."""

    def stop(self) -> asyncio.Future[None] | None: ...


class SQLiteLogStore(LogStore):
    """Logs in one SQLite database, which may also hold tables of others.

    ``path`` is a file; it is created for its owner alone (mode 0600) where it does not exist.
    None is a database in memory: private to this object, or shared in the process under a
    ``name``. With ``synchronous="full"`` an acknowledged change survives power loss; with
    ``"normal"`` a process crash, but power loss may take the last changes. ``busy_timeout`` is
    how many seconds to wait for other writers. Any number of processes of one host may share a
    file on a local disk. It connects with its first operation.

    Raises:
        InvalidUrl: a setting is none of those SQLite knows.
        InvalidId: ``namespace`` is neither empty nor legal as an id, or ``name`` is not.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        *,
        name: str | None = None,
        namespace: str = "",
        journal_mode: str = "wal",
        synchronous: str = "full",
        busy_timeout: float = 10.0,
    ) -> None:
        check_namespace(namespace)
        _check_choice("journal_mode", journal_mode, JOURNAL_MODES)
        _check_choice("synchronous", synchronous, tuple(SYNCHRONOUS))
        if name is not None:
            check_id("database", name)
        if name is not None and path is not None:
            raise InvalidUrl("a name is for databases in memory, and this one has a path")
        if not 0 <= busy_timeout <= MAX_BUSY_TIMEOUT:
            raise InvalidUrl(f"busy_timeout must be 0 to {MAX_BUSY_TIMEOUT} seconds")
        self._settings = Settings(
            path=None if path is None else _absolute(path),
            name=name,
            journal_mode=journal_mode,
            synchronous=synchronous,
            busy_timeout=busy_timeout,
        )
        self.capabilities = _capabilities(self._settings)
        self._namespace = namespace
        self._waiting: deque[Job[Any]] = deque()
        self._connecting = asyncio.Lock()
        self._database: aiosqlite.Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        return await self._hop(
            lambda connection: operations.append(connection, self._namespace, log, batch)
        )

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        return await self._hop(
            lambda connection: operations.read(connection, self._namespace, log, span)
        )

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        return await self._hop(
            lambda connection: operations.rewrite(connection, self._namespace, log, change)
        )

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        return await self._hop(
            lambda connection: operations.delete(
                connection, self._namespace, log, expected_revision
            )
        )

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
        return await self._hop(
            partial(
                operations.list_logs,
                namespace=self._namespace,
                kind=kind,
                prefix=prefix,
                after=after,
                limit=limit,
                with_state=with_state,
            )
        )

    @override
    async def aclose(self) -> None:
        """Close the connection.

        Its thread ends where it cannot tell its own loop of a result any more, so from another
        loop the answer is waited for a moment only.
        """
        self._closed = True
        async with self._connecting:
            database, self._database = self._database, None
            if database is None:
                return
            if self._loop is asyncio.get_running_loop():
                await database.close()
                return
            closing = cast("_Stoppable", database).stop()
            if closing is not None:
                await asyncio.wait([closing], timeout=FOREIGN_CLOSE)

    async def _hop(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run an operation on the connection's thread; cancelled, it is still done whole."""
        if self._closed:
            raise StorageClosed
        connected = self._database or await self._connect()
        if self._loop is not asyncio.get_running_loop():
            raise WrongLoop
        return await self._run(connected, work)

    async def _run(
        self, connected: aiosqlite.Connection, work: Callable[[sqlite3.Connection], T]
    ) -> T:
        job = Job(work)
        self._waiting.append(job)
        await connected.commit()
        try:
            return job.result()
        except sqlite3.Error as error:
            raise translate(error, str(self._settings)) from error

    async def _connect(self) -> aiosqlite.Connection:
        async with self._connecting:
            if self._closed:
                raise StorageClosed
            if self._database is None:
                self._database = await self._opened()
                self._loop = asyncio.get_running_loop()
            return self._database

    async def _opened(self) -> aiosqlite.Connection:
        settings = self._settings
        place, uri = database(settings)
        connected = await _made_on_daemon_thread(
            lambda: aiosqlite.connect(
                place,
                uri=uri,
                isolation_level=None,
                timeout=settings.busy_timeout,
                factory=factory(settings, self._waiting),
            )
        )
        try:
            await self._run(connected, lambda connection: prepare(connection, settings))
        except BaseException:
            await asyncio.shield(connected.close())
            raise
        return connected


def _made_on_daemon_thread(make: Callable[[], T]) -> T:
    """Make an object whose thread is to be a daemon: threads inherit that from their maker.

    Else a storage that was never closed would keep the process alive for ever.
    """
    made: list[T] = []
    maker = threading.Thread(target=lambda: made.append(make()), daemon=True)
    maker.start()
    maker.join()
    return made[0]


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidUrl(f"{name} must be one of {', '.join(choices)}, not {value!r}")


def _absolute(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    if text in ("", ":memory:") or "\x00" in text or not _is_utf8(text):
        raise InvalidUrl(
            f"{text!r} is no path of a file",
            hint="For a database in memory pass None, or open sqlite://",
        )
    return str(Path(text).absolute())


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _capabilities(settings: Settings) -> Capabilities:
    if settings.path is None:
        return Capabilities(durability=Durability.NOTHING, writers=Writers.ONE_PROCESS)
    safe = settings.synchronous != "normal"
    return Capabilities(
        durability=Durability.POWER_LOSS if safe else Durability.PROCESS_DEATH,
        writers=Writers.ONE_HOST,
    )
