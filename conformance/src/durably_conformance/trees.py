"""Trees in few words, for the checks of them and their mutants."""

from durably import SessionTree, TreeNode
from durably_conformance.building import said
from durably_conformance.context import T
from durably_conformance.offering import upkeep_of

__all__ = ["all_nodes", "children_of", "grow", "path_of", "tree_pair"]

PAGES = 60
"""More than any walk here takes; one that goes in circles ends there."""


async def tree_pair(t: T, tree_id: str = "t") -> tuple[SessionTree, SessionTree]:
    """Return a tree through two handles onto the check's place."""
    one, other = await t.connect(), await t.connect()
    return upkeep_of(one, "tree").tree(tree_id), upkeep_of(other, "tree").tree(tree_id)


async def grow(tree: SessionTree, *ids: str) -> list[TreeNode]:
    """Append a message for each id, which it has and says, one after the other."""
    return [await tree.append(said(id_)[0], node_id=id_) for id_ in ids]


async def path_of(tree: SessionTree, leaf_id: str | None = None) -> list[str]:
    """Return the ids on a path."""
    return [node.id for node in await tree.path(leaf_id)]


async def all_nodes(t: T, tree: SessionTree, *, limit: int = 100) -> list[TreeNode]:
    """Return every node, page after page."""
    found: list[TreeNode] = []
    after: str | None = None
    for _ in range(PAGES):
        page = await tree.nodes(after=after, limit=limit)
        t.ok(len(page.items) <= limit, f"a page has at most {limit} nodes")
        found += page.items
        after = page.next
        if after is None:
            return found
    return t.fail(f"the walk over nodes does not end: {PAGES} pages, {len(found)} nodes")


async def children_of(t: T, tree: SessionTree) -> dict[str | None, list[str]]:
    """Return the ids of the children of each node that has some, by its id."""
    found: dict[str | None, list[str]] = {}
    for node in await all_nodes(t, tree):
        found.setdefault(node.parent_id, []).append(node.id)
    return found
