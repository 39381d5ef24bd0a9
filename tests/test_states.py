"""States: one snapshot per key, whole, replaced by each save."""

import asyncio

import pytest

from builders import model, records, said, snapshot
from disturbed import LosesAnswers
from durably import InterruptReason, InvalidId, StateNotFound, StateSnapshot, Storage, Unavailable
from faults import Metered, failures
from places import FakeClock

WHOLE = StateSnapshot(
    version=7,
    status="interrupted",
    messages=[*said("hi"), model("hello \ud800")],
    turn=3,
    usage={"tokens": 2**70},
    interrupt=InterruptReason(call_id="c", tool_name="t", arguments_digest="d", reason="ask"),
    pending_handoff="billing",
    extra={"mine": [1, 1.0, None]},
)


async def test_what_is_saved_is_loaded_by_another(handles):
    """Every field of a snapshot comes back equal through another handle."""
    first, second = handles
    await first.states.save("k", WHOLE)
    assert await second.states.load("k") == WHOLE


async def test_nothing_is_not_found(storage):
    """load() of a key that has nothing is StateNotFound, a LookupError, with the key."""
    with pytest.raises(StateNotFound) as caught:
        await storage.states.load("k")
    assert isinstance(caught.value, LookupError)
    assert caught.value.key == "k"
    assert not await storage.states.has("k")
    assert not await storage.states.delete("k")


async def test_a_save_replaces_and_keeps_nothing_else(handles, place):
    """After many saves there is one record, and the last snapshot is loaded."""
    first, second = handles
    for turn in range(5):
        await (first, second)[turn % 2].states.save("k", snapshot(f"{turn}", turn=turn))
    assert await first.states.load("k") == snapshot("4", turn=4)
    assert len(await records(place, "state", "k")) == 1


async def test_delete_removes_one_key(storage):
    """A deleted key is not found and not listed, others stay, and it can be saved again."""
    await storage.states.save("k", snapshot("a"))
    await storage.states.save("K", snapshot("b"))
    assert await storage.states.delete("k")
    assert (await storage.states.has("k"), await storage.states.has("K")) == (False, True)
    await storage.states.save("k", snapshot("c"))
    assert await storage.states.load("k") == snapshot("c")


async def test_states_are_neither_threads_nor_trees(storage):
    """One id as key, thread and tree is three different things."""
    await storage.states.save("x", snapshot("state"))
    await storage.checkpoint_saver().append("x", snapshot("thread"))
    await storage.tree_states().save("x", snapshot("tree"))
    assert await storage.states.load("x") == snapshot("state")
    assert (await storage.checkpoint_saver().latest("x")).snapshot == snapshot("thread")
    assert await storage.tree_states().load("x") == snapshot("tree")


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_keys_are_listed_in_the_order_of_their_bytes(place, limit):
    """A walk gives every key once, with the times of its first and its last save."""
    clock = FakeClock(10.0)
    async with place.open(clock=clock) as storage:
        names = ["Z", "a", "a/b", "é", "\U0001f600"]
        for name in reversed(names):
            await storage.states.save(name, snapshot("a"))
        clock.now = 20.0
        revision = await storage.states.save("a", snapshot("b"))
        found, after = [], None
        while not found or after is not None:
            page = await storage.states.list(after=after, limit=limit)
            found += page.items
            after = page.next
        assert [one.key for one in found] == names
        assert [(one.created_at, one.updated_at) for one in found[:2]] == [
            (10.0, 10.0),
            (10.0, 20.0),
        ]
        assert found[1].revision == revision


async def test_listing_reads_no_content(place):
    """However large the snapshots are, list() and has() move not a byte of them."""
    store = Metered(place.log_store())
    async with Storage(store) as storage:
        for number in range(5):
            await storage.states.save(f"{number}", snapshot("x" * 100_000))
        _, count, payload = await store.moved(storage.states.list())
        assert (count, payload) == (0, 0)
        _, count, payload = await store.moved(storage.states.has("1"))
        assert (count, payload) == (0, 0)


async def test_saves_at_once_leave_one_of_them_whole(handles):
    """Of saves that meet, one wins with its messages and its fields."""
    first, second = handles
    choices = [snapshot(*[f"{n}"] * n, turn=n, extra={"n": n}) for n in range(1, 20)]
    saves = [(first, second)[one.turn % 2].states.save("k", one) for one in choices]
    revisions = await asyncio.gather(*saves)
    assert len(set(revisions)) == len(revisions)
    assert await first.states.load("k") in choices
    (info,) = (await second.states.list()).items
    assert info.revision in revisions


async def test_a_save_whose_answer_was_lost_can_be_repeated(place):
    """Saving again after a lost answer gives the one snapshot."""
    store = LosesAnswers(place.log_store())
    async with Storage(store) as storage:
        store.losing = 1
        with pytest.raises(Unavailable):
            await storage.states.save("k", WHOLE)
        await storage.states.save("k", WHOLE)
        assert await storage.states.load("k") == WHOLE
    assert len(await records(place, "state", "k")) == 1


async def test_a_save_cut_off_leaves_the_old_or_the_new(place):
    """After a failure at any step the snapshot is the one before or the new one, whole."""
    before, after = snapshot("a", turn=1), snapshot("a", "b", turn=2)
    outcomes = set()
    async for storage in failures(
        place, lambda s: s.states.save("k", before), lambda s: s.states.save("k", after)
    ):
        found = await storage.states.load("k")
        assert found in (before, after)
        outcomes.add(found.turn)
    assert outcomes == {1, 2}


async def test_what_is_loaded_is_not_shared(storage):
    """Changing what was saved or loaded changes nothing that is stored."""
    extra = {"list": [1]}
    await storage.states.save("k", snapshot("a", extra=extra))
    extra["list"].append(2)
    (await storage.states.load("k")).extra["list"].append(3)
    assert (await storage.states.load("k")).extra == {"list": [1]}


@pytest.mark.parametrize("key", ["", "\x00", "\ud800", "x" * 257, None])
async def test_illegal_keys_are_refused(storage, key):
    """No operation takes a key that no backend may store."""
    for act in (
        storage.states.save(key, snapshot()),
        storage.states.load(key),
        storage.states.has(key),
        storage.states.delete(key),
    ):
        with pytest.raises(InvalidId):
            await act
