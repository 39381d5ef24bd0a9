"""Wrong trees: changes without a fence or without a place, labels lost, nodes stored again."""

from typing_extensions import override

from durably import (
    Entry,
    InvalidNode,
    NodeNotFound,
    RevisionConflict,
    TreeInfo,
    TreeNode,
    TreeNotFound,
)
from durably_conformance.building import said
from durably_conformance.selftest.delegating_states import TreeMutation
from durably_conformance.selftest.mutants_trees import Appending, altered, is_refused, trees_of
from durably_conformance.selftest.spoiling import wrong
from durably_conformance.selftest.tracking import Tracked


class AppendsUnfenced(Appending):
    """Appends at whatever revision."""

    @override
    async def put(
        self, entry: Entry, node_id: str | None, parent_id: str | None, at: int | None
    ) -> TreeNode:
        return await super().put(entry, node_id, parent_id, None)


class BranchesUnfenced(TreeMutation):
    """Branches at whatever revision."""

    @override
    async def branch(
        self, node_id: str | None, *, expected_revision: int | None = None
    ) -> TreeInfo:
        return await self.inner.branch(node_id)


class TakesTheLeaf(Appending):
    """Appends after the leaf where the parent is not there."""

    @override
    async def put(
        self, entry: Entry, node_id: str | None, parent_id: str | None, at: int | None
    ) -> TreeNode:
        try:
            return await super().put(entry, node_id, parent_id, at)
        except NodeNotFound:
            return await super().put(entry, node_id, None, at)


class TakesItself(Appending):
    """Makes a root of a node that is its own parent."""

    @override
    async def put(
        self, entry: Entry, node_id: str | None, parent_id: str | None, at: int | None
    ) -> TreeNode:
        try:
            return await super().put(entry, node_id, parent_id, at)
        except InvalidNode:
            return await super().put(entry, node_id, None, at)


class LosesLabels(Appending):
    """Writes a fresh head with each message, without labels."""

    @override
    async def put(
        self, entry: Entry, node_id: str | None, parent_id: str | None, at: int | None
    ) -> TreeNode:
        made = await super().put(entry, node_id, parent_id, at)
        for id_ in (await self.inner.info()).labels:
            await self.inner.label(id_, None)
        return made


class LosesItsName(TreeMutation):
    """Writes a fresh head with each branch, without the name."""

    @override
    async def branch(
        self, node_id: str | None, *, expected_revision: int | None = None
    ) -> TreeInfo:
        told = await self.inner.branch(node_id, expected_revision=expected_revision)
        return told if told.name is None else await self.inner.rename(None)


class MovesThereAgain(Appending):
    """Makes a node that is there the leaf again."""

    @override
    async def put(
        self, entry: Entry, node_id: str | None, parent_id: str | None, at: int | None
    ) -> TreeNode:
        made = await super().put(entry, node_id, parent_id, at)
        if (await self.inner.info()).leaf_id != made.id:
            await self.inner.branch(made.id)
        return made


class OnlyMovesItsLeaf(TreeMutation):
    """Deletes a tree by moving its leaf before the first node."""

    @override
    async def delete(self) -> bool:
        try:
            await self.inner.branch(None)
        except TreeNotFound:
            return False
        return True


class ForgetsItsParent(TreeMutation):
    """Does not tell from where a fork is."""

    @override
    async def info(self) -> TreeInfo:
        return altered(await self.inner.info(), parent=None)


async def appends_unfenced(place: Tracked) -> bool:
    """Append at an old revision."""
    tree, _ = await trees_of(place, "a")
    return not await is_refused(tree.append(said("b")[0], expected_revision=0))


async def branches_unfenced(place: Tracked) -> bool:
    """Branch at an old revision."""
    tree, _ = await trees_of(place, "a")
    try:
        return (await tree.branch("a", expected_revision=0)).leaf_id == "a"
    except RevisionConflict:
        return False


async def takes_the_leaf(place: Tracked) -> bool:
    """Append after what is not there."""
    tree, _ = await trees_of(place, "a")
    return not await is_refused(tree.append(said("x")[0], parent_id="absent"))


async def takes_itself(place: Tracked) -> bool:
    """Append a node after itself."""
    tree, _ = await trees_of(place, "a")
    return not await is_refused(tree.append(said("x")[0], node_id="x", parent_id="x"))


async def loses_labels(place: Tracked) -> bool:
    """Label a node, and append."""
    tree, _ = await trees_of(place, "a")
    await tree.label("a", "l")
    await tree.append(said("b")[0])
    return not (await tree.info()).labels


async def loses_its_name(place: Tracked) -> bool:
    """Name a tree, and branch."""
    tree, _ = await trees_of(place, "a")
    await tree.rename("name")
    await tree.branch("a")
    return (await tree.info()).name is None


async def moves_there_again(place: Tracked) -> bool:
    """Append a node that is there."""
    tree, _ = await trees_of(place, "a", "b")
    await tree.branch("a")
    await tree.append(said("b")[0], node_id="b")
    return (await tree.info()).leaf_id == "b"


async def only_moves_its_leaf(place: Tracked) -> bool:
    """Delete a tree and look for its nodes."""
    tree, _ = await trees_of(place, "a")
    await tree.delete()
    return len((await tree.nodes()).items) == 1


async def forgets_its_parent(place: Tracked) -> bool:
    """Fork a tree and ask from where it is."""
    tree, _ = await trees_of(place, "a")
    return (await (await tree.fork("f")).info()).parent is None


MUTANTS = (
    wrong(
        "appends without a fence",
        "With a revision an append once somebody else made a change is refused.",
        "TREE-006",
        "a token that is taken and not compared",
        appends_unfenced,
        tree=AppendsUnfenced,
    ),
    wrong(
        "branches without a fence",
        "With a revision a branch once somebody else made a change is refused.",
        "TREE-006",
        "an UPDATE of the leaf without the token",
        branches_unfenced,
        tree=BranchesUnfenced,
    ),
    wrong(
        "a parent made up",
        "A parent that is not there is refused.",
        "TREE-008",
        "a foreign key that is set to NULL, or to what is at hand",
        takes_the_leaf,
        tree=TakesTheLeaf,
    ),
    wrong(
        "a node after itself",
        "A node after itself is refused.",
        "TREE-008",
        "a check of the parent after the insert",
        takes_itself,
        tree=TakesItself,
    ),
    wrong(
        "labels lost by an append",
        "Labels stay, whatever is appended.",
        "TREE-009",
        "a head that is written anew by whoever moves the leaf",
        loses_labels,
        tree=LosesLabels,
    ),
    wrong(
        "a name lost by a branch",
        "The name stays, whatever is branched.",
        "TREE-009",
        "a head that is written anew by whoever moves the leaf",
        loses_its_name,
        tree=LosesItsName,
    ),
    wrong(
        "moved to by a repeated append",
        "A node_id that is there is not moved to.",
        "TREE-010",
        "INSERT OR IGNORE, and then an UPDATE of the leaf",
        moves_there_again,
        tree=MovesThereAgain,
    ),
    wrong(
        "a tree deleted by its leaf",
        "A tree that was deleted is as one that never was.",
        "TREE-DEL-001",
        "a soft delete",
        only_moves_its_leaf,
        tree=OnlyMovesItsLeaf,
    ),
    wrong(
        "a fork without its parent",
        "A fork remembers where it is from.",
        "TREE-FORK-001",
        "a column that was there before the first fork and never filled",
        forgets_its_parent,
        tree=ForgetsItsParent,
    ),
)
