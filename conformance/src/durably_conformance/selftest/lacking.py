"""A backend that has a part of the contracts, as the author of a native one has."""

import time
from typing import TypeVar

import msgspec
from typing_extensions import override

from durably import (
    Capabilities,
    Checkpointer,
    CheckpointSaver,
    LogStore,
    MemoryLogStore,
    Session,
    Support,
    Unsupported,
)
from durably.testing import Clock, Handle
from durably_conformance.selftest.delegating import StoreMutation
from durably_conformance.selftest.mutating import Memory, MemoryMutant

__all__ = ["Lacking", "NoNamespaces", "lacking", "without"]

P = TypeVar("P")


def without(*names: str) -> Capabilities:
    """Return the capabilities of memory, less some."""
    declared = dict.fromkeys(names, Support.no("it is another's"))
    return msgspec.structs.replace(MemoryLogStore.capabilities, **declared)


class _LackingHandle:
    """A handle that refuses each contract that is declared absent."""

    def __init__(self, handle: Handle, capabilities: Capabilities) -> None:
        self._handle = handle
        self._capabilities = capabilities

    def _offered(self, name: str, part: P) -> P:
        if not getattr(self._capabilities, name):
            raise Unsupported(f"there is no {name}")
        return part

    @property
    def sessions(self) -> Session:
        return self._offered("sessions", self._handle.sessions)

    @property
    def checkpointer(self) -> Checkpointer:
        return self._offered("checkpointer", self._handle.checkpointer)

    def checkpoint_saver(self, *, max_checkpoints_per_thread: int | None = None) -> CheckpointSaver:
        saver = self._handle.checkpoint_saver(max_checkpoints_per_thread=max_checkpoints_per_thread)
        return self._offered("checkpoint_saver", saver)

    @property
    def log_store(self) -> LogStore:
        return self._offered("log_store", self._handle.log_store)

    async def aclose(self) -> None:
        await self._handle.aclose()


class Lacking(Memory):
    """A place whose handles refuse what their harness declares absent."""

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        handle = await super().connect(clock=clock, namespace=namespace)
        return _LackingHandle(handle, self._mutant.capabilities)


class NoNamespaces(StoreMutation):
    """Has no namespaces, as a log store that does not override ``scoped``."""

    @override
    def scoped(self, namespace: str) -> LogStore:
        return LogStore.scoped(self, namespace)


def lacking(*names: str, store: type[StoreMutation] | None = None) -> MemoryMutant:
    """Return a backend that declares these absent and refuses them."""
    return MemoryMutant(
        f"no {', '.join(names)}", place=Lacking, store=store, capabilities=without(*names)
    )
