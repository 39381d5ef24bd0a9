"""Any sequence of changes and reads gives the same on SQLite as on memory: the log store."""

import pytest

from durably_sqlite import SQLiteLogStore
from log_machine import LogStores, agree


class OnSQLite(LogStores):
    def open_others(self):
        file = self.folder / "storage.db"
        self.others = [SQLiteLogStore(file, synchronous="normal") for _ in range(2)]


@pytest.mark.timeout(120)
def test_log_stores_agree():
    """Random batches, rewrites, deletes and reads, sent again at will, agree with memory."""
    agree(OnSQLite, examples=80)
