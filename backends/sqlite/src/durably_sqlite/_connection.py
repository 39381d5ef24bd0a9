"""Where the database lies, and the connection to it that aiosqlite is given."""

import asyncio
import errno
import os
import secrets
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from typing_extensions import override

from durably import Unavailable
from durably_sqlite._groups import Connection
from durably_sqlite._jobs import Queue

__all__ = ["Settings", "database", "factory"]


NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
"""What file systems without hard links answer."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the database lies and how it is to be used; ``busy_timeout`` is in seconds.

    ``path`` None is a database in memory, private without a ``name``. ``journal_mode`` None is
    WAL for a new storage, and what it has for one that is there. Without ``create`` there must
    be a storage at ``path``.
    """

    path: str | None
    name: str | None = None
    journal_mode: str | None = None
    synchronous: str = "full"
    busy_timeout: float = 10.0
    backup: str = "never"
    create: bool = True

    @override
    def __str__(self) -> str:
        if self.path is not None:
            return f"SQLite database {self.path!a}"
        return "SQLite database in memory"


def factory(
    settings: Settings, queue: Queue, loop: asyncio.AbstractEventLoop
) -> Callable[..., Connection]:
    """Return what opens a connection with this queue, on the thread it is called on."""

    def connection(*args: Any, **kwargs: Any) -> Connection:  # noqa: ANN401 - sqlite3.connect's own
        try:
            if settings.path is not None:
                _find(settings.path, create=settings.create)
            made = Connection(*args, **kwargs)
        except (sqlite3.Error, Unavailable) as error:
            made = Connection(":memory:")
            made.fault = error
        made.queue = queue
        made.loop = loop
        made.patience = settings.busy_timeout
        return made

    return connection


def database(settings: Settings) -> tuple[str, bool]:
    """Return what to connect to, and whether it is a URI.

    The memdb VFS shares a database in memory between connections, with the locks of a file.
    """
    if settings.path is not None and settings.create:
        return settings.path, False
    if settings.path is not None:
        return f"file://{quote(settings.path)}?mode=rw", True
    if settings.name is not None:
        return f"file:/{quote(settings.name, safe='')}?vfs=memdb", True
    return ":memory:", False


def _find(path: str, *, create: bool) -> None:
    """Refuse a place where no database is or can be, or create it there.

    Raises:
        Unavailable: it is a directory, or there is none and it cannot or may not be created.
    """
    real = os.path.realpath(path)
    if os.path.isdir(real):  # noqa: PTH112 - Path's raises where it may not look
        raise Unavailable(
            f"{path!a} is a directory, and a database is a file",
            hint=f"Name the file in it, such as {str(Path(path, 'agent.db'))!a}",
        )
    if os.path.lexists(real):
        return
    if not create:
        raise Unavailable(
            f"there is no database at {path!a}",
            hint="Check the path: a relative one begins at the current directory",
        )
    _create_private(path, real)


def _create_private(path: str, real: str) -> None:
    """Create the file for its owner alone; SQLite gives -wal and -shm the same mode.

    Under another name first: to close a descriptor of the file itself would drop every lock that
    another connection of this process took on it meanwhile.
    """
    fresh = f"{real}.{secrets.token_hex(8)}.new"
    try:
        _make(fresh)
        try:
            os.link(fresh, real)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            _make(real)
        finally:
            Path(fresh).unlink()
    except FileExistsError:
        return
    except OSError as error:
        raise Unavailable(
            f"{path!a} cannot be created: {error.strerror}",
            hint="Check that its directory exists and may be written to",
        ) from error


def _make(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
