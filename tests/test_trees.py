"""Session trees: nodes that stay, a leaf that moves, labels, names and forks."""

import asyncio

import pytest

from builders import model, plant, records, said, user
from disturbed import Interposing, LosesAnswers
from durably import (
    CopyConflict,
    CorruptRecord,
    InputEntry,
    InvalidId,
    InvalidNode,
    NodeNotFound,
    NotSerializable,
    RecordTooLarge,
    RevisionConflict,
    Storage,
    TreeNotFound,
    TreeParent,
    Unavailable,
    UnknownEntryType,
)
from durably.logstore import Batch, LogId, NewRecord, Range
from faults import Metered, failures
from places import FakeClock

LOG = LogId(kind="tree", id="t")


async def grow(tree, *ids):
    """Append a message for each id, one after the other."""
    return [await tree.append(user(id_), node_id=id_) for id_ in ids]


async def path(tree, leaf=None):
    return [node.id for node in await tree.path(leaf)]


async def children(tree):
    """Return the ids of every node's children, by its id."""
    found, after = {}, None
    while True:
        page = await tree.nodes(after=after, limit=3, with_content=False)
        for node in page.items:
            found.setdefault(node.parent_id, []).append(node.id)
        after = page.next
        if after is None:
            return found


async def test_a_tree_grows_at_its_leaf(handles):
    """Each node goes after the one before, through either handle, and comes back as it was."""
    first, second = handles
    made = await grow(first.tree("t"), "a", "b")
    made += await grow(second.tree("t"), "c")
    assert [node.parent_id for node in made] == [None, "a", "b"]
    assert await first.tree("t").path() == made
    assert await first.tree("t").messages() == said("a", "b", "c")


async def test_nodes_of_every_kind_come_back(place):
    """Messages, compactions and custom nodes keep what they hold, and their time."""
    async with place.open(clock=FakeClock(5.5)) as storage:
        tree = storage.tree("t")
        message = await tree.append(model("\ud800 x\x00"))
        summary = await tree.compact(said("so far"), first_kept_id=message.id)
        custom = await tree.append_custom("plan", {"steps": [1, 1.0, 2**70, None]})
    async with place.open() as storage:
        found = await storage.tree("t").path()
    assert found == [message, summary, custom]
    assert [node.kind for node in found] == ["message", "compaction", "custom"]
    assert message.entry == model("\ud800 x\x00")
    assert (summary.summary, summary.first_kept_id) == (said("so far"), message.id)
    assert (custom.name, custom.data) == ("plan", {"steps": [1, 1.0, 2**70, None]})
    assert [type(one) for one in custom.data["steps"]][:2] == [int, float]
    assert {node.stored_at for node in found} == {5.5}


async def test_nothing_is_there_before_the_first_append(storage):
    """A tree that is not there has no path, no messages and no nodes; else it is not found."""
    tree = storage.tree("t")
    assert (await tree.path(), await tree.messages()) == ([], [])
    assert (await tree.nodes()).items == ()
    assert not await tree.delete()
    for act in (tree.info(), tree.stats(), tree.branch(None), tree.rename("x"), tree.fork("y")):
        with pytest.raises(TreeNotFound) as caught:
            await act
        assert caught.value.tree_id == "t"
    assert (await storage.trees()).items == ()
    assert await storage.tree("y").path() == []


async def test_branching_persists_and_deletes_nothing(handles):
    """The leaf moves for every handle, the next node is a sibling, and every node is there."""
    first, second = handles
    tree = first.tree("t")
    await grow(tree, "a", "b", "c")
    info = await tree.branch("a")
    assert info.leaf_id == "a"
    assert await path(second.tree("t")) == ["a"]
    await grow(second.tree("t"), "d")
    assert await path(tree) == ["a", "d"]
    assert await path(tree, "c") == ["a", "b", "c"]
    assert await tree.messages("b") == said("a", "b")
    assert await children(tree) == {None: ["a"], "a": ["b", "d"], "b": ["c"]}


