"""Trees that are forked, copied, deleted and listed."""

from durably import (
    CopyConflict,
    CorruptRecord,
    InvalidExport,
    SessionTree,
    TreeInfo,
    TreeNotFound,
    TreeParent,
)
from durably_conformance.building import said, snapshot
from durably_conformance.context import T
from durably_conformance.offering import Upkeep, upkeep_of
from durably_conformance.registry import check
from durably_conformance.trees import children_of, grow, path_of, tree_pair

MANY = 200
"""Nodes, more than an import holds back."""
IDS = ["B", "a", "a/b", "\u00e9", "\U0001f600"]
"""In the order of their bytes."""
PAGES = 60


async def _grown(tree: SessionTree) -> None:
    """Make a tree with a branch, labels and a name."""
    await grow(tree, "a", "b", "c")
    await tree.branch("b")
    await grow(tree, "x")
    for id_ in ("b", "c"):
        await tree.label(id_, f"label {id_}")
    await tree.rename("talk")


async def _listed(upkeep: Upkeep, limit: int = 100) -> list[TreeInfo]:
    """Return all trees, page by page."""
    found: list[TreeInfo] = []
    after: str | None = None
    for _ in range(PAGES):
        page = await upkeep.trees(after=after, limit=limit)
        found += page.items
        after = page.next
        if after is None:
            break
    return found


@check("TREE-FORK-001", contract="tree")
async def a_fork_is_the_path(t: T) -> None:
    """A fork has the path with its ids, times and labels, and remembers where it is from."""
    one, other = await tree_pair(t)
    await _grown(one)
    path = list(await one.path())
    t.clock.advance(10)
    fork = await other.fork("f")
    t.eq(fork.tree_id, "f", "the id of a fork")
    there = upkeep_of(await t.connect(), "tree").tree("f")
    found = await there.info()
    t.eq(found.parent, TreeParent(tree_id="t", node_id="x"), "where it is from")
    t.eq((found.leaf_id, found.name, found.node_count), ("x", "talk", 3), "leaf, name and nodes")
    t.eq(dict(found.labels), {"b": "label b"}, "labels")
    copied = [(node.id, node.parent_id, node.stored_at, node.label) for node in await there.path()]
    wanted = [(node.id, node.parent_id, node.stored_at, node.label) for node in path]
    t.eq(copied, wanted, "the nodes of a fork")
    t.eq(list(await there.messages()), said("a", "b", "x"), "its messages")
    t.eq((await one.info()).parent, None, "where the tree itself is from")
    await one.fork("g", node_id="a")
    early = upkeep_of(await t.connect()).tree("g")
    t.eq((await early.info()).parent, TreeParent(tree_id="t", node_id="a"), "of an earlier node")
    t.eq(await path_of(early), ["a"], "its path")


@check("TREE-FORK-002", contract="tree")
async def a_fork_shares_nothing(t: T) -> None:
    """A fork and its tree go on apart: what is done to one shows in the other in nothing."""
    one, other = await tree_pair(t)
    await grow(one, "a", "b")
    fork = await other.fork("f")
    await grow(fork, "mine")
    await fork.label("a", "mine")
    await fork.rename("mine")
    t.eq(await path_of(one), ["a", "b"], "the path of the tree after its fork grew")
    info = await other.info()
    t.eq((len(info.labels), info.name, info.node_count), (0, None, 2), "labels, name and nodes")
    await grow(one, "theirs")
    await one.branch("a")
    t.eq(await path_of(fork), ["a", "b", "mine"], "the path of the fork after its tree grew")
    t.eq((await fork.info()).node_count, 3, "its nodes")
    await one.delete()
    t.eq(list(await fork.messages()), said("a", "b", "mine"), "its messages after its tree went")


@check("TREE-FORK-003", contract="tree")
async def a_fork_is_made_once(t: T) -> None:
    """To fork again changes nothing, though the fork grew; another tree of the id conflicts."""
    one, other = await tree_pair(t)
    await grow(one, "a", "b")
    fork = await one.fork("f")
    await grow(fork, "c")
    before = await fork.info()
    again = await other.fork("f", node_id="b")
    t.eq(await again.info(), before, "the fork after it was made again")
    another = upkeep_of(await t.connect(), "tree").tree("g")
    await grow(another, "a", "z")
    kept = await another.info()
    await t.raises(CopyConflict, other.fork("g"), "a fork onto another tree")
    await t.raises(CopyConflict, other.fork("f", node_id="a"), "a fork onto one of another node")
    t.eq(await another.info(), kept, "the other tree")
    t.eq(await path_of(another), ["a", "z"], "its path")
    t.eq(await fork.info(), before, "the fork")


