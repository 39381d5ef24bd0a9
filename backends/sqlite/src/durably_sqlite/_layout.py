"""Whose tables are these, of which version, and the steps from one version to the next.

The steps are ``sql/mNNN_name.sql``, in order; step n makes layout version n. All that are due
run in one transaction with the rows of ``durably_schema`` that record them: whoever opens
the file sees the old layout or the new one.
"""

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from importlib import resources

import msgspec

from durably import ForeignData, MigrationError, SchemaTooNew, Unavailable
from durably_sqlite._connection import Settings
from durably_sqlite._errors import is_busy
from durably_sqlite._groups import transaction

__all__ = ["BACKUPS", "MIGRATIONS", "TABLES", "VERSION", "Migration", "migrate", "stored_version"]

BACKUPS = ("never", "before-migration")
TABLES = {"durably_logs", "durably_records", "durably_schema"}
_FILE_NAME = re.compile(r"m(\d{3})_(\w+)\.sql")


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """The step that makes one layout version of the one before."""

    version: int
    name: str
    script: str

    def statements(self) -> Iterator[str]:
        """Yield the statements of the script, each whole."""
        statement = ""
        for line in self.script.splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                yield statement
                statement = ""
        if statement.strip():
            yield statement


def _read_migrations() -> tuple[Migration, ...]:
    files = resources.files("durably_sqlite").joinpath("sql").iterdir()
    found = [(_FILE_NAME.fullmatch(file.name), file) for file in files]
    return tuple(
        sorted(
            (
                Migration(version=int(name[1]), name=name[2], script=file.read_text("utf-8"))
                for name, file in found
                if name is not None
            ),
            key=lambda migration: migration.version,
        )
    )


MIGRATIONS = _read_migrations()
VERSION = MIGRATIONS[-1].version


def stored_version(connection: sqlite3.Connection, place: str) -> int:
    """Return the layout version of a database, 0 where it has none of our tables.

    Raises:
        SchemaTooNew: a newer version made it.
        ForeignData: it has tables of our names that are not ours.
    """
    names = connection.execute("SELECT name FROM sqlite_master").fetchall()
    tables = TABLES & {name.lower() for (name,) in names}
    if not tables:
        return 0
    found = _version(connection) if "durably_schema" in tables else None
    if found is not None and found > VERSION:
        raise SchemaTooNew(place, found=found, supported=VERSION, distribution="durably-sqlite")
    if found is None or not tables >= TABLES:
        raise ForeignData(
            f"{place} has tables named {', '.join(sorted(tables))} that are not durably's",
            hint="Choose another path for the storage",
        )
    return found


def _version(connection: sqlite3.Connection) -> int | None:
    """Return the last of the recorded steps, None unless they are 1, 2, 3 and so on."""
    try:
        rows = connection.execute("SELECT version FROM durably_schema ORDER BY version").fetchall()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:  # which is: no such table or column
            raise
        return None
    versions = [version for (version,) in rows]
    complete = bool(versions) and versions == list(range(1, len(versions) + 1))
    return len(versions) if complete else None


def migrate(connection: sqlite3.Connection, settings: Settings) -> None:
    """Bring the layout to the current version, in one transaction.

    Raises:
        MigrationError: a step failed; the layout is as it was.
    """
    place = str(settings)
    with transaction(connection):
        version = stored_version(connection, place)
        if version == 0:
            connection.execute(
                "CREATE TABLE durably_schema"
                " (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at REAL NOT NULL)"
            )
        elif version < VERSION and settings.backup == "before-migration" and settings.path:
            _back_up(settings.path, version)
        for migration in MIGRATIONS[version:]:
            _apply(connection, migration, place, version)


def _apply(connection: sqlite3.Connection, migration: Migration, place: str, stored: int) -> None:
    try:
        for statement in migration.statements():
            connection.execute(statement)
        connection.execute(
            "INSERT INTO durably_schema VALUES (?, ?, ?)",
            (migration.version, migration.name, time.time()),
        )
    except sqlite3.Error as error:
        if is_busy(error):
            raise
        raise MigrationError(
            place, found=stored, wanted=migration.version, reason=str(error)
        ) from error


def _back_up(path: str, version: int) -> None:
    """Copy the database, as it is committed, to a file that has its name only when whole."""
    backup = f"{path}.layout-{version}.backup"
    unfinished = f"{backup}.unfinished"
    try:
        os.close(os.open(unfinished, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600))
        source = sqlite3.connect(path)
        target = sqlite3.connect(unfinished)
        try:
            source.backup(target)
        finally:
            target.close()
            source.close()
        os.replace(unfinished, backup)  # noqa: PTH105 - text, like the paths beside it
    except OSError as error:
        raise Unavailable(
            f"the backup {backup!a} cannot be made: {error.strerror}",
            hint="Make room for it beside the storage, or open without ?backup=",
        ) from error
