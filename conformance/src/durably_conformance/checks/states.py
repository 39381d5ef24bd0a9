"""``StateStore``: one snapshot per key, whole; kept in logs of their own, or as trees."""

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

from durably import (
    InterruptReason,
    InvalidStatus,
    NotSerializable,
    StateInfo,
    StateNotFound,
    StateSnapshot,
    StateStore,
)
from durably_conformance.building import answer, said, snapshot
from durably_conformance.context import DoesNotApply, T
from durably_conformance.offering import state_stores, upkeep_of
from durably_conformance.planting import spoil
from durably_conformance.registry import check
from durably_conformance.samples import BAD, GOOD

PAGES = 60
"""More than any walk here takes; one that goes in circles ends there."""
CONTENT = "hunter2"
KEYS = ["Z", "a", "a/b", "aa", "\u00e9", "\uffff", "\U0001f600"]
"""In the order of their bytes."""


class _Pair(NamedTuple):
    """One store through two handles."""

    name: str
    one: StateStore
    other: StateStore


async def _pairs(t: T) -> AsyncIterator[_Pair]:
    """Give each store of snapshots, through two handles onto the check's place."""
    mine, theirs = state_stores(await t.connect()), state_stores(await t.connect())
    for name, one in mine.items():
        yield _Pair(name, one, theirs[name])


async def _loaded(store: StateStore, key: str = "k") -> StateSnapshot:
    """Return a snapshot with its messages as a list, whatever sequence they came as."""
    found = await store.load(key)
    return found.replace(messages=list(found.messages))


async def _listed(t: T, store: StateStore, limit: int = 100) -> list[StateInfo]:
    """Return all rows, page by page."""
    rows: list[StateInfo] = []
    after: str | None = None
    for _ in range(PAGES):
        page = await store.list(after=after, limit=limit)
        t.ok(len(page.items) <= limit, f"a page has at most {limit} keys")
        rows += page.items
        after = page.next
        if after is None:
            return rows
    return t.fail(f"the walk over keys does not end: {PAGES} pages, {len(rows)} rows")


@check("STA-001", contract="states")
async def what_is_saved_is_loaded(t: T) -> None:
    """What is saved under a key is what another handle loads, in every field and exactly."""
    waiting = InterruptReason(
        call_id="c", tool_name="t", arguments_digest="d", reason="r", data={"n": 1.0}
    )
    whole = StateSnapshot(
        version=7,
        status="interrupted",
        messages=[*said("\u00e9\ud800"), answer("b")],
        turn=3,
        usage={"tokens": 2**70},
        interrupt=waiting,
        pending_handoff="billing",
    )
    async for name, one, other in _pairs(t):
        for extra in GOOD:
            saved = whole.replace(extra=extra)
            await one.save("k", saved)
            t.exact(await _loaded(other), saved, f"what {name} load")
            t.exact(await _loaded(one), saved, f"what {name} load through the same handle")


@check("STA-002", contract="states")
async def nothing_is_not_found(t: T) -> None:
    """A key that has nothing, or nothing any more, is StateNotFound, and is not there."""
    async for name, one, other in _pairs(t):
        await one.save("gone", snapshot("a"))
        t.ok(await one.has("gone"), f"{name} have what was saved")
        t.ok(await other.delete("gone") is True, f"{name} say that there was something to delete")
        for key in ("gone", "never"):
            error = await t.raises(StateNotFound, one.load(key), f"load of {key} from {name}")
            t.eq(error.key, key, "the key it names")
            t.ok(await one.has(key) is False, f"{name} do not have {key}")
            t.ok(await other.delete(key) is False, f"{name} have no {key} to delete")
        t.eq(await _listed(t, other), [], f"keys of {name}")


@check("STA-003", contract="states")
async def the_last_save_is_all_there_is(t: T) -> None:
    """A save replaces what was there as a whole, whichever handle made it, and whatever it was."""
    saves = (
        snapshot("a", "b", turn=2, extra={"x": 1}, usage={"n": 1}),
        snapshot(extra={"y": 2}),
        snapshot("c", pending_handoff="p"),
        snapshot("a", "b", "c"),
        snapshot(),
    )
    async for name, *handles in _pairs(t):
        for number, saved in enumerate(saves):
            await handles[number % 2].save("k", saved)
            for store in handles:
                t.exact(await _loaded(store), saved, f"what {name} load after save {number}")
        t.eq([row.key for row in await _listed(t, handles[0])], ["k"], f"keys of {name}")


@check("STA-004", contract="states")
async def of_saves_at_once_one_is_whole(t: T) -> None:
    """Of saves under one key at once one wins with all its fields, and none is mixed with it."""
    async for name, *handles in _pairs(t):
        for key in ("k1", "k2"):
            choices = [snapshot(*[f"{n}"] * n, turn=n, extra={"n": n}) for n in range(1, 9)]
            await asyncio.gather(*(handles[one.turn % 2].save(key, one) for one in choices))
            found = await _loaded(handles[0], key)
            t.ok(found in choices, f"what {name} load is one of what was saved, whole")
            t.eq(await _loaded(handles[1], key), found, "what another handle loads")


