"""``Checkpointer``: batches and head together, fenced and retried."""

from durably_conformance.building import head, said
from durably_conformance.context import T
from durably_conformance.registry import check


@check("CKP-APP-001", contract="checkpointer")
async def batches_add_up(t: T) -> None:
    """A run is all of its batches in order, with the last head."""
    handle = await t.connect()
    await handle.checkpointer.append("r", said("a"), head(turns=1))
    revision = await handle.checkpointer.append("r", said("b", "c"), head(turns=2))
    run = await (await t.connect()).checkpointer.load("r")
    t.ok(run is not None, "the run is there")
    if run is not None:
        t.eq(run.entries, said("a", "b", "c"), "entries")
        t.eq(run.head.turns, 2, "turns of the head")
        t.eq(run.revision, revision, "revision")
