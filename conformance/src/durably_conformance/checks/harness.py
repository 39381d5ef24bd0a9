"""Is the harness honest? Without these nothing else means anything, so they run first."""

from durably import Checkpointer, CheckpointSaver, LogStore, Session
from durably.capabilities import Capabilities, Durability, Limits, Support, Writers
from durably.testing import Handle
from durably_conformance.building import batch, head, log, said, snapshot
from durably_conformance.context import T
from durably_conformance.registry import check


async def _write(t: T, handle: Handle) -> None:
    """Store something by the first contract that is declared."""
    if t.capabilities.log_store:
        await handle.log_store.append(log("har"), batch(b"1"))
    elif t.capabilities.sessions:
        await handle.sessions.append("har", said("1"))
    elif t.capabilities.checkpointer:
        await handle.checkpointer.append("har", said("1"), head())
    else:
        await handle.checkpoint_saver().append("har", snapshot("1"))


async def _count(t: T, handle: Handle) -> int:
    """Return how much of it there is."""
    if t.capabilities.log_store:
        stored = await handle.log_store.read(log("har"))
        return 0 if stored is None else len(stored.records)
    if t.capabilities.sessions:
        return len(await handle.sessions.load("har"))
    if t.capabilities.checkpointer:
        run = await handle.checkpointer.load("har")
        return 0 if run is None else len(run.entries)
    return len(await handle.checkpoint_saver().list("har"))


@check("HAR-001", contract="harness")
async def places_share_nothing(t: T) -> None:
    """Two places see nothing of each other."""
    one = await t.connect()
    other = await t.connect(t.another_place())
    before = await _count(t, one), await _count(t, other)
    await _write(t, one)
    await t.place.settle()
    t.eq(await _count(t, one), before[0] + 1, "what the place it was written to holds")
    t.eq(await _count(t, other), before[1], "what the other place holds")


@check("HAR-002", contract="harness")
async def handles_share_everything(t: T) -> None:
    """Two handles on one place see each other's acknowledged writes."""
    one, other = await t.connect(), await t.connect()
    before = await _count(t, other)
    await _write(t, one)
    await t.place.settle()
    t.eq(await _count(t, other), before + 1, "what the second handle sees of the first's write")
    later = await t.connect()
    t.eq(await _count(t, later), before + 1, "what a handle opened afterwards sees")


@check("HAR-003", contract="harness")
async def everything_is_declared(t: T) -> None:
    """Every capability is declared, and a handle offers each declared contract."""
    t.is_a(t.capabilities, Capabilities, "capabilities")
    t.is_a(t.limits, Limits, "limits")
    special = {"durability": Durability, "writers": Writers}
    for name in t.capabilities.__struct_fields__:
        t.is_a(getattr(t.capabilities, name), special.get(name, Support), name)
    t.ok(t.harness.name, "the harness has a name")
    handle = await t.connect()
    if t.capabilities.log_store:
        t.is_a(handle.log_store, LogStore, "log_store")
    if t.capabilities.sessions:
        t.is_a(handle.sessions, Session, "sessions")
    if t.capabilities.checkpointer:
        t.is_a(handle.checkpointer, Checkpointer, "checkpointer")
    if t.capabilities.checkpoint_saver:
        t.is_a(handle.checkpoint_saver(), CheckpointSaver, "what checkpoint_saver makes")


@check("HAR-004", contract="harness")
async def a_place_is_empty(t: T) -> None:
    """A fresh place is empty, and takes a first write."""
    handle = await t.connect()
    t.eq(await _count(t, handle), 0, "what a fresh place holds")
    await _write(t, handle)
    t.eq(await _count(t, handle), 1, "what it holds after one write")
