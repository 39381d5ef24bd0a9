"""``LogStore`` itself, so that the author of one is told which operation is wrong."""

from durably_conformance.building import batch, log
from durably_conformance.context import T
from durably_conformance.registry import check


@check("LOG-APP-001", contract="logstore")
async def a_batch_sent_again_is_stored_once(t: T) -> None:
    """The same batch sent again changes nothing and gets its first answer, as a duplicate."""
    handle = await t.connect()
    one = batch(b"a", b"b")
    first = await handle.log_store.append(log(), one)
    again = await handle.log_store.append(log(), one)
    t.eq((again.revision, again.seq), (first.revision, first.seq), "the second answer")
    t.ok(again.duplicate and not first.duplicate, "the second answer alone is a duplicate")
    stored = await handle.log_store.read(log())
    t.eq([one.data for one in stored.records] if stored else None, [b"a", b"b"], "the records")
