"""The one place where SQLite's errors become durably's."""

import sqlite3

from durably import CorruptRecord, DurablyError, ForeignData, StorageBusy, Unavailable

__all__ = ["is_busy", "translate"]

_HINTS = {
    sqlite3.SQLITE_CANTOPEN: "Check that its directory exists and may be written to",
    sqlite3.SQLITE_READONLY: "Make the file and its directory writable",
    sqlite3.SQLITE_PERM: "Make the file and its directory writable",
    sqlite3.SQLITE_AUTH: "Make the file and its directory writable",
    sqlite3.SQLITE_FULL: "Free space on its disk; nothing of this operation was stored",
    sqlite3.SQLITE_IOERR: "Check its disk; a network file system cannot hold an SQLite database",
}


def _code(error: sqlite3.Error) -> int:
    """Return the primary result code; errors of the module itself, not of SQLite, have none."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection was in the way."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def translate(error: sqlite3.Error | UnicodeDecodeError, place: str) -> DurablyError:
    """Return what an SQLite error means to a user; ``place`` names the database."""
    if isinstance(error, UnicodeDecodeError):  # what SQLite says of it quotes it
        return CorruptRecord(place, "its schema or a text in it is not UTF-8")
    if is_busy(error):
        return StorageBusy(
            f"{place} was locked by another writer for longer than the busy timeout",
            hint="Try again, or raise ?busy_timeout=",
        )
    code = _code(error)
    if code == sqlite3.SQLITE_NOTADB:
        return ForeignData(
            f"{place} is not an SQLite database", hint="Choose another path for the storage"
        )
    if code == sqlite3.SQLITE_CORRUPT:
        return CorruptRecord(place, f"SQLite says: {error}")
    if "Could not decode to UTF-8" in str(error):  # the rest of it repeats what is stored
        return CorruptRecord(place, "a text in it is not UTF-8")
    return Unavailable(f"{place} cannot be used: {error}", hint=_HINTS.get(code, ""))