async def test_branching_before_the_first_node_makes_another_root(storage):
    """branch(None) leaves an empty path, and what is appended then is a root of its own."""
    tree = storage.tree("t")
    await grow(tree, "a", "b")
    assert (await tree.branch(None)).leaf_id is None
    assert (await tree.path(), await tree.messages()) == ([], [])
    await grow(tree, "c")
    assert await children(tree) == {None: ["a", "c"], "a": ["b"]}


async def test_a_node_may_go_after_any_other(storage):
    """parent_id puts a node wherever it says, and makes it the leaf."""
    tree = storage.tree("t")
    await grow(tree, "a", "b", "c")
    await tree.append(user("d"), node_id="d", parent_id="a")
    assert await path(tree) == ["a", "d"]


async def test_appending_again_changes_nothing(handles):
    """The first write of an id wins: it is returned whatever the second call carries."""
    first, second = handles
    made = await grow(first.tree("t"), "a", "b")
    await first.tree("t").branch("a")
    before = await first.tree("t").info()
    again = await second.tree("t").append(user("other"), node_id="b", parent_id="a")
    assert again == made[1]
    assert await second.tree("t").append_custom("x", node_id="b", expected_revision=7) == made[1]
    assert await first.tree("t").info() == before


async def test_a_lost_answer_can_be_asked_for_again(place):
    """After a lost answer the same call with a node_id stores nothing twice, token or none."""
    store = LosesAnswers(place.log_store())
    async with Storage(store) as storage:
        tree = storage.tree("t")
        (a,) = await grow(tree, "a")
        for options in ({}, {"expected_revision": a.revision + 1}):
            name = f"b{len(options)}"
            store.losing = 1
            with pytest.raises(Unavailable):
                await tree.append(user("b"), node_id=name, **options)
            await tree.append(user("b"), node_id=name, **options)
        assert await path(tree) == ["a", "b0", "b1"]
        assert (await tree.info()).node_count == 3


async def test_unknown_parents_and_cycles_are_refused(storage):
    """A parent that is not there, and a node that is its own, are refused; nothing is changed."""
    tree = storage.tree("t")
    await grow(tree, "a")
    before = await tree.info()
    with pytest.raises(NodeNotFound) as missing:
        await tree.append(user("x"), parent_id="absent")
    assert (missing.value.tree_id, missing.value.node_id) == ("t", "absent")
    for id_ in ("new", "a"):
        with pytest.raises(InvalidNode, match="its own parent"):
            await tree.append(user("x"), node_id=id_, parent_id=id_)
    assert await tree.info() == before
    with pytest.raises(NodeNotFound):
        await storage.tree("another").append(user("x"), parent_id="a")
    with pytest.raises(TreeNotFound):
        await storage.tree("another").info()


async def test_a_compaction_keeps_from_its_own_path(storage):
    """first_kept_id must be on the path to the compaction; else it is refused."""
    tree = storage.tree("t")
    await grow(tree, "a", "b", "c")
    await tree.branch("a")
    await grow(tree, "d")
    for absent in ("b", "absent"):
        with pytest.raises(InvalidNode, match=absent):
            await tree.compact(said("s"), first_kept_id=absent)
    with pytest.raises(InvalidNode):
        await storage.tree("new").compact(said("s"), first_kept_id="a")
    await tree.compact(said("s"), first_kept_id="b", parent_id="c")
    assert await tree.messages() == said("s", "b", "c")


