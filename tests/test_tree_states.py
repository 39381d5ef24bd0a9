"""States kept as trees: a save writes what is new, and what was goes nowhere."""

import asyncio

import pytest

from builders import model, plant, records, said, snapshot, user
from disturbed import LosesAnswers, Recorder
from durably import (
    CorruptRecord,
    InterruptReason,
    Migrators,
    RecordTooLarge,
    SchemaTooNew,
    StateNotFound,
    StateSnapshot,
    Storage,
    Unavailable,
    UnknownEntryType,
)
from durably.logstore import Batch, LogId, NewRecord
from durably.tree_states import STATE_NODE
from faults import Metered, failures
from places import FakeClock

LOG = LogId(kind="tree", id="k")
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


async def counts(storage, key="k"):
    """Return how many messages and other nodes a tree has, and how many branches."""
    found = await storage.tree(key).stats()
    kinds = found.nodes_by_kind
    return kinds.get("message", 0), kinds.get("custom", 0), found.leaf_count


async def test_what_is_saved_is_loaded_by_another(handles):
    """Every field of a snapshot comes back equal through another handle."""
    first, second = handles
    await first.tree_states().save("k", WHOLE)
    assert await second.tree_states().load("k") == WHOLE


async def test_nothing_is_not_found(storage):
    """load() of a key that has nothing is StateNotFound; has() and delete() say there is none."""
    store = storage.tree_states()
    with pytest.raises(StateNotFound) as caught:
        await store.load("k")
    assert caught.value.key == "k"
    assert (await store.has("k"), await store.delete("k")) == (False, False)
    await store.save("k", snapshot())
    assert await store.has("k")
    assert await store.load("k") == snapshot()
    assert await store.delete("k")
    assert not await store.has("k")


@pytest.mark.parametrize("is_warm", [True, False])
async def test_a_conversation_that_grew_is_appended_to(storage, is_warm):
    """Each save adds the messages that are new and one node, whether the tree is known or not."""
    store = storage.tree_states()
    texts = []
    for turn in range(1, 6):
        texts += [f"question {turn}", f"answer {turn}"]
        store = store if is_warm else storage.tree_states()
        await store.save("k", snapshot(*texts, turn=turn))
        assert await counts(storage) == (2 * turn, turn, 1)
        assert await store.load("k") == snapshot(*texts, turn=turn)


@pytest.mark.parametrize("is_warm", [True, False])
async def test_a_conversation_that_went_another_way_is_a_branch(storage, is_warm):
    """After the last message shared a branch begins; the way that was left is whole."""
    store = storage.tree_states()
    await store.save("k", snapshot("a", "b", "c", "d", turn=1))
    left = (await storage.tree("k").info()).leaf_id
    store = store if is_warm else storage.tree_states()
    await store.save("k", snapshot("a", "b", "x", turn=2))
    assert await counts(storage) == (5, 2, 2)
    assert await store.load("k") == snapshot("a", "b", "x", turn=2)
    assert await storage.tree("k").messages(left) == said("a", "b", "c", "d")
    await storage.tree("k").branch(left)
    assert await store.load("k") == snapshot("a", "b", "c", "d", turn=1)


@pytest.mark.parametrize("kept", range(5))
async def test_a_conversation_that_went_back_loses_nothing(storage, kept):
    """A snapshot of fewer messages writes one node after the last of them."""
    store = storage.tree_states()
    await store.save("k", snapshot(*"abcd", turn=1))
    back = snapshot(*"abcd"[:kept], turn=2)
    await store.save("k", back)
    assert await store.load("k") == back
    assert await storage.tree_states().load("k") == back
    assert (await counts(storage))[:2] == (4, 2)
    onward = snapshot(*"abcd"[:kept], "e", turn=3)
    await store.save("k", onward)
    assert await store.load("k") == onward
    assert (await counts(storage))[:2] == (5, 3)


async def test_what_shares_nothing_begins_at_a_root(storage):
    """A conversation whose first message is another one is another root."""
    store = storage.tree_states()
    await store.save("k", snapshot("a", "b"))
    await store.save("k", snapshot("x", "b"))
    assert (await storage.tree("k").stats()).root_count == 2
    assert await store.load("k") == snapshot("x", "b")


async def test_an_unchanged_snapshot_writes_nothing(handles, place):
    """Saving the same 1,000 messages again writes nothing; with another field, one node."""
    first, second = handles
    texts = [f"{number}" for number in range(1000)]
    revision = await first.tree_states().save("k", snapshot(*texts))
    for store in (first.tree_states(), second.tree_states()):
        assert await store.save("k", snapshot(*texts)) == revision
        assert await store.save("k", snapshot(*texts)) == revision
    assert await counts(first) == (1000, 1, 1)
    await second.tree_states().save("k", snapshot(*texts, turn=1))
    assert await counts(first) == (1000, 2, 1)


