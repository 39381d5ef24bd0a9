"""``Checkpointer``: entries and head saved together, read back as they were, and deleted."""

import asyncio

from durably import Entry
from durably_conformance.building import call, head, result, said
from durably_conformance.context import T
from durably_conformance.reading_back import beside, loaded, walked
from durably_conformance.registry import check


@check(
    "CKP-APP-001",
    contract="checkpointer",
    reports=("openai/openai-agents-python#1900", "anomalyco/opencode#7425"),
)
async def batches_add_up(t: T) -> None:
    """A run is all of its batches in the order of their saves, whoever made them."""
    handles = await t.connect(), await t.connect()
    texts = [[f"{number}", "and more"][: 1 + number % 2] for number in range(12)]
    revision = 0
    for number, some in enumerate(texts):
        checkpointer = handles[number % 2].checkpointer
        revision = await checkpointer.append("r", said(*some), head())
    run = await loaded(t, await t.connect())
    t.eq(run.run_id, "r", "run_id")
    t.eq(run.entries, said(*(text for some in texts for text in some)), "entries")
    t.eq(run.revision, revision, "revision, against that of the last save")


@check("CKP-APP-002", contract="checkpointer")
async def without_entries_the_head_alone_is_set(t: T) -> None:
    """A save without entries sets the head alone, and starts a run that does not exist."""
    one, other = await t.connect(), await t.connect()
    await one.checkpointer.append("r", [], head(turns=1))
    run = await loaded(t, other)
    t.eq(run.entries, [], "entries of a run started without any")
    t.eq(run.head.turns, 1, "its turns")
    before = await one.checkpointer.append("r", said("a"), head(turns=2))
    saved = await one.checkpointer.append("r", [], head(turns=3, status="completed"))
    run = await loaded(t, other)
    t.eq(run.entries, said("a"), "entries after a save of the head")
    t.eq((run.head.turns, run.head.status), (3, "completed"), "turns and status after it")
    t.eq(run.revision, saved, "revision after it")
    t.differs(saved, before, "its revision and the one before")


@check("CKP-APP-003", contract="checkpointer")
async def without_a_token_each_save_is_new(t: T) -> None:
    """Without expected_revision the same save made twice is stored twice."""
    handle = await t.connect()
    first = await handle.checkpointer.append("r", said("a"), head())
    second = await handle.checkpointer.append("r", said("a"), head())
    t.differs(first, second, "the two revisions")
    t.eq((await loaded(t, handle)).entries, said("a", "a"), "entries")


@check("CKP-ATOM-001", contract="checkpointer", reports=("langchain-ai/langgraph#8039",))
async def entries_and_head_change_together(t: T) -> None:
    """A reader never sees the entries of a save without its head, or its head without them."""
    writer, reader = await t.connect(), await t.connect()
    await writer.checkpointer.append("r", said("1"), head(turns=1))

    async def write() -> None:
        for turns in range(2, 9):
            await writer.checkpointer.append("r", said(f"{turns}"), head(turns=turns))
            await asyncio.sleep(0)

    async def look() -> None:
        run = await loaded(t, reader)
        t.eq(len(run.entries), run.head.turns, "entries, against what the head counts")

    await beside(write(), look)
    await look()
    t.eq(len((await loaded(t, reader)).entries), 8, "entries in the end")


@check("CKP-LOAD-001", contract="checkpointer")
async def looking_makes_no_run(t: T) -> None:
    """Looking for a run that nobody saved, or claiming it, does not make one."""
    one, other = await t.connect(), await t.connect()
    t.eq(await one.checkpointer.load("r"), None, "a run that nobody saved")
    t.ok(await one.checkpointer.delete("r") is False, "deleting it says that there was none")
    t.eq((await one.checkpointer.claim("r")).snapshot, None, "a claim of it")
    t.eq(await other.checkpointer.load("r"), None, "the run after all that")
    t.eq(await walked(t, other), [], "the runs listed after all that")


@check(
    "CKP-LOAD-002",
    contract="checkpointer",
    reports=("langchain-ai/langchain-aws#848", "langchain-ai/langgraph#4289"),
)
async def nothing_is_repaired(t: T) -> None:
    """Calls without a result, and results without a call, come back as they were saved."""
    handle = await t.connect()
    first: list[Entry] = [*said("q"), call("1"), call("1"), result("1")]
    second: list[Entry] = [result("9"), call("2"), call("3"), result("2")]
    await handle.checkpointer.append("r", first, head())
    t.exact((await loaded(t, await t.connect())).entries, first, "entries of one batch")
    await handle.checkpointer.append("r", second, head())
    t.exact((await loaded(t, await t.connect())).entries, first + second, "entries of both")


@check("CKP-DEL-001", contract="checkpointer")
async def a_deleted_run_is_absent(t: T) -> None:
    """A deleted run is neither loaded nor listed any more, and others stay."""
    one, other = await t.connect(), await t.connect()
    await one.checkpointer.append("r", said("a"), head())
    await one.checkpointer.append("kept", said("b"), head())
    t.ok(await other.checkpointer.delete("r") is True, "deleting a run says that there was one")
    t.eq(await one.checkpointer.load("r"), None, "the run after that")
    t.eq([row.run_id for row in await walked(t, one)], ["kept"], "the runs listed after that")
    t.eq((await loaded(t, one, "kept")).entries, said("b"), "entries of the other run")


@check("CKP-DEL-002", contract="checkpointer", reports=("openai/openai-agents-python#3755",))
async def the_next_life_starts_empty(t: T) -> None:
    """A run saved again after its delete has nothing of its former life."""
    one, other = await t.connect(), await t.connect()
    old = await one.checkpointer.append("r", said("a"), head(turns=9), expected_revision=0)
    await other.checkpointer.delete("r")
    t.clock.advance(60)
    new = await one.checkpointer.append("r", said("a"), head(), expected_revision=0)
    t.differs(new, old, "the revisions of the same first save in two lives")
    run = await loaded(t, other)
    t.eq(run.entries, said("a"), "entries")
    t.eq((run.head.turns, run.head.started_at), (0, t.clock.now), "turns and started_at")