async def test_two_that_append_at_once_make_siblings(handles):
    """Without a token both nodes of a race are kept, and the leaf is the one stored last."""
    first, second = handles
    await grow(first.tree("t"), "a")
    for number in range(10):
        await first.tree("t").branch("a")
        await asyncio.gather(
            first.tree("t").append(user("x"), node_id=f"x{number}"),
            second.tree("t").append(user("y"), node_id=f"y{number}"),
        )
        last = (await first.tree("t").nodes(limit=1000)).items[-1]
        assert (await second.tree("t").info()).leaf_id == last.id
    found = await children(first.tree("t"))
    everything = [id_ for ids in found.values() for id_ in ids]
    assert sorted(everything) == sorted(
        ["a", *(f"{letter}{n}" for n in range(10) for letter in "xy")]
    )


async def test_the_loser_of_a_race_keeps_its_parent(place):
    """Overtaken between reading and writing, a node stays a sibling, and labels are merged."""
    store = Interposing(place.log_store())
    async with Storage(store) as first, place.open() as second:
        for start in ([], ["a"]):
            await grow(second.tree("t"), *start)

            async def overtake():
                await grow(second.tree("t"), f"theirs{len(start)}")  # noqa: B023 - run at once
                await second.tree("t").label(f"theirs{len(start)}", "seen")  # noqa: B023

            store.interpose("append", 2 - len(start), overtake)
            mine = await first.tree("t").append(user("x"), node_id=f"mine{len(start)}")
            assert mine.parent_id == (start[0] if start else None)
            info = await second.tree("t").info()
            assert info.leaf_id == mine.id
            assert info.labels[f"theirs{len(start)}"] == "seen"
            await second.tree("t").branch(None)


async def test_with_a_token_the_loser_is_told(handles):
    """Of two at one revision exactly one appends; the other conflicts and has stored nothing."""
    first, second = handles
    (a,) = await grow(first.tree("t"), "a")
    done = await asyncio.gather(
        first.tree("t").append(user("x"), expected_revision=a.revision),
        second.tree("t").append(user("y"), expected_revision=a.revision),
        return_exceptions=True,
    )
    assert sorted(type(one).__name__ for one in done) == ["RevisionConflict", "TreeNode"]
    assert (await first.tree("t").info()).node_count == 2
    with pytest.raises(RevisionConflict):
        await first.tree("t").branch("a", expected_revision=a.revision)


async def test_a_node_is_a_token(storage):
    """The revision of each node stored is what the next append may expect, 0 for the first."""
    tree = storage.tree("t")
    revision = 0
    for text in "abc":
        revision = (await tree.append(user(text), expected_revision=revision)).revision
    assert (await tree.info()).revision == revision
    with pytest.raises(RevisionConflict):
        await tree.append(user("d"), expected_revision=0)


async def test_labels_and_the_name_are_kept(handles):
    """A label is on its node, replaced and taken away; the name likewise; both survive growth."""
    first, second = handles
    tree = first.tree("t")
    await grow(tree, "a", "b")
    await tree.label("a", "start \ud800")
    await tree.label("b", "x")
    info = await second.tree("t").label("b", "end")
    assert info.labels == {"a": "start \ud800", "b": "end"}
    await second.tree("t").rename("a talk")
    await grow(tree, "c")
    assert [node.label for node in await tree.path()] == ["start \ud800", "end", None]
    assert (await tree.info()).name == "a talk"
    assert (await tree.label("b", None)).labels == {"a": "start \ud800"}
    assert (await tree.rename(None)).name is None
    assert [node.label for node in (await tree.nodes()).items] == ["start \ud800", None, None]


async def test_info_reads_no_node(place):
    """What is known of a tree comes without a record, and says what is in it."""
    store = Metered(place.log_store())
    clock = FakeClock(1.0)
    async with Storage(store, clock=clock) as storage:
        tree = storage.tree("t")
        await grow(tree, "a", "b")
        await tree.compact(said("s"))
        clock.now = 9.0
        await tree.append_custom("n")
        info, count, _ = await store.moved(tree.info())
        assert count == 0
        assert (info.node_count, info.message_count) == (4, 2)
        assert (info.created_at, info.updated_at) == (1.0, 9.0)
        assert (info.tree_id, info.parent, info.name, info.labels) == ("t", None, None, {})
        page, count, _ = await store.moved(storage.trees())
        assert (page.items, count) == ((info,), 0)


