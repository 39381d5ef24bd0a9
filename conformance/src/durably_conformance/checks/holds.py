"""``Checkpointer.hold``: a run as it was loaded, owned by the first save and not before."""

import asyncio
from functools import partial

from durably import RevisionConflict
from durably_conformance.building import head, said
from durably_conformance.context import T
from durably_conformance.reading_back import loaded
from durably_conformance.registry import check

TURNS = 8
"""How often the loop turns, so that what was begun in secret shows."""


@check("CKP-HOLD-001", contract="checkpointer")
async def to_hold_is_no_save(t: T) -> None:
    """A hold is a claim on the run as it was loaded; to make one changes nothing."""
    one, other = await t.connect(), await t.connect()
    await one.checkpointer.append("r", said("a"), head(turns=1))
    run = await loaded(t, other)
    t.clock.advance(10)
    held = other.checkpointer.hold("r", run)
    absent = other.checkpointer.hold("new", None)
    for _ in range(TURNS):
        await asyncio.sleep(0)
    t.eq((held.run_id, held.revision), ("r", run.revision), "run_id and revision of it")
    t.eq(held.snapshot, run, "the snapshot it holds")
    t.eq((absent.run_id, absent.revision), ("new", 0), "those of one on a run that is not there")
    t.eq(absent.snapshot, None, "the snapshot of that")
    t.eq(await loaded(t, one), run, "the run after it was held")
    t.eq(await one.checkpointer.load("new"), None, "the run that was not there")


@check("CKP-HOLD-002", contract="checkpointer")
async def the_first_save_takes_over(t: T) -> None:
    """The first save by a hold takes the run over, and the hold saves on from there."""
    one, other = await t.connect(), await t.connect()
    await one.checkpointer.append("r", said("a"), head())
    early = one.checkpointer.hold("r", await loaded(t, one))
    await early.append([], head())
    run = await loaded(t, other)
    late = other.checkpointer.hold("r", run)
    saved = await late.append([], run.head)
    t.eq((saved, late.revision), ((await loaded(t, one)).revision,) * 2, "what the save returns")
    await t.raises(RevisionConflict, early.append(said("x"), head()), "a save by who held it")
    await late.append(said("b"), head())
    t.eq((await loaded(t, one)).entries, said("a", "b"), "entries")


@check("CKP-HOLD-003", contract="checkpointer")
async def a_run_that_went_on_is_not_held(t: T) -> None:
    """Where a run was saved since it was loaded, a hold on it conflicts and writes nothing."""
    one, other = await t.connect(), await t.connect()
    await one.checkpointer.append("r", said("a"), head())
    held = other.checkpointer.hold("r", await loaded(t, other))
    await one.checkpointer.append("r", said("b"), head(turns=1))
    await t.raises(RevisionConflict, held.append(said("x"), head(turns=2)), "its save")
    await t.raises(RevisionConflict, held.append([], head(turns=2)), "its save of the head")
    await t.raises(RevisionConflict, held.delete(), "its delete")
    run = await loaded(t, other)
    t.eq((run.entries, run.head.turns), (said("a", "b"), 1), "entries and turns after that")


@check("CKP-HOLD-004", contract="checkpointer")
async def two_holds_are_two_workers(t: T) -> None:
    """Two holds through one handle are fenced from each other, equal saves included."""
    handle, other = await t.connect(), await t.connect()
    await handle.checkpointer.append("r", said("a"), head())
    run = await loaded(t, handle)
    first, second = (handle.checkpointer.hold("r", run) for _ in range(2))
    await first.append(said("b"), head())
    await t.raises(RevisionConflict, second.append(said("b"), head()), "the other's equal save")
    t.eq((await loaded(t, other)).entries, said("a", "b"), "entries")


@check("CKP-HOLD-005", contract="checkpointer")
async def a_run_that_was_not_there_is_started_once(t: T) -> None:
    """Of holds on a run that was not there the first to append starts it, others conflict."""
    one, other = await t.connect(), await t.connect()
    first, second = one.checkpointer.hold("r", None), other.checkpointer.hold("r", None)
    await first.append(said("a"), head())
    for entries in (said("a"), said("x"), []):
        await t.raises(RevisionConflict, second.append(entries, head()), "the other's save")
    t.eq((await loaded(t, other)).entries, said("a"), "entries")


@check("CKP-HOLD-006", contract="checkpointer")
async def a_snapshot_of_another_run_is_refused(t: T) -> None:
    """A run cannot be held by the snapshot of another one."""
    one, other = await t.connect(), await t.connect()
    await one.checkpointer.append("r", said("a"), head())
    run = await loaded(t, other)
    for name in ("other", "R", "r "):
        what = f"a hold on {name!r} by a snapshot of 'r'"
        await t.raises(ValueError, partial(other.checkpointer.hold, name, run), what)
