"""``Claim``: one worker's hold on a run; whoever was overtaken is stopped at the next save."""

import asyncio

from durably import RevisionConflict
from durably_conformance.building import head, said
from durably_conformance.context import T
from durably_conformance.reading_back import cancelled_after, loaded, timeless
from durably_conformance.registry import check

STEPS = range(8)
"""How often the loop turns before a save is cancelled."""


@check("CKP-CLAIM-001", contract="checkpointer")
async def a_claim_changes_the_revision_alone(t: T) -> None:
    """A claim holds the run as it is, moves its revision, and changes neither head nor entries."""
    one, other = await t.connect(), await t.connect()
    kept = head(turns=3, status="interrupted", started_at=5.0)
    before = await one.checkpointer.append("r", said("a"), kept)
    claim = await other.checkpointer.claim("r")
    run = await loaded(t, one)
    t.differs(run.revision, before, "the revisions before and after the claim")
    t.eq((run.entries, timeless(run.head)), (said("a"), timeless(kept)), "entries and head")
    t.eq(run.head.started_at, 5.0, "started_at")
    t.eq((claim.run_id, claim.revision), ("r", run.revision), "the claim's run_id and revision")
    held = claim.snapshot
    t.ok(held is not None, "the claim holds a snapshot")
    if held is not None:
        t.eq((held.run_id, held.revision), ("r", run.revision), "run_id and revision of it")
        t.eq((held.entries, timeless(held.head)), (said("a"), timeless(kept)), "its content")


@check("CKP-CLAIM-002", contract="checkpointer")
async def a_claim_carries_the_revision(t: T) -> None:
    """A claim saves on and on, and says after each save at which revision the run is."""
    one, other = await t.connect(), await t.connect()
    await one.checkpointer.append("r", said("0"), head())
    claim = await other.checkpointer.claim("r")
    for turns in range(1, 4):
        saved = await claim.append(said(f"{turns}"), head(turns=turns))
        run = await loaded(t, one)
        t.eq((saved, claim.revision), (run.revision,) * 2, "what the save returns, and revision")
        t.eq(run.head.turns, turns, "turns")
    t.eq((await loaded(t, one)).entries, said("0", "1", "2", "3"), "entries")


@check("CKP-CLAIM-003", contract="checkpointer", reports=("langchain-ai/langgraph#8796",))
async def an_overtaken_worker_is_stopped(t: T) -> None:
    """A claim that another claim overtook can neither save nor delete, and has written nothing."""
    one, other = await t.connect(), await t.connect()
    await one.checkpointer.append("r", said("a"), head(turns=1))
    early = await one.checkpointer.claim("r")
    late = await other.checkpointer.claim("r")
    await t.raises(RevisionConflict, early.append(said("x"), head(turns=2)), "its save")
    await t.raises(RevisionConflict, early.append([], head(turns=2)), "its save of the head")
    await t.raises(RevisionConflict, early.delete(), "its delete")
    run = await loaded(t, other)
    t.eq((run.entries, run.head.turns), (said("a"), 1), "entries and turns after that")
    await late.append(said("b"), head(turns=2))
    await t.raises(RevisionConflict, early.append(said("x"), head(turns=3)), "its save, later")
    run = await loaded(t, one)
    t.eq((run.entries, run.head.turns), (said("a", "b"), 2), "entries and turns in the end")


@check("CKP-CLAIM-004", contract="checkpointer")
async def two_claims_are_two_workers(t: T) -> None:
    """Two claims through one handle are fenced from each other, their equal saves included."""
    handle = await t.connect()
    await handle.checkpointer.append("old", said("a"), head())
    for name, before in (("old", said("a")), ("new", [])):
        early = await handle.checkpointer.claim(name)
        late = await handle.checkpointer.claim(name)
        await late.append(said("same"), head())
        saving = early.append(said("same"), head())
        await t.raises(RevisionConflict, saving, f"the equal save of the other, {name} run")
        run = await loaded(t, handle, name)
        t.eq(run.entries, [*before, *said("same")], f"entries of the {name} run")


@check("CKP-CLAIM-005", contract="checkpointer")
async def a_missing_run_is_owned_by_the_first_to_save(t: T) -> None:
    """Several may claim a run that does not exist; the first to save owns it."""
    one, other = await t.connect(), await t.connect()
    late = await one.checkpointer.claim("r")
    first = await other.checkpointer.claim("r")
    t.eq([claim.snapshot for claim in (late, first)], [None, None], "their snapshots")
    t.eq([claim.revision for claim in (late, first)], [0, 0], "their revisions")
    await first.append(said("a"), head())
    await t.raises(RevisionConflict, late.append(said("b"), head()), "the other's save")
    await t.raises(RevisionConflict, late.delete(), "the other's delete")
    await first.append(said("c"), head())
    t.eq((await loaded(t, one)).entries, said("a", "c"), "entries")


@check("CKP-CLAIM-006", contract="checkpointer", reports=("agno-agi/agno#9450",))
async def a_save_without_a_claim_overtakes(t: T) -> None:
    """A save that took no notice of a claim overtakes it."""
    one, other = await t.connect(), await t.connect()
    await one.checkpointer.append("r", said("a"), head())
    claim = await one.checkpointer.claim("r")
    await other.checkpointer.append("r", said("b"), head())
    await t.raises(RevisionConflict, claim.append(said("c"), head()), "the claim's next save")
    t.eq((await loaded(t, other)).entries, said("a", "b"), "entries")