async def test_stats_count_what_is_there(storage):
    """Nodes by kind, roots, leaves, forks and depth are those of the tree."""
    tree = storage.tree("t")
    await grow(tree, *"abcd")
    await tree.compact(said("s"))
    await tree.branch("b")
    await tree.append_custom("n")
    await tree.branch("b")
    await grow(tree, "e")
    await tree.branch(None)
    await grow(tree, "f")
    found = await tree.stats()
    assert found.nodes_by_kind == {"message": 6, "compaction": 1, "custom": 1}
    assert (found.root_count, found.leaf_count, found.fork_count, found.depth) == (2, 4, 1, 5)


async def test_trees_are_listed_by_id(storage):
    """A walk over trees gives each once, in the order of the ids' bytes."""
    names = ["B", "a", "é", "\U0001f600"]
    for name in reversed(names):
        await grow(storage.tree(name), "a")
    first = await storage.trees(limit=3)
    second = await storage.trees(after=first.next, limit=3)
    assert [one.tree_id for one in (*first.items, *second.items)] == names
    assert second.next is None


async def test_a_fork_is_a_copy_of_the_path(handles, place):
    """Only the path comes over, with ids, labels and bytes; then the two go on apart."""
    first, second = handles
    tree = first.tree("t")
    await grow(tree, "a", "b", "c")
    await tree.append_custom("n", {"x": 1.5}, node_id="n")
    await tree.label("b", "kept")
    await tree.label("n", "left")
    await tree.rename("talk")
    fork = await second.tree("t").fork("f", node_id="c")
    assert fork.tree_id == "f"
    info = await first.tree("f").info()
    assert (info.parent, info.leaf_id) == (TreeParent(tree_id="t", node_id="c"), "c")
    assert (info.labels, info.name) == ({"b": "kept"}, "talk")
    copied = [(one.key, one.data) for one in await records(place, "tree", "f")]
    assert copied == [(one.key, one.data) for one in await records(place, "tree", "t")][:3]
    await grow(fork, "d")
    await grow(tree, "e")
    assert await path(tree) == ["a", "b", "c", "n", "e"]
    assert await path(first.tree("f")) == ["a", "b", "c", "d"]
    assert await tree.delete()
    assert await fork.messages() == said("a", "b", "c", "d")


async def test_a_fork_keeps_the_times_of_its_nodes(place):
    """A node of a fork is as old as the one it was copied from, the tree as young as the fork."""
    clock = FakeClock(1.0)
    async with place.open(clock=clock) as storage:
        tree = storage.tree("t")
        for id_ in "abc":
            clock.now += 1
            await grow(tree, id_)
        clock.now = 50.0
        fork = await tree.fork("f")
        assert [node.stored_at for node in await fork.path()] == [2.0, 3.0, 4.0]
        assert (await fork.info()).created_at == 50.0


async def test_a_fork_from_before_the_first_node_is_empty(storage):
    """Where the leaf is before the first node a fork has none, and remembers that."""
    tree = storage.tree("t")
    await grow(tree, "a")
    await tree.branch(None)
    info = await (await tree.fork("f")).info()
    assert (info.node_count, info.parent) == (0, TreeParent(tree_id="t"))


async def test_a_fork_onto_another_tree_is_refused(storage):
    """What is there under the new id stays as it is; the same fork again changes nothing."""
    tree = storage.tree("t")
    await grow(tree, "a", "b")
    await grow(storage.tree("other"), "a", "b")
    fork = await tree.fork("f")
    await grow(fork, "c")
    before = await fork.info()
    await tree.fork("f", node_id="b")
    assert await fork.info() == before
    for new_id, node_id in (("other", None), ("t", None), ("f", "a")):
        with pytest.raises(CopyConflict) as caught:
            await tree.fork(new_id, node_id=node_id)
        assert caught.value.log == LogId(kind="tree", id=new_id)
    assert await fork.info() == before
    assert await path(storage.tree("other")) == ["a", "b"]


