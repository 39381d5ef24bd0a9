"""``rewind`` and ``finish`` of a storage: a session and the checkpoints behind it, together."""

from durably import RevisionConflict, Rewound, RunNotFound
from durably.testing import Handle
from durably_conformance.building import call, fill, head, result, said
from durably_conformance.context import T
from durably_conformance.offering import upkeep_of
from durably_conformance.registry import check


async def _checkpointed(handle: Handle) -> str:
    """Return which of the runs a to d have a checkpoint."""
    return "".join([name for name in "abcd" if await handle.checkpointer.load(name)])


@check("REC-001", contract="session", requires=("rewind", "checkpointer"))
async def checkpoints_go_with_their_runs(t: T) -> None:
    """A storage's rewind removes the checkpoints of the runs that go, and no others."""
    one, other = await t.connect(), await t.connect()
    await fill(one.sessions, "s", "a2 b2 c1")
    for name in "abcd":
        await one.checkpointer.append(name, said("x"), head())
    upkeep = upkeep_of(one, "rewind")
    stale = await one.sessions.revision("s")
    await fill(one.sessions, "s", "d1")
    late = upkeep.rewind("s", keep_entries=2, expected_revision=stale)
    await t.raises(RevisionConflict, late, "a rewind at a revision that is over")
    t.eq(await _checkpointed(other), "abcd", "checkpoints after a refusal")
    told = Rewound(removed_entries=2, removed_run_ids=("c", "d"))
    t.eq(await upkeep.rewind("s", keep_entries=4), told, "what the rewind tells")
    t.eq(await _checkpointed(other), "ab", "checkpoints that are left")
    t.eq(len(await other.sessions.load("s")), 4, "entries that are left")


@check("REC-002", contract="session", requires=("checkpointer",))
async def an_abandoned_run_is_finished(t: T) -> None:
    """A run that is finished is a run of its session, less its calls without a result, and gone.

    Doing it again changes nothing, and a run that was never there is RunNotFound.
    """
    one, other = await t.connect(), await t.connect()
    done = [*said("a"), call("1"), result("1")]
    await one.checkpointer.append("r", [*done, call("2")], head())
    upkeep = upkeep_of(other, "finish")
    t.ok(await upkeep.finish("r", "s"), "it was finished by this call")
    [run] = await one.sessions.segments("s")
    t.eq((run.run_id, run.entries), ("r", done), "the run of the session")
    t.eq(await one.checkpointer.load("r"), None, "its checkpoint")
    t.ok(not await upkeep.finish("r", "s"), "it was not finished by a second call")
    t.eq(len(await one.sessions.segments("s")), 1, "runs after a second call")
    await t.raises(RunNotFound, upkeep.finish("none", "s"), "a run that was never there")
