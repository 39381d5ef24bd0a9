"""Is the harness honest? Without these nothing else means anything, so they run first."""

from durably import Checkpointer, CheckpointSaver, LogStore, Session
from durably.capabilities import Capabilities, Durability, Limits, Support, Writers
from durably_conformance.context import T
from durably_conformance.offering import count_something, write_something
from durably_conformance.registry import NEEDS, check


@check("HAR-001", contract="harness")
async def places_share_nothing(t: T) -> None:
    """Two places see nothing of each other."""
    one = await t.connect()
    other = await t.connect(t.another_place())
    before = await count_something(t, one), await count_something(t, other)
    await write_something(t, one)
    await t.place.settle()
    got = await count_something(t, one)
    t.eq(got, before[0] + 1, "what the place it was written to holds")
    t.eq(await count_something(t, other), before[1], "what the other place holds")


@check("HAR-002", contract="harness", reports=("langchain-ai/langgraph#8796",))
async def handles_share_everything(t: T) -> None:
    """Two handles on one place see each other's acknowledged writes."""
    one, other = await t.connect(), await t.connect()
    before = await count_something(t, other)
    await write_something(t, one)
    await t.place.settle()
    got = await count_something(t, other)
    t.eq(got, before + 1, "what the second handle sees of the first's write")
    later = await t.connect()
    t.eq(await count_something(t, later), before + 1, "what a handle opened afterwards sees")


@check("HAR-003", contract="harness", reports=("langchain-ai/langgraph#8722",))
async def everything_is_declared(t: T) -> None:
    """Every capability and limit is declared, something is offered, and the harness has a name."""
    t.is_a(t.capabilities, Capabilities, "capabilities")
    t.is_a(t.limits, Limits, "limits")
    special = {"durability": Durability, "writers": Writers}
    for name in t.capabilities.__struct_fields__:
        t.is_a(getattr(t.capabilities, name), special.get(name, Support), name)
    contracts = [name for (name,) in filter(None, NEEDS.values())]
    offered = any(getattr(t.capabilities, name) for name in contracts)
    t.ok(offered, f"at least one of {', '.join(contracts)} is offered")
    t.ok(t.harness.name, "the harness has a name")
    handle = await t.connect()
    before = await count_something(t, handle)
    await write_something(t, handle)
    t.eq(await count_something(t, handle), before + 1, "what the first that is offered stores")


@check("HAR-004", contract="harness")
async def a_place_is_empty(t: T) -> None:
    """A fresh place is empty, and takes a first write."""
    handle = await t.connect()
    t.eq(await count_something(t, handle), 0, "what a fresh place holds")
    await write_something(t, handle)
    t.eq(await count_something(t, handle), 1, "what it holds after one write")


@check("HAR-005", contract="harness", reports=("langchain-ai/langgraph#8722",))
async def what_is_declared_is_offered(t: T) -> None:
    """A handle offers each contract that is declared, as the class that core calls it."""
    handle = await t.connect()
    await write_something(t, handle)
    if t.capabilities.log_store:
        t.is_a(handle.log_store, LogStore, "log_store")
    if t.capabilities.sessions:
        t.is_a(handle.sessions, Session, "sessions")
    if t.capabilities.checkpointer:
        t.is_a(handle.checkpointer, Checkpointer, "checkpointer")
    if t.capabilities.checkpoint_saver:
        t.is_a(handle.checkpoint_saver(), CheckpointSaver, "what checkpoint_saver makes")