async def test_a_fork_of_a_growing_tree_is_the_path_it_began_with(place):
    """While another handle appends and branches, the fork is of the leaf it saw first."""
    store = Interposing(place.log_store())
    async with Storage(store) as first, place.open() as second:
        tree = second.tree("t")
        await grow(tree, *"abcdefgh")
        for number in range(1, 5):

            async def go_on():
                await tree.branch("b")
                await grow(tree, f"new{number}")  # noqa: B023 - run at once

            leaf = (await tree.info()).leaf_id
            expected = await path(tree)
            store.interpose("read", 2 + number, go_on)
            fork = await first.tree("t").fork(f"f{number}")
            found = await path(fork)
            assert found in (expected, await path(tree))
            assert (await fork.info()).parent.node_id == found[-1]
            await tree.branch(leaf)
            store.interpose("read", 1, _nothing)


async def _nothing():
    pass


LARGE = 3 * 1024 * 1024


async def _talk(storage):
    """Make a tree whose fork takes three batches."""
    tree = storage.tree("t")
    for id_ in "abcd":
        await tree.append(user(id_ * LARGE), node_id=id_)
    await tree.label("b", "kept")


async def test_an_interrupted_fork_is_no_tree_and_can_be_completed(place):
    """Whatever step fails, half a fork is not read as a tree, and repeating it completes it."""
    unfinished = steps = 0
    async for storage in failures(place, _talk, lambda s: s.tree("t").fork("f")):
        steps += 1
        listed = [one.tree_id for one in (await storage.trees()).items]
        is_there = await storage.log_store.read(LogId(kind="tree", id="f")) is not None
        if is_there and "f" not in listed:
            unfinished += 1
            for act in (storage.tree("f").path(), storage.tree("f").append(user("x"))):
                with pytest.raises(CorruptRecord, match="repeat"):
                    await act
            assert [one.key for one in (await storage.tree_states().list()).items] == ["t"]
        else:
            assert await path(storage.tree("f")) == (list("abcd") if is_there else [])
        if steps % 2:
            await storage.tree("t").branch("a")
        fork = await storage.tree("t").fork("f", node_id=None if "f" not in listed else "d")
        found = await path(fork)
        assert found in (list("abcd"), ["a"])
        assert (await fork.info()).labels == ({"b": "kept"} if len(found) > 1 else {})
        assert (await fork.info()).parent == TreeParent(tree_id="t", node_id=found[-1])
    assert steps >= 15
    assert unfinished >= 4


async def test_half_a_fork_can_be_deleted_and_is_not_forked_into_by_another(place):
    """What is left of a fork is refused to a fork of another node, and can be deleted."""
    head = b'{"forking":{"tree_id":"t","node_id":"b"}}'
    async with place.open() as storage:
        await grow(storage.tree("t"), "a", "b", "c")
        await storage.log_store.append(LogId(kind="tree", id="f"), Batch(head=head))
        for source, node_id in (("t", "c"), ("t", "a")):
            with pytest.raises(CopyConflict):
                await storage.tree(source).fork("f", node_id=node_id)
        fork = await storage.tree("t").fork("f")
        assert await path(fork) == ["a", "b"]
        await storage.log_store.append(LogId(kind="tree", id="g"), Batch(head=head))
        assert await storage.tree("g").delete()


