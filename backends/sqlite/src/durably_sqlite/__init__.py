"""The SQLite backend of durably: ``sqlite:///file.db``.

Its names are imported when they are asked for: to describe a backend must not import its driver.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from durably_sqlite._store import SQLiteLogStore
    from durably_sqlite._url import open_url

__all__ = ["SQLiteLogStore", "open_url"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any name of the package
    if name == "SQLiteLogStore":
        from durably_sqlite._store import SQLiteLogStore  # noqa: PLC0415 - see above

        return SQLiteLogStore
    if name == "open_url":
        from durably_sqlite._url import open_url  # noqa: PLC0415 - see above

        return open_url
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
