"""The SQLite backend of durably: ``sqlite:///file.db``."""

from durably_sqlite._store import SQLiteLogStore
from durably_sqlite._url import open_url

__all__ = ["SQLiteLogStore", "open_url"]
