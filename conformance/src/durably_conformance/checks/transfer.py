"""What is stored as lines, in another storage, under another id: whole, and once."""

from typing import TypeAlias, cast

import msgspec

from durably import CopyConflict
from durably.testing import Handle
from durably_conformance.building import call, head, result, said, snapshot
from durably_conformance.context import T
from durably_conformance.keeping import SESSIONS, keepers
from durably_conformance.offering import Upkeep, upkeep_of
from durably_conformance.registry import check
from durably_conformance.trees import grow, path_of

_Pair: TypeAlias = tuple[Handle, Handle]


async def _used(t: T, *names: str) -> _Pair:
    """Return a handle onto a place where everything was used, and one onto an empty place."""
    here, there = await t.connect(), await t.connect(t.another_place())
    for handle in (here, there):
        upkeep_of(handle, "catalog", "archive", *names)
    catalog, archive = upkeep_of(here).catalog, upkeep_of(here).archive
    t.clock.advance(0.25)
    await catalog.create("s", metadata={"k": [1.0, None, "\ud800"]})
    entries = [*said("\u00e9"), call("c"), result("c", "x" * 1000)]
    for run_id in ("r1", "r2"):
        await here.sessions.append("s", entries, run_id=run_id, meta={"m": 1.0})
        t.clock.advance(0.25)
    await SESSIONS.write(here, "stray", said("a"))
    await catalog.create("empty")
    if t.capabilities.trim:
        await here.sessions.trim_tool_results("s", archive=archive)
    if t.capabilities.checkpointer:
        await here.checkpointer.append("r", said("a"), head(turns=1))
        await here.checkpointer.append("r", said("b", "c"), head(turns=2))
    if t.capabilities.checkpoint_saver:
        await here.checkpoint_saver().append("t", snapshot("a"))
        await here.checkpoint_saver().append("t", snapshot("a", "b"))
    t.clock.advance(1000)
    return here, there


async def _lines(upkeep: Upkeep) -> list[bytes]:
    return [line async for line in upkeep.export()]


async def _is_there(t: T, here: Handle, there: Handle) -> None:
    """Ask for what the contracts read to be the same in both places."""
    for keeper, name in zip(keepers(t), ("s", "r", "t"), strict=False):
        found = await keeper.read(there, name)
        t.ok(found, f"there are entries of {keeper}")
        t.exact(found, await keeper.read(here, name), f"entries of {keeper}")
    t.exact(await there.sessions.segments("s"), await here.sessions.segments("s"), "runs")
    one, other = upkeep_of(here), upkeep_of(there)
    t.exact(await other.catalog.get("s"), await one.catalog.get("s"), "what the catalog says")
    results = await one.archive.recall("s", "c")
    t.exact(await other.archive.recall("s", "c"), results, "results in the archive")


@check("COPY-001", contract="storage", requires=("sessions", "checkpointer", "checkpoint_saver"))
async def an_import_exports_the_same(t: T) -> None:
    """What is exported and imported elsewhere reads the same there, and exports the same bytes."""
    here, there = await _used(t, "export", "import_lines")
    lines = await _lines(upkeep_of(here))
    await upkeep_of(there).import_lines(lines)
    t.eq(await _lines(upkeep_of(there)), lines, "the lines of a second export")
    await _is_there(t, here, there)


@check("COPY-002", contract="storage", requires=("sessions",))
async def importing_again_moves_nothing(t: T) -> None:
    """To import again moves nothing, and says so."""
    here, there = await _used(t, "export", "import_lines")
    lines, other = await _lines(upkeep_of(here)), upkeep_of(there)
    first = await other.import_lines(lines)
    t.ok(first.records > 0, "the first import moved something")
    t.eq(first.known, 0, "records that were there at first")
    before = await _lines(other)
    again = await other.import_lines(lines)
    t.eq((again.records, again.known), (0, first.records), "records moved, and there, again")
    t.eq(await _lines(other), before, "an export after it")


