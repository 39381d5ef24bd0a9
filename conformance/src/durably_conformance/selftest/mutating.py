"""Harnesses over the memory backend, wrapped in Python."""

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from typing_extensions import override

from durably import (
    Capabilities,
    Checkpointer,
    CheckpointSaver,
    Limits,
    LogStore,
    MemoryLogStore,
    Migrators,
    ResultArchive,
    Session,
    SessionCatalog,
    SessionTree,
    StateStore,
    Storage,
    TreeStateStore,
)
from durably.testing import Clock, Handle, Harness, Place, contents
from durably_conformance.selftest.delegating_upkeep import UpkeepMutation
from durably_conformance.selftest.noticing import (
    MIGRATORS,
    NAMESPACES,
    NoticingStore,
    changed,
    noticing,
)

__all__ = ["Memory", "MemoryMutant", "Mutated", "noticed"]

_Shared: TypeAlias = dict[str, Any]
StoreWrap: TypeAlias = Callable[[LogStore, _Shared], LogStore]
SessionWrap: TypeAlias = Callable[[Session, _Shared], Session]
CheckpointerWrap: TypeAlias = Callable[[Checkpointer, _Shared], Checkpointer]
SaverWrap: TypeAlias = Callable[[CheckpointSaver, _Shared], CheckpointSaver]
CatalogWrap: TypeAlias = Callable[[SessionCatalog, _Shared], SessionCatalog]
ArchiveWrap: TypeAlias = Callable[[ResultArchive, _Shared], ResultArchive]
UpkeepWrap: TypeAlias = Callable[[Storage, _Shared], UpkeepMutation]
StatesWrap: TypeAlias = Callable[[StateStore, _Shared], StateStore]
TreeWrap: TypeAlias = Callable[[SessionTree, _Shared], SessionTree]
TreeStatesWrap: TypeAlias = Callable[[TreeStateStore, _Shared], StateStore]
MigratorsWrap: TypeAlias = Callable[[Migrators, str], Migrators | None]
"""Takes migrators, and what they are given to: ``saver``, ``states`` or ``tree_states``."""


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
        wrap_catalog, wrap_archive = mutant.wrap_catalog, mutant.wrap_archive
        self.catalog = storage.catalog
        if wrap_catalog is not None:
            self.catalog = wrap_catalog(storage.catalog, shared)
        self.archive = storage.archive
        if wrap_archive is not None:
            self.archive = wrap_archive(storage.archive, shared)
        self._upkeep = (mutant.wrap_upkeep or UpkeepMutation)(storage, shared)

    def __getattr__(self, name: str) -> object:
        if name.startswith("_") or not hasattr(UpkeepMutation, name):
            raise AttributeError(name)
        return getattr(self._upkeep, name)

    @property
    def sessions(self) -> Session:
        self._mutant.touched.add("sessions")
        return self._sessions

    @property
    def checkpointer(self) -> Checkpointer:
        self._mutant.touched.add("checkpointer")
        return self._checkpointer

    def checkpoint_saver(
        self,
        *,
        max_checkpoints_per_thread: int | None = None,
        migrators: Migrators | None = None,
    ) -> CheckpointSaver:
        self._mutant.touched.add("saver")
        saver = self._storage.checkpoint_saver(
            max_checkpoints_per_thread=max_checkpoints_per_thread,
            migrators=self._migrators(migrators, "saver"),
        )
        wrap = self._mutant.wrap_saver
        return saver if wrap is None else wrap(saver, self._shared)

    def _migrators(self, migrators: Migrators | None, part: str) -> Migrators | None:
        if migrators is None:
            return None
        self._mutant.touched.add(MIGRATORS)
        wrap = self._mutant.wrap_migrators
        return migrators if wrap is None else wrap(migrators, part)

    @property
    def states(self) -> StateStore:
        return self.state_store()

    def state_store(self, *, migrators: Migrators | None = None) -> StateStore:
        store = self._storage.state_store(migrators=self._migrators(migrators, "states"))
        wrap = self._mutant.wrap_states
        return store if wrap is None else wrap(store, self._shared)

    def tree(self, tree_id: str) -> SessionTree:
        tree = self._storage.tree(tree_id)
        wrap = self._mutant.wrap_tree
        return tree if wrap is None else wrap(tree, self._shared)

    def tree_states(self, *, migrators: Migrators | None = None) -> StateStore:
        store = self._storage.tree_states(migrators=self._migrators(migrators, "tree_states"))
        wrap = self._mutant.wrap_tree_states
        return store if wrap is None else wrap(store, self._shared)

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
        if namespace:
            self._mutant.touched.add(NAMESPACES)
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


