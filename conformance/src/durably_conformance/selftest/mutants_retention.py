"""Wrong retention: what was to stay goes, and archives that outlive their sessions."""

import asyncio
from collections.abc import Callable, Sequence

from typing_extensions import override

from durably import InvalidFilter, InvalidLimit, Pruned, ToolResultEntry
from durably.retention import Prunable
from durably.testing import Handle
from durably_conformance.building import call, fill, head, result
from durably_conformance.offering import upkeep_of
from durably_conformance.selftest.delegating_upkeep import ArchiveMutation, UpkeepMutation
from durably_conformance.selftest.spoiling import wrong
from durably_conformance.selftest.tracking import Tracked

LONG = "abcd" * 200


class SpoiledPrune(UpkeepMutation):
    """Prunes as ``cut`` says; by itself that is the right thing."""

    @override
    async def prune(
        self,
        kind: Prunable,
        *,
        older_than: float | None = None,
        keep_last: int | None = None,
        dry_run: bool = False,
        progress: Callable[[str], object] = str,
    ) -> Pruned:
        return await self.cut(kind, older_than, keep_last, dry_run=dry_run, progress=progress)

    async def cut(
        self,
        kind: Prunable,
        age: float | None,
        count: int | None,
        *,
        dry_run: bool,
        progress: Callable[[str], object] = str,
    ) -> Pruned:
        """Prune."""
        return await self.inner.prune(
            kind, older_than=age, keep_last=count, dry_run=dry_run, progress=progress
        )


class PrunesEveryKind(SpoiledPrune):
    """Prunes sessions whatever it is to prune."""

    @override
    async def cut(
        self,
        kind: Prunable,
        age: float | None,
        count: int | None,
        *,
        dry_run: bool,
        progress: Callable[[str], object] = str,
    ) -> Pruned:
        told = await super().cut(kind, age, count, dry_run=dry_run, progress=progress)
        if kind != "session":
            await super().cut("session", age, count, dry_run=dry_run)
        return told


class KeepsTheYoungAlone(SpoiledPrune):
    """Forgets the count where an age is given, too."""

    @override
    async def cut(
        self,
        kind: Prunable,
        age: float | None,
        count: int | None,
        *,
        dry_run: bool,
        progress: Callable[[str], object] = str,
    ) -> Pruned:
        kept = count if age is None else None
        return await super().cut(kind, age, kept, dry_run=dry_run, progress=progress)


class RunsWet(SpoiledPrune):
    """Removes in a dry run what it tells of."""

    @override
    async def cut(
        self,
        kind: Prunable,
        age: float | None,
        count: int | None,
        *,
        dry_run: bool,
        progress: Callable[[str], object] = str,
    ) -> Pruned:
        told = await super().cut(kind, age, count, dry_run=dry_run, progress=progress)
        if dry_run:
            await super().cut(kind, age, count, dry_run=False)
        return told


class RemovesWhatWasOld(SpoiledPrune):
    """Looks what is old, and then removes it, whoever used it meanwhile."""

    @override
    async def cut(
        self,
        kind: Prunable,
        age: float | None,
        count: int | None,
        *,
        dry_run: bool,
        progress: Callable[[str], object] = str,
    ) -> Pruned:
        told = await super().cut(kind, age, count, dry_run=True, progress=progress)
        if kind != "session" or dry_run:
            return await super().cut(kind, age, count, dry_run=dry_run)
        for _ in range(100):
            await asyncio.sleep(0)
        for id_ in told.ids:
            await self.inner.catalog.delete(id_)
        return told


class TakesAnything(SpoiledPrune):
    """Removes nothing where it does not understand what to keep."""

    @override
    async def cut(
        self,
        kind: Prunable,
        age: float | None,
        count: int | None,
        *,
        dry_run: bool,
        progress: Callable[[str], object] = str,
    ) -> Pruned:
        try:
            return await super().cut(kind, age, count, dry_run=dry_run, progress=progress)
        except (InvalidFilter, InvalidLimit):
            return Pruned(ids=(), examined=0)


class OneResultForEachId(ArchiveMutation):
    """Gives the first of several results of one call id."""

    @override
    async def recall(self, session_id: str, call_id: str) -> list[ToolResultEntry]:
        return (await self.inner.recall(session_id, call_id))[:1]


class NeverForgets(ArchiveMutation):
    """Gives what it gave before where there is nothing any more."""

    @override
    async def recall(self, session_id: str, call_id: str) -> list[ToolResultEntry]:
        known: list[ToolResultEntry] = self.shared.get(f"{session_id} {call_id}", [])
        found = await self.inner.recall(session_id, call_id) or known
        self.shared[f"{session_id} {call_id}"] = found
        return found


