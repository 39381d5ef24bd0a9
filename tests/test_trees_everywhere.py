"""Trees and states on Redis and S3, too: races, branches that persist, and what is read of much.

What is forged, moved or of another version is looked at on every backend.
"""

import asyncio
import json
import random

import pytest

from builders import said, snapshot, user
from disturbed import Interposing, LosesAnswers
from durably import (
    CorruptRecord,
    Migrators,
    NodeNotFound,
    RevisionConflict,
    SchemaTooNew,
    Storage,
    TreeParent,
    Unavailable,
)
from durably.logstore import Batch, LogId, NewRecord
from durably.tree_states import STATE_NODE
from exports import lines
from faults import Metered
from places import FakeClock, Place
from tree_changes import opened, prepared, shown
from tree_places import OnBucket, OnRedis, OnSite
from versions import LATER, MIGRATORS, NOW, STORED

pytest_plugins = ["redis_fixtures", "s3_fixtures"]

LOG = LogId(kind="tree", id="t")
ON_REDIS = pytest.param("redis", marks=pytest.mark.xdist_group("redis"))
ON_MOTO = pytest.param("moto", marks=pytest.mark.xdist_group("moto-1"))
ROUNDS = 5

MANY = 2000
"""Nodes of a tree that is large."""

NODE_BYTES = 500
MIB = 1024 * 1024
STATES = 20


def _place(request, folder):
    if request.param == "redis":
        return OnRedis(request.getfixturevalue("server"))
    if request.param == "moto":
        return OnSite(request.getfixturevalue("site"))
    if request.param == "bucket":
        return OnBucket()
    return Place(request.param, folder)


@pytest.fixture(params=[ON_REDIS, ON_MOTO, "bucket"])
def place(request, tmp_path):
    """One fresh storage area on Redis and on S3, on a server and in memory."""
    return _place(request, tmp_path)


@pytest.fixture(params=["memory", "sqlite", ON_REDIS, ON_MOTO, "bucket"])
def everywhere(request, tmp_path):
    """One on each backend."""
    return _place(request, tmp_path)


