"""``SessionTree``: nodes that stay, a leaf that moves, and what a model sees of a path."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from durably import InvalidNode, NodeNotFound, RevisionConflict, TreeNode, TreeNotFound
from durably_conformance.building import answer, said
from durably_conformance.context import T
from durably_conformance.offering import upkeep_of
from durably_conformance.registry import check
from durably_conformance.samples import GOOD
from durably_conformance.trees import all_nodes, children_of, grow, path_of, tree_pair

_Calls: TypeAlias = Mapping[str, Callable[[], Awaitable[object]]]


@check("TREE-001", contract="tree")
async def a_tree_grows_at_its_leaf(t: T) -> None:
    """A node goes after the leaf and is the leaf then, for whichever handle appends or reads."""
    one, other = await tree_pair(t)
    made: list[TreeNode] = []
    for tree, id_ in ((one, "a"), (other, "b"), (one, "c"), (other, "d"), (other, "e")):
        made += await grow(tree, id_)
        for reader in (one, other):
            t.eq((await reader.info()).leaf_id, id_, "the leaf after an append")
    t.eq([node.parent_id for node in made], [None, "a", "b", "c", "d"], "what each goes after")
    t.eq(await path_of(one), ["a", "b", "c", "d", "e"], "the path")
    t.eq(list(await other.messages()), said("a", "b", "c", "d", "e"), "the messages")


@check("TREE-002", contract="tree")
async def nodes_come_back(t: T) -> None:
    """Messages, compactions and custom nodes come back exactly, with the time they were stored."""
    one, other = await tree_pair(t)
    t.clock.advance(0.25)
    made = [await one.append(answer("\ud800 x\x00"))]
    made.append(await one.compact(said("so far"), first_kept_id=made[0].id))
    made += [await one.append_custom("plan \u00e9", data) for data in GOOD]
    made.append(await one.append_custom("none"))
    t.eq({node.stored_at for node in made}, {t.clock()}, "when they were stored")
    t.eq(len({node.id for node in made}), len(made), "how many ids they have")
    wanted = [answer("\ud800 x\x00"), said("so far"), made[0].id, *GOOD, None]
    for tree in (one, other):
        found = list(await tree.path())
        t.exact(found, made, "the nodes of the path")
        first, second, *custom = found
        parts = [first.entry, list(second.summary), second.first_kept_id]
        t.exact([*parts, *(node.data for node in custom)], wanted, "what they hold")
        t.eq({node.name for node in custom}, {"plan \u00e9", "none"}, "names")


@check("TREE-003", contract="tree")
async def a_branch_is_persisted(t: T) -> None:
    """A branch moves the leaf for every handle, and what is appended next is a sibling."""
    one, other = await tree_pair(t)
    await grow(one, "a", "b")
    t.eq((await one.branch("a")).leaf_id, "a", "the leaf that branch tells")
    t.eq(await path_of(other), ["a"], "the path that another handle reads")
    await grow(other, "c")
    t.eq(await path_of(one), ["a", "c"], "the path after an append through it")
    t.eq((await one.branch(None)).leaf_id, None, "the leaf before the first node")
    t.eq([*await other.path(), *await other.messages()], [], "path and messages there")
    await grow(other, "d")
    wanted = {None: ["a", "d"], "a": ["b", "c"]}
    t.eq(await children_of(t, one), wanted, "the children of each node")


@check("TREE-004", contract="tree")
async def branching_deletes_nothing(t: T) -> None:
    """What was left by branching is there, and so are its path and its messages."""
    one, other = await tree_pair(t)
    await grow(one, "a", "b", "c")
    await one.branch("a")
    await grow(one, "d")
    t.eq(await path_of(other, "c"), ["a", "b", "c"], "the path that was left")
    t.eq(list(await other.messages("c")), said("a", "b", "c"), "the messages that were left")
    t.eq([node.id for node in await all_nodes(t, other)], ["a", "b", "c", "d"], "all nodes")
    counts = await other.stats()
    shape = counts.root_count, counts.leaf_count, counts.fork_count, counts.depth
    t.eq(shape, (1, 2, 1, 3), "roots, leaves, forks and depth")
    t.eq(dict(counts.nodes_by_kind), {"message": 4}, "nodes by kind")
    info = await one.branch("c")
    t.eq((info.leaf_id, info.node_count, info.message_count), ("c", 4, 4), "what info tells")


@check("TREE-005", contract="tree")
async def appends_at_once_make_siblings(t: T) -> None:
    """Without a revision, appends at once after one node are all kept, the last as the leaf."""
    trees = await tree_pair(t)
    await grow(trees[0], "a")
    for turn in range(3):
        names = [f"{turn}-{number}" for number in range(4)]
        outcomes = await asyncio.gather(
            *(
                t.attempt(trees[n % 2].append(said(name)[0], node_id=name, parent_id="a"))
                for n, name in enumerate(names)
            )
        )
        refused = [one for one in outcomes if not isinstance(one, TreeNode)]
        t.eq(refused, [], "appends that were refused")
        stored = await all_nodes(t, trees[0])
        t.same_set([one.id for one in stored[-4:]], names, "the nodes stored last")
        t.eq((await trees[1].info()).leaf_id, stored[-1].id, "the leaf, and the node stored last")
    children = await children_of(t, trees[1])
    t.eq({name: len(found) for name, found in children.items()}, {None: 1, "a": 12}, "children")


@check("TREE-006", contract="tree")
async def a_change_at_another_revision_is_refused(t: T) -> None:
    """With a revision, a change once somebody else made one is RevisionConflict and none at all.

    The revision is that of what was stored last, or 0 for a tree that is not there.
    """
    one, other = await tree_pair(t)
    first = await one.append(said("a")[0], node_id="a", expected_revision=0)
    at = first.revision
    t.eq((await other.info()).revision, at, "the revision of the tree, and of the node")
    await t.raises(RevisionConflict, other.append(said("x")[0], expected_revision=0), "at 0")
    outcomes = await asyncio.gather(
        t.attempt(one.append(said("b")[0], expected_revision=at)),
        t.attempt(other.append(said("c")[0], expected_revision=at)),
    )
    won = [outcome for outcome in outcomes if isinstance(outcome, TreeNode)]
    lost = [outcome for outcome in outcomes if isinstance(outcome, RevisionConflict)]
    t.eq((len(won), len(lost)), (1, 1), "appends at one revision that were done, and refused")
    before = await one.info()
    calls: _Calls = {
        "append": lambda: other.append(said("x")[0], expected_revision=at),
        "compact": lambda: other.compact(said("x"), expected_revision=at),
        "append_custom": lambda: other.append_custom("x", expected_revision=at),
        "branch": lambda: other.branch("a", expected_revision=at),
    }
    for what, call in calls.items():
        await t.raises(RevisionConflict, call, f"{what} at an old revision")
    t.eq(await other.info(), before, "the tree after refusals")
    t.eq(before.node_count, 2, "nodes")
    await other.branch("a", expected_revision=before.revision)


@check("TREE-007", contract="tree")
async def a_compaction_stands_for_what_is_before_it(t: T) -> None:
    """The last compaction on a path stands for all before it but what it keeps; the path has all.

    ``messages`` gives its summary, the messages from the first one kept on, and what follows.
    """
    one, other = await tree_pair(t)
    await grow(one, "a", "b", "c")
    await one.compact(said("s1"), first_kept_id="b", node_id="1")
    await one.append_custom("no message", node_id="n")
    await grow(one, "d")
    t.eq(list(await other.messages()), said("s1", "b", "c", "d"), "messages after a compaction")
    await other.compact(said("s2", "t2"), first_kept_id="c", node_id="2")
    await grow(other, "e")
    wanted = said("s2", "t2", "c", "d", "e")
    t.eq(list(await one.messages()), wanted, "messages after another one")
    t.eq(list(await one.messages("d")), said("s1", "b", "c", "d"), "messages before it")
    await one.compact(said("s3"))
    await grow(one, "f")
    t.eq(list(await other.messages()), said("s3", "f"), "messages after one that keeps none")
    t.eq(list(await other.messages("c")), said("a", "b", "c"), "messages before all of them")
    path = await path_of(other, "e")
    t.eq(path, ["a", "b", "c", "1", "n", "d", "2", "e"], "the path")


@check("TREE-008", contract="tree")
async def a_place_that_is_not_there_is_refused(t: T) -> None:
    """A parent that is not there, a node's own self, and what is kept off the path are refused."""
    one, other = await tree_pair(t)
    await grow(one, "a", "b")
    await one.branch("a")
    await grow(one, "c")
    before = await one.info()
    x = said("x")[0]
    calls: _Calls = {
        "append after a node that is not there": lambda: other.append(x, parent_id="absent"),
        "branch to one": lambda: other.branch("absent"),
        "label of one": lambda: other.label("absent", "l"),
        "path to one": lambda: other.path("absent"),
        "nodes after one": lambda: other.nodes(after="absent"),
    }
    for what, call in calls.items():
        error = await t.raises(NodeNotFound, call, what)
        t.eq((error.tree_id, error.node_id), ("t", "absent"), f"what the error names: {what}")
    for id_ in ("new", "a"):
        cyclic = other.append(x, node_id=id_, parent_id=id_)
        await t.raises(InvalidNode, cyclic, f"{id_} after itself")
    for id_ in ("b", "absent"):
        keeping = other.compact(said("s"), first_kept_id=id_)
        await t.raises(InvalidNode, keeping, f"a compaction that keeps from {id_}, off its path")
    t.eq(await other.info(), before, "the tree after refusals")
    new = upkeep_of(await t.connect(), "tree").tree("new")
    await t.raises(NodeNotFound, new.append(x, parent_id="a"), "a parent in another tree")
    await t.raises(TreeNotFound, new.info(), "the tree in which it was to be")