@check("TREE-COPY-001", contract="tree")
async def half_a_tree_is_none(t: T) -> None:
    """A tree whose import was cut off is neither read nor listed, and whole once it is repeated."""
    here, there = await t.connect(), await t.connect(t.another_place())
    names = ("tree", "trees", "tree_states", "export", "import_lines")
    source, target = upkeep_of(here, *names), upkeep_of(there, *names)
    await source.tree_states().save("t", snapshot(*map(str, range(MANY))))
    lines = [line async for line in source.export()]
    await t.raises(InvalidExport, target.import_lines(lines[:-2]), "an export that is cut off")
    tree = target.tree("t")
    for what in ("path", "messages", "nodes", "info"):
        found = await t.attempt(_read(tree, what))
        legal = isinstance(found, CorruptRecord | TreeNotFound) or not found
        t.ok(legal, f"{what} gives nothing of half a tree")
    t.eq(await _listed(target), [], "trees that are listed")
    t.ok(not await target.tree_states().has("t"), "there is no state, either")
    await target.import_lines(lines)
    t.eq(await path_of(tree), await path_of(source.tree("t")), "the path once it is whole")
    t.eq([info.tree_id for info in await _listed(target)], ["t"], "trees that are listed then")


async def _read(tree: SessionTree, what: str) -> object:
    """Return what one of the ways to read a tree gives."""
    found: object = await getattr(tree, what)()
    return getattr(found, "items", found)


@check("TREE-DEL-001", contract="tree")
async def a_tree_that_is_not_there(t: T) -> None:
    """A tree that was deleted is as one that never was: without nodes, and not found."""
    one, other = await tree_pair(t)
    upkeep = upkeep_of(await t.connect(), "trees")
    kept = upkeep.tree("kept")
    await _grown(kept)
    await _grown(one)
    t.ok(await other.delete() is True, "deleting a tree says that there was one")
    for name, tree in {"deleted": one, "never made": upkeep.tree("never")}.items():
        t.ok(await tree.delete() is False, f"there is none to delete that was {name}")
        nodes = (await tree.nodes()).items
        empty = [*await tree.path(), *await tree.messages(), *nodes]
        t.eq(empty, [], f"path, messages and nodes of a tree that was {name}")
        for what, call in {
            "info": lambda tree=tree: tree.info(),
            "stats": lambda tree=tree: tree.stats(),
            "branch": lambda tree=tree: tree.branch(None),
            "rename": lambda tree=tree: tree.rename("x"),
            "label": lambda tree=tree: tree.label("a", "x"),
            "fork": lambda tree=tree: tree.fork("new"),
        }.items():
            await t.raises(TreeNotFound, call, f"{what} of a tree that was {name}")
    t.eq([info.tree_id for info in await _listed(upkeep)], ["kept"], "trees that are left")
    t.eq(await path_of(kept), ["a", "b", "x"], "the path of the one that is left")
    await grow(one, "a")
    found = await other.info()
    anew = found.node_count, found.name, len(found.labels)
    t.eq(anew, (1, None, 0), "nodes, name and labels of a tree that is made anew")
    t.eq(await children_of(t, other), {None: ["a"]}, "its nodes")


@check("TREE-LIST-001", contract="tree")
async def trees_are_listed(t: T) -> None:
    """Trees are listed once, in the order of their ids' bytes, as each tells of itself."""
    one, other = await t.connect(), await t.connect()
    upkeep = upkeep_of(other, "trees")
    for id_ in reversed(IDS):
        t.clock.advance(1)
        await _grown(upkeep_of(one, "tree").tree(id_))
    if t.capabilities.checkpoint_saver:
        await one.checkpoint_saver().append("thread", snapshot("a"))
    wanted = [await upkeep.tree(id_).info() for id_ in IDS]
    for limit in (1, 2, len(IDS), 100):
        found = await _listed(upkeep, limit)
        t.eq([info.tree_id for info in found], IDS, f"trees, {limit} at a time")
        t.eq(found, wanted, "what is told of them")
