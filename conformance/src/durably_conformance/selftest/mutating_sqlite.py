"""Harnesses over the SQLite backend, spoiled by SQL."""

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from typing_extensions import override

import durably
from durably.logstore import Batch, LogId
from durably.testing import Clock, Handle, Place
from durably_conformance.selftest.mutating import Mutated

__all__ = ["SQLiteMutant"]


class _SpoiledFile(Place):
    """A copy of a database file whose schema was changed before anybody used it."""

    def __init__(self, mutant: "SQLiteMutant") -> None:
        self._mutant = mutant
        self._folder = Path(tempfile.mkdtemp(prefix="durably-mutant-"))
        self._file = self._folder / "storage.db"

    @property
    @override
    def url(self) -> str | None:
        return f"sqlite:///{self._file}"

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        if not self._file.exists():
            self._file.write_bytes(await self._mutant.spoiled())
        options = {"namespace": namespace} if namespace else {}
        source = {"url": f"{self.url}?synchronous=normal", "options": options}
        return durably.open(source, clock=clock)

    @override
    async def dump(self) -> Mapping[str, bytes] | None:
        """Return every value as it lies there, by ``table/rowid/column``."""
        if not self._file.exists():
            return {}
        with closing(sqlite3.connect(self._file)) as connection:
            connection.text_factory = bytes
            return dict(_values(connection))

    @override
    async def wipe(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _values(connection: sqlite3.Connection) -> Iterator[tuple[str, bytes]]:
    named = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for table in sorted(name.decode() for (name,) in named):
        rows = connection.execute(f'SELECT rowid, * FROM "{table}"')  # noqa: S608 - its own name
        columns = [column for column, *_ in rows.description][1:]
        for rowid, *values in rows:
            for column, value in zip(columns, values, strict=True):
                data = value if isinstance(value, bytes) else str(value).encode()
                yield f"{table}/{rowid}/{column}", data


class SQLiteMutant(Mutated):
    """The SQLite backend on a file whose schema was spoiled, as by a trigger; see ``scheme``."""

    def __init__(self, name: str, script: str, *, wrapped: frozenset[str] | None = None) -> None:
        opened = durably.open("sqlite:///unused.db")
        self.name = name
        self.capabilities = opened.capabilities
        self.limits = opened.limits
        self.wrapped = wrapped
        self._script = script
        self._spoiled = b""

    @override
    def place(self) -> Place:
        return _SpoiledFile(self)

    async def spoiled(self) -> bytes:
        """Return a file with the schema as the script leaves it, made once."""
        if not self._spoiled:
            with tempfile.TemporaryDirectory(prefix="durably-mutant-") as folder:
                file = Path(folder) / "storage.db"
                await _make(file)
                self._spoiled = _changed(file, self._script)
        return self._spoiled


async def _make(file: Path) -> None:
    """Make a database that has the schema and nothing in it."""
    async with durably.open(f"sqlite:///{file}") as storage:
        first = LogId(kind="test", id="first")
        await storage.log_store.append(first, Batch(head=b""))
        await storage.log_store.delete(first)
        await storage.log_store.delete(LogId(kind="meta", id="format"))


def _changed(file: Path, script: str) -> bytes:
    """Return a database file as a script leaves it."""
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(script)
    return file.read_bytes()
