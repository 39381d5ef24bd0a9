"""``SQLiteLogStore``: the log store on one SQLite database."""

import copy
import os
from functools import partial
from pathlib import Path

import msgspec
from typing_extensions import override

from durably import (
    Capabilities,
    Durability,
    InvalidUrl,
    LogStore,
    Writers,
)
from durably.checks import check_id, check_namespace
from durably.logstore import ALL, Applied, Batch, Log, LogId, LogInfo, Page, Range, Rewrite
from durably_sqlite import _operations as operations
from durably_sqlite._connection import Settings
from durably_sqlite._engine import Engine
from durably_sqlite._jobs import Kind
from durably_sqlite._layout import BACKUPS
from durably_sqlite._opening import JOURNAL_MODES, SYNCHRONOUS
from durably_sqlite._packing import COMPRESSIONS
from durably_sqlite._upkeep import compact, describe

__all__ = ["SQLiteLogStore"]

MAX_BUSY_TIMEOUT = 3600
"""Seconds."""

CREATE = ("if-missing", "never")


class SQLiteLogStore(LogStore):
    """Logs in one SQLite database, which may also hold tables of others.

    ``path`` is a file; it is created for its owner alone (mode 0600) where it does not exist.
    None is a database in memory: private to this object, or shared in the process under a
    ``name``. With ``synchronous="full"`` an acknowledged change survives power loss; with
    ``"normal"`` a process crash, but power loss may take the last changes. ``busy_timeout`` is
    how many seconds to wait for other writers. ``journal_mode`` is WAL unless the storage is
    there with another one. ``create="never"`` refuses a file that is not there, and one without a
    storage in it; in memory it changes nothing. ``compression="zlib"`` compresses what is written
    from now on; what is there is read either way. ``backup="before-migration"`` copies an older
    storage before its layout is changed. Any number of processes of one host may share a file on
    a local disk. It connects with its first operation.

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
        journal_mode: str | None = None,
        synchronous: str = "full",
        busy_timeout: float = 10.0,
        compression: str = "none",
        backup: str = "never",
        create: str = "if-missing",
    ) -> None:
        check_namespace(namespace)
        if journal_mode is not None:
            _check_choice("journal_mode", journal_mode, JOURNAL_MODES)
        _check_choice("synchronous", synchronous, tuple(SYNCHRONOUS))
        _check_choice("compression", compression, COMPRESSIONS)
        _check_choice("backup", backup, BACKUPS)
        _check_choice("create", create, CREATE)
        if name is not None:
            check_id("database", name)
        if path is None and journal_mode is not None:
            raise InvalidUrl("a database in memory has no journal_mode to choose")
        if name is not None and path is not None:
            raise InvalidUrl("a name is for databases in memory, and this one has a path")
        if not 0 <= busy_timeout <= MAX_BUSY_TIMEOUT:
            raise InvalidUrl(f"busy_timeout must be 0 to {MAX_BUSY_TIMEOUT} seconds")
        settings = Settings(
            path=None if path is None else _absolute(path),
            name=name,
            journal_mode=journal_mode,
            synchronous=synchronous,
            busy_timeout=busy_timeout,
            backup=backup,
            create=path is None or create != "never",
        )
        self.capabilities = _capabilities(settings)
        self._scope = operations.Scope(namespace=namespace, compress=compression == "zlib")
        self._settings = settings
        self._engine = Engine(settings)
        self._owner = True

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        scope = self._scope
        return await self._engine.hop(
            lambda connection: operations.append(connection, scope, log, batch),
            Kind.WRITE,
        )

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        scope = self._scope
        return await self._engine.hop(
            lambda connection: operations.read(connection, scope, log, span), Kind.READ
        )

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        scope = self._scope
        return await self._engine.hop(
            lambda connection: operations.rewrite(connection, scope, log, change),
            Kind.WRITE,
        )

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        scope = self._scope
        return await self._engine.hop(
            lambda connection: operations.delete(connection, scope, log, expected_revision),
            Kind.WRITE,
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
        return await self._engine.hop(
            partial(
                operations.list_logs,
                scope=self._scope,
                kind=kind,
                prefix=prefix,
                after=after,
                limit=limit,
                with_state=with_state,
            ),
            Kind.READ,
        )

    @override
    def scoped(self, namespace: str) -> "SQLiteLogStore":
        check_namespace(namespace)
        view = copy.copy(self)
        view._scope = msgspec.structs.replace(self._scope, namespace=namespace)  # noqa: SLF001 - one of us
        view._owner = False  # noqa: SLF001 - one of us
        return view

    @override
    async def maintain(self) -> None:
        """Give the space of what was deleted back to the file system, and empty the log.

        A file that also holds tables of others keeps its pages for later use.
        """
        await self._engine.hop(compact, Kind.NO_TRANSACTION)

    @override
    async def describe(self) -> dict[str, str]:
        return await self._engine.hop(
            partial(describe, settings=self._settings), Kind.NO_TRANSACTION
        )

    @override
    async def aclose(self) -> None:
        if self._owner:
            await self._engine.aclose()


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
