"""``Checkpointer``: the head of a run, field by field, and the times it is stamped with."""

from durably import InterruptReason
from durably_conformance.building import head, said
from durably_conformance.context import T
from durably_conformance.reading_back import loaded, timeless, walked
from durably_conformance.registry import check

FULL = head(
    agent_name="planner",
    usage={"input": 12, "cost": 0.5, "none": None, "list": []},
    turns=7,
    status="interrupted",
    output={"answer": [1, "two", None, {}]},
    error="why",
    interrupt=InterruptReason(
        call_id="c", tool_name="t", arguments_digest="d", reason="ask", data={"a": [1]}
    ),
    last_input_tokens=34,
    context_state={"summary": ["s"]},
    pending_handoff="writer",
    started_at=12.5,
)


EMPTY = head(
    interrupt=InterruptReason(call_id="", tool_name="", arguments_digest="", reason="", data={}),
    error="",
    last_input_tokens=0,
    pending_handoff="",
    context_state=[],
    started_at=0.0,
)


@check("CKP-HEAD-001", contract="checkpointer", reports=("redis-developer/langgraph-redis#113",))
async def every_field_comes_back(t: T) -> None:
    """Every field of a head comes back as it was saved, in a load and in a listing."""
    one, other = await t.connect(), await t.connect()
    for saved in (FULL, EMPTY):
        await one.checkpointer.append("r", said("a"), saved)
        want = saved.replace(updated_at=t.clock.now)
        t.exact((await loaded(t, other)).head, want, "the head of a load")
        t.exact([row.head for row in await walked(t, other)], [want], "the heads of a listing")


@check("CKP-HEAD-002", contract="checkpointer")
async def a_head_is_replaced_as_a_whole(t: T) -> None:
    """A head replaces the one before it as a whole: a field left out is gone."""
    one, other = await t.connect(), await t.connect()
    await one.checkpointer.append("r", said("a"), FULL)
    await one.checkpointer.append("r", said("b"), head())
    t.exact(timeless((await loaded(t, other)).head), head(), "an empty head after a full one")
    rows = [timeless(row.head) for row in await walked(t, other)]
    t.exact(rows, [head()], "the same in a listing")


@check("CKP-HEAD-003", contract="checkpointer")
async def saves_are_stamped(t: T) -> None:
    """Every save stamps updated_at with the time of the store's clock, whatever the caller set."""
    one, other = await t.connect(), await t.connect()
    for seconds in (0, 60, 3600):
        t.clock.advance(seconds)
        await one.checkpointer.append("r", said("a"), head(updated_at=1.0))
        t.eq((await loaded(t, other)).head.updated_at, t.clock.now, "updated_at of a load")
        times = [row.head.updated_at for row in await walked(t, other)]
        t.eq(times, [t.clock.now], "updated_at of a listing")


@check("CKP-HEAD-004", contract="checkpointer")
async def a_start_is_kept(t: T) -> None:
    """A head without started_at is stamped with the time of the run's first save."""
    one, other = await t.connect(), await t.connect()
    first = t.clock.now
    for _ in range(3):
        await one.checkpointer.append("r", said("a"), head())
        t.eq((await loaded(t, other)).head.started_at, first, "started_at, left to the store")
        t.clock.advance(60)
    await one.checkpointer.append("r", said("a"), head(started_at=7.5))
    t.eq((await loaded(t, other)).head.started_at, 7.5, "started_at, set by the caller")