async def test_a_save_writes_and_reads_what_is_new(place):
    """A save of a conversation this store has saved before reads nothing and writes the new."""
    store = Metered(recorder := Recorder(place.log_store()))
    async with Storage(store) as storage:
        states = storage.tree_states()
        texts = [f"{number}" * 100 for number in range(500)]
        await states.save("k", snapshot(*texts))
        written, reads = recorder.written, store.reads
        await states.save("k", snapshot(*texts, "new"))
        assert recorder.written - written < 1000
        assert store.reads == reads


async def test_a_save_overtaken_is_the_last_all_the_same(handles):
    """What another saved meanwhile is found out by saving, and what is saved last is loaded."""
    first, second = handles
    mine, theirs = first.tree_states(), second.tree_states()
    await mine.save("k", snapshot("a", "b"))
    await theirs.save("k", snapshot("a", "x", turn=1))
    await mine.save("k", snapshot("a", "b"))
    assert await theirs.load("k") == snapshot("a", "b")
    await theirs.save("k", snapshot("a", "x", "y"))
    await mine.save("k", snapshot("a", "b", "c"))
    assert await mine.load("k") == snapshot("a", "b", "c")


async def test_saves_at_once_leave_one_whole_and_lose_none(handles):
    """Of saves that meet, one is loaded whole, and the messages of each are in the tree."""
    choices = [snapshot("root", *[f"{n}"] * (n % 4 + 1), turn=n) for n in range(12)]
    stores = [handle.tree_states() for handle in handles]
    await asyncio.gather(*(stores[n % 2].save("k", choice) for n, choice in enumerate(choices)))
    assert await handles[0].tree_states().load("k") in choices
    found, after = [], None
    while not found or after is not None:
        page = await handles[1].tree("k").nodes(after=after)
        found += page.items
        after = page.next
    states = [node.id for node in found if node.name == STATE_NODE]
    messages = [await handles[0].tree("k").messages(state) for state in states]
    assert sorted(map(len, messages)) == sorted(len(one.messages) for one in choices)
    assert all(list(choice.messages) in messages for choice in choices)


async def test_a_save_whose_answer_was_lost_can_be_repeated(place):
    """The same save again after a lost answer adds nothing."""
    store = LosesAnswers(place.log_store())
    async with Storage(store) as storage:
        states = storage.tree_states()
        for saved in (snapshot("a"), snapshot("a", "b"), snapshot("x")):
            store.losing = 1
            with pytest.raises(Unavailable):
                await states.save("k", saved)
            await states.save("k", saved)
            assert await states.load("k") == saved
        assert await counts(storage) == (3, 3, 2)


async def test_a_save_cut_off_is_there_or_not(place):
    """After a failure at any step the snapshot is the old or the new one; repeated, the new."""
    before, after = snapshot("a", "b", "c", turn=1), snapshot("a", "x", "y", turn=2)
    outcomes = set()
    async for storage in failures(
        place,
        lambda s: s.tree_states().save("k", before),
        lambda s: s.tree_states().save("k", after),
    ):
        found = await storage.tree_states().load("k")
        assert found in (before, after)
        outcomes.add(found.turn)
        await storage.tree_states().save("k", after)
        assert await storage.tree_states().load("k") == after
        assert await counts(storage) == (5, 2, 2)
    assert outcomes == {1, 2}


async def test_a_record_too_large_changes_nothing(place):
    """A message above the limit is refused with all that was to be saved with it."""
    async with place.open() as storage:
        store = storage.tree_states()
        await store.save("k", snapshot("a"))
        with pytest.raises(RecordTooLarge):
            await store.save("k", snapshot("a", "b", "x" * storage.limits.record_bytes))
        assert await store.load("k") == snapshot("a")
        assert await counts(storage) == (1, 1, 1)
        await store.save("k", snapshot("a", "b"))
        assert await counts(storage) == (2, 2, 1)


async def test_a_tree_made_by_hand_is_a_snapshot_of_its_messages(storage):
    """Messages appended to a tree are in the snapshot, with what was last saved beside them."""
    tree, store = storage.tree("k"), storage.tree_states()
    await tree.append(user("a"))
    assert await store.load("k") == snapshot("a")
    migrated = storage.tree_states(migrators=Migrators(version=4))
    assert await migrated.load("k") == snapshot("a", version=4)
    await store.save("k", snapshot("a", "b", turn=2))
    await tree.append(user("c"))
    assert await store.load("k") == snapshot("a", "b", "c", turn=2)
    await store.save("k", snapshot("a", "b", "c", "d", turn=3))
    assert await counts(storage) == (4, 2, 1)
    await tree.branch(None)
    assert await store.load("k") == snapshot()