@check("CKP-CLAIM-007", contract="checkpointer")
async def a_claim_deletes_and_begins_anew(t: T) -> None:
    """A claim deletes its run, says whether there was one, and may start it again."""
    one, other = await t.connect(), await t.connect()
    claim = await one.checkpointer.claim("r")
    t.ok(
        await claim.delete() is False, "deleting a run that does not exist says that there was none"
    )
    await claim.append(said("a"), head())
    t.ok(await claim.delete() is True, "deleting the run says that there was one")
    t.eq(await other.checkpointer.load("r"), None, "the run after that")
    await claim.append(said("b"), head())
    await claim.append(said("c"), head())
    t.eq((await loaded(t, other)).entries, said("b", "c"), "entries of its next life")


@check(
    "CKP-CLAIM-008",
    contract="checkpointer",
    reports=("agno-agi/agno#7479", "cymoo/lovia#47"),
)
async def a_deleted_run_is_not_revived(t: T) -> None:
    """A claim on a run that was deleted since can neither revive it nor touch its next life."""
    one, other = await t.connect(), await t.connect()
    await one.checkpointer.append("r", said("a"), head())
    early = await one.checkpointer.claim("r")
    late = await other.checkpointer.claim("r")
    t.ok(await late.delete() is True, "the delete by another worker says that there was one")
    await t.raises(RevisionConflict, early.append(said("x"), head()), "a save of the deleted run")
    t.eq(await other.checkpointer.load("r"), None, "the run after that")
    await (await other.checkpointer.claim("r")).append(said("new"), head())
    saving = early.append(said("x"), head())
    await t.raises(RevisionConflict, saving, "a save into the run's next life")
    await t.raises(RevisionConflict, early.delete(), "a delete of the run's next life")
    t.eq((await loaded(t, other)).entries, said("new"), "entries of the next life")


@check("CKP-CLAIM-009", contract="checkpointer", reports=("langchain-ai/langgraph#8796",))
async def of_claims_at_once_one_can_save(t: T) -> None:
    """Of several workers that claim a run at once, exactly one goes on to save."""
    handles = [await t.connect() for _ in range(4)]
    for name in ("a", "b"):
        await handles[0].checkpointer.append(name, said("before"), head())
        claiming = [t.attempt(handle.checkpointer.claim(name)) for handle in handles * 2]
        outcomes = await asyncio.gather(*claiming)
        claims = [one for one in outcomes if not isinstance(one, RevisionConflict)]
        t.ok(claims, "at least one of 8 claims succeeds")
        errors = [one for one in claims if isinstance(one, Exception)]
        t.eq(errors, [], "errors other than RevisionConflict")
        saved = 0
        for claim in claims:
            if not isinstance(claim, Exception):
                outcome = await t.attempt(claim.append(said("mine"), head()))
                saved += not isinstance(outcome, RevisionConflict)
        t.eq(saved, 1, "claims that could save")
        t.eq((await loaded(t, handles[1], name)).entries, said("before", "mine"), "entries")


@check("CKP-CLAIM-010", contract="checkpointer", reports=("google/adk-python#5723",))
async def a_cancelled_save_may_be_made_again(t: T) -> None:
    """A claim's save that was cancelled, at any moment, may be made again and is stored once."""
    handle, other = await t.connect(), await t.connect()
    for steps in STEPS:
        name = f"{steps} turns"
        claim = await handle.checkpointer.claim(name)
        await claim.append(said("a"), head())
        if await cancelled_after(steps, claim.append(said("b"), head(turns=1))):
            await claim.append(said("b"), head(turns=1))
        await claim.append(said("c"), head(turns=2))
        run = await loaded(t, other, name)
        t.eq(run.entries, said("a", "b", "c"), f"entries, cancelled after {name} of the loop")
        t.eq(run.head.turns, 2, "turns")


@check("CKP-CLAIM-011", contract="checkpointer", reports=("openai/openai-agents-python#4203",))
async def a_cancelled_save_is_completed_first(t: T) -> None:
    """A claim goes on after a save that was cancelled, which is then stored once or not at all."""
    handle, other = await t.connect(), await t.connect()
    for steps in STEPS:
        name = f"{steps} turns"
        claim = await handle.checkpointer.claim(name)
        await claim.append(said("a"), head())
        await cancelled_after(steps, claim.append(said("b"), head(turns=1)))
        await claim.append(said("c"), head(turns=2))
        run = await loaded(t, other, name)
        legal = said("a", "b", "c"), said("a", "c")
        t.ok(run.entries in legal, f"entries are whole, cancelled after {name} of the loop")
        t.eq(run.head.turns, 2, "turns")
        await cancelled_after(steps, claim.append(said("d"), head(turns=3)))
        t.ok(
            await claim.delete() is True,
            "deleting the run after another cancelled save says that there was one",
        )
        t.eq(await other.checkpointer.load(name), None, "the run after that")