@pytest.mark.parametrize(
    ("act", "shown"),
    [
        (lambda tree: tree.append(user("d"), node_id="d"), {"c", "d"}),
        (lambda tree: tree.branch("a"), {"c", "a"}),
    ],
)
async def test_an_interrupted_change_is_there_or_not(place, act, shown):
    """After a failure at any step leaf and nodes agree, and repeating the call completes it."""
    leaves = set()
    async for storage in failures(
        place, lambda s: grow(s.tree("t"), *"abc"), lambda s: act(s.tree("t"))
    ):
        tree = storage.tree("t")
        info = await tree.info()
        leaves.add(info.leaf_id)
        assert info.node_count == (4 if info.leaf_id == "d" else 3)
        assert (await path(tree))[-1] == info.leaf_id
        await act(tree)
        assert (await tree.info()).leaf_id in shown - {"c"}
    assert leaves == shown


async def test_what_this_version_does_not_know_is_kept(place):
    """Unknown fields and kinds keep their bytes through appends, labels and forks."""
    node = (
        b'{"kind":"message","mood":{"x": [1.50]},"entry":{"type":"input","role":"u","content":"a"}}'
    )
    later = b'{"kind":"hologram","parent":"a","beam": 1e400}'
    head = b'{"pinned": 1e400,"leaf":"h","labels":{"a":"x"}}'
    new = (NewRecord(key="a", data=node), NewRecord(key="h", data=later, entry_count=0))
    async with place.open() as storage:
        await storage.log_store.append(LOG, Batch(records=new, head=head))
        tree = storage.tree("t")
        await grow(tree, "b")
        await tree.label("b", "y")
        fork = await tree.fork("f")
        for one in (tree, fork):
            log = LogId(kind="tree", id=one.tree_id)
            stored = await storage.log_store.read(log)
            assert [record.data for record in stored.records][:2] == [node, later]
            assert b'"pinned":1e400' in stored.state.head
            for read in (one.path(), one.messages(), one.nodes()):
                with pytest.raises(UnknownEntryType) as caught:
                    await read
                assert (caught.value.record, caught.value.entry_type) == ("h", "hologram")
            assert await one.messages("a") == [InputEntry(role="u", content="a")]
            kinds = [n.kind for n in (await one.nodes(with_content=False)).items]
            assert kinds == ["message", "hologram", "message"]
            assert (await one.stats()).nodes_by_kind == {"message": 2, "hologram": 1}
            assert (await one.compact(said("s"), first_kept_id="a")).parent_id == "b"


@pytest.mark.parametrize(
    "head", [b"[]", b'{"leaf":5}', b'{"labels":{"a":1}}', b'{"parent":"t"}', b"null", b"", b"{"]
)
async def test_a_head_that_cannot_be_read_is_corrupt_and_untouched(place, head):
    """A broken head is CorruptRecord to every operation but delete, and none writes over it."""
    await plant(place, "tree", "t", b'{"kind":"custom"}', key="a", head=head)
    async with place.open() as storage:
        tree = storage.tree("t")
        acts = [
            lambda: tree.append(user("x")),
            lambda: tree.branch("a"),
            lambda: tree.label("a", "x"),
            lambda: tree.rename("x"),
            tree.path,
            tree.info,
            tree.stats,
            tree.nodes,
            lambda: tree.fork("f"),
        ]
        for act in acts:
            with pytest.raises(CorruptRecord):
                await act()
        stored = await storage.log_store.read(LOG)
        assert (stored.state.head, stored.state.record_count) == (head, 1)
        assert await tree.delete()


async def test_labels_fill_the_head_and_no_more(storage):
    """Labels beyond the limit of a head are refused before anything changes; the tree goes on."""
    tree = storage.tree("t")
    await grow(tree, *(f"{n}" for n in range(40)))
    for number in range(9):
        before = await tree.label(f"{number}", "é" * 1000)
    with pytest.raises(RecordTooLarge) as caught:
        await tree.label("9", "é" * 1000)
    assert caught.value.what == "head"
    assert await tree.info() == before
    assert len(before.labels) == 9
    await tree.append(user("x"), node_id="\x01" * 256)
    fork = await storage.tree("t").fork("\x02" * 256)
    assert (await fork.info()).labels.keys() == before.labels.keys()


