"""One long-lived connection on one thread, one hop to it per operation.

aiosqlite runs every method of its connection on the connection's own thread. ``Connection``
overrides ``commit`` to run the operations that wait, so that ``await commit()`` is a whole
operation in one hop, whatever number of statements it takes.
"""

import os
import random
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec
from typing_extensions import override

from durably import Unavailable, Unsupported
from durably_sqlite import _layout
from durably_sqlite._errors import is_busy

__all__ = ["Connection", "Job", "Settings", "database", "factory", "prepare", "transaction"]

T = TypeVar("T")

OLDEST_SQLITE = (3, 35, 0)
OLDEST_SHARED_MEMORY = (3, 36, 0)
SYNCHRONOUS = {"normal": 1, "full": 2, "extra": 3}
JOURNAL_MODES = ("wal", "delete", "truncate", "persist")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the database lies and how it is to be used; ``busy_timeout`` is in seconds.

    ``path`` None is a database in memory, private without a ``name``.
    """

    path: str | None
    name: str | None = None
    journal_mode: str = "wal"
    synchronous: str = "full"
    busy_timeout: float = 10.0

    @override
    def __str__(self) -> str:
        if self.path is not None:
            return f"SQLite database {self.path!a}"
        return "SQLite database in memory"


class Job(Generic[T]):
    """An operation on its way to the connection's thread, and what came of it."""

    def __init__(self, work: Callable[[sqlite3.Connection], T]) -> None:
        self._work = work
        self._error: BaseException | None = None
        self._done: list[T] = []

    def run(self, connection: sqlite3.Connection) -> None:
        """Do the work on the connection's thread and keep its result or error."""
        try:
            self._done.append(self._work(connection))
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            self._error = error

    def result(self) -> T:
        """Return the result or raise the error."""
        if self._error is not None:
            raise self._error
        return self._done[0]


class Connection(sqlite3.Connection):
    """A connection whose ``commit`` runs what waits for it.

    ``fault`` is why the database could not be opened: aiosqlite leaves its thread behind where
    its connector raises, so the error is kept and raised by the first operation.
    """

    waiting: deque[Job[Any]]
    fault: Exception | None = None

    @override
    def commit(self) -> None:
        while self.waiting:
            self.waiting.popleft().run(self)


def factory(settings: Settings, waiting: deque[Job[Any]]) -> Callable[..., Connection]:
    """Return what opens a connection with this queue, on the thread it is called on."""

    def connection(*args: Any, **kwargs: Any) -> Connection:  # noqa: ANN401 - sqlite3.connect's own
        try:
            if settings.path is not None:
                _create_private(settings.path)
            made = Connection(*args, **kwargs)
        except (sqlite3.Error, Unavailable) as error:
            made = Connection(":memory:")
            made.fault = error
        made.waiting = waiting
        return made

    return connection


def database(settings: Settings) -> tuple[str, bool]:
    """Return what to connect to, and whether it is a URI.

    The memdb VFS shares a database in memory between connections, with the locks of a file.
    """
    if settings.path is not None:
        return settings.path, False
    if settings.name is not None:
        return f"file:/{quote(settings.name, safe='')}?vfs=memdb", True
    return ":memory:", False


def _create_private(path: str) -> None:
    """Create the file for its owner alone; SQLite gives -wal and -shm the same mode."""
    try:
        os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise Unavailable(
            f"{path!a} cannot be created: {error.strerror}",
            hint="Check that its directory exists and may be written to",
        ) from error


def prepare(connection: sqlite3.Connection, settings: Settings) -> None:
    """Make a connection ready, or raise what opening it met.

    Looks at version and layout before anything is changed, sets the pragmas and reads them
    back, and creates the layout if it is missing. The switch to WAL answers "locked" at once,
    whatever the busy timeout, when several open a fresh file together: the whole is repeated
    until the timeout.
    """
    if isinstance(connection, Connection) and connection.fault is not None:
        raise connection.fault
    oldest = OLDEST_SQLITE if settings.name is None else OLDEST_SHARED_MEMORY
    if sqlite3.sqlite_version_info < oldest:
        raise Unsupported(
            f"SQLite {sqlite3.sqlite_version} is too old",
            hint=f"{'.'.join(map(str, oldest))} is needed",
        )
    deadline = time.monotonic() + settings.busy_timeout
    while True:
        try:
            _prepare(connection, settings)
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
        else:
            return
        time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 - jitter, no secret


def _prepare(connection: sqlite3.Connection, settings: Settings) -> None:
    version = _layout.stored_version(connection, str(settings))
    encoding = connection.execute("PRAGMA encoding").fetchone()[0]
    if encoding != "UTF-8":
        raise Unsupported(
            f"{settings} keeps its text in {encoding}, and ids are ordered by their UTF-8 bytes",
            hint="Choose another path for the storage",
        )
    _set(connection, "journal_mode", settings.journal_mode if settings.path else "memory")
    _set(connection, "synchronous", settings.synchronous, SYNCHRONOUS[settings.synchronous])
    if settings.synchronous != "normal":  # on macOS a plain fsync does not reach the disk
        _set(connection, "fullfsync", "1", 1)
        _set(connection, "checkpoint_fullfsync", "1", 1)
    if version == 0:
        with transaction(connection):
            if _layout.stored_version(connection, str(settings)) == 0:
                _layout.create(connection)


def _set(
    connection: sqlite3.Connection, pragma: str, value: str, answer: str | int | None = None
) -> None:
    """Set a pragma and read it back: an engine that cannot do it says so by its answer."""
    wanted = value if answer is None else answer
    if connection.execute(f"PRAGMA {pragma}").fetchone()[0] == wanted:
        return
    connection.execute(f"PRAGMA {pragma}={value}")
    found = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
    if found != wanted:
        raise Unsupported(
            f"SQLite cannot use {pragma} {value} here, it stays at {found}",
            hint=f"Use a local disk, or choose another ?{pragma}=",
        )


@contextmanager
def transaction(connection: sqlite3.Connection, *, writing: bool = True) -> Generator[None]:
    """Run a block in one transaction, its write lock taken up front, undone on every error."""
    connection.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
