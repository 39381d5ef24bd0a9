"""States and trees are copied, exported, imported, forked and pruned like all else."""

import contextlib

import pytest

import durably
from builders import plant, records, snapshot, user
from durably import Copied, CopyConflict, CorruptRecord, Storage
from durably.logstore import LogId
from exports import lines
from faults import FailsAt
from places import FakeClock, Place

LATER = b'{"kind":"hologram","parent":"a","beam": 1e400}'


@pytest.fixture
def clock():
    return FakeClock(100.0)


@pytest.fixture
async def source(place, clock):
    """A storage with a clock that is moved by hand."""
    async with place.open(clock=clock) as storage:
        yield storage


@pytest.fixture
async def target(tmp_path, clock):
    """A storage of another backend, with the same clock."""
    (tmp_path / "target").mkdir()
    async with Place("sqlite", tmp_path / "target").open(clock=clock) as storage:
        yield storage


async def fill(storage, clock):
    """Store a state, a tree with a branch, a fork of it, and one nobody understands."""
    await storage.states.save("k", snapshot("a", "b", turn=1))
    await storage.tree_states().save("s", snapshot("a", "b"))
    tree = storage.tree("t")
    for id_ in "abc":
        clock.now += 1
        await tree.append(user(id_), node_id=id_)
    await tree.branch("a")
    await tree.append(user("d"), node_id="d")
    await tree.label("b", "left")
    await tree.rename("talk")
    await tree.fork("f", node_id="b")
    clock.now += 1


async def shown(storage):
    """Return what states and trees there are, as plain values."""
    trees = (await storage.trees()).items
    return {
        "states": [
            await storage.states.load(one.key) for one in (await storage.states.list()).items
        ],
        "trees": [(one.tree_id, one.leaf_id, one.labels, one.name, one.parent) for one in trees],
        "times": [(one.created_at, one.updated_at) for one in trees],
        "paths": [
            [
                (node.id, node.entry, node.stored_at)
                for node in await storage.tree(one.tree_id).path()
            ]
            for one in trees
        ],
        "nodes": [(await storage.tree(one.tree_id).stats()) for one in trees],
    }


async def test_a_copy_is_the_same(source, target, clock):
    """Content, leaves, labels, names, parents and times come over; again, nothing is moved."""
    await fill(source, clock)
    copied = await source.copy_to(target)
    assert copied == Copied(logs=4, records=10)
    assert await shown(target) == await shown(source)
    assert await source.copy_to(target) == Copied(logs=4, known=10)


async def test_an_export_is_the_same(source, target, clock):
    """What is imported has the same export, byte for byte."""
    await fill(source, clock)
    first = await lines(source)
    await target.import_lines(first)
    assert await shown(target) == await shown(source)
    assert await lines(target) == first
    assert (await target.import_lines(first)).records == 0


async def test_what_nobody_understands_comes_over(place, source, target):
    """Nodes of an unknown kind and heads with unknown fields keep their bytes."""
    head = b'{"leaf":"a","pinned": 1e400}'
    await plant(place, "tree", "t", LATER, key="h", head=head)
    await source.copy_to(target)
    stored = await target.log_store.read(LogId(kind="tree", id="t"))
    assert (stored.records[0].data, stored.state.head) == (LATER, head)


async def test_what_went_on_in_the_source_is_moved(source, target, clock):
    """A state saved again, a tree that grew and a leaf that moved come over with the next copy."""
    await fill(source, clock)
    await source.copy_to(target)
    clock.now += 10
    await source.states.save("k", snapshot("a", "c", turn=2))
    await source.tree("t").append(user("e"), node_id="e")
    await source.tree("f").branch("a")
    assert (await source.copy_to(target)).records == 2
    assert await shown(target) == await shown(source)
    clock.now += 10
    await source.states.save("k", snapshot("z", turn=3))
    await target.import_lines(await lines(source))
    assert await target.states.load("k") == snapshot("z", turn=3)
    stored = await target.log_store.read(LogId(kind="state", id="k"))
    assert len(stored.records) == 1