@check("TREE-009", contract="tree")
async def labels_and_the_name_stay(t: T) -> None:
    """Labels and the name stay until they are changed, whatever is appended and branched."""
    one, other = await tree_pair(t)
    await grow(one, "a", "b")
    await one.label("a", "start \ud800")
    await one.label("b", "x")
    info = await other.label("b", "end")
    t.eq(dict(info.labels), {"a": "start \ud800", "b": "end"}, "labels")
    t.eq((await one.rename("a talk")).name, "a talk", "the name that rename tells")
    await grow(other, "c")
    await other.append_custom("n", node_id="n")
    await one.branch("b")
    await other.compact(said("s"), node_id="s")
    found = await other.info()
    t.eq(dict(found.labels), {"a": "start \ud800", "b": "end"}, "labels after changes")
    t.eq(found.name, "a talk", "the name after changes")
    wanted = [("a", "start \ud800"), ("b", "end"), ("s", None)]
    t.eq([(node.id, node.label) for node in await one.path()], wanted, "labels on the path")
    labels = [node.label for node in await all_nodes(t, one)]
    t.eq(labels, ["start \ud800", "end", None, None, None], "labels of all nodes")
    t.eq(dict((await one.label("b", None)).labels), {"a": "start \ud800"}, "labels, one taken away")
    t.eq((await other.rename(None)).name, None, "the name, taken away")
    t.eq(await path_of(one), ["a", "b", "s"], "the path after all that")


