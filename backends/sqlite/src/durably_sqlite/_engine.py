"""The connection behind a log store and its scoped views: opened once, hopped to, closed."""

import asyncio
import contextlib
import sqlite3
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol, TypeVar, cast

import aiosqlite

from durably import StorageClosed, WrongLoop
from durably_sqlite._connection import Settings, database, factory
from durably_sqlite._errors import translate
from durably_sqlite._groups import Connection
from durably_sqlite._jobs import Job, Kind, Queue
from durably_sqlite._opening import prepare

__all__ = ["Engine"]

T = TypeVar("T")

FOREIGN_CLOSE = 2
"""Seconds."""


class _Stoppable(Protocol):
    """What aiosqlite leaves untyped: ends the thread without being awaited."""

    def stop(self) -> asyncio.Future[None] | None: ...


class Engine:
    """One connection on one thread, opened by the first operation."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._queue = Queue()
        self._opening: asyncio.Future[aiosqlite.Connection] | None = None
        self._database: aiosqlite.Connection | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def __del__(self) -> None:
        """End the thread of a connection that was never closed.

        From a thread without an event loop: aiosqlite would else announce the end to a loop that
        may be closed by then. While the interpreter ends no thread can start, and none is needed.
        """
        if self._database is not None and not sys.is_finalizing():
            with contextlib.suppress(RuntimeError):  # no new thread while the interpreter ends
                threading.Thread(target=_end, args=(self._database,), daemon=True).start()

    async def hop(self, work: Callable[[Connection], T], kind: Kind) -> T:
        """Run an operation on the connection's thread; cancelled, it is done whole or not at all.

        It shares its transaction with what waits at the same time.

        Raises:
            StorageClosed: the engine is closed.
            WrongLoop: it was first used in another event loop.
        """
        if self._closed:
            raise StorageClosed
        if self._loop not in (None, asyncio.get_running_loop()):
            raise WrongLoop
        return await self._run(self._database or await self._connect(), Job(work, kind))

    async def aclose(self) -> None:
        """Close the connection.

        Its thread ends where it cannot tell its own loop of a result any more, so from another
        loop the answer is waited for a moment only.
        """
        self._closed = True
        at_home = self._loop is asyncio.get_running_loop()
        if self._opening is not None and at_home:
            await asyncio.wait([self._opening])
        database, self._database = self._database, None
        if database is None:
            return
        if at_home:
            await database.close()
            return
        closing = cast("_Stoppable", database).stop()
        if closing is not None:
            await asyncio.wait([closing], timeout=FOREIGN_CLOSE)

    async def _run(self, connected: aiosqlite.Connection, job: Job[T]) -> T:
        loop = asyncio.get_running_loop()
        try:
            if self._queue.add(job, loop):
                await connected.commit()
            elif job.done is not None:
                await job.done
        except asyncio.CancelledError:
            job.cancelled = True
            raise
        try:
            return job.result()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise translate(error, str(self._settings)) from error

    async def _connect(self) -> aiosqlite.Connection:
        """Wait for the connection that the first caller opens.

        It is opened in a task of its own: where a caller is cancelled while aiosqlite connects,
        nobody would close what it connected to.
        """
        if self._opening is None:
            self._loop = asyncio.get_running_loop()
            self._opening = asyncio.ensure_future(self._open())
            self._opening.add_done_callback(self._opened)
        connected = await asyncio.shield(self._opening)
        if self._closed:
            raise StorageClosed
        return connected

    def _opened(self, opening: asyncio.Future[aiosqlite.Connection]) -> None:
        """Keep the connection, or let the next operation try again."""
        if opening.cancelled() or opening.exception() is not None:
            self._opening = self._loop = None
        else:
            self._database = opening.result()

    async def _open(self) -> aiosqlite.Connection:
        settings = self._settings
        place, uri = database(settings)
        made_by = factory(settings, self._queue, asyncio.get_running_loop())
        connected = await _made_on_daemon_thread(
            lambda: aiosqlite.connect(
                place,
                uri=uri,
                isolation_level=None,
                timeout=0,
                factory=made_by,
            )
        )
        try:
            ready = Job(lambda connection: prepare(connection, settings), Kind.NO_TRANSACTION)
            await self._run(connected, ready)
        except BaseException:
            await asyncio.shield(connected.close())
            raise
        return connected


def _end(database: aiosqlite.Connection) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        cast("_Stoppable", database).stop()


def _made_on_daemon_thread(make: Callable[[], T]) -> T:
    """Make an object whose thread is to be a daemon: threads inherit that from their maker.

    Else a storage that was never closed would keep the process alive for ever.
    """
    made: Future[T] = Future()

    def fill() -> None:
        try:
            made.set_result(make())
        except BaseException as error:  # noqa: BLE001 - raised again below
            made.set_exception(error)

    threading.Thread(target=fill, daemon=True).start()
    return made.result()
