"""``SessionCatalog``: sessions made on purpose, with metadata, and what is told of them."""

import asyncio
from typing import Any

from durably import (
    Entry,
    JsonObject,
    NotSerializable,
    RunHead,
    SessionCatalog,
    SessionExists,
    SessionInfo,
    SessionNotFound,
)
from durably.testing import Handle
from durably_conformance.building import call, delayed, fill, result, said
from durably_conformance.context import T
from durably_conformance.offering import upkeep_of
from durably_conformance.registry import check
from durably_conformance.samples import BAD

META: JsonObject = {
    "user": "ann",
    "n": 1,
    "x": 1.0,
    "on": True,
    "none": None,
    "list": [0, {"k": []}],
}


async def _catalog(t: T) -> tuple[Handle, SessionCatalog, SessionCatalog]:
    """Return a handle and its catalog, and the catalog of another one onto the same place."""
    one, other = await t.connect(), await t.connect()
    return one, upkeep_of(one, "catalog").catalog, upkeep_of(other, "catalog").catalog


@check("CAT-001", contract="session")
async def what_is_created_is_told(t: T) -> None:
    """A session that is created is there without runs, with its metadata and its time, exactly."""
    _, one, other = await _catalog(t)
    t.clock.advance(0.25)
    for name, metadata in (("s", META), ("plain", None)):
        made = await one.create(name, metadata=metadata)
        wanted = SessionInfo(
            session_id=made.session_id,
            is_catalogued=True,
            metadata=metadata or {},
            created_at=t.clock(),
            updated_at=t.clock(),
            run_count=0,
            entry_count=0,
        )
        t.eq(made.session_id, name, "the id")
        t.exact(made, wanted, "what create returns")
        t.exact(await other.get(name), wanted, "what get returns")
    ids = [(await one.create()).session_id for _ in range(2)]
    t.differs(ids[0], ids[1], "ids where none was given")
    t.eq([(await other.get(id_)).session_id for id_ in ids], ids, "what is found under them")


@check("CAT-002", contract="session")
async def a_session_is_created_once(t: T) -> None:
    """To create one that is in the catalog is SessionExists and changes nothing, be it the same."""
    _, one, other = await _catalog(t)
    made = await one.create("s", metadata={"n": 1})
    t.clock.advance(1)
    for again in ({"n": 1}, {"n": 2}):
        await t.raises(SessionExists, other.create("s", metadata=again), f"create with {again}")
    t.exact(await other.get("s"), made, "the session after refusals")