async def _used(place: Tracked) -> Handle:
    """Return a handle onto two sessions and a run, of which ``a`` is older than ``b``."""
    now = [0.0]
    handle = await place.connect(clock=lambda: now[0])
    for name in ("a", "b"):
        await fill(handle.sessions, name, "x1")
        now[0] += 10
    await handle.checkpointer.append("r", [], head())
    now[0] += 10
    return handle


async def _left(handle: Handle) -> str:
    return "".join([name for name in "ab" if await handle.sessions.load(name)])


async def prunes_every_kind(place: Tracked) -> bool:
    """Prune runs, and look for sessions."""
    handle = await _used(place)
    await upkeep_of(handle).prune("run", keep_last=0)
    return await _left(handle) == ""


async def forgets_the_count(place: Tracked) -> bool:
    """Prune by age, and keep one."""
    handle = await _used(place)
    await upkeep_of(handle).prune("session", older_than=1, keep_last=1)
    return await _left(handle) == ""


async def runs_wet(place: Tracked) -> bool:
    """Look what would go, and what is there."""
    handle = await _used(place)
    await upkeep_of(handle).prune("session", keep_last=1, dry_run=True)
    return await _left(handle) == "b"


async def removes_what_was_old(place: Tracked) -> bool:
    """Append while what is old is pruned."""
    handle = await _used(place)
    prune = asyncio.create_task(upkeep_of(handle).prune("session", keep_last=1))
    for _ in range(50):
        await asyncio.sleep(0)
    await fill(handle.sessions, "a", "y1")
    await prune
    return await _left(handle) == "b"


async def takes_anything(place: Tracked) -> bool:
    """Prune, and keep less than nothing."""
    handle = await _used(place)
    try:
        return not (await upkeep_of(handle).prune("session", keep_last=-1)).ids
    except InvalidLimit:
        return False


async def _archived(place: Tracked, outputs: Sequence[str]) -> Handle:
    """Return a handle onto a session ``s`` whose results, of one call id, are in the archive."""
    handle = await place.connect()
    await handle.sessions.append("s", [call("c"), *(result("c", text) for text in outputs)])
    archive = upkeep_of(handle).archive
    await handle.sessions.trim_tool_results("s", keep_runs=0, archive=archive)
    return handle


async def gives_one_result(place: Tracked) -> bool:
    """Recall two results of one id."""
    handle = await _archived(place, [LONG, LONG * 2])
    return len(await upkeep_of(handle).archive.recall("s", "c")) == 1


async def never_forgets(place: Tracked) -> bool:
    """Recall a result before and after its session is cleared."""
    handle = await _archived(place, [LONG])
    await upkeep_of(handle).archive.recall("s", "c")
    await handle.sessions.clear("s")
    return bool(await upkeep_of(handle).archive.recall("s", "c"))


MUTANTS = (
    wrong(
        "prunes sessions with runs",
        "What goes is of one kind alone.",
        "PRN-001",
        "one table for all kinds, and a DELETE by age alone",
        prunes_every_kind,
        upkeep=PrunesEveryKind,
    ),
    wrong(
        "keeps the young alone",
        "As many as asked for stay, however old.",
        "PRN-002",
        "if ... elif, of which the second is never reached",
        forgets_the_count,
        upkeep=KeepsTheYoungAlone,
    ),
    wrong(
        "runs wet",
        "A dry run removes nothing.",
        "PRN-003",
        "a flag that is passed on to the half of what has to heed it",
        runs_wet,
        upkeep=RunsWet,
    ),
    wrong(
        "removes what was old",
        "No append is lost with what was old.",
        "PRN-004",
        "SELECT of what is old, and DELETE by id",
        removes_what_was_old,
        upkeep=RemovesWhatWasOld,
    ),
    wrong(
        "prunes nothing where it does not understand",
        "A prune that says nothing of what to keep is refused.",
        "PRN-005",
        "except ValueError: return",
        takes_anything,
        upkeep=TakesAnything,
    ),
    wrong(
        "one result for each id",
        "Results of calls that share an id come back, all of them.",
        "SES-ARC-001",
        "call_id as the primary key",
        gives_one_result,
        archive=OneResultForEachId,
    ),
    wrong(
        "an archive that never forgets",
        "The archive of a session goes with it.",
        "SES-ARC-002",
        "a cache in front of it that nobody empties",
        never_forgets,
        archive=NeverForgets,
    ),
)