async def test_delete_leaves_nothing_and_forks_stay(handles):
    """A deleted tree is gone for both handles, its fork is whole, and it can begin anew."""
    first, second = handles
    await grow(first.tree("t"), "a", "b")
    fork = await first.tree("t").fork("f")
    assert await second.tree("t").delete()
    assert not await first.tree("t").delete()
    assert await path(first.tree("t")) == []
    assert await path(fork) == ["a", "b"]
    await grow(first.tree("t"), "a")
    assert await path(second.tree("t")) == ["a"]


async def test_a_tree_made_again_between_two_reads_is_never_mixed(place):
    """A reader overtaken by delete and re-creation sees one life of the tree, never both."""
    for number in range(1, 6):
        store = Interposing(place.log_store(namespace=f"{number}"))
        async with (
            Storage(store) as first,
            Storage(place.log_store(namespace=f"{number}")) as second,
        ):
            for id_ in "abcdefgh":
                await second.tree("t").append(user("old"), node_id=id_)

            async def recreate():
                await second.tree("t").delete()
                for id_ in "abcdefgh":
                    await second.tree("t").append(user("new"), node_id=id_)

            store.interpose("read", number, recreate)
            found = await first.tree("t").messages()
            assert found in ([user("old")] * 8, [user("new")] * 8)


@pytest.mark.parametrize("id_", ["", "\x00", "\ud800", "x" * 257, 5])
async def test_illegal_ids_are_refused(storage, id_):
    """No operation takes an id of a tree or a node that is not legal."""
    tree = storage.tree("t")
    with pytest.raises(InvalidId):
        storage.tree(id_)
    for act in (
        tree.append(user("x"), node_id=id_),
        tree.append(user("x"), parent_id=id_),
        tree.compact([], first_kept_id=id_),
        tree.branch(id_),
        tree.label(id_, "x"),
        tree.path(id_),
        tree.messages(id_),
        tree.nodes(after=id_),
        tree.fork("f", node_id=id_),
        tree.fork(id_),
    ):
        with pytest.raises(InvalidId):
            await act
    assert (await storage.trees()).items == ()


async def test_what_is_not_json_is_refused(storage):
    """Entries, summaries and data that JSON cannot hold are refused before anything is stored."""
    tree = storage.tree("t")
    for act in (
        tree.append("hello"),
        tree.append(None),
        tree.compact([user("x"), 5]),
        tree.compact(5),
        tree.append_custom(5),
        tree.append_custom("x", {1, 2}),
        tree.append_custom("x", b"{}"),
        tree.append_custom("x", float("nan")),
    ):
        with pytest.raises(NotSerializable):
            await act
    assert (await storage.trees()).items == ()


async def test_what_is_appended_is_not_shared(storage):
    """Changing what was passed in or given back changes nothing that is stored."""
    data = {"list": [1]}
    made = await storage.tree("t").append_custom("x", data)
    data["list"].append(2)
    made.data["list"].append(3)
    (found,) = await storage.tree("t").path()
    assert found.data == {"list": [1]}


async def test_a_page_of_nodes_knows_its_end(storage):
    """Pages of nodes add up, the last has no next, and none reads what is not on it."""
    tree = storage.tree("t")
    await grow(tree, *"abcd")
    first = await tree.nodes(limit=2)
    second = await tree.nodes(after=first.next, limit=2)
    assert [node.id for node in (*first.items, *second.items)] == list("abcd")
    assert (first.next, second.next) == ("b", None)
    assert [node.entry for node in first.items] == said("a", "b")
    stored = await storage.log_store.read(LOG, Range(limit=0))
    later = (NewRecord(key="later", data=b'{"kind":"hologram"}'),)
    await storage.log_store.append(LOG, Batch(records=later, head=stored.state.head))
    third = await tree.nodes(after="b", limit=2)
    assert [node.id for node in third.items] == ["c", "d"]
    assert third.next == "d"
