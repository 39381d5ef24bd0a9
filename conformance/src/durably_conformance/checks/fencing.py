"""``Checkpointer``: a save at a revision is made by whoever saw it last, or not at all."""

import asyncio

from durably import RevisionConflict
from durably.testing import Handle
from durably_conformance.building import head, said
from durably_conformance.context import T
from durably_conformance.reading_back import loaded
from durably_conformance.registry import check


@check("CKP-FENCE-001", contract="checkpointer", reports=("langchain-ai/langgraph#8796",))
async def an_overtaken_save_is_refused(t: T) -> None:
    """A save at a revision that another save overtook is RevisionConflict, and writes nothing."""
    one, other = await t.connect(), await t.connect()
    token = await one.checkpointer.append("r", said("a"), head(turns=1))
    saved = await other.checkpointer.append("r", said("b"), head(turns=2), expected_revision=token)
    for entries in (said("c"), []):
        late = one.checkpointer.append("r", entries, head(turns=3), expected_revision=token)
        await t.raises(RevisionConflict, late, f"an overtaken save of {len(entries)} entries")
    run = await loaded(t, other)
    t.eq(run.entries, said("a", "b"), "entries")
    t.eq((run.head.turns, run.revision), (2, saved), "turns and revision")


@check("CKP-FENCE-002", contract="checkpointer", reports=("agno-agi/agno#7986",))
async def a_token_says_whether_there_is_a_run(t: T) -> None:
    """Revision 0 fits only a run that does not exist, and any other only one that does."""
    one, other = await t.connect(), await t.connect()
    saved = await one.checkpointer.append("r", said("a"), head(), expected_revision=0)
    late = other.checkpointer.append("r", said("b"), head(), expected_revision=0)
    await t.raises(RevisionConflict, late, "starting a run that is there")
    t.eq((await loaded(t, one)).entries, said("a"), "entries after that")
    other_run = other.checkpointer.append("r2", said("b"), head(), expected_revision=saved)
    await t.raises(RevisionConflict, other_run, "going on with a run that never was")
    await other.checkpointer.delete("r")
    gone = one.checkpointer.append("r", said("b"), head(), expected_revision=saved)
    await t.raises(RevisionConflict, gone, "going on with a run that was deleted")
    found = [await other.checkpointer.load(name) for name in ("r", "r2")]
    t.eq(found, [None, None], "the two runs after that")


@check("CKP-FENCE-003", contract="checkpointer")
async def a_former_life_fits_no_more(t: T) -> None:
    """No revision of a run from before its delete fits its next life, to save or to delete."""
    one, other = await t.connect(), await t.connect()
    old = [await one.checkpointer.append("r", said(f"{n}"), head()) for n in range(3)]
    await other.checkpointer.delete("r")
    new = [await other.checkpointer.append("r", said(f"{n}"), head()) for n in range(3)]
    t.eq([token for token in old if token in new], [], "revisions that both lives had")
    for token in old:
        late = one.checkpointer.append("r", said("late"), head(), expected_revision=token)
        await t.raises(RevisionConflict, late, "a save with a revision of the former life")
        delete = one.checkpointer.delete("r", expected_revision=token)
        await t.raises(RevisionConflict, delete, "a delete with a revision of the former life")
    run = await loaded(t, other)
    t.ok(run.entries[-1:] == said("2"), "the last entry is the new life's own")
    t.eq(run.revision, new[-1], "revision of the new life")


@check(
    "CKP-FENCE-004",
    contract="checkpointer",
    reports=("google/adk-python#3717", "google/adk-python#5085"),
)
async def a_token_is_no_time(t: T) -> None:
    """A worker saves on at the revision of its last save, with a clock that stands or goes back."""
    one, other = await t.connect(), await t.connect()
    token = 0
    for seconds in (0, 0, 0, -3600, 0, 5, -1):
        t.clock.advance(seconds)
        token = await one.checkpointer.append("r", said("x"), head(), expected_revision=token)
        t.eq((await loaded(t, other)).revision, token, "the revision of a load")
    t.eq(len((await loaded(t, other)).entries), 7, "entries")


@check(
    "CKP-FENCE-005",
    contract="checkpointer",
    reports=("langchain-ai/langgraph#8796", "agno-agi/agno#7479"),
)
async def of_several_at_once_one_wins(t: T) -> None:
    """Of several workers that save at the same revision at once, exactly one succeeds."""
    handles = [await t.connect() for _ in range(4)]
    for name, before in (("new", []), ("old", said("before"))):
        token = await handles[0].checkpointer.append(name, before, head()) if before else 0

        async def save(number: int, handle: Handle, name: str = name, token: int = token) -> int:
            entries = said(f"{number}")
            return await handle.checkpointer.append(name, entries, head(), expected_revision=token)

        saves = [t.attempt(save(number, handle)) for number, handle in enumerate(handles)]
        outcomes = await asyncio.gather(*saves)
        winners = [n for n, one in enumerate(outcomes) if not isinstance(one, RevisionConflict)]
        t.eq(len(winners), 1, f"successful saves out of 4, of a run that was {name}")
        run = await loaded(t, handles[0], name)
        t.eq(run.entries, [*before, *said(f"{winners[0]}")], "entries of the run")
        t.eq(run.revision, outcomes[winners[0]], "its revision, against the winner's")


@check("CKP-FENCE-006", contract="checkpointer")
async def a_stale_delete_is_refused(t: T) -> None:
    """A delete at a revision that is not the run's is RevisionConflict, and deletes nothing."""
    one, other = await t.connect(), await t.connect()
    stale = await one.checkpointer.append("r", said("a"), head())
    token = await other.checkpointer.append("r", said("b"), head())
    for wrong in (stale, 0):
        delete = one.checkpointer.delete("r", expected_revision=wrong)
        await t.raises(RevisionConflict, delete, "a delete at another revision")
    t.eq((await loaded(t, other)).entries, said("a", "b"), "entries after that")
    t.ok(
        await one.checkpointer.delete("r", expected_revision=token) is True,
        "a delete at its own says that there was one",
    )
    t.eq(await other.checkpointer.load("r"), None, "the run after that")
    again = await one.checkpointer.delete("r", expected_revision=token)
    t.ok(
        again is False, "deleting a missing run, whatever its revision was says that there was none"
    )
