"""Wrong log stores: what namespaces share, and what tidying up does."""

import time
import unicodedata

from typing_extensions import override

from durably import LogStore, StorageClosed
from durably.logstore import Applied, Batch, Log, LogId
from durably.testing import Clock, Handle
from durably_conformance.building import batch, log
from durably_conformance.logs import keys_in
from durably_conformance.selftest.altering import altered
from durably_conformance.selftest.delegating import StoreMutation
from durably_conformance.selftest.mutating import Memory, MemoryMutant
from durably_conformance.selftest.noticing import NAMESPACES, logs_of
from durably_conformance.selftest.sparing import ScopedMutation, wrong
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class OneMemoryForAllNamespaces(StoreMutation):
    """Knows a batch by log and key, in whatever namespace it was."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        homes: dict[object, tuple[Log | None, Applied]] = self.shared.setdefault("homes", {})
        name = (log, batch.key)
        if log.kind == "test" and name in homes and await self.inner.read(log) is None:
            return altered(homes[name][1], duplicate=True)
        answer = await self.inner.append(log, batch)
        if log.kind == "test" and batch.head == b"h":
            homes.setdefault(name, (None, answer))
        return answer


class NormalisesNamespaces(Memory):
    """Normalises the text of a namespace."""

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        return await super().connect(clock=clock, namespace=unicodedata.normalize("NFC", namespace))


class NoNamespaces(Memory):
    """Takes no notice of the namespace."""

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        return await super().connect(clock=clock)


class ScopedIsItself(StoreMutation):
    """Gives itself as the store in another namespace."""

    @override
    def scoped(self, namespace: str) -> LogStore:
        self.inner.scoped(namespace)
        return self


class ClosesWithItsScope(StoreMutation):
    """Closes the connections with a store that only shares them."""

    is_scoped = False

    @override
    def scoped(self, namespace: str) -> LogStore:
        inner = ClosesWithItsScope(self.inner.scoped(namespace), self.shared)
        inner.is_scoped = True
        return inner

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        if "closed" in self.shared:
            raise StorageClosed
        return await self.inner.append(log, batch)

    @override
    async def aclose(self) -> None:
        if self.is_scoped:
            self.shared["closed"] = True


class CutsNamespaces(StoreMutation):
    """Makes a namespace legal that is not."""

    @override
    def scoped(self, namespace: str) -> LogStore:
        legal = "".join(one for one in namespace if one.isalnum())[:64]
        return super().scoped(namespace if namespace == "" else legal or "default")


class TidiesTooMuch(ScopedMutation):
    """Tidies records away that are older than what a log may hold, it thinks."""

    @override
    async def maintain(self) -> None:
        for row in (await self.inner.list("test")).items:
            name = LogId(kind="test", id=row.id)
            found = await self.inner.read(name)
            if found is not None and len(found.records) > 5:
                await self.inner.append(name, Batch(head=found.state.head or b"", keep_last=5))


async def knows_anothers_batch(place: Tracked) -> bool:
    """Send one batch in two namespaces."""
    sent = batch(b"a", head=b"h")
    for name in ("one", "other"):
        answer = await (await place.connect(namespace=name)).log_store.append(log(), sent)
    return answer.duplicate


async def shows_anothers_log(place: Tracked) -> bool:
    """Write in one namespace and read in another that looks the same."""
    await (await place.connect(namespace="\u00e9")).log_store.append(log(), batch(b"a"))
    return await keys_in((await place.connect(namespace="e\u0301")).log_store) != []


async def shows_the_scoped_in_the_outer(place: Tracked) -> bool:
    """Write by a scoped store and read by the outer one."""
    store = (await place.connect()).log_store
    await store.scoped("inner").append(log(), batch(b"a"))
    return await keys_in(store) != []


async def closes_the_outer(place: Tracked) -> bool:
    """Close a scoped store and use the outer one."""
    handle = await place.connect()
    await handle.log_store.scoped("inner").aclose()
    try:
        await handle.log_store.append(log(), batch(b"a"))
    except StorageClosed:
        return True
    return False


async def takes_any_namespace(place: Tracked) -> bool:
    """Ask for a namespace that is too long."""
    store = (await place.connect()).log_store
    try:
        store.scoped("n" * 257)
    except ValueError:
        return False
    return True


async def tidies_records_away(place: Tracked) -> bool:
    """Store six records, tidy up, and count."""
    store = (await place.connect()).log_store
    await store.append(log(), batch(*(b"a",) * 6))
    await store.maintain()
    return len(await keys_in(store)) != 6


def _wrong_namespaces(place: type[Memory]) -> MemoryMutant:
    return MemoryMutant(place=place, wrapped=frozenset({NAMESPACES}))


MUTANTS = (
    Mutant(
        name="one memory of batches for all namespaces",
        says="Two namespaces share no knowledge of a batch.",
        fails=frozenset({"LOG-NS-001"}),
        provenance="google/adk-python-community#180",
        harness=lambda: MemoryMutant(store=OneMemoryForAllNamespaces, wrapped=logs_of("test")),
        probe=knows_anothers_batch,
    ),
    Mutant(
        name="normalises namespaces",
        says="Namespaces that differ in anything are different.",
        fails=frozenset({"LOG-NS-002"}),
        provenance="folders on a file system that normalises Unicode",
        harness=lambda: _wrong_namespaces(NormalisesNamespaces),
        probe=shows_anothers_log,
    ),
    Mutant(
        name="no namespaces",
        says="Two namespaces share nothing.",
        fails=frozenset({"ISO-002", "LOG-NS-001", "LOG-NS-002", "STA-008"}),
        provenance="google/adk-python#1641",
        harness=lambda: _wrong_namespaces(NoNamespaces),
        probe=shows_anothers_log,
    ),
    Mutant(
        name="a scoped store is the store itself",
        says="A scoped store sees its namespace alone.",
        fails=frozenset({"LOG-NS-003"}),
        provenance="an optional method that returns self",
        harness=lambda: MemoryMutant(store=ScopedIsItself, wrapped=frozenset({NAMESPACES})),
        probe=shows_the_scoped_in_the_outer,
    ),
    Mutant(
        name="closing a scoped store closes all",
        says="Closing a scoped store closes nothing.",
        fails=frozenset({"LOG-NS-003"}),
        provenance="a client closed by whoever was handed it",
        harness=lambda: MemoryMutant(store=ClosesWithItsScope, wrapped=frozenset({NAMESPACES})),
        probe=closes_the_outer,
    ),
    Mutant(
        name="makes namespaces legal",
        says="A namespace that is no legal id is an InvalidId.",
        fails=frozenset({"LOG-NS-004"}),
        provenance="names made safe for a file system, so that two become one",
        harness=lambda: MemoryMutant(store=CutsNamespaces, wrapped=frozenset({NAMESPACES})),
        probe=takes_any_namespace,
    ),
    wrong(
        "tidies records away",
        TidiesTooMuch,
        tidies_records_away,
        fails="LOG-TIDY-001",
        says="Tidying up changes nothing that a reader sees.",
        provenance="retention by a rule of the store's own",
    ),
)
