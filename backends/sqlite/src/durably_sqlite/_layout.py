"""Whose tables are these, and of which version: looked at before anything is changed."""

import sqlite3
from importlib import resources

from durably import ForeignData, SchemaTooNew
from durably_sqlite._errors import is_busy

__all__ = ["VERSION", "create", "stored_version"]

VERSION = 1

_TABLES = {"durably_logs", "durably_records", "durably_schema"}


def stored_version(connection: sqlite3.Connection, place: str) -> int:
    """Return the layout version of a database, 0 where it has none of our tables.

    Raises:
        SchemaTooNew: a newer version made it.
        ForeignData: it has tables of our names that are not ours.
    """
    names = connection.execute("SELECT name FROM sqlite_master").fetchall()
    tables = _TABLES & {name for (name,) in names}
    if not tables:
        return 0
    found = _version(connection) if "durably_schema" in tables else None
    if found is not None and found > VERSION:
        raise SchemaTooNew(place, found=found, supported=VERSION, distribution="durably-sqlite")
    if found is None or not tables >= _TABLES:
        raise ForeignData(
            f"{place} has tables named {', '.join(sorted(tables))} that are not durably's",
            hint="Choose another path for the storage",
        )
    return found


def _version(connection: sqlite3.Connection) -> int | None:
    try:
        rows = connection.execute("SELECT version FROM durably_schema").fetchall()
    except sqlite3.OperationalError as error:
        if is_busy(error):
            raise
        return None
    versions = [version for (version,) in rows]
    (version,) = versions if len(versions) == 1 else (None,)
    return version if isinstance(version, int) and version > 0 else None


def create(connection: sqlite3.Connection) -> None:
    """Create the layout, inside the caller's transaction."""
    script = resources.files("durably_sqlite").joinpath("sql/m001_logs.sql").read_text("utf-8")
    for statement in script.split(";"):
        connection.execute(statement)
    connection.execute("CREATE TABLE durably_schema (version INTEGER NOT NULL)")
    connection.execute("INSERT INTO durably_schema VALUES (?)", (VERSION,))