def noise(seed, size):
    """Return so many characters, for any seed others, that compression does not make few."""
    return random.Random(seed).randbytes(size // 2).hex()  # noqa: S311 - reproducible


async def grow(tree, *ids):
    return [await tree.append(user(id_), node_id=id_) for id_ in ids]


async def path(tree, leaf=None):
    return [node.id for node in await tree.path(leaf)]


async def test_two_that_append_at_once_make_siblings(handles):
    """Without a token both nodes of a race are kept after the same parent, the last as leaf."""
    first, second = (one.tree("t") for one in handles)
    await grow(first, "a")
    for number in range(ROUNDS):
        await first.branch("a")
        await asyncio.gather(
            first.append(user("x"), node_id=f"x{number}"),
            second.append(user("y"), node_id=f"y{number}"),
        )
        last = (await first.nodes(limit=1000)).items[-1]
        assert (await second.info()).leaf_id == last.id
    parents = {node.id: node.parent_id for node in (await second.nodes()).items}
    everything = {"a", *(f"{letter}{n}" for n in range(ROUNDS) for letter in "xy")}
    assert parents.keys() == everything
    for number in range(ROUNDS):
        mine, theirs = f"x{number}", f"y{number}"
        assert {parents[mine], parents[theirs]} in ({"a"}, {"a", mine}, {"a", theirs})


async def test_with_a_token_the_loser_is_told(handles):
    """Of two at one revision exactly one appends; the other conflicts and has stored nothing."""
    trees = [one.tree("t") for one in handles]
    (node,) = await grow(trees[0], "a")
    for number in range(ROUNDS):
        done = await asyncio.gather(
            *(tree.append(user("x"), expected_revision=node.revision) for tree in trees),
            return_exceptions=True,
        )
        assert sorted(type(one).__name__ for one in done) == ["RevisionConflict", "TreeNode"]
        (stored,) = (one for one in done if not isinstance(one, RevisionConflict))
        assert stored.parent_id == node.id
        assert (await trees[number % 2].info()).node_count == number + 2
        node = stored


async def test_the_loser_of_a_race_keeps_its_parent(place):
    """Overtaken between reading and writing, a node stays a sibling, and labels are merged."""
    store = Interposing(place.log_store())
    async with Storage(store) as first, place.open() as second:
        tree = second.tree("t")
        await grow(tree, "a")

        async def overtake():
            await grow(tree, "theirs")
            await tree.label("theirs", "seen")

        store.interpose("append", 1, overtake)
        mine = await first.tree("t").append(user("x"), node_id="mine")
        assert mine.parent_id == "a"
        info = await tree.info()
        assert (info.leaf_id, info.labels) == ("mine", {"theirs": "seen"})


async def test_a_branch_persists(handles):
    """The leaf moves for every handle, the next node is a sibling, and every node is there."""
    first, second = (one.tree("t") for one in handles)
    await grow(first, "a", "b", "c")
    assert (await first.branch("a")).leaf_id == "a"
    assert await path(second) == ["a"]
    await grow(second, "d")
    assert await path(first) == ["a", "d"]
    assert await path(first, "c") == ["a", "b", "c"]
    assert await second.messages("b") == said("a", "b")
    await second.branch(None)
    assert await path(first) == []
    with pytest.raises(NodeNotFound):
        await first.branch("absent")
    assert (await first.info()).node_count == 4


async def test_a_fork_of_a_growing_tree_is_one_path_of_it(handles):
    """While another handle appends and branches, each fork is a path to a leaf there was."""
    first, second = (one.tree("t") for one in handles)
    await grow(first, *"abc")
    leaves = set()

    async def go_on(name):
        await second.branch("b")
        await grow(second, *(f"{name}-{number}" for number in range(3)))

    for number in range(ROUNDS):
        fork, _ = await asyncio.gather(first.fork(f"f{number}"), go_on(f"n{number}"))
        info = await fork.info()
        assert info.parent == TreeParent(tree_id="t", node_id=info.leaf_id)
        assert await path(fork) == await path(first, info.leaf_id)
        assert info.node_count == len(await path(fork))
        leaves.add(info.leaf_id)
    assert (await second.info()).leaf_id == f"n{ROUNDS - 1}-2"
    assert len(leaves) > 1


async def test_a_fork_overtaken_at_any_read_is_whole(place):
    """Whatever read of a fork another's appends come before, it is the path to one leaf."""
    for number in range(1, 5):
        store = Interposing(place.log_store(namespace=f"{number}"))
        async with (
            Storage(store) as first,
            Storage(place.log_store(namespace=f"{number}")) as second,
        ):
            tree = second.tree("t")
            await grow(tree, *"abcdefgh")

            async def go_on():
                await tree.branch("b")  # noqa: B023 - run at once
                await grow(tree, "new")  # noqa: B023

            store.interpose("read", number, go_on)
            fork = await first.tree("t").fork("f")
            assert await path(fork) in (list("abcdefgh"), ["a", "b", "new"])
            assert await path(tree) == ["a", "b", "new"]


async def test_states_saved_at_once_leave_one_whole(handles):
    """Of saves that meet, one is loaded whole; in a tree the messages of all are kept."""
    choices = [snapshot("root", *[f"{n}"] * (n % 4 + 1), turn=n) for n in range(6)]
    kept = [one.tree_states() for one in handles]
    await asyncio.gather(*(handles[n % 2].states.save("k", one) for n, one in enumerate(choices)))
    await asyncio.gather(*(kept[n % 2].save("k", one) for n, one in enumerate(choices)))
    assert await handles[0].states.load("k") in choices
    assert await handles[1].tree_states().load("k") in choices
    tree = handles[0].tree("k")
    ends = [node.id for node in (await tree.nodes(limit=1000)).items if node.kind == "custom"]
    messages = [await tree.messages(end) for end in ends]
    assert sorted(map(len, messages)) == sorted(len(one.messages) for one in choices)
    assert all(list(choice.messages) in messages for choice in choices)


async def test_a_save_overtaken_or_unanswered_is_the_last_all_the_same(place):
    """A save is the one loaded after another's, and after its answer was lost; nothing doubles."""
    store = LosesAnswers(place.log_store())
    async with Storage(store) as first, place.open() as second:
        mine, theirs = first.tree_states(), second.tree_states()
        await mine.save("k", snapshot("a", "b"))
        await theirs.save("k", snapshot("a", "x", turn=1))
        await mine.save("k", snapshot("a", "b", "c"))
        assert await theirs.load("k") == snapshot("a", "b", "c")
        for states in (mine, first.states):
            store.losing = 1
            with pytest.raises(Unavailable):
                await states.save("k", snapshot("a", "b", "c", "d"))
            await states.save("k", snapshot("a", "b", "c", "d"))
        assert await theirs.load("k") == await second.states.load("k")
        # a, b | x | b, c once more after the first, which another had gone away from | d
        assert (await second.tree("k").stats()).nodes_by_kind == {"message": 6, "custom": 4}


async def test_listing_moves_no_content(place, record_property):
    """The states of 1 MiB each are listed without one of them: of all, a fraction of one comes."""
    store = Metered(place.log_store())
    async with Storage(store) as storage:
        for number in range(STATES):
            await storage.states.save(f"{number:02}", snapshot(noise(number, MIB)))
    store = Metered(place.log_store())
    async with Storage(store) as storage:
        await storage.ping()
        received = place.received()
        page = await storage.states.list()
        assert [one.key for one in page.items] == [f"{number:02}" for number in range(STATES)]
        assert await storage.states.has("07")
        received = place.received() - received
        assert (store.records, store.payload) == (0, 0)
    record_property("counted", f"{STATES} states of 1 MiB, {received} bytes read to list them")
    assert received < STATES * 1024


def _nodes():
    """Return a path of many nodes, and a short one beside it."""
    parents = {f"n{number}": f"n{number - 1}" if number else None for number in range(MANY)}
    parents |= {"b0": "n1", "b1": "b0", "b2": "b1"}
    for key, parent in parents.items():
        entry = {"type": "input", "role": "user", "content": noise(key, NODE_BYTES)}
        place = {} if parent is None else {"parent": parent}
        yield NewRecord(
            key=key, data=json.dumps({"kind": "message", **place, "entry": entry}).encode()
        )


async def test_a_large_tree_is_read_no_more_than_needed(place, record_property):
    """Appends and branches of 2,000 nodes read two records at most, a path of five few more."""
    async with place.open() as storage:
        head = b'{"leaf":"n%d"}' % (MANY - 1)
        await storage.log_store.append(LOG, Batch(records=tuple(_nodes()), head=head))
    store = Metered(place.log_store())
    told = []
    async with Storage(store) as storage:
        tree = storage.tree("t")

        async def read_by(name, act):
            received, reads = place.received(), store.reads
            answer, records, _ = await store.moved(act)
            received = place.received() - received
            told.append(f"{name} {records} records, {store.reads - reads} reads, {received} bytes")
            return answer, records, received

        changes = {
            "append": tree.append(user("x"), node_id="x"),
            "append after n50": tree.append(user("y"), node_id="y", parent_id="n50"),
            "branch": tree.branch("b2"),
            "label": tree.label("n7", "seen"),
        }
        for name, act in changes.items():
            _, records, received = await read_by(name, act)
            assert records <= 2, name
            assert received < 64 * 1024, name
        found, records, received = await read_by("path of 5", tree.path())
        assert [node.id for node in found] == ["n0", "n1", "b0", "b1", "b2"]
        assert records <= 2 * 5 + 2
        assert received < 256 * 1024
        fork, records, _ = await read_by("fork of 5", tree.fork("f"))
        assert records <= 2 * 5 + 2
        assert await path(fork) == ["n0", "n1", "b0", "b1", "b2"]
    record_property("counted", "; ".join(told))


def _forged(nodes, leaf):
    """Return an export of one tree whose nodes have the parents given."""
    told = []
    for key, parent in nodes:
        place = {} if parent is None else {"parent": parent}
        entry = {"type": "input", "role": "user", "content": key}
        node = {"kind": "message", **place, "at": 1, "entry": entry}
        told.append({"key": key, "entries": 1, "at": 1, "data": node})
    return _export({"leaf": leaf}, *told)


def _export(head, *told):
    log = {"kind": "tree", "id": "t", "head": head, "created_at": 1, "updated_at": 1}
    whole = [{"durably": "export", "format": 1}, log, *told, {"end": len(told) + 1}]
    return [json.dumps(one).encode() + b"\n" for one in whole]


FORGED = {
    "its own parent": ([("a", None), ("b", "b")], "b"),
    "two in a circle": ([("a", "b"), ("b", "a")], "b"),
    "three in a circle": ([("r", None), ("a", "c"), ("b", "a"), ("c", "b")], "c"),
    "an absent parent": ([("a", None), ("b", "gone")], "b"),
    "an absent leaf": ([("a", None), ("b", "a")], "gone"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("what", FORGED)
async def test_a_forged_circle_is_an_error(everywhere, what):
    """A parent that is imported where no append could put it ends a path with CorruptRecord."""
    nodes, leaf = FORGED[what]
    async with everywhere.open() as storage:
        await storage.import_lines(_forged(nodes, leaf))
        tree, states = storage.tree("t"), storage.tree_states()
        for act in (
            tree.path(),
            tree.messages(),
            tree.fork("f"),
            tree.compact(said("s"), first_kept_id="absent"),
            states.load("t"),
            states.save("t", snapshot("x")),
        ):
            with pytest.raises(CorruptRecord):
                await act
        assert [one.tree_id for one in (await storage.trees()).items] == ["t"]
        assert [node.id for node in (await tree.nodes()).items] == [key for key, _ in nodes]
        if nodes[0][1] is None:
            assert await path(tree, nodes[0][0]) == [nodes[0][0]]


async def test_a_forged_parent_is_no_shape(everywhere):
    """stats() of nodes that hang in a circle is CorruptRecord; what hangs well goes on."""
    async with everywhere.open() as storage:
        await storage.import_lines(_forged(*FORGED["three in a circle"]))
        tree = storage.tree("t")
        with pytest.raises(CorruptRecord, match="parent is missing"):
            await tree.stats()
        await tree.branch("r")
        await tree.append(user("on"), node_id="on")
        assert await path(tree) == ["r", "on"]
        assert await tree.delete()


@pytest.mark.parametrize("head", [b"null", b'{"forking":{"tree_id":"t","node_id":"c"}}'])
async def test_half_a_tree_is_corrupt_whatever_node_is_named(everywhere, head):
    """A copy or fork cut off is CorruptRecord also to who names a node that has not come over."""
    record = NewRecord(key="a", data=b'{"kind":"custom"}')
    async with everywhere.open() as storage:
        await storage.log_store.append(LOG, Batch(records=(record,), head=head))
        tree = storage.tree("t")
        for node_id in ("a", "c"):
            for act in (
                tree.append(user("x"), parent_id=node_id),
                tree.append(user("x"), node_id=node_id),
                tree.branch(node_id),
                tree.label(node_id, "x"),
                tree.path(node_id),
                tree.nodes(after=node_id),
            ):
                with pytest.raises(CorruptRecord):
                    await act
        stored = await storage.log_store.read(LOG)
        assert (stored.state.head, stored.state.record_count) == (head, 1)


async def test_trees_and_states_come_over_and_back(everywhere):
    """Import, export and copy lose nothing on the way through a backend; nor do forks in it."""
    stored = await prepared()
    async with everywhere.open(clock=FakeClock()) as storage, opened("memory://") as other:
        await storage.import_lines(stored)
        assert await lines(storage) == stored
        await storage.copy_to(other)
        assert await lines(other) == stored
        assert await shown(other) == await shown(storage)
        assert (await storage.copy_to(other)).records == 0
        await storage.fork("t", "whole", kind="tree")
        await storage.fork("k", "same", kind="state")
        seen, halves = await shown(storage)
        assert halves == 0
        assert seen["trees"]["whole"] == seen["trees"]["t"]
        assert seen["states"]["same"] == seen["states"]["k"]
        await (await storage.tree("t").fork("f", node_id="c")).append(user("on"))
        assert (await storage.tree("f").info()).parent == TreeParent(tree_id="t", node_id="c")
        await other.import_lines(await lines(storage))
        assert await shown(other) == await shown(storage)


async def test_old_trees_and_states_are_pruned(everywhere):
    """States and trees go by age and by number, and no other kind goes with them."""
    clock = FakeClock(0.0)
    async with everywhere.open(clock=clock) as storage:
        for name in "abc":
            clock.now += 10
            await storage.states.save(name, snapshot("x"))
            await storage.tree_states().save(name, snapshot("x"))
        assert (await storage.prune("state", keep_last=2)).ids == ("a",)
        assert (await storage.prune("tree", older_than=5)).ids == ("a", "b")
        assert [one.key for one in (await storage.states.list()).items] == ["b", "c"]
        assert [one.tree_id for one in (await storage.trees()).items] == ["c"]


def _as_tree(data):
    """Return an export of a tree that holds a snapshot, of what a state holds of it."""
    stored = json.loads(data)
    rest = {"kind": "custom", "at": 1, "name": STATE_NODE, "data": stored["snapshot"]}
    message = {"kind": "message", "at": 1, "entry": stored["messages"][0]}
    nodes = {"a": (1, message), "b": (0, {**rest, "parent": "a"})}
    return _export(
        {"leaf": "b"},
        *({"key": key, "entries": n, "at": 1, "data": node} for key, (n, node) in nodes.items()),
    )


@pytest.mark.parametrize("version", STORED)
async def test_every_version_kept_as_a_tree_reads_as_the_newest(everywhere, version):
    """Whatever version of an application kept a snapshot as a tree, its bytes stay as they are."""
    stored = _as_tree(STORED[version])
    async with everywhere.open() as storage:
        await storage.import_lines(stored)
        before = await lines(storage)
        assert await storage.tree_states(migrators=MIGRATORS).load("t") == NOW
        assert await lines(storage) == before


async def test_a_later_version_kept_as_a_tree_stays_whole(everywhere):
    """A later version is refused, or read without what is unknown of it; its step sees all."""

    def recall(old):
        return {**old, "extra": {"plan": old["plan"], "mood": old["messages"][0]["mood"]}}

    async with everywhere.open() as storage:
        await storage.import_lines(_as_tree(LATER))
        before = (await storage.log_store.read(LOG)).records
        with pytest.raises(SchemaTooNew):
            await storage.tree_states(migrators=MIGRATORS).load("t")
        found = await storage.tree_states().load("t")
        assert (found.version, found.turn, found.messages) == (4, 2, said("hi"))
        later = storage.tree_states(migrators=Migrators(version=5, steps={4: recall}))
        assert (await later.load("t")).extra == {"plan": ["rest"], "mood": "glad"}
        await storage.tree_states().save("t", found.replace(messages=said("hi", "more")))
        after = (await storage.log_store.read(LOG)).records
        assert after[:2] == before
        assert len(after) == 4
