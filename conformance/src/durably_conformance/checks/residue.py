"""What is deleted is gone, to the last byte."""

from durably import RunHead, StateSnapshot
from durably.testing import Handle
from durably_conformance.building import call, result, said
from durably_conformance.context import DoesNotApply, T
from durably_conformance.keeping import keepers
from durably_conformance.registry import check

CONTENT = "hunter2"


async def _use(t: T, handle: Handle) -> None:
    """Use everything that the declared contracts offer."""
    if t.capabilities.sessions:
        entries = [*said(CONTENT), call("c"), result("c", CONTENT * 200)]
        for run_id in ("r1", "r2", "r3"):
            await handle.sessions.append("s", entries, run_id=run_id, meta={CONTENT: 1})
        if t.capabilities.rewind:
            await handle.sessions.rewind("s", keep_entries=4)
        if t.capabilities.trim:
            await handle.sessions.trim_tool_results("s", keep_runs=0)
    if t.capabilities.checkpointer:
        runs = handle.checkpointer
        revision = await runs.append("s", said(CONTENT), RunHead(output=CONTENT))
        await runs.append("s", [], RunHead(error=CONTENT), expected_revision=revision)
        await (await runs.claim("s")).append(said("a"), RunHead())
    if t.capabilities.checkpoint_saver:
        for saver in (
            handle.checkpoint_saver(),
            handle.checkpoint_saver(max_checkpoints_per_thread=2),
        ):
            for number in range(4):
                texts = [CONTENT] * (number + 1)
                await saver.append("s", StateSnapshot(messages=said(*texts), extra={"k": CONTENT}))


@check(
    "DEL-RES-001",
    contract="storage",
    reports=(
        "redis-developer/langgraph-redis#105",
        "langchain-ai/langgraph#8054",
        "openai/openai-agents-python#3755",
    ),
)
async def what_is_deleted_leaves_nothing(t: T) -> None:
    """What was created, used and deleted has left the raw content as it was."""
    handle, other = await t.connect(), await t.connect()
    for keeper in keepers(t):
        await keeper.write(handle, "first", said("a"))
        t.eq(await keeper.read(other, "first"), said("a"), f"entries of {keeper}")
    await _use(t, handle)
    for keeper in keepers(t):
        await keeper.remove(other, "s")
    await t.place.settle()
    before = await t.dump()
    await _use(t, handle)
    used = await t.dump()
    t.differs(used, before, "the raw content before and after use")
    for keeper in keepers(t):
        await keeper.remove(other, "s")
    await t.place.settle()
    after = await t.dump()
    t.same_set(after.items(), before.items(), "the raw content after everything was deleted")
    if not any(CONTENT.encode() in data for data in used.values()):
        raise DoesNotApply("the raw content does not show what is stored")
    left = [name for name, data in after.items() if CONTENT.encode() in data]
    t.eq(left, [], "what still holds deleted content")
