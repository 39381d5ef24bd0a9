"""From a connection to one that is ready: looked at, set, and of the current layout."""

import os
import sqlite3
from pathlib import Path
from urllib.parse import quote

from durably import ForeignData, Unavailable, Unsupported
from durably_sqlite import _layout
from durably_sqlite._connection import Settings
from durably_sqlite._groups import Connection
from durably_sqlite._mounts import refuse_network
from durably_sqlite._packing import unpack

__all__ = ["JOURNAL_MODES", "SYNCHRONOUS", "prepare"]

OLDEST_SQLITE = (3, 35, 0)
OLDEST_SHARED_MEMORY = (3, 36, 0)
SYNCHRONOUS = {"normal": 1, "full": 2, "extra": 3}
JOURNAL_MODES = ("wal", "delete", "truncate", "persist")
CACHED_KIB = 16 * 1024
"""Of pages: SQLite's own 2 MiB hold 500 segments, and a longer session is read anew each time."""


def prepare(connection: Connection, settings: Settings) -> None:
    """Make a connection ready, or raise what opening it met.

    Looks at version and layout before anything is changed, sets the pragmas and reads them
    back, and creates or migrates the layout. It may be repeated: when several open a fresh file
    together, the switch to WAL answers "locked" at once.
    """
    if connection.fault is not None:
        raise connection.fault
    oldest = OLDEST_SQLITE if settings.name is None else OLDEST_SHARED_MEMORY
    if sqlite3.sqlite_version_info < oldest:
        raise Unsupported(
            f"SQLite {sqlite3.sqlite_version} is too old",
            hint=f"{'.'.join(map(str, oldest))} is needed",
        )
    connection.create_function("durably_unpack", 1, unpack, deterministic=True)
    if settings.path is not None:
        _look(settings.path, settings)
    _prepare(connection, settings)


def _look(path: str, settings: Settings) -> None:
    """Refuse a file that is newer, foreign or not to be created in, and change no byte of it.

    An ordinary connection would create -wal and -shm beside the file, and on closing write the
    log back into it. What cannot be decided here, such as a file that is being written, is
    left to the look within the transaction.
    """
    place = str(settings)
    real = os.path.realpath(path)
    beside = {end for end in ("wal", "shm", "journal") if Path(f"{real}-{end}").exists()}
    how = "&immutable=1"
    if beside >= {"wal", "shm"} or "journal" in beside:
        how = "&readonly_shm=1"
    elif "wal" in beside:  # SQLite cannot look into a log without making its index
        how = ""
    try:
        reader = sqlite3.connect(f"file://{quote(real)}?mode=ro{how}", uri=True, timeout=0)
    except sqlite3.Error:
        return
    try:
        _check_created(_layout.stored_version(reader, place), settings)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB:
            raise ForeignData(
                f"{place} is not an SQLite database", hint="Choose another path for the storage"
            ) from error
    finally:
        reader.close()


def _check_created(version: int, settings: Settings) -> None:
    if version == 0 and not settings.create:
        raise Unavailable(
            f"{settings} holds nothing of durably's",
            hint="Check the path; a storage is created in it without ?create=never",
        )


def _prepare(connection: Connection, settings: Settings) -> None:
    version = _layout.stored_version(connection, str(settings))
    _check_created(version, settings)
    encoding = connection.execute("PRAGMA encoding").fetchone()[0]
    if encoding != "UTF-8":
        raise Unsupported(
            f"{settings} keeps its text in {encoding}, and ids are ordered by their UTF-8 bytes",
            hint="Choose another path for the storage",
        )
    _set_journal_mode(connection, settings, new=version == 0)
    _set(connection, "synchronous", settings.synchronous, SYNCHRONOUS[settings.synchronous])
    if settings.synchronous != "normal":  # on macOS a plain fsync does not reach the disk
        _set(connection, "fullfsync", "1", 1)
        _set(connection, "checkpoint_fullfsync", "1", 1)
    _set(connection, "cache_size", str(-CACHED_KIB), -CACHED_KIB)
    if version < _layout.VERSION:
        _layout.migrate(connection, settings)
    connection.check_layout = _Layout(connection, str(settings)).check
    if settings.path is not None:
        connection.check_file = _File(settings.path, str(settings)).check


class _Layout:
    """The layout of an open database, looked at again when its schema changes."""

    def __init__(self, connection: sqlite3.Connection, place: str) -> None:
        self._connection = connection
        self._place = place
        self._seen = self._schema_version()

    def check(self) -> None:
        found = self._schema_version()
        if found != self._seen:
            _layout.stored_version(self._connection, self._place)
            self._seen = found

    def _schema_version(self) -> object:
        return self._connection.execute("PRAGMA schema_version").fetchone()[0]


class _File:
    """The file that was opened, as long as its path leads to it."""

    def __init__(self, path: str, place: str) -> None:
        self._path = path
        self._place = place
        self._opened = self._identity()

    def check(self) -> None:
        if self._identity() != self._opened:
            raise Unavailable(
                f"{self._place} was removed or replaced while it was open; nothing was written",
                hint="Close this storage and open it again",
            )

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)  # noqa: PTH116 - text, and before every change
        except OSError:
            return None
        return found.st_dev, found.st_ino


def _set_journal_mode(connection: sqlite3.Connection, settings: Settings, *, new: bool) -> None:
    if settings.path is None:
        _set(connection, "journal_mode", "memory")
        return
    if settings.journal_mode is not None or new:
        mode = settings.journal_mode or "wal"
    else:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode == "wal":
        refuse_network(settings.path)
    _set(connection, "journal_mode", mode)


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