@check("COPY-003", contract="storage", requires=("sessions", "checkpointer", "checkpoint_saver"))
async def a_copy_is_whole(t: T) -> None:
    """A copy of a storage into another has all that it has; to copy again moves nothing."""
    here, there = await _used(t, "copy_to")
    first = await upkeep_of(here).copy_to(there)
    await _is_there(t, here, there)
    again = await upkeep_of(here).copy_to(there)
    t.eq((again.records, again.known), (0, first.records), "records moved, and there, again")


@check("COPY-004", contract="storage", requires=("sessions",))
async def another_of_that_id_is_left_alone(t: T) -> None:
    """Where another session of an id is, an import is CopyConflict and leaves it as it was."""
    here, there = await _used(t, "export", "import_lines")
    await there.sessions.append("stray", said("other"), run_id="other")
    lines = await _lines(upkeep_of(here))
    await t.raises(CopyConflict, upkeep_of(there).import_lines(lines), "an import over another")
    t.eq(await there.sessions.load("stray"), said("other"), "what was there")


@check("COPY-005", contract="storage", requires=("sessions",))
async def a_fork_goes_its_own_way(t: T) -> None:
    """A fork has the runs and the archive of its session, and each goes on apart."""
    here, _ = await _used(t, "fork")
    upkeep = upkeep_of(here)
    runs = await here.sessions.segments("s")
    await upkeep.fork("s", "fork")
    t.exact(await here.sessions.segments("fork"), runs, "runs of a fork")
    results = await upkeep.archive.recall("s", "c")
    t.exact(await upkeep.archive.recall("fork", "c"), results, "results in its archive")
    await here.sessions.append("fork", said("new"), run_id="new")
    t.exact(await here.sessions.segments("s"), runs, "runs of the session after its fork grew")
    await here.sessions.clear("s")
    t.eq(len(await here.sessions.segments("fork")), 3, "runs of a fork after its session went")
    t.exact(await upkeep.archive.recall("fork", "c"), results, "results of the fork then")


@check("COPY-006", contract="storage", requires=("sessions",))
async def other_content_is_left_alone(t: T) -> None:
    """A run that is there with other content, told apart by nothing else, conflicts and stays."""
    here, there = await t.connect(), await t.connect(t.another_place())
    for handle, text in ((here, "mine"), (there, "ours")):
        upkeep_of(handle, "export", "import_lines")
        await handle.sessions.append("s", said(text), run_id="r")
    await here.sessions.append("z", said("a"), run_id="q")
    lines = await _lines(upkeep_of(here))
    await t.raises(CopyConflict, upkeep_of(there).import_lines(lines), "an import of other content")
    t.eq(await there.sessions.load("s"), said("ours"), "what was there")
    t.eq(await there.sessions.load("z"), said("a"), "what else was imported")


@check("COPY-007", contract="storage")
async def states_and_trees_come_along(t: T) -> None:
    """States and trees are copied and exported with the rest, with branches, labels and leaf."""
    here = await t.connect()
    names = ("states", "tree", "export", "import_lines", "copy_to")
    source = upkeep_of(here, *names)
    for state in (snapshot("a", turn=1), snapshot("\u00e9\ud800", extra={"n": 1.0})):
        await source.states.save("k", state)
    tree = source.tree("t")
    await grow(tree, "a", "b")
    await tree.label("b", "left")
    await tree.branch("a")
    await grow(tree, "c")
    await tree.rename("talk")
    state, info = await source.states.load("k"), await tree.info()
    path, left = await path_of(tree), await path_of(tree, "b")
    t.clock.advance(1000)
    places = [upkeep_of(await t.connect(t.another_place()), *names) for _ in range(2)]
    await source.copy_to(cast("Handle", places[0]))
    await places[1].import_lines(await _lines(source))
    for name, target in zip(("a copy", "an import"), places, strict=True):
        t.exact(await target.states.load("k"), state, f"the state in {name}")
        copy = target.tree("t")
        t.eq(await path_of(copy), path, f"the path of the tree in {name}")
        t.eq(await path_of(copy, "b"), left, f"the path that was left in {name}")
        found = await copy.info()
        t.eq(found, msgspec.structs.replace(info, revision=found.revision), f"info in {name}")
