"""Harnesses that are not honest, and declarations that are not kept."""

import time

from typing_extensions import override

from durably import (
    Capabilities,
    Durability,
    MemoryLogStore,
    Rewound,
    Storage,
    Support,
    Unsupported,
    Writers,
)
from durably.testing import Clock, Handle
from durably_conformance.building import batch, log, result, said
from durably_conformance.selftest.delegating import SessionMutation
from durably_conformance.selftest.mutating import Memory, MemoryMutant
from durably_conformance.selftest.table import Mutant, Variant
from durably_conformance.selftest.tracking import Tracked

NO_MAINTENANCE = Capabilities(
    durability=Durability.NOTHING,
    writers=Writers.ONE_PROCESS,
    rewind=Support.no("segments are sealed"),
    trim=Support.no("segments are sealed"),
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


class RefusingSessions(SessionMutation):
    """Neither rewinds nor trims, and says so."""

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        raise Unsupported("segments are sealed")

    @override
    async def trim_tool_results(
        self, session_id: str, *, keep_chars: int = 400, keep_runs: int = 1
    ) -> int:
        raise Unsupported("segments are sealed")


class QuietRewind(RefusingSessions):
    """Rewinds nothing and says nothing."""

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        return Rewound()


class QuietTrim(RefusingSessions):
    """Trims nothing and says nothing."""

    @override
    async def trim_tool_results(
        self, session_id: str, *, keep_chars: int = 400, keep_runs: int = 1
    ) -> int:
        return 0


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


async def does_not_rewind(place: Tracked) -> bool:
    """Rewind, and see the entries still there without a word."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", said("a", "b"))
    return not (await sessions.rewind("s", keep_entries=1)).removed_entries


async def does_not_trim(place: Tracked) -> bool:
    """Trim, and see nothing trimmed without a word."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", [result("c", "long" * 200)])
    return not await sessions.trim_tool_results("s", keep_runs=0)


def sessions_mutant(
    name: str, wrap: type[SessionMutation], capabilities: Capabilities = NO_MAINTENANCE
) -> MemoryMutant:
    """Return a backend that declares neither rewind nor trim."""
    return MemoryMutant(name, sessions=wrap, capabilities=capabilities)


MUTANTS = (
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
    Mutant(
        name="rewind declared absent, quietly ignored",
        says="A session without rewind raises Unsupported.",
        fails=frozenset({"NEG-REWIND-001"}),
        provenance="an optional method implemented as pass",
        harness=lambda: sessions_mutant("quiet rewind", QuietRewind),
        probe=does_not_rewind,
    ),
    Mutant(
        name="trim declared absent, quietly ignored",
        says="A session without trim raises Unsupported.",
        fails=frozenset({"NEG-TRIM-001"}),
        provenance="an optional method implemented as pass",
        harness=lambda: sessions_mutant("quiet trim", QuietTrim),
        probe=does_not_trim,
    ),
)

VARIANTS = (
    Variant(name="memory", says="Nothing is odd about it.", harness=MemoryMutant),
    Variant(
        name="no rewind, no trim",
        says="It declares both absent and refuses them.",
        harness=lambda: sessions_mutant("refusing", RefusingSessions),
    ),
)
