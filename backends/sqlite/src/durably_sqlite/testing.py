"""Isolated SQLite databases for tests."""

import asyncio
import shutil
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import quote, urlencode

from typing_extensions import override

import durably
from durably.testing import Clock, Handle, Place
from durably.urls import parse_url

__all__ = ["SQLitePlace"]


class SQLitePlace(Place):
    """A database file in a fresh folder beside the URL's, with the URL's options.

    A URL without a file gives a fresh database in memory.
    """

    def __init__(self, url: str) -> None:
        parsed = parse_url(url)
        path = parsed.path.removeprefix("/")
        self._options = {k: v for k, v in parsed.options.items() if k not in ("name", "namespace")}
        self._parent = Path(path).absolute().parent if path else None
        self._folder: Path | None = None
        if self._parent is None:
            self._options["name"] = uuid.uuid4().hex

    @property
    @override
    def url(self) -> str | None:
        return self._url("") if self._parent else None

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        return durably.open(self._url(namespace), clock=clock)

    @override
    async def dump(self) -> Mapping[str, bytes] | None:
        return await asyncio.to_thread(self._read) if self._parent else None

    @override
    async def wipe(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _url(self, namespace: str) -> str:
        options = self._options | ({"namespace": namespace} if namespace else {})
        path = "" if self._parent is None else f"/{quote(str(self._file()))}"
        return f"sqlite://{path}{'?' if options else ''}{urlencode(options)}"

    def _file(self) -> Path:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="durably-place-", dir=self._parent))
        return self._folder / "storage.db"

    def _read(self) -> dict[str, bytes]:
        if not self._file().exists():
            return {}
        with closing(sqlite3.connect(self._file())) as connection:
            connection.text_factory = bytes
            return dict(_values(connection))


def _values(connection: sqlite3.Connection) -> Iterator[tuple[str, bytes]]:
    """Give the schema, and every value of every row as it lies, by ``table/rowid/column``."""
    schema = connection.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()
    for kind, name, sql in schema:
        yield f"{kind.decode()}/{name.decode()}", sql or b""
    for table in (name.decode() for kind, name, _ in schema if kind == b"table"):
        rows = connection.execute(f'SELECT rowid, * FROM "{table}"')  # noqa: S608 - our own names
        columns = [column[0] for column in rows.description]
        for rowid, *values in rows:
            for column, value in zip(columns[1:], values, strict=True):
                data = value if isinstance(value, bytes) else str(value).encode()
                yield f"{table}/{rowid}/{column}", data
