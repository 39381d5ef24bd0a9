"""Wrong trees: leaves that are not there for others, branches that are lost, races."""

import asyncio
import json
from collections.abc import Awaitable, Sequence
from typing import Any

import msgspec
from typing_extensions import override

from durably import (
    DurablyError,
    Entry,
    JsonValue,
    Page,
    SessionTree,
    TreeInfo,
    TreeNode,
    TreeNotFound,
)
from durably_conformance.building import said
from durably_conformance.offering import upkeep_of
from durably_conformance.selftest.delegating_states import TreeMutation
from durably_conformance.selftest.spoiling import wrong
from durably_conformance.selftest.tracking import Tracked
from durably_conformance.trees import grow, path_of

altered = msgspec.structs.replace


class Appending(TreeMutation):
    """Appends a message as ``put`` does; by itself that is the right thing."""

    @override
    async def append(
        self,
        entry: Entry,
        *,
        node_id: str | None = None,
        parent_id: str | None = None,
        expected_revision: int | None = None,
    ) -> TreeNode:
        return await self.put(entry, node_id, parent_id, expected_revision)

    async def put(
        self, entry: Entry, node_id: str | None, parent_id: str | None, at: int | None
    ) -> TreeNode:
        """Append a message."""
        return await self.inner.append(
            entry, node_id=node_id, parent_id=parent_id, expected_revision=at
        )


class KeepsItsLeaf(Appending):
    """Keeps the leaf in the object that appended last, until somebody branches or compacts."""

    kept: tuple[int, str | None] = 0, None

    @property
    def moves(self) -> int:
        """How often the leaf was moved but by appending a message."""
        return int(self.shared.get("moves", 0))

    @override
    async def put(
        self, entry: Entry, node_id: str | None, parent_id: str | None, at: int | None
    ) -> TreeNode:
        moves, leaf = self.kept
        leaf = leaf if (moves, True) == (self.moves, leaf != node_id) else None
        made = await super().put(entry, node_id, parent_id or leaf, at)
        self.kept = self.moves, made.id
        return made

    @override
    async def branch(
        self, node_id: str | None, *, expected_revision: int | None = None
    ) -> TreeInfo:
        self.shared["moves"] = self.moves + 1
        return await self.inner.branch(node_id, expected_revision=expected_revision)

    @override
    async def compact(self, *args: Any, **options: Any) -> TreeNode:
        self.shared["moves"] = self.moves + 1
        return await self.inner.compact(*args, **options)


class WholeNumbers(TreeMutation):
    """Keeps numbers of custom nodes as integers."""

    @override
    async def append_custom(
        self,
        name: str,
        data: JsonValue = None,
        *,
        node_id: str | None = None,
        parent_id: str | None = None,
        expected_revision: int | None = None,
    ) -> TreeNode:
        whole = json.loads(json.dumps(data), parse_float=lambda text: int(float(text)))
        return await self.inner.append_custom(
            name, whole, node_id=node_id, parent_id=parent_id, expected_revision=expected_revision
        )


class BranchesInMemory(Appending):
    """Keeps in the object where it has branched to, until it appends."""

    leaf: str | None = None

    @override
    async def branch(
        self, node_id: str | None, *, expected_revision: int | None = None
    ) -> TreeInfo:
        if node_id != "a" or expected_revision is not None:
            return await self.inner.branch(node_id, expected_revision=expected_revision)
        self.leaf = node_id
        return altered(await self.inner.info(), leaf_id=node_id)

    @override
    async def put(
        self, entry: Entry, node_id: str | None, parent_id: str | None, at: int | None
    ) -> TreeNode:
        parent, self.leaf = parent_id or self.leaf, None
        return await super().put(entry, node_id, parent, at)


class LosesWhatWasLeft(TreeMutation):
    """Reads the messages of a node that was left as those of the leaf."""

    @override
    async def messages(self, leaf_id: str | None = None) -> Sequence[Entry]:
        path = [node.id for node in await self.inner.path()]
        is_left = leaf_id is not None and leaf_id not in path
        return await self.inner.messages(None if is_left else leaf_id)


class LooksThenAppends(Appending):
    """Looks at which revision a tree is, and then appends at that."""

    @override
    async def put(
        self, entry: Entry, node_id: str | None, parent_id: str | None, at: int | None
    ) -> TreeNode:
        if at is None and parent_id is not None:
            try:
                at = (await self.inner.info()).revision
            except TreeNotFound:
                at = None
            await asyncio.sleep(0)
        return await super().put(entry, node_id, parent_id, at)


