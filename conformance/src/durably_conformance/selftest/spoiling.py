"""Sessions that spoil one thing: an append, what a rewind or a trim leaves, which id is used."""

from collections.abc import Sequence
from typing import Any

import msgspec
from typing_extensions import override

from durably import (
    DurablyError,
    Entry,
    JsonObject,
    MemoryLogStore,
    ResultArchive,
    Rewound,
    Segment,
    Session,
    Storage,
    ToolResultEntry,
)
from durably.logstore import Batch, LogId, LogStore, NewRecord
from durably_conformance.selftest.delegating import SessionMutation
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.table import Mutant, Probe

__all__ = [
    "SpoiledAppend",
    "SpoiledIds",
    "SpoiledRewind",
    "SpoiledTrim",
    "readable",
    "rebuild",
    "scratch",
    "store_raw",
    "with_results",
    "wrong",
]


def wrong(
    name: str,
    says: str,
    fails: str,
    provenance: str,
    probe: Probe,
    **spoiled: Any,  # noqa: ANN401 - what MemoryMutant takes
) -> Mutant:
    """Return a row about the memory backend with a part of it spoiled."""
    return Mutant(
        name=name,
        says=says,
        fails=frozenset(fails.split()),
        provenance=provenance,
        harness=lambda: MemoryMutant(**spoiled),
        probe=probe,
    )


async def readable(sessions: Session, session_id: str) -> list[Segment]:
    """Return a session's runs, none where one of them cannot be read."""
    try:
        return await sessions.segments(session_id)
    except DurablyError:
        return []


async def rebuild(sessions: Session, session_id: str, segments: Sequence[Segment]) -> None:
    """Make a session consist of these runs; its archive, and its entry in the catalog, stay."""
    if segments:
        await sessions.rewind(session_id, keep_entries=0)
    else:
        await sessions.clear(session_id)
    for one in segments:
        await sessions.append(session_id, one.entries, run_id=one.run_id, meta=one.meta)


async def scratch(segments: Sequence[Segment]) -> Session:
    """Return a storage of its own whose session ``s`` consists of these runs."""
    sessions = Storage(MemoryLogStore()).sessions
    await rebuild(sessions, "s", segments)
    return sessions


class SpoiledAppend(SessionMutation):
    """Does with an append what ``put`` says; by itself that is the right thing."""

    @override
    async def append(
        self,
        session_id: str,
        entries: Sequence[Entry],
        *,
        run_id: str | None = None,
        meta: JsonObject | None = None,
    ) -> str:
        given: tuple[Any, ...] = session_id, run_id or "", entries, meta or {}
        kinds: tuple[Any, ...] = str, str, (list, tuple), dict
        if all(map(isinstance, given, kinds)):
            return await self.put(session_id, entries, run_id, meta)
        return await self.inner.append(session_id, entries, run_id=run_id, meta=meta)

    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        """Append a run."""
        return await self.inner.append(session_id, entries, run_id=run_id, meta=meta)

    async def knows(self, session_id: str, run_id: str | None) -> bool:
        """Whether a run is stored."""
        return run_id in [one.run_id for one in await readable(self.inner, session_id)]

    async def replace(self, session_id: str, run: Segment) -> str:
        """Store a run in the place of the one that has its run_id."""
        stored = await readable(self.inner, session_id)
        left = [run if one.run_id == run.run_id else one for one in stored]
        await rebuild(self.inner, session_id, left)
        return run.run_id


class SpoiledIds(SpoiledAppend):
    """Uses what ``session`` and ``run`` make of an id in its place."""

    def session(self, session_id: str) -> str:
        """Return the id of a session as it is used."""
        return session_id

    def run(self, run_id: str) -> str:
        """Return the id of a run as it is used."""
        return run_id

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        used = None if run_id is None else self.run(run_id)
        return await super().put(self.session(session_id), entries, used, meta)

    @override
    async def segments(self, session_id: str) -> list[Segment]:
        return await self.inner.segments(self.session(session_id))

    @override
    async def load(self, session_id: str) -> list[Entry]:
        return await self.inner.load(self.session(session_id))

    @override
    async def clear(self, session_id: str) -> None:
        await self.inner.clear(self.session(session_id))


class SpoiledRewind(SessionMutation):
    """Leaves after a rewind what ``left`` says, and answers what ``told`` says."""

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        before = await readable(self.inner, session_id)
        done = await self.inner.rewind(
            session_id, keep_entries=keep_entries, expected_revision=expected_revision
        )
        after = await readable(self.inner, session_id)
        left = self.left(before, after, done, keep_entries)
        if left != after:
            await rebuild(self.inner, session_id, left)
        return done

    def left(
        self, before: list[Segment], after: list[Segment], done: Rewound, keep: int
    ) -> list[Segment]:
        """Return the runs that are left, where ``after`` would be right."""
        raise NotImplementedError


class SpoiledTrim(SessionMutation):
    """Leaves after a trim of a readable session what ``left`` says."""

    @override
    async def trim_tool_results(
        self,
        session_id: str,
        *,
        keep_chars: int = 400,
        keep_runs: int = 1,
        archive: ResultArchive | None = None,
    ) -> int:
        before = await readable(self.inner, session_id)
        count = await self.inner.trim_tool_results(
            session_id, keep_chars=keep_chars, keep_runs=keep_runs, archive=archive
        )
        after = await readable(self.inner, session_id)
        left = self.left(before, after, keep_chars) if len(before) == len(after) else after
        if left != after:
            await rebuild(self.inner, session_id, left)
        return count - sum(
            old == kept != new
            for one, two, three in zip(before, left, after, strict=False)
            for old, kept, new in zip(one.entries, two.entries, three.entries, strict=True)
        )

    def left(self, before: list[Segment], after: list[Segment], keep: int) -> list[Segment]:
        """Return the runs that are left: ``spoil`` decides about each trimmed result."""
        return [
            with_results(new, [self.spoil(*pair, keep) for pair in _results(old, new)])
            for old, new in zip(before, after, strict=True)
        ]

    def spoil(self, old: ToolResultEntry, new: ToolResultEntry, keep: int) -> ToolResultEntry:
        """Return what becomes of a result, where ``new`` would be right."""
        raise NotImplementedError


def _results(old: Segment, new: Segment) -> list[tuple[ToolResultEntry, ToolResultEntry]]:
    pairs = zip(old.entries, new.entries, strict=True)
    return [
        (one, other)
        for one, other in pairs
        if isinstance(one, ToolResultEntry) and isinstance(other, ToolResultEntry)
    ]


def with_results(segment: Segment, results: Sequence[ToolResultEntry]) -> Segment:
    """Return a run with its results replaced, in order."""
    following = iter(results)
    entries: list[Any] = [
        next(following) if isinstance(entry, ToolResultEntry) else entry
        for entry in segment.entries
    ]
    return msgspec.structs.replace(segment, entries=entries)


async def store_raw(
    store: LogStore, session_id: str, data: bytes, *, run_id: str = "r", entry_count: int = 1
) -> None:
    """Store bytes as a run of a session, whatever they say."""
    record = NewRecord(key=run_id, data=data, entry_count=entry_count)
    planted = Batch(records=(record,), at=1_700_000_000.0)
    await store.append(LogId(kind="session", id=session_id), planted)