@check("TREE-010", contract="tree")
async def a_node_is_stored_once(t: T) -> None:
    """A node_id that is there is returned as it is, whatever the call carries, and not moved to."""
    one, other = await tree_pair(t)
    await grow(one, "a", "b", "c")
    made = (await one.path())[1]
    await one.branch("a")
    before = await one.info()
    x = said("x")[0]
    calls: _Calls = {
        "append": lambda: other.append(x, node_id="b"),
        "append elsewhere": lambda: other.append(x, node_id="b", parent_id="c"),
        "append at an old revision": lambda: other.append(x, node_id="b", expected_revision=7),
        "append_custom": lambda: other.append_custom("x", 1, node_id="b"),
        "compact": lambda: other.compact(said("x"), node_id="b"),
    }
    for what, call in calls.items():
        t.exact(await call(), made, f"what {what} of a node that is there returns")
    t.eq(await other.info(), before, "the tree after that")
    held = [node.entry for node in await other.path("c")]
    t.eq(held, said("a", "b", "c"), "what its nodes hold")


@check("TREE-011", contract="tree")
async def nodes_are_paged(t: T) -> None:
    """Nodes are read once each in the order in which they were stored, with content or without."""
    one, other = await tree_pair(t)
    for id_, after in (("d", None), ("b", "d"), ("e", "b"), ("a", "d"), ("c", "b")):
        await one.append(said(id_)[0], node_id=id_, parent_id=after)
    for limit in (1, 2, 5, 100):
        found = await all_nodes(t, other, limit=limit)
        t.eq([node.id for node in found], ["d", "b", "e", "a", "c"], f"nodes, {limit} at a time")
        t.eq([node.entry for node in found], said("d", "b", "e", "a", "c"), "what they hold")
    bare = (await other.nodes(after="b", limit=2, with_content=False)).items
    links = [(node.id, node.parent_id, node.entry) for node in bare]
    t.eq(links, [("e", "b", None), ("a", "d", None)], "nodes after one, without content")
