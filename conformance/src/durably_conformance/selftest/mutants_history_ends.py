"""Wrong ends of sessions, and what is asked of a history that cannot be."""

from collections.abc import Sequence

import msgspec
from typing_extensions import override

from durably import DurablyError, HistoryItem, HistoryPage, UnknownEntryType
from durably.history import DEFAULT_PAGE, HistoryFilter
from durably_conformance.building import fill
from durably_conformance.selftest.delegating import SessionMutation
from durably_conformance.selftest.spoiling import readable, store_raw, wrong
from durably_conformance.selftest.tracking import Tracked


class ClampsLimits(SessionMutation):
    """Takes the nearest limit that can be."""

    @override
    async def history(
        self,
        session_id: str,
        *,
        limit: int = DEFAULT_PAGE,
        after: str | None = None,
        types: HistoryFilter | None = None,
    ) -> HistoryPage:
        near = max(1, min(256, limit)) if type(limit) is int else limit
        return await self.inner.history(session_id, limit=near, after=after, types=types)


class TakesAnyTypes(SessionMutation):
    """Gives everything where it does not understand what was asked for."""

    @override
    async def history(
        self,
        session_id: str,
        *,
        limit: int = DEFAULT_PAGE,
        after: str | None = None,
        types: HistoryFilter | None = None,
    ) -> HistoryPage:
        known = types if types == "messages" else None
        return await self.inner.history(session_id, limit=limit, after=after, types=known)


class ForgetsEmptyRuns(SessionMutation):
    """Counts as the last runs those that have entries."""

    @override
    async def last(
        self, session_id: str, *, runs: int | None = None, entries: int | None = None
    ) -> Sequence[HistoryItem]:
        if type(runs) is int and runs > 0 and entries is None:
            stored = await readable(self.inner, session_id)
            full = [number for number, one in enumerate(stored) if one.entries]
            runs = len(stored) - full[-min(runs, len(full))] if full else runs
        return await self.inner.last(session_id, runs=runs, entries=entries)


class NumbersTheEndAnew(SessionMutation):
    """Numbers the last entries from 0."""

    @override
    async def last(
        self, session_id: str, *, runs: int | None = None, entries: int | None = None
    ) -> Sequence[HistoryItem]:
        found = await self.inner.last(session_id, runs=runs, entries=entries)
        if entries is None:
            return found
        return [msgspec.structs.replace(one, index=n) for n, one in enumerate(found)]


class GivesWholeRuns(SessionMutation):
    """Gives the whole run in which the last entries begin."""

    @override
    async def last(
        self, session_id: str, *, runs: int | None = None, entries: int | None = None
    ) -> Sequence[HistoryItem]:
        found = await self.inner.last(session_id, runs=runs, entries=entries)
        if entries is None or not found:
            return found
        stored = await readable(self.inner, session_id)
        before = [one.run_id for one in stored].index(found[0].run_id)
        return await self.inner.last(session_id, runs=len(stored) - before)


class TakesNoCount(SessionMutation):
    """Gives nothing where no count is given, or 0."""

    @override
    async def last(
        self, session_id: str, *, runs: int | None = None, entries: int | None = None
    ) -> Sequence[HistoryItem]:
        if not runs and not entries:
            return []
        return await self.inner.last(session_id, runs=runs, entries=entries)


class SkipsTheUnknown(SessionMutation):
    """Gives no run that has an entry it does not know."""

    @override
    async def history(
        self,
        session_id: str,
        *,
        limit: int = DEFAULT_PAGE,
        after: str | None = None,
        types: HistoryFilter | None = None,
    ) -> HistoryPage:
        try:
            return await self.inner.history(session_id, limit=limit, after=after, types=types)
        except UnknownEntryType:
            return HistoryPage(items=())


async def takes_any_limit(place: Tracked) -> bool:
    """Ask for nothing."""
    sessions = (await place.connect()).sessions
    await fill(sessions, "s", "a1")
    try:
        return bool((await sessions.history("s", limit=0)).items)
    except DurablyError:
        return False


async def takes_any_types(place: Tracked) -> bool:
    """Ask for types that there are not."""
    sessions = (await place.connect()).sessions
    await fill(sessions, "s", "a1")
    try:
        return bool((await sessions.history("s", types="all")).items)  # type: ignore[arg-type]
    except DurablyError:
        return False


async def _last(place: Tracked, text: str, **counts: int) -> list[int]:
    sessions = (await place.connect()).sessions
    await fill(sessions, "s", text)
    return [one.index for one in await sessions.last("s", **counts)]


async def forgets_a_run(place: Tracked) -> bool:
    """Ask for the last run, which is empty."""
    return await _last(place, "a1 b0", runs=1) == [0]


async def numbers_the_end_anew(place: Tracked) -> bool:
    """Ask for the last of two entries."""
    return await _last(place, "a1 b1", entries=1) == [0]


async def gives_a_whole_run(place: Tracked) -> bool:
    """Ask for the last of two entries of a run."""
    return await _last(place, "a2", entries=1) == [0, 1]


async def takes_no_count(place: Tracked) -> bool:
    """Ask for the last 0 runs."""
    try:
        return await _last(place, "a1", runs=0) == []
    except DurablyError:
        return False


async def skips_the_unknown(place: Tracked) -> bool:
    """Read what a newer version wrote."""
    handle = await place.connect()
    await store_raw(handle.log_store, "s", b'{"entries":[{"type":"hologram"}]}')
    try:
        return (await handle.sessions.history("s")).items == ()
    except UnknownEntryType:
        return False


MUTANTS = (
    wrong(
        "takes the nearest limit",
        "A limit that is not 1 to 256 is InvalidLimit.",
        "SES-HIS-011",
        "max(1, min(limit, MAX)), so that a page of 10,000 is one of 256 without a word",
        takes_any_limit,
        sessions=ClampsLimits,
    ),
    wrong(
        "gives everything where it does not understand",
        "A choice of types that is not understood is never everything.",
        "SES-HIS-012",
        "if types == 'messages': ..., and no else",
        takes_any_types,
        sessions=TakesAnyTypes,
    ),
    wrong(
        "forgets empty runs at the end",
        "Runs without entries count among the last ones.",
        "SES-HIS-013",
        "runs found by a join with their entries",
        forgets_a_run,
        sessions=ForgetsEmptyRuns,
    ),
    wrong(
        "numbers the end anew",
        "The last entries come with their places in the flat view.",
        "SES-HIS-014",
        "enumerate over what was read",
        numbers_the_end_anew,
        sessions=NumbersTheEndAnew,
    ),
    wrong(
        "gives whole runs at the end",
        "Of the last entries come as many as asked for.",
        "SES-HIS-014",
        "records read until there are enough entries, and none cut off",
        gives_a_whole_run,
        sessions=GivesWholeRuns,
    ),
    wrong(
        "takes 0 for nothing",
        "A count of runs below 1 is InvalidLimit.",
        "SES-HIS-015",
        "items[-0:], mended by an if",
        takes_no_count,
        sessions=TakesNoCount,
    ),
    wrong(
        "a history that skips what it does not know",
        "An entry of an unknown type is UnknownEntryType.",
        "SES-HIS-016",
        "pydantic/pydantic-ai#2789",
        skips_the_unknown,
        sessions=SkipsTheUnknown,
    ),
)
