"""Harnesses over mutated backends: memory wrapped in Python, SQLite spoiled by SQL."""

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

from typing_extensions import override

import durably
from durably import (
    Capabilities,
    Checkpointer,
    CheckpointSaver,
    Limits,
    LogStore,
    MemoryLogStore,
    Session,
    Storage,
)
from durably.logstore import Batch, LogId
from durably.testing import Clock, Handle, Harness, Place, contents

__all__ = ["Memory", "MemoryMutant", "SQLiteMutant"]

_Shared: TypeAlias = dict[str, Any]
StoreWrap: TypeAlias = Callable[[LogStore, _Shared], LogStore]
SessionWrap: TypeAlias = Callable[[Session, _Shared], Session]
CheckpointerWrap: TypeAlias = Callable[[Checkpointer, _Shared], Checkpointer]
SaverWrap: TypeAlias = Callable[[CheckpointSaver, _Shared], CheckpointSaver]


class _MutatedHandle:
    """A storage of which some contracts are wrapped."""

    def __init__(self, storage: Storage, mutant: "MemoryMutant", shared: _Shared) -> None:
        self._storage = storage
        self._mutant = mutant
        self._shared = shared
        wrap_sessions, wrap_checkpointer = mutant.wrap_sessions, mutant.wrap_checkpointer
        self._sessions = storage.sessions
        if wrap_sessions is not None:
            self._sessions = wrap_sessions(storage.sessions, shared)
        self._checkpointer = storage.checkpointer
        if wrap_checkpointer is not None:
            self._checkpointer = wrap_checkpointer(storage.checkpointer, shared)

    @property
    def sessions(self) -> Session:
        self._mutant.touched.add("sessions")
        return self._sessions

    @property
    def checkpointer(self) -> Checkpointer:
        self._mutant.touched.add("checkpointer")
        return self._checkpointer

    def checkpoint_saver(self, *, max_checkpoints_per_thread: int | None = None) -> CheckpointSaver:
        self._mutant.touched.add("saver")
        saver = self._storage.checkpoint_saver(
            max_checkpoints_per_thread=max_checkpoints_per_thread
        )
        wrap = self._mutant.wrap_saver
        return saver if wrap is None else wrap(saver, self._shared)

    @property
    def log_store(self) -> LogStore:
        return self._storage.log_store

    async def aclose(self) -> None:
        await self._storage.aclose()


class Memory(Place):
    """One storage in memory, gone with this object; each handle is wrapped by its mutant."""

    def __init__(self, mutant: "MemoryMutant") -> None:
        self.root = MemoryLogStore()
        self.shared: _Shared = {}
        self._mutant = mutant
        self._namespaces: set[str] = set()

    @property
    @override
    def url(self) -> str | None:
        return None

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        self._namespaces.add(namespace)
        store: LogStore = self.root.scoped(namespace)
        wrap = self._mutant.wrap_store
        if wrap is not None:
            store = wrap(store, self.shared)
        return _MutatedHandle(Storage(store, clock=clock), self._mutant, self.shared)

    @override
    async def dump(self) -> Mapping[str, bytes] | None:
        return {
            f"{namespace}/{name}": data
            for namespace in sorted(self._namespaces)
            for name, data in (await contents(self.root.scoped(namespace))).items()
        }


class MemoryMutant(Harness):
    """The memory backend with a log store or contracts wrapped; unwrapped it is correct.

    ``place`` replaces where the handles come from, for mutants of the harness itself.
    ``touched`` are the contracts that were asked for so far.
    """

    def __init__(
        self,
        name: str = "memory",
        *,
        store: StoreWrap | None = None,
        sessions: SessionWrap | None = None,
        checkpointer: CheckpointerWrap | None = None,
        saver: SaverWrap | None = None,
        place: Callable[["MemoryMutant"], Place] = Memory,
        capabilities: Capabilities = MemoryLogStore.capabilities,
        limits: Limits = MemoryLogStore.limits,
    ) -> None:
        self.name = name
        self.capabilities = capabilities
        self.limits = limits
        self.wrap_store = store
        self.wrap_sessions = sessions
        self.wrap_checkpointer = checkpointer
        self.wrap_saver = saver
        self.touched: set[str] = set()
        self._place = place
        self._is_memory_beneath = (
            store is None
            and place is Memory
            and capabilities == MemoryLogStore.capabilities
            and limits == MemoryLogStore.limits
        )

    @property
    def wrapped(self) -> frozenset[str] | None:
        """The contracts that are wrapped; None where more than contracts may differ."""
        wraps = {
            "sessions": self.wrap_sessions,
            "checkpointer": self.wrap_checkpointer,
            "saver": self.wrap_saver,
        }
        named = frozenset(name for name, wrap in wraps.items() if wrap is not None)
        return named if self._is_memory_beneath else None

    @override
    def place(self) -> Place:
        return self._place(self)


class _SpoiledFile(Place):
    """A database file whose schema a script changes before anybody uses it."""

    def __init__(self, script: str) -> None:
        self._script = script
        self._folder = Path(tempfile.mkdtemp(prefix="durably-mutant-"))
        self._file = self._folder / "storage.db"

    @property
    @override
    def url(self) -> str | None:
        return f"sqlite:///{self._file}"

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        if not self._file.exists():
            await self._make()
        options = {"namespace": namespace} if namespace else {}
        source = {"url": f"{self.url}?synchronous=normal", "options": options}
        return durably.open(source, clock=clock)

    async def _make(self) -> None:
        async with durably.open(self.url) as storage:
            first = LogId(kind="test", id="first")
            await storage.log_store.append(first, Batch(head=b""))
            await storage.log_store.delete(first)
            await storage.log_store.delete(LogId(kind="meta", id="format"))
        with closing(sqlite3.connect(self._file)) as connection:
            connection.executescript(self._script)

    @override
    async def dump(self) -> Mapping[str, bytes] | None:
        if not self._file.exists():
            return {}
        with closing(sqlite3.connect(self._file)) as connection:
            return {str(n): line.encode() for n, line in enumerate(connection.iterdump())}

    @override
    async def wipe(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class SQLiteMutant(Harness):
    """The SQLite backend on a file whose schema was spoiled, as by a trigger; see ``scheme``."""

    def __init__(self, name: str, script: str) -> None:
        opened = durably.open("sqlite:///unused.db")
        self.name = name
        self.capabilities = opened.capabilities
        self.limits = opened.limits
        self._script = script

    @override
    def place(self) -> Place:
        return _SpoiledFile(self._script)
