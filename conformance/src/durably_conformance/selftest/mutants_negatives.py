"""Declarations that something is absent, kept and not kept."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from typing_extensions import override

from durably import (
    Capabilities,
    Durability,
    HistoryItem,
    HistoryPage,
    ResultArchive,
    Rewound,
    Session,
    Support,
    Unsupported,
    Writers,
)
from durably.history import DEFAULT_PAGE, HistoryFilter
from durably.testing import Handle
from durably_conformance.building import log, result, said
from durably_conformance.selftest.delegating import SessionMutation
from durably_conformance.selftest.lacking import NoNamespaces, lacking, without
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.table import Mutant, Variant
from durably_conformance.selftest.tracking import Tracked

NO_MAINTENANCE = Capabilities(
    durability=Durability.NOTHING,
    writers=Writers.ONE_PROCESS,
    history=Support.no("segments are read whole"),
    rewind=Support.no("segments are sealed"),
    trim=Support.no("segments are sealed"),
)


class RefusingSessions(SessionMutation):
    """Neither rewinds nor trims nor pages, and says so; ``history`` and ``last`` as inherited."""

    @override
    async def history(
        self,
        session_id: str,
        *,
        limit: int = DEFAULT_PAGE,
        after: str | None = None,
        types: HistoryFilter | None = None,
    ) -> HistoryPage:
        return await Session.history(self, session_id, limit=limit, after=after, types=types)

    @override
    async def last(
        self, session_id: str, *, runs: int | None = None, entries: int | None = None
    ) -> Sequence[HistoryItem]:
        return await Session.last(self, session_id, runs=runs, entries=entries)

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        raise Unsupported("segments are sealed")

    @override
    async def trim_tool_results(
        self,
        session_id: str,
        *,
        keep_chars: int = 400,
        keep_runs: int = 1,
        archive: ResultArchive | None = None,
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
        self,
        session_id: str,
        *,
        keep_chars: int = 400,
        keep_runs: int = 1,
        archive: ResultArchive | None = None,
    ) -> int:
        return 0


class QuietHistory(RefusingSessions):
    """Has no history and says that there is nothing."""

    @override
    async def history(
        self,
        session_id: str,
        *,
        limit: int = DEFAULT_PAGE,
        after: str | None = None,
        types: HistoryFilter | None = None,
    ) -> HistoryPage:
        return HistoryPage(items=())


async def offers_no_refusal(place: Tracked, what: str) -> bool:
    """Use what is declared absent."""
    if getattr(place.harness.capabilities, what):
        return False
    try:
        await _USES[what](await place.connect())
    except Unsupported:
        return False
    return True


_USES: Mapping[str, Callable[[Handle], Awaitable[object]]] = {
    "log_store": lambda handle: handle.log_store.read(log()),
    "sessions": lambda handle: handle.sessions.load("s"),
    "checkpointer": lambda handle: handle.checkpointer.load("r"),
    "checkpoint_saver": lambda handle: handle.checkpoint_saver().latest("t"),
    "namespaces": lambda handle: handle.log_store.scoped("n").read(log()),
}


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


async def has_no_history(place: Tracked) -> bool:
    """Ask for the history of a session, and see nothing without a word."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", said("a"))
    return not (await sessions.history("s")).items


def sessions_mutant(
    name: str, wrap: type[SessionMutation], capabilities: Capabilities = NO_MAINTENANCE
) -> MemoryMutant:
    """Return a backend that declares neither rewind nor trim nor history."""
    return MemoryMutant(name, sessions=wrap, capabilities=capabilities)


def quietly_offered(what: str, check: str) -> Mutant:
    """Return a row that declares something absent and offers it all the same."""

    async def probe(place: Tracked) -> bool:
        return await offers_no_refusal(place, what)

    return Mutant(
        name=f"{what} declared absent, quietly offered",
        says=f"What is declared absent, as {what}, raises Unsupported.",
        fails=frozenset({check}),
        provenance="agno-agi/agno#7986",
        harness=lambda: MemoryMutant(f"quiet {what}", capabilities=without(what)),
        probe=probe,
    )


MUTANTS = (
    quietly_offered("log_store", "NEG-LOGSTORE-001"),
    quietly_offered("sessions", "NEG-SESSIONS-001"),
    quietly_offered("checkpointer", "NEG-CHECKPOINTER-001"),
    quietly_offered("checkpoint_saver", "NEG-SAVER-001"),
    quietly_offered("namespaces", "NEG-NAMESPACES-001"),
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
    Mutant(
        name="history declared absent, quietly empty",
        says="A session without history raises Unsupported.",
        fails=frozenset({"NEG-HISTORY-001"}),
        provenance="an optional method implemented as return []",
        harness=lambda: sessions_mutant("quiet history", QuietHistory),
        probe=has_no_history,
    ),
)


VARIANTS = (
    Variant(
        name="sessions alone",
        says="It has sessions and nothing beneath or beside them.",
        harness=lambda: lacking("log_store", "checkpointer", "checkpoint_saver", "namespaces"),
    ),
    Variant(
        name="a checkpointer and a saver alone",
        says="It has no sessions, and no log store.",
        harness=lambda: lacking("log_store", "sessions", "namespaces"),
    ),
    Variant(
        name="a store without namespaces",
        says="Its log store does not override scoped.",
        harness=lambda: lacking("namespaces", store=NoNamespaces),
    ),
    Variant(
        name="no rewind, no trim, no history",
        says="It declares all three absent and refuses them.",
        harness=lambda: sessions_mutant("refusing", RefusingSessions),
    ),
)
