"""``CheckpointSaver``: numbered snapshots of a thread."""

from durably_conformance.building import snapshot
from durably_conformance.context import T
from durably_conformance.registry import check


@check("CKS-SEQ-002", contract="saver")
async def the_latest_is_the_last_appended(t: T) -> None:
    """The latest snapshot is the last one appended, whatever the clock says."""
    saver = (await t.connect()).checkpoint_saver()
    first = await saver.append("t", snapshot("a"))
    t.clock.advance(-3600)
    second = await saver.append("t", snapshot("a", "b"))
    t.ok(second > first, "the second seq is greater")
    latest = await saver.latest("t")
    t.eq(latest and latest.seq, second, "seq of the latest")
    t.eq(latest and latest.snapshot.messages, snapshot("a", "b").messages, "its messages")