async def test_a_compacted_conversation_goes_on(storage):
    """After a compaction the snapshot is what a model sees, and growing it appends the new."""
    tree, store = storage.tree("k"), storage.tree_states()
    await store.save("k", snapshot(*"abcd"))
    third = (await tree.path())[2]
    await tree.compact(said("so far"), first_kept_id=third.id)
    assert await store.load("k") == snapshot("so far", "c", "d")
    await store.save("k", snapshot("so far", "c", "d", "e"))
    assert await counts(storage) == (5, 2, 1)
    await store.save("k", snapshot("so far", "c", "x"))
    assert await store.load("k") == snapshot("so far", "c", "x")
    await store.save("k", snapshot("so far", "c", "x", "y"))
    assert await store.load("k") == snapshot("so far", "c", "x", "y")
    assert (await tree.stats()).root_count == 2


async def test_fields_nobody_knows_stay_in_messages_that_are_shared(place):
    """A message with fields of a later version is shared, not written again without them."""
    message = (
        b'{"kind":"message","entry":{"type":"input","role":"user","content":"a","mood":"glad"}}'
    )
    await plant(place, "tree", "k", message, key="a", head=b'{"leaf":"a"}')
    async with place.open() as storage:
        store = storage.tree_states()
        await store.save("k", snapshot("a", "b"))
        assert await counts(storage) == (2, 1, 1)
        assert await store.load("k") == snapshot("a", "b")
    assert (await records(place, "tree", "k"))[0].data == message


async def test_a_message_nobody_knows_is_left_and_gone_another_way_from(place):
    """A message of an unknown type cannot be loaded; what is saved then is a branch before it."""
    nodes = (
        NewRecord(key="a", data=b'{"kind":"message","entry":{"type":"dream"}}'),
        NewRecord(key="h", data=b'{"kind":"hologram","parent":"a"}'),
    )
    async with place.open() as storage:
        await storage.log_store.append(LOG, Batch(records=nodes, head=b'{"leaf":"a"}'))
        store = storage.tree_states()
        with pytest.raises(UnknownEntryType):
            await store.load("k")
        await store.save("k", snapshot("b"))
        assert await store.load("k") == snapshot("b")
        await storage.tree("k").branch("h")
        for act in (store.load("k"), store.save("k", snapshot("c"))):
            with pytest.raises(UnknownEntryType):
                await act
    assert [one.data for one in await records(place, "tree", "k")][:2] == [
        one.data for one in nodes
    ]


async def test_snapshots_are_migrated_and_stay_as_they_are(storage, place):
    """load() brings messages and fields up to date; the nodes keep their bytes until then."""

    def shout(old):
        for message in old["messages"]:
            message["content"] = message["content"].upper()
        return {**old, "extra": {"steps": 1}}

    await storage.tree_states().save("k", snapshot("a", "b"))
    before = await records(place, "tree", "k")
    store = storage.tree_states(migrators=Migrators(version=2, steps={1: shout}))
    loaded = await store.load("k")
    assert loaded == snapshot("A", "B", version=2, extra={"steps": 1})
    assert await records(place, "tree", "k") == before
    await store.save("k", loaded)
    assert await storage.tree_states().load("k") == loaded
    with pytest.raises(SchemaTooNew):
        await storage.tree_states(migrators=Migrators(version=1)).load("k")


async def test_keys_are_listed_by_bytes_and_by_last_change(place):
    """list() is in the order of ids, recent() newest first, both with times and no content."""
    clock = FakeClock(0.0)
    store = Metered(place.log_store())
    async with Storage(store, clock=clock) as storage:
        states = storage.tree_states()
        for name in ("b", "é", "a", "Z"):
            clock.now += 10
            await states.save(name, snapshot("x" * 1000))
        clock.now += 10
        await states.save("b", snapshot("y"))
        _, count, _ = await store.moved(states.recent())
        assert count == 0
        assert [one.key for one in (await states.list()).items] == ["Z", "a", "b", "é"]
        page = await states.list(limit=2)
        assert [one.key for one in (await states.list(after=page.next)).items] == ["b", "é"]
        found = await states.recent()
        assert [one.key for one in found] == ["b", "Z", "a", "é"]
        assert [(one.created_at, one.updated_at) for one in found][:2] == [(10, 50), (40, 40)]
        for limit in (1, 2, 3):
            assert await states.recent(limit=limit) == found[:limit]


async def test_a_tree_that_is_not_whole_is_not_listed(place):
    """What a copy or fork left half is neither listed nor there, and is not written over."""
    for key, head in (("k", b"null"), ("l", b'{"forking":{"tree_id":"t","node_id":"a"}}')):
        await plant(place, "tree", key, b'{"kind":"custom"}', key="a", head=head)
        async with place.open() as storage:
            store = storage.tree_states()
            assert (await store.list()).items == ()
            assert await store.recent() == []
            assert not await store.has(key)
            for act in (store.load(key), store.save(key, snapshot("a"))):
                with pytest.raises(CorruptRecord):
                    await act
            assert (await storage.log_store.read(LogId(kind="tree", id=key))).state.head == head