@check("CAT-003", contract="session")
async def one_creator_wins(t: T) -> None:
    """Of several that create one id at once, exactly one succeeds, and its metadata stays."""
    _, *catalogs = await _catalog(t)
    for name in ("s1", "s2"):
        calls = [
            t.attempt(delayed(n // 2, catalogs[n % 2].create(name, metadata={"n": n})))
            for n in range(6)
        ]
        given = await asyncio.gather(*calls)
        won = [one for one in given if isinstance(one, SessionInfo)]
        t.eq(len(won), 1, "creators that succeeded")
        lost = [one for one in given if isinstance(one, SessionExists)]
        t.eq(len(lost), 5, "creators told that it exists")
        t.exact((await catalogs[0].get(name)).metadata, won[0].metadata, "metadata of the winner")


@check("CAT-004", contract="session")
async def runs_are_counted(t: T) -> None:
    """Runs and entries are counted, whether they came before or after the session was created."""
    handle, one, other = await _catalog(t)
    await fill(handle.sessions, "s", "a2 b0")
    made = await one.create("s")
    t.eq((made.run_count, made.entry_count), (2, 2), "runs and entries of one that had some")
    await fill(handle.sessions, "s", "c3")
    found = await other.get("s")
    t.eq((found.run_count, found.entry_count), (3, 5), "runs and entries after an append")
    [row] = (await other.list()).items
    t.exact(row, found, "the row of a listing")
    last = [item.run_id for item in await handle.sessions.segments("s")]
    t.eq(last, ["a", "b", "c"], "the runs themselves")


@check("CAT-005", contract="session")
async def what_was_not_created_is_not_found(t: T) -> None:
    """What is not in the catalog is SessionNotFound, be there runs or not; a touch makes none."""
    handle, one, other = await _catalog(t)
    await fill(handle.sessions, "stray", "a1")
    for name in ("stray", "none"):
        await t.raises(SessionNotFound, one.touch(name), f"touch of {name}")
        await t.raises(SessionNotFound, one.touch(name, metadata={"n": 1}), f"touch of {name}")
        await t.raises(SessionNotFound, other.get(name), f"get of {name}")


@check("CAT-006", contract="session")
async def a_touch_stamps(t: T) -> None:
    """A touch stamps a session; its metadata is replaced as a whole where some is given."""
    handle, one, other = await _catalog(t)
    await one.create("s", metadata={"a": 1, "b": [1]})
    await fill(handle.sessions, "s", "a1")
    begun = t.clock()
    steps: tuple[tuple[Any, object], ...]
    steps = ((None, {"a": 1, "b": [1]}), ({"b": 2}, {"b": 2}), ({}, {}), (None, {}))
    for given, wanted in steps:
        t.clock.advance(10)
        told = await one.touch("s", metadata=given)
        t.exact(told.metadata, wanted, f"metadata after a touch with {given}")
        t.eq((told.created_at, told.updated_at), (begun, t.clock()), "the two times")
        t.exact(await other.get("s"), told, "what get returns")


@check("CAT-011", contract="session")
async def metadata_that_json_cannot_hold(t: T) -> None:
    """Metadata that JSON cannot give back is NotSerializable, and nothing is changed."""
    _, one, other = await _catalog(t)
    made = await one.create("s", metadata={"a": 1})
    names = ("nan", "bytes", "tuple", "aware datetime")
    bad: list[Any] = [*({"k": BAD[name][0]} for name in names), [1], "text"]
    for metadata in bad:
        what = f"metadata of {type(metadata).__name__}"
        await t.raises(NotSerializable, one.create("new", metadata=metadata), f"create, {what}")
        await t.raises(NotSerializable, one.touch("s", metadata=metadata), f"touch, {what}")
    t.exact(await other.get("s"), made, "the session after refusals")
    await t.raises(SessionNotFound, other.get("new"), "what was refused")


@check("CAT-012", contract="session")
async def a_clear_keeps_the_entry(t: T) -> None:
    """A clear leaves a session in the catalog, without runs and with its metadata."""
    handle, one, other = await _catalog(t)
    await one.create("s", metadata=META)
    await fill(handle.sessions, "s", "a2 b1")
    await handle.sessions.clear("s")
    found = await other.get("s")
    t.exact(found.metadata, META, "metadata after a clear")
    t.eq((found.run_count, found.entry_count), (0, 0), "runs and entries after a clear")
    await fill(handle.sessions, "s", "c1")
    t.eq((await other.get("s")).run_count, 1, "runs after an append of one that was cleared")


@check("CAT-013", contract="session", requires=("checkpointer",))
async def a_delete_takes_what_it_is_told_to(t: T) -> None:
    """A delete takes a session out with its runs, and their checkpoints where it is told to."""
    handle, one, other = await _catalog(t)
    for name, asked in (("s1", False), ("s2", True), ("stray", False)):
        if name != "stray":
            await one.create(name)
        await handle.sessions.append(name, said("a"), run_id=f"{name}-r")
        await handle.checkpointer.append(f"{name}-r", said("a"), RunHead())
        t.ok(await one.delete(name, checkpoints=asked), f"there was {name}")
        await t.raises(SessionNotFound, other.get(name), f"{name} after its delete")
        t.eq(await handle.sessions.segments(name), [], f"runs of {name} after its delete")
        left = await handle.checkpointer.load(f"{name}-r")
        t.eq(left is None, asked, f"that the checkpoint went, with checkpoints={asked}")
        t.ok(not await one.delete(name), f"there is no {name} after that")


@check("CAT-014", contract="session")
async def a_delete_leaves_nothing(t: T) -> None:
    """What a session that was created, used and deleted leaves in the raw content is nothing."""
    handle, one, other = await _catalog(t)
    await one.create("kept", metadata={"a": 1})
    await t.place.settle()
    before = await t.dump()
    await one.create("s", metadata=META)
    entries: list[Entry] = [call("c"), result("c", "x" * 1000)]
    await handle.sessions.append("s", entries, run_id="r", meta={"m": 1})
    if t.capabilities.trim:
        archive = upkeep_of(handle, "archive").archive
        await handle.sessions.trim_tool_results("s", keep_runs=0, archive=archive)
    await one.touch("s", metadata={"b": 1})
    t.differs(await t.dump(), before, "the raw content before and after use")
    await other.delete("s")
    await t.place.settle()
    t.same_set((await t.dump()).items(), before.items(), "the raw content after a delete")
