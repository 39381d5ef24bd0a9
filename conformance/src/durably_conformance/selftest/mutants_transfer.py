"""Wrong transfers: something left behind, something made up, something overwritten."""

import re
from collections.abc import Iterable

import msgspec
from typing_extensions import override

from durably import Copied, CopyConflict
from durably.testing import Handle
from durably_conformance.building import call, fill, result, said, snapshot
from durably_conformance.offering import upkeep_of
from durably_conformance.selftest.delegating_upkeep import UpkeepMutation
from durably_conformance.selftest.spoiling import wrong
from durably_conformance.selftest.tracking import Tracked

LONG = "abcd" * 200


class WholeSeconds(UpkeepMutation):
    """Imports records with the whole seconds of their times."""

    @override
    async def import_lines(self, lines: Iterable[bytes]) -> Copied:
        whole = [re.sub(rb'"at":(\d+)\.\d+', rb'"at":\1.0', line) for line in lines]
        return await self.inner.import_lines(whole)


class CountsTheKnown(UpkeepMutation):
    """Counts as moved what was there before."""

    @override
    async def import_lines(self, lines: Iterable[bytes]) -> Copied:
        told = await self.inner.import_lines(lines)
        return msgspec.structs.replace(told, records=told.records + told.known, known=0)


class CopiesKinds(UpkeepMutation):
    """Copies logs of some kinds."""

    kinds: tuple[str, ...] = ()

    @override
    async def copy_to(self, target: Handle) -> Copied:
        copied = Copied()
        for kind in self.kinds:
            copied = copied.plus(await self.copy_kind(target, kind))
        return copied

    async def copy_kind(self, target: Handle, kind: str) -> Copied:
        """Copy all of one kind."""
        lines = [line async for line in self.inner.export(kinds=[kind])]
        return await upkeep_of(target).import_lines(lines)


class LeavesArchives(CopiesKinds):
    """Copies everything but archives."""

    kinds = ("session", "run", "thread", "state", "tree")


class LeavesTrees(CopiesKinds):
    """Copies what there was before there were states and trees."""

    kinds = ("session", "run", "thread", "archive")


class PassesOver(UpkeepMutation):
    """Passes over another session of the same id, and says nothing."""

    is_over_the_same = False

    @override
    async def import_lines(self, lines: Iterable[bytes]) -> Copied:
        given = list(lines)
        try:
            return await self.inner.import_lines(given)
        except CopyConflict:
            if await self.has_its_run(given) is not self.is_over_the_same:
                raise
            return Copied()

    async def has_its_run(self, lines: Iterable[bytes]) -> bool:
        """Whether the run called r is there and in an export."""
        there = [run.run_id for run in await self.inner.sessions.segments("s")]
        return "r" in there and any(b'"key":"r"' in line for line in lines)


class ComparesKeys(PassesOver):
    """Passes over a run that is there, whatever it holds."""

    is_over_the_same = True


class ForksWithoutArchive(UpkeepMutation):
    """Forks a session and leaves its archive."""

    @override
    async def fork(self, id_: str, new_id: str, *, kind: str = "session") -> Copied:
        copied = await self.inner.fork(id_, new_id, kind=kind)
        await self.inner.archive.delete(new_id)
        return copied


async def _lines(handle: Handle) -> list[bytes]:
    return [line async for line in upkeep_of(handle).export()]


async def _archived(place: Tracked) -> Handle:
    """Return a handle onto a session ``s`` with a result in its archive."""
    handle = await place.connect(clock=lambda: 10.5)
    await handle.sessions.append("s", [call("c"), result("c", LONG)])
    archive = upkeep_of(handle).archive
    await handle.sessions.trim_tool_results("s", keep_runs=0, archive=archive)
    return handle


async def imports_whole_seconds(place: Tracked) -> bool:
    """Import, and export again."""
    lines = await _lines(await _archived(place))
    other = await place.another()
    await upkeep_of(other).import_lines(lines)
    return await _lines(other) != lines


async def counts_the_known(place: Tracked) -> bool:
    """Import what is there."""
    handle = await _archived(place)
    return (await upkeep_of(handle).import_lines(await _lines(handle))).records > 0


async def leaves_an_archive(place: Tracked) -> bool:
    """Copy, and recall."""
    other = await place.another()
    await upkeep_of(await _archived(place)).copy_to(other)
    return not await upkeep_of(other).archive.recall("s", "c")


async def leaves_a_state(place: Tracked) -> bool:
    """Copy, and look for a state."""
    handle, other = await place.connect(), await place.another()
    await upkeep_of(handle).states.save("k", snapshot("a"))
    await upkeep_of(handle).copy_to(other)
    return not await upkeep_of(other).states.has("k")


async def passes_over_content(place: Tracked) -> bool:
    """Import a run over one of other content."""
    handle, other = await place.connect(clock=lambda: 10.5), await place.another()
    await handle.sessions.append("s", said("a"), run_id="r")
    lines = await _lines(handle)
    await upkeep_of(other).import_lines(lines)
    try:
        await upkeep_of(other).import_lines([one.replace(b'"a"', b'"x"') for one in lines])
    except CopyConflict:
        return False
    return True


async def passes_over(place: Tracked) -> bool:
    """Import over another session."""
    other = await place.another()
    await fill(other.sessions, "s", "a1")
    try:
        await upkeep_of(other).import_lines(await _lines(await _archived(place)))
    except CopyConflict:
        return False
    return True


async def forks_without_archive(place: Tracked) -> bool:
    """Fork, and recall."""
    handle = await _archived(place)
    await upkeep_of(handle).fork("s", "s2")
    return not await upkeep_of(handle).archive.recall("s2", "c")


MUTANTS = (
    wrong(
        "imports whole seconds",
        "What is imported exports the same bytes.",
        "COPY-001",
        "times through a format without fractions",
        imports_whole_seconds,
        upkeep=WholeSeconds,
    ),
    wrong(
        "counts what was there",
        "To import again moves nothing, and says so.",
        "COPY-002",
        "lines read taken for records written",
        counts_the_known,
        upkeep=CountsTheKnown,
    ),
    wrong(
        "leaves archives behind",
        "A copy of a storage has all that it has.",
        "COPY-003",
        "a list of kinds that was right before the last one came",
        leaves_an_archive,
        upkeep=LeavesArchives,
    ),
    wrong(
        "passes over another",
        "An import over another session is CopyConflict.",
        "COPY-004",
        "ON CONFLICT DO NOTHING",
        passes_over,
        upkeep=PassesOver,
    ),
    wrong(
        "passes over other content",
        "A run that is there with other content conflicts.",
        "COPY-006",
        "rows compared by their primary keys",
        passes_over_content,
        upkeep=ComparesKeys,
    ),
    wrong(
        "leaves states and trees behind",
        "States and trees are copied with the rest.",
        "COPY-007",
        "a list of kinds that was right before the last ones came",
        leaves_a_state,
        upkeep=LeavesTrees,
    ),
    wrong(
        "forks without the archive",
        "A fork has the archive of its session.",
        "COPY-005",
        "a copy of the session's own log alone",
        forks_without_archive,
        upkeep=ForksWithoutArchive,
    ),
)
