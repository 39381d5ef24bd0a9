"""What the author of a backend gives to tests, ours and others': isolated areas of storage.

``durably-conformance`` judges a backend by a ``Harness``. One that is opened by URL needs none:
the suite makes it from the URL. Both need this module alone, so that no backend has to depend on
the suite.
"""

import itertools
import os
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

from durably._typing import override
from durably.capabilities import Capabilities, Limits
from durably.contracts import Checkpointer, CheckpointSaver, Session
from durably.logstore import LogId, LogStore
from durably.memory import MemoryLogStore
from durably.storage import Storage

__all__ = [
    "KINDS",
    "Clock",
    "Handle",
    "Harness",
    "MemoryPlace",
    "Place",
    "contents",
    "remove_all",
]

KINDS = ("session", "run", "thread", "archive", "state", "tree", "meta", "test", "test-other")
"""The kinds of log that core and tests of log stores use."""

Clock = Callable[[], float]
"""Gives epoch seconds."""


class Handle(Protocol):
    """What one opened handle offers; ``durably.Storage`` is one as it stands.

    What else a storage has, such as ``catalog``, ``archive``, ``states``, ``tree`` and ``prune``,
    a handle may have or not; what it has is judged. So is a ``checkpoint_saver`` that takes
    ``migrators``.
    """

    @property
    def sessions(self) -> Session:
        """Conversations across runs."""
        ...

    @property
    def checkpointer(self) -> Checkpointer:
        """Progress within runs."""
        ...

    def checkpoint_saver(self, *, max_checkpoints_per_thread: int | None = None) -> CheckpointSaver:
        """Return a saver of threads' snapshots."""
        ...

    @property
    def log_store(self) -> LogStore:
        """The log store behind all of it."""
        ...

    async def aclose(self) -> None:
        """Release everything; a second call does nothing."""
        ...


class Place(ABC):
    """One isolated area of storage, empty at first; no other place sees anything of it."""

    @abstractmethod
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        """Open a new handle onto this area, independent of those opened before.

        It may connect now or with its first operation. ``namespace`` is within the area.
        """

    @property
    @abstractmethod
    def url(self) -> str | None:
        """What opens this area in a fresh process; None if nothing does."""

    async def dump(self) -> Mapping[str, bytes] | None:
        """Read the raw content of the area past the backend, as bytes by name.

        Two dumps are equal as long as nothing changed; what was deleted is in none of them.

        Returns:
            The content; None, the default, where there is no way past the backend.
        """
        return None

    async def settle(self) -> None:  # noqa: B027 - most storages have nothing to wait for
        """Wait until what was written is seen everywhere; the default returns at once."""

    async def wipe(self) -> None:  # noqa: B027 - some areas go with their owner
        """Remove the area; its handles are closed, and no other is opened."""


class Harness(ABC):
    """A backend as tests see it: what it declares, and any number of places.

    ``known_failures`` are ids of checks that are known to fail, and why, with a link.
    ``distribution`` is what it is installed as, for reports.
    """

    name: str
    capabilities: Capabilities
    limits: Limits = Limits()
    known_failures: Mapping[str, str] = {}
    distribution: str = ""

    @abstractmethod
    def place(self) -> Place:
        """Return a fresh, empty place."""


async def contents(store: LogStore) -> dict[str, bytes]:
    """Return the heads and records of every log of ``KINDS``, as bytes by name."""
    found: dict[str, bytes] = {}
    async for log in _logs(store):
        stored = await store.read(log)
        if stored is not None:
            found[f"{log.kind}/{log.id}"] = stored.state.head or b""
            for record in stored.records:
                found[f"{log.kind}/{log.id}/{record.seq}/{record.key}"] = record.data or b""
    return found


async def remove_all(store: LogStore) -> None:
    """Delete every log of ``KINDS``, whatever it holds."""
    async for log in _logs(store):
        await store.delete(log)


async def _logs(store: LogStore) -> AsyncIterator[LogId]:
    for kind in KINDS:
        after: str | None = ""
        while after is not None:
            page = await store.list(kind, after=after)
            for info in page.items:
                yield LogId(kind=kind, id=info.id)
            after = page.next


_numbers = itertools.count(1)


class MemoryPlace(Place):
    """A storage in this process's memory under a fresh name, whatever the URL's own was."""

    def __init__(self, url: str = "memory://") -> None:
        self._name = f"place-{os.getpid()}-{next(_numbers)}"
        self._namespaces: set[str] = set()
        _ = url

    @property
    @override
    def url(self) -> str | None:
        return None

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        self._namespaces.add(namespace)
        return Storage(MemoryLogStore(self._name, namespace=namespace), clock=clock)

    @override
    async def dump(self) -> Mapping[str, bytes] | None:
        return {
            f"{namespace}/{name}": data
            for namespace in sorted(self._namespaces)
            for name, data in (await contents(self._store(namespace))).items()
        }

    @override
    async def wipe(self) -> None:
        for namespace in self._namespaces:
            await remove_all(self._store(namespace))

    def _store(self, namespace: str) -> MemoryLogStore:
        return MemoryLogStore(self._name, namespace=namespace)
