"""Storages to test: where one lies, and how to get any number of handles onto it."""

import itertools
from collections.abc import Callable
from pathlib import Path

import durably
from durably.logstore import LogStore
from durably_sqlite import SQLiteLogStore

BACKENDS = ("memory", "sqlite")
_names = itertools.count()


class Place:
    """One storage area; every handle onto it is independent of the others."""

    def __init__(self, backend: str, folder: Path) -> None:
        self.backend = backend
        self.file = folder / "storage.db"
        self.name = f"place-{next(_names)}"

    @property
    def url(self) -> str:
        if self.backend == "memory":
            return f"memory://{self.name}"
        return f"sqlite:///{self.file}"

    def open(self, **options) -> durably.Storage:
        return durably.open(self.url, **options)

    def log_store(self, *, namespace: str = "") -> LogStore:
        """Return a log store of its own, without the gate a storage puts before it."""
        if self.backend == "memory":
            return durably.MemoryLogStore(self.name, namespace=namespace)
        return SQLiteLogStore(self.file, namespace=namespace)


class FakeClock:
    """A clock that stands still until it is moved, in either direction."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


Clock = Callable[[], float]