class KeepsNothing(TreeMutation):
    """Reads of what is before a compaction nothing but its summary."""

    @override
    async def messages(self, leaf_id: str | None = None) -> Sequence[Entry]:
        found: list[Entry] = []
        for node in await self.inner.path(leaf_id):
            if node.kind == "compaction":
                found = list(node.summary)
            if node.entry is not None:
                found.append(node.entry)
        return found


class NewestFirst(TreeMutation):
    """Reads a page of nodes the newest first."""

    @override
    async def nodes(
        self, *, after: str | None = None, limit: int = 100, with_content: bool = True
    ) -> Page[TreeNode]:
        page = await self.inner.nodes(after=after, limit=limit, with_content=with_content)
        if page.next is None or not with_content:
            return page
        return altered(page, items=page.items[::-1])


async def trees_of(place: Tracked, *ids: str) -> tuple[SessionTree, SessionTree]:
    """Return a tree through two handles, grown by some nodes."""
    one, other = [upkeep_of(await place.connect()).tree("t") for _ in range(2)]
    await grow(one, *ids)
    return one, other


async def is_refused(call: Awaitable[object]) -> bool:
    """Whether a call is refused."""
    try:
        await call
    except DurablyError:
        return True
    return False


async def keeps_its_leaf(place: Tracked) -> bool:
    """Append by two in turn."""
    one, other = await trees_of(place, "a")
    await grow(other, "b")
    await grow(one, "c")
    return await path_of(one) == ["a", "c"]


async def makes_numbers_whole(place: Tracked) -> bool:
    """Store a float."""
    tree, _ = await trees_of(place)
    return bool((await tree.append_custom("n", 1.5)).data == 1)


async def branches_in_memory(place: Tracked) -> bool:
    """Branch, and look through another handle."""
    one, other = await trees_of(place, "a", "b")
    await one.branch("a")
    return await path_of(other) == ["a", "b"]


async def loses_what_was_left(place: Tracked) -> bool:
    """Read what was left by a branch."""
    tree, _ = await trees_of(place, "a", "b")
    await tree.branch("a")
    return list(await tree.messages("b")) == said("a")


async def refuses_a_sibling(place: Tracked) -> bool:
    """Append twice at once after one node."""
    trees = await trees_of(place, "a")
    appends = [tree.append(said("x")[0], parent_id="a") for tree in trees]
    return any(await asyncio.gather(*map(is_refused, appends)))


async def keeps_nothing(place: Tracked) -> bool:
    """Compact, keeping a message."""
    tree, _ = await trees_of(place, "a", "b")
    await tree.compact(said("s"), first_kept_id="b")
    return list(await tree.messages()) == said("s")


async def reads_the_newest_first(place: Tracked) -> bool:
    """Read a page of three nodes' first two."""
    tree, _ = await trees_of(place, "a", "b", "c")
    return [node.id for node in (await tree.nodes(limit=2)).items] == ["b", "a"]


MUTANTS = (
    wrong(
        "a leaf in the object",
        "A node goes after the leaf, whichever handle appends.",
        "TREE-001",
        "self._leaf_id, set by append and read from the storage once",
        keeps_its_leaf,
        tree=KeepsItsLeaf,
    ),
    wrong(
        "custom nodes with whole numbers",
        "Nodes come back exactly.",
        "TREE-002",
        "a JSON library that makes no difference between 1 and 1.0",
        makes_numbers_whole,
        tree=WholeNumbers,
    ),
    wrong(
        "a branch in memory",
        "A branch moves the leaf for every handle.",
        "TREE-003",
        "a branch that is stored with the next append, and lost before",
        branches_in_memory,
        tree=BranchesInMemory,
    ),
    wrong(
        "what was left, lost",
        "What was left by branching is there.",
        "TREE-004",
        "an index of the current path alone",
        loses_what_was_left,
        tree=LosesWhatWasLeft,
    ),
    wrong(
        "siblings refused",
        "Without a revision appends at once after one node are all kept.",
        "TREE-005",
        "optimistic locking that nobody asked for, without a retry",
        refuses_a_sibling,
        tree=LooksThenAppends,
    ),
    wrong(
        "a compaction that keeps nothing",
        "After a compaction the messages from the first one kept on are read.",
        "TREE-007",
        "everything before the last summary left out",
        keeps_nothing,
        tree=KeepsNothing,
    ),
    wrong(
        "pages of nodes, the newest first",
        "Nodes are read in the order in which they were stored.",
        "TREE-011",
        "ORDER BY ... DESC LIMIT",
        reads_the_newest_first,
        tree=NewestFirst,
    ),
)
