"""Which parts of a backend a check meets, and which parts a mutation changes."""

from collections.abc import Callable
from typing import Any, cast

from typing_extensions import override

from durably import (
    Checkpointer,
    CheckpointSaver,
    LogStore,
    Page,
    ResultArchive,
    Session,
    SessionCatalog,
    SessionTree,
    StateStore,
    TreeStateStore,
)
from durably.logstore import ALL, Applied, Batch, Log, LogId, LogInfo, Range, Rewrite
from durably.testing import KINDS
from durably_conformance.selftest.delegating import (
    CheckpointerMutation,
    SaverMutation,
    SessionMutation,
    StoreMutation,
)
from durably_conformance.selftest.delegating_states import (
    StatesMutation,
    TreeMutation,
    TreeStatesMutation,
)
from durably_conformance.selftest.delegating_upkeep import (
    ArchiveMutation,
    CatalogMutation,
    UpkeepMutation,
)

__all__ = [
    "MIGRATORS",
    "NAMESPACES",
    "TEST_KINDS",
    "NoticingStore",
    "changed",
    "logs_of",
    "noticing",
]

TEST_KINDS = ("test", "test-other")
"""The kinds of log that no contract uses."""
NAMESPACES = "namespaces"
"""Any namespace but the default one."""
MIGRATORS = "migrators"
"""Any of them, given to whatever takes them."""

_BASES: dict[str, tuple[type, type]] = {
    "sessions": (SessionMutation, Session),
    "checkpointer": (CheckpointerMutation, Checkpointer),
    "saver": (SaverMutation, CheckpointSaver),
    "catalog": (CatalogMutation, SessionCatalog),
    "archive": (ArchiveMutation, ResultArchive),
    "upkeep": (UpkeepMutation, UpkeepMutation),
    "states": (StatesMutation, StateStore),
    "tree": (TreeMutation, SessionTree),
    "tree_states": (TreeStatesMutation, TreeStateStore),
}


def logs_of(*kinds: str) -> frozenset[str]:
    """Return what a log store is wrong for that is right for logs of all other kinds."""
    return frozenset(f"logs of {kind}" for kind in kinds)


def changed(part: str, wrap: Callable[..., object]) -> set[str]:
    """Return what a wrapper changes: the operations that its class has itself, or the contract.

    A mutation passes on every operation that it does not override.
    """
    base, contract = _BASES[part]
    if not (isinstance(wrap, type) and issubclass(wrap, base)):
        return {part}
    own = {name for above in wrap.__mro__ if above not in base.__mro__ for name in vars(above)}
    return {f"{part}.{name}" for name in own if _is_operation(contract, name)}


def noticing(part: str, touched: set[str]) -> Callable[[Any, dict[str, Any]], Any]:
    """Return a wrapper that changes nothing, and notes in ``touched`` what is asked for."""
    base, contract = _BASES[part]

    class Noticing(base):  # type: ignore[misc, valid-type]
        @override
        def __getattribute__(self, name: str) -> Any:
            if _is_operation(contract, name):
                touched.add(f"{part}.{name}")
            return object.__getattribute__(self, name)

    return cast("Callable[[Any, dict[str, Any]], Any]", Noticing)


def _is_operation(contract: type, name: str) -> bool:
    return not name.startswith("_") and hasattr(contract, name)


class NoticingStore(StoreMutation):
    """Changes nothing, and notes in ``touched`` logs of which kinds are used."""

    def __init__(self, inner: LogStore, shared: dict[str, Any], touched: set[str]) -> None:
        super().__init__(inner, shared)
        self._touched = touched

    def _note(self, kind: str) -> None:
        self._touched.update(logs_of(kind))

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        self._note(log.kind)
        return await self.inner.append(log, batch)

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        self._note(log.kind)
        return await self.inner.read(log, span)

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        self._note(log.kind)
        return await self.inner.rewrite(log, change)

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        self._note(log.kind)
        return await self.inner.delete(log, expected_revision=expected_revision)

    @override
    async def list(
        self,
        kind: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int = 100,
        with_state: bool = False,
    ) -> Page[LogInfo]:
        self._note(kind)
        return await self.inner.list(
            kind, prefix=prefix, after=after, limit=limit, with_state=with_state
        )

    @override
    async def maintain(self) -> None:
        self._touched.update(logs_of(*KINDS))
        await self.inner.maintain()

    @override
    def scoped(self, namespace: str) -> LogStore:
        self._touched.add(NAMESPACES)
        return NoticingStore(self.inner.scoped(namespace), self.shared, self._touched)
