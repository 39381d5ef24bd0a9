"""Spoiling the logs of tests alone, so that the contracts above a log store do not notice."""

import time
from collections.abc import Callable
from typing import Any, TypeAlias

from typing_extensions import override

from durably import LogStore, Page
from durably.logstore import ALL, Applied, Batch, Log, LogId, LogInfo, Range, Rewrite
from durably.testing import Clock, Handle
from durably_conformance.logs import LONG
from durably_conformance.selftest.delegating import StoreMutation
from durably_conformance.selftest.mutating import Memory, MemoryMutant
from durably_conformance.selftest.noticing import TEST_KINDS, logs_of
from durably_conformance.selftest.table import Mutant, Probe

__all__ = ["PerNamespace", "ScopedMutation", "wrong"]

_Shared: TypeAlias = dict[str, Any]
_Wrap: TypeAlias = Callable[[LogStore, _Shared], LogStore]


class PerNamespace(Memory):
    """Like ``Memory``, with a ``shared`` of its own for each namespace."""

    def __init__(self, mutant: MemoryMutant) -> None:
        super().__init__(mutant)
        self._by_namespace: _Shared = {}

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        self.shared = _of_namespace(self._by_namespace, namespace)
        return await super().connect(clock=clock, namespace=namespace)


def _of_namespace(by_namespace: _Shared, namespace: str) -> _Shared:
    shared: _Shared = by_namespace.setdefault(namespace, {"by namespace": by_namespace})
    return shared


class ScopedMutation(StoreMutation):
    """A mutation that keeps what it remembers of each namespace apart, in ``PerNamespace``."""

    @override
    def scoped(self, namespace: str) -> LogStore:
        shared = _of_namespace(self.shared["by namespace"], namespace)
        return type(self)(self.inner.scoped(namespace), shared)

    def note(self, log: LogId, value: object) -> None:
        """Remember something of a log."""
        self.shared[str(log)] = value

    def noted(self, log: LogId, default: Any) -> Any:  # noqa: ANN401 - each mutation's own
        """Return what was remembered of a log, or the default."""
        return self.shared.get(str(log), default)


class _Sparing(StoreMutation):
    """Sends logs of the kinds for tests through a wrong store, and others past it.

    The contracts above a log store have kinds of their own, so that only who asks for the log
    store itself meets what is wrong. So it is with the long log: what is wrong is that with it
    alone, or with all others.
    """

    def __init__(self, inner: LogStore, shared: _Shared, wrap: _Wrap, *, if_long: bool) -> None:
        super().__init__(inner, shared)
        self._wrap = wrap
        self._if_long = if_long
        self._spoiled = wrap(inner, shared)

    def _store(self, log: LogId) -> LogStore:
        is_met = log.kind in TEST_KINDS and (log == LONG) is self._if_long
        return self._spoiled if is_met else self.inner

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        return await self._store(log).append(log, batch)

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        return await self._store(log).read(log, span)

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        return await self._store(log).rewrite(log, change)

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        return await self._store(log).delete(log, expected_revision=expected_revision)

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
        store = self._spoiled if kind in TEST_KINDS else self.inner
        return await store.list(
            kind, prefix=prefix, after=after, limit=limit, with_state=with_state
        )

    @override
    async def maintain(self) -> None:
        await self._spoiled.maintain()

    @override
    def scoped(self, namespace: str) -> LogStore:
        shared = _of_namespace(self.shared["by namespace"], namespace)
        return _Sparing(self.inner.scoped(namespace), shared, self._wrap, if_long=self._if_long)


def wrong(  # noqa: D417 - the rest are a mutant's fields
    name: str,
    wrap: _Wrap,
    probe: Probe,
    *,
    fails: str,
    says: str,
    provenance: str,
    if_long: bool = False,
) -> Mutant:
    """Return a row whose log store is wrong for tests' own logs.

    Args:
        fails: the ids of the checks it fails, in one text.
        if_long: whether it is so for the long log alone, else for all others.
    """
    return Mutant(
        name=name,
        says=says,
        fails=frozenset(fails.split()),
        provenance=provenance,
        harness=lambda: MemoryMutant(
            store=lambda inner, shared: _Sparing(inner, shared, wrap, if_long=if_long),
            place=PerNamespace,
            wrapped=logs_of(*TEST_KINDS),
        ),
        probe=probe,
    )
