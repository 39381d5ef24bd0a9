"""What a person asks of a database between operations: what it is, and to be made smaller."""

import sqlite3
from typing import Any

from durably_sqlite._connection import Settings
from durably_sqlite._opening import SYNCHRONOUS

__all__ = ["compact", "describe"]

SURVIVES = {
    "normal": "process crash; power loss may take the last commits",
    "full": "process crash and power loss",
    "extra": "process crash and power loss",
}


def describe(connection: sqlite3.Connection, settings: Settings) -> dict[str, str]:
    """Read the settings back from the engine."""
    levels = {number: name for name, number in SYNCHRONOUS.items()}
    synchronous = levels.get(_pragma(connection, "synchronous"), "unknown")
    facts = {
        "engine": f"SQLite {sqlite3.sqlite_version}",
        "journal_mode": _pragma(connection, "journal_mode"),
        "synchronous": synchronous,
        "survives": SURVIVES.get(synchronous, "unknown"),
        "busy_timeout": f"{settings.busy_timeout:g} s",
        "page_size": f"{_pragma(connection, 'page_size')} bytes",
        "size": f"{_pragma(connection, 'page_count')} pages",
        "free": f"{_pragma(connection, 'freelist_count')} pages",
    }
    if facts["journal_mode"] == "memory":
        facts["survives"] = "nothing: it lies in memory"
    return facts


def compact(connection: sqlite3.Connection) -> None:
    """Free empty pages, write the log back into the file, and cut both to their size.

    Another connection that reads may keep the log from being cut; that does no harm.
    """
    connection.execute("PRAGMA incremental_vacuum").fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.execute("PRAGMA optimize").fetchall()


def _pragma(connection: sqlite3.Connection, name: str) -> Any:  # noqa: ANN401 - text or a number
    return connection.execute(f"PRAGMA {name}").fetchone()[0]