@check("STA-005", contract="states")
async def keys_are_listed(t: T) -> None:
    """Keys are listed once, in the order of their bytes, with revision and times of saves."""
    async for name, one, other in _pairs(t):
        begun = t.clock()
        revisions = {key: await one.save(key, snapshot("a")) for key in reversed(KEYS)}
        t.clock.advance(0.25)
        first, revisions["a"] = revisions["a"], await other.save("a", snapshot("a", "b"))
        t.differs(revisions["a"], first, "what two saves of a key return")
        for limit in (1, 2, len(KEYS), 100):
            rows = await _listed(t, other, limit)
            t.eq([row.key for row in rows], KEYS, f"keys of {name}, {limit} at a time")
            told = {row.key: row.revision for row in rows}
            t.eq(told, revisions, f"revisions of {name}")
            times = {row.key: (row.created_at, row.updated_at) for row in rows}
            t.eq((times["Z"], times["a"]), ((begun, begun), (begun, t.clock())), "times")


@check("STA-006", contract="states", requires=("log_store",))
async def no_content_is_looked_at(t: T) -> None:
    """What cannot be read is listed, is there and can be deleted: none of it takes the content."""
    one, other = await t.connect(), await t.connect()
    states = upkeep_of(one, "states").states
    for key in ("broken", "whole"):
        await states.save(key, snapshot("a"))
        t.eq(await _loaded(states, key), snapshot("a"), f"{key}, before one is broken")
    await spoil(one, "state", "broken", b"\xff not JSON")
    states = upkeep_of(other).states
    t.eq([row.key for row in await _listed(t, states)], ["broken", "whole"], "keys")
    t.ok(await states.has("broken"), "what cannot be read is there")
    t.ok(await states.delete("broken"), "what cannot be read is deleted")
    t.eq([row.key for row in await _listed(t, states)], ["whole"], "keys after that")


@check("STA-007", contract="states")
async def a_key_is_deleted_alone(t: T) -> None:
    """What is deleted is one key: others, and threads and states kept otherwise, stay."""
    handle = await t.connect()
    keys = ("k", "K", "k/", "k%", "kk", "k ")
    async for name, one, other in _pairs(t):
        for key in keys:
            await one.save(key, snapshot(name, key))
        if t.capabilities.checkpoint_saver:
            await handle.checkpoint_saver().append("k", snapshot("thread"))
        await other.delete("k")
        t.ok(not await one.has("k"), f"what was deleted from {name} is gone")
        for key in keys[1:]:
            t.eq(await _loaded(other, key), snapshot(name, key), f"{key!r} of {name}, not deleted")
        if t.capabilities.checkpoint_saver:
            latest = await handle.checkpoint_saver().latest("k")
            t.ok(latest is not None, "a thread of the same id is there")
        await one.save("k", snapshot(name))
    async for name, one, _ in _pairs(t):
        t.eq(await _loaded(one), snapshot(name), f"one key in {name}, whatever else has it")


@check("STA-008", contract="states", requires=("namespaces",))
async def namespaces_share_no_keys(t: T) -> None:
    """One key in two namespaces is two states, and deleting one deletes no other."""
    spaces = ("", "a", "A")
    found = {space: state_stores(await t.connect(namespace=space)) for space in spaces}
    for name in found[""]:
        for space in spaces:
            t.ok(not await found[space][name].has("k"), f"there is nothing in a fresh {space!r}")
            await found[space][name].save("k", snapshot(space))
        for space in spaces:
            t.eq(await _loaded(found[space][name]), snapshot(space), f"{name} in {space!r}")
        await found["a"][name].delete("k")
        left = [space for space in spaces if await found[space][name].has("k")]
        t.eq(left, ["", "A"], f"where {name} have it after one was deleted")


@check("STA-009", contract="states")
async def a_refused_save_changes_nothing(t: T) -> None:
    """A snapshot that JSON cannot give back, or of no known status, leaves what was there."""
    kept = snapshot("a", extra={"n": 1})
    async for name, one, other in _pairs(t):
        await one.save("k", kept)
        for what in ("nan", "bytes", "tuple inside", "set"):
            bad = snapshot("b", extra={"k": BAD[what][0]})
            await t.raises(NotSerializable, one.save("k", bad), f"save of {what} by {name}")
            await t.raises(NotSerializable, one.save("new", bad), f"save of {what} by {name}")
        odd = snapshot("b", status="unheard-of")
        await t.raises(InvalidStatus, one.save("k", odd), f"save of an odd status by {name}")
        t.exact(await _loaded(other), kept, f"what {name} load after refusals")
        t.eq([row.key for row in await _listed(t, other)], ["k"], f"keys of {name}")


@check("STA-010", contract="states")
async def what_was_replaced_is_gone(t: T) -> None:
    """A state that was saved over has left the raw content, and one that was deleted all of it."""
    states = upkeep_of(await t.connect(), "states").states
    await states.save("other", snapshot("a"))
    await t.place.settle()
    before = await t.dump()
    await states.save("k", snapshot(CONTENT))
    t.eq(await _loaded(states), snapshot(CONTENT), "what is loaded")
    if not any(CONTENT.encode() in data for data in (await t.dump()).values()):
        raise DoesNotApply("the raw content does not show what is stored")
    await states.save("k", snapshot("b"))
    await t.place.settle()
    left = [name for name, data in (await t.dump()).items() if CONTENT.encode() in data]
    t.eq(left, [], "what still holds content that was replaced")
    await states.delete("k")
    await t.place.settle()
    t.same_set((await t.dump()).items(), before.items(), "the raw content after a delete")
