"""``Session``: appending, idempotency, order and clearing."""

from durably_conformance.building import said
from durably_conformance.context import T
from durably_conformance.registry import check


@check("SES-APP-001", contract="session")
async def segments_come_back(t: T) -> None:
    """A run's id, entries and meta come back as they were appended."""
    handle = await t.connect()
    entries, meta = said("one", "two"), {"a": [1, None, {"b": "c"}]}
    run_id = await handle.sessions.append("s", entries, run_id="r", meta=meta)
    t.eq(run_id, "r", "the run_id that append returns")
    segments = await (await t.connect()).sessions.segments("s")
    t.eq([one.run_id for one in segments], ["r"], "run ids")
    t.exact(segments[0].entries, entries, "entries")
    t.exact(segments[0].meta, meta, "meta")


@check("SES-IDEM-001", contract="session", reports=("google/adk-python#4506",))
async def the_first_write_wins(t: T) -> None:
    """A second append under a stored run_id changes nothing, whatever it carries."""
    handle = await t.connect()
    await handle.sessions.append("s", said("first"), run_id="r")
    again = await handle.sessions.append("s", said("second", "third"), run_id="r", meta={"n": 2})
    t.eq(again, "r", "the run_id that the second append returns")
    segments = await handle.sessions.segments("s")
    t.eq([one.run_id for one in segments], ["r"], "run ids after the second append")
    t.eq(segments[0].entries, said("first"), "entries after the second append")
