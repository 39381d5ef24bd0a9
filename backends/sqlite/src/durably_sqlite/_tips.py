"""What this connection knows of the logs it appended to lately, so that it need not look again."""

import sqlite3
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

__all__ = ["Tips"]

KEPT = 256
"""Logs; the head of each, up to 64 KiB, lies in memory."""


class Tips:
    """Known until another connection commits or this one rolls back."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, Any] = OrderedDict()
        self._version: int | None = None

    def refresh(self, connection: sqlite3.Connection) -> bool:
        """Forget everything, and say so, if another connection committed.

        Asked within a write transaction.
        ``PRAGMA data_version`` changes exactly then: https://sqlite.org/pragma.html
        """
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        if version == self._version:
            return False
        self._known.clear()
        self._version = version
        return True

    def get(self, key: Hashable) -> Any:  # noqa: ANN401 - whatever was put there
        """Return what was put under a key, None if that is not known any more."""
        return self._known.get(key)

    def put(self, key: Hashable, value: object) -> None:
        """Remember a value of the running transaction."""
        self._known[key] = value
        self._known.move_to_end(key)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)

    def forget(self, key: Hashable) -> None:
        """Forget what is about to change otherwise than by an append."""
        self._known.pop(key, None)

    def clear(self) -> None:
        """Forget everything, since the transaction is undone."""
        self._known.clear()
        self._version = None