async def test_what_went_on_in_the_target_stays(source, target, clock):
    """A later save, later nodes and a leaf moved later are not undone by a copy."""
    await fill(source, clock)
    await source.copy_to(target)
    clock.now += 10
    await target.states.save("k", snapshot("mine", turn=9))
    await target.tree("t").append(user("mine"), node_id="mine")
    await target.tree("f").branch("a")
    before = await shown(target)
    assert (await source.copy_to(target)).records == 0
    assert await shown(target) == before


async def test_states_saved_apart_at_one_time_are_a_conflict(source, target):
    """Where nothing tells which of two saves is the later one, neither is written over."""
    await source.states.save("k", snapshot("mine"))
    await target.states.save("k", snapshot("theirs"))
    with pytest.raises(CopyConflict):
        await source.copy_to(target)
    assert await target.states.load("k") == snapshot("theirs")


async def test_a_copy_cut_off_is_no_tree_and_can_be_completed(place, clock, tmp_path):
    """Whatever step of a copy fails, no tree is there half; copying again completes it."""
    halves = steps = 0
    async with place.open(clock=clock) as source:
        await fill(source, clock)
        expected = await shown(source)
        for done in (False, True):
            for number in range(1, 100):
                name = f"{done} {number} {place.name}"
                failing = FailsAt(durably.MemoryLogStore(name), number, done=done)
                async with contextlib.aclosing(Storage(failing)) as broken:
                    with contextlib.suppress(durably.Unavailable):
                        await source.copy_to(broken, kinds=["state", "tree"], parallel=1)
                if not failing.has_failed:
                    break
                steps += 1
                async with Storage(durably.MemoryLogStore(name)) as healthy:
                    trees = {one.tree_id for one in (await healthy.trees()).items}
                    for id_ in {one.id for one in (await healthy.log_store.list("tree")).items}:
                        if id_ not in trees:
                            halves += 1
                            with pytest.raises(CorruptRecord):
                                await healthy.tree(id_).path()
                    await source.copy_to(healthy)
                    assert await shown(healthy) == expected
    assert steps > 30
    assert halves > 10


async def test_a_tree_and_a_state_are_forked_whole(source, clock):
    """Storage.fork copies all branches of a tree, and a state; both go on apart."""
    await fill(source, clock)
    assert (await source.fork("t", "t2", kind="tree")).records == 4
    assert await source.tree("t2").stats() == await source.tree("t").stats()
    assert (await source.tree("t2").info()).labels == {"b": "left"}
    await source.tree("t2").append(user("x"))
    assert (await source.tree("t").info()).node_count == 4
    await source.fork("k", "k2", kind="state")
    await source.states.save("k2", snapshot("other"))
    assert await source.states.load("k") == snapshot("a", "b", turn=1)


@pytest.mark.parametrize("kind", ["state", "tree"])
async def test_old_ones_are_pruned(source, clock, kind):
    """States and trees go by age and by number like all else."""
    for name in "abc":
        clock.now += 10
        if kind == "state":
            await source.states.save(name, snapshot("x"))
        else:
            await source.tree(name).append(user("x"))
    assert (await source.prune(kind, keep_last=2)).ids == ("a",)
    assert (await source.prune(kind, older_than=5)).ids == ("b",)
    assert [one.id for one in (await source.log_store.list(kind)).items] == ["c"]


async def test_a_copied_snapshot_has_its_bytes(place, source, target):
    """The record of a state is the same on both sides, its key and time included."""
    await source.states.save("k", snapshot("x", turn=1))
    await source.copy_to(target)
    stored = await target.log_store.read(LogId(kind="state", id="k"))
    mine = [(one.key, one.stored_at, one.data) for one in await records(place, "state", "k")]
    assert [(one.key, one.stored_at, one.data) for one in stored.records] == mine