class Mutated(Harness):
    """A backend of which some parts may be wrong.

    ``wrapped`` names the parts of which a check has to use one, to meet what is wrong: contracts,
    operations of them such as ``sessions.append``, logs of some kinds, namespaces. It is None
    where a check may meet it anyhow.
    """

    wrapped: frozenset[str] | None = None


class MemoryMutant(Mutated):
    """The memory backend with a log store or contracts wrapped; unwrapped it is correct.

    ``place`` replaces where the handles come from, for mutants of the harness itself.
    ``touched`` are the contracts that were asked for so far. ``wrapped`` is found out where
    contracts alone are wrapped, and has to be given for anything else.
    """

    def __init__(
        self,
        name: str = "memory",
        *,
        store: StoreWrap | None = None,
        sessions: SessionWrap | None = None,
        checkpointer: CheckpointerWrap | None = None,
        saver: SaverWrap | None = None,
        catalog: CatalogWrap | None = None,
        archive: ArchiveWrap | None = None,
        upkeep: UpkeepWrap | None = None,
        states: StatesWrap | None = None,
        tree: TreeWrap | None = None,
        tree_states: TreeStatesWrap | None = None,
        migrators: MigratorsWrap | None = None,
        place: Callable[["MemoryMutant"], Place] = Memory,
        capabilities: Capabilities = MemoryLogStore.capabilities,
        limits: Limits = MemoryLogStore.limits,
        wrapped: frozenset[str] | None = None,
    ) -> None:
        self.name = name
        self.capabilities = capabilities
        self.limits = limits
        self.wrap_store = store
        self.wrap_sessions = sessions
        self.wrap_checkpointer = checkpointer
        self.wrap_saver = saver
        self.wrap_catalog = catalog
        self.wrap_archive = archive
        self.wrap_upkeep = upkeep
        self.wrap_states = states
        self.wrap_tree = tree
        self.wrap_tree_states = tree_states
        self.wrap_migrators = migrators
        self.touched: set[str] = set()
        self._place = place
        is_memory_beneath = (
            store is None
            and place is Memory
            and capabilities == MemoryLogStore.capabilities
            and limits == MemoryLogStore.limits
        )
        self.wrapped = self._contracts() if is_memory_beneath else wrapped

    def _contracts(self) -> frozenset[str]:
        wraps: dict[str, Callable[..., object] | None] = {
            "sessions": self.wrap_sessions,
            "checkpointer": self.wrap_checkpointer,
            "saver": self.wrap_saver,
            "catalog": self.wrap_catalog,
            "archive": self.wrap_archive,
            "upkeep": self.wrap_upkeep,
            "states": self.wrap_states,
            "tree": self.wrap_tree,
            "tree_states": self.wrap_tree_states,
        }
        named = [changed(name, wrap) for name, wrap in wraps.items() if wrap is not None]
        named += [{MIGRATORS}] if self.wrap_migrators else []
        return frozenset[str]().union(*named)

    @override
    def place(self) -> Place:
        return self._place(self)


def noticed() -> MemoryMutant:
    """Return correct memory that notes in ``touched`` all that a check uses of it."""
    touched: set[str] = set()
    mutant = MemoryMutant(
        store=lambda inner, shared: NoticingStore(inner, shared, touched),
        sessions=noticing("sessions", touched),
        checkpointer=noticing("checkpointer", touched),
        saver=noticing("saver", touched),
        catalog=noticing("catalog", touched),
        archive=noticing("archive", touched),
        upkeep=noticing("upkeep", touched),
        states=noticing("states", touched),
        tree=noticing("tree", touched),
        tree_states=noticing("tree_states", touched),
    )
    mutant.touched = touched
    return mutant
