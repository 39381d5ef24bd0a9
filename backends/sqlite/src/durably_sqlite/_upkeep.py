"""What a person asks of a database between operations: what it is, and to be made smaller."""

import sqlite3
from typing import Any

from durably_sqlite._connection import Settings
from durably_sqlite._layout import TABLES
from durably_sqlite._opening import SYNCHRONOUS

__all__ = ["compact", "describe"]


def describe(connection: sqlite3.Connection, settings: Settings) -> dict[str, str]:
    """Read the settings back from the engine."""
    levels = {number: name for name, number in SYNCHRONOUS.items()}
    return {
        "engine": f"SQLite {sqlite3.sqlite_version}",
        "journal_mode": _pragma(connection, "journal_mode"),
        "synchronous": levels.get(_pragma(connection, "synchronous"), "unknown"),
        "busy_timeout": f"{settings.busy_timeout:g} s",
        "page_size": f"{_pragma(connection, 'page_size')} bytes",
        "pages": str(_pragma(connection, "page_count")),
        "free_pages": str(_pragma(connection, "freelist_count")),
    }


def compact(connection: sqlite3.Connection) -> None:
    """Rewrite the database without its free pages, and empty the write-ahead log.

    A file with tables of others keeps its pages: to rewrite those would renumber rows that
    have no key of their own. A connection that reads may keep the log from being cut.
    """
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB 'sqlite_*'"
    ).fetchall()
    if {name for (name,) in tables} <= TABLES and _pragma(connection, "freelist_count"):
        connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _pragma(connection: sqlite3.Connection, name: str) -> Any:  # noqa: ANN401 - text or a number
    return connection.execute(f"PRAGMA {name}").fetchone()[0]
