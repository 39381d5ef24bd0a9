"""Harnesses that are not honest."""

import time
from typing import Any, cast

import msgspec
from typing_extensions import override

from durably import (
    Durability,
    MemoryLogStore,
    Session,
    Storage,
)
from durably.testing import Clock, Handle
from durably_conformance.building import batch, log, said
from durably_conformance.selftest.mutating import Memory, MemoryMutant
from durably_conformance.selftest.table import Mutant, Variant
from durably_conformance.selftest.tracking import Tracked

UNDECLARED = msgspec.structs.replace(
    MemoryLogStore.capabilities, durability=cast("Durability", None)
)


class SharedPlaces(Memory):
    """Places that are used at once are one."""

    live: list[MemoryLogStore] = []  # noqa: RUF012 - common to all of them on purpose

    def __init__(self, mutant: MemoryMutant) -> None:
        super().__init__(mutant)
        self.live.append(self.root)
        self.root = self.live[0]

    @override
    async def wipe(self) -> None:
        self.live.clear()


class PrivateHandles(Memory):
    """Every handle has a storage of its own."""

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        return Storage(MemoryLogStore(namespace=namespace), clock=clock)


class UsedPlaces(Memory):
    """A fresh place holds what somebody left."""

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        if not self.shared:
            self.shared["used"] = await self.root.append(log("har"), batch(b"left"))
        return await super().connect(clock=clock, namespace=namespace)


class DuckSessions(Memory):
    """Hands out sessions of a class of its own."""

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        return cast("Handle", _Ducks(await super().connect(clock=clock, namespace=namespace)))


class _Ducks:
    """Passes everything on, and no class with it."""

    def __init__(self, handle: Any) -> None:  # noqa: ANN401 - a handle, or a part of one
        self._handle = handle

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever it has
        part = getattr(self._handle, name)
        return _Ducks(part) if name == "sessions" else part


async def sees_another_place(place: Tracked) -> bool:
    """Write in one place and read in another."""
    await (await place.connect()).sessions.append("s", said("a"))
    return await (await place.another()).sessions.load("s") != []


async def sees_nothing_of_another_handle(place: Tracked) -> bool:
    """Write by one handle and read by another."""
    one, other = await place.connect(), await place.connect()
    await one.sessions.append("s", said("a"))
    return await other.sessions.load("s") == []


async def sees_what_somebody_left(place: Tracked) -> bool:
    """List a fresh place."""
    listed = await (await place.connect()).log_store.list("test")
    return listed.items != ()


async def has_no_name(place: Tracked) -> bool:
    """Look at the name."""
    return not place.harness.name


async def has_sessions_of_no_class(place: Tracked) -> bool:
    """Look at the class."""
    return Session not in type((await place.connect()).sessions).__mro__


async def declares_no_durability(place: Tracked) -> bool:
    """Look at the declaration."""
    return not isinstance(cast("object", place.harness.capabilities.durability), Durability)


MUTANTS = (
    Mutant(
        name="sessions of no class",
        says="A handle offers each contract that is declared, as the class that core calls it.",
        fails=frozenset({"HAR-005"}),
        provenance="langchain-ai/langgraph#8722",
        harness=lambda: MemoryMutant(place=DuckSessions),
        probe=has_sessions_of_no_class,
    ),
    Mutant(
        name="durability undeclared",
        says="Every capability is declared.",
        fails=frozenset({"HAR-003"}),
        provenance="a declaration copied from a template and left empty",
        harness=lambda: MemoryMutant(capabilities=UNDECLARED),
        probe=declares_no_durability,
    ),
    Mutant(
        name="places that are one",
        says="Two places see nothing of each other.",
        fails=frozenset({"HAR-001"}),
        provenance="a test suite whose fixtures all connect to one database",
        harness=lambda: MemoryMutant(place=SharedPlaces),
        probe=sees_another_place,
    ),
    Mutant(
        name="handles that share nothing",
        says="Two handles on one place see each other's acknowledged writes.",
        fails=frozenset({"HAR-002"}),
        provenance="sqlite3.connect(':memory:') for each handle",
        harness=lambda: MemoryMutant(place=PrivateHandles),
        probe=sees_nothing_of_another_handle,
    ),
    Mutant(
        name="a harness without a name",
        says="Every capability is declared, and the harness has a name.",
        fails=frozenset({"HAR-003"}),
        provenance="a declaration copied from a template and left empty",
        harness=lambda: MemoryMutant(name=""),
        probe=has_no_name,
    ),
    Mutant(
        name="places that were used",
        says="A fresh place is empty.",
        fails=frozenset({"HAR-004"}),
        provenance="a test database that the last run did not clean up",
        harness=lambda: MemoryMutant(place=UsedPlaces),
        probe=sees_what_somebody_left,
    ),
)


VARIANTS = (Variant(name="memory", says="Nothing is odd about it.", harness=MemoryMutant),)
