"""Wrong forks and listings of trees, and states kept as trees that cost too much or lose."""

from collections.abc import Sequence

import msgspec
from typing_extensions import override

from durably import (
    CopyConflict,
    CorruptRecord,
    Entry,
    InvalidExport,
    Page,
    SessionTree,
    StateInfo,
    StateSnapshot,
    TreeInfo,
    TreeNode,
    TreeStateStore,
)
from durably.testing import Handle
from durably_conformance.building import snapshot
from durably_conformance.offering import upkeep_of
from durably_conformance.selftest.delegating_states import TreeMutation, TreeStatesMutation
from durably_conformance.selftest.delegating_upkeep import UpkeepMutation
from durably_conformance.selftest.mutants_states import peek
from durably_conformance.selftest.mutants_trees import Appending, trees_of
from durably_conformance.selftest.spoiling import wrong
from durably_conformance.selftest.tracking import Tracked
from durably_conformance.trees import grow, path_of


class Shares(Appending):
    """Appends to the forks of a tree what is appended to it."""

    @override
    async def fork(self, new_id: str, *, node_id: str | None = None) -> "Shares":
        made = await super().fork(new_id, node_id=node_id)
        self.shared.setdefault(self.tree_id, []).append(made.inner)
        return made

    @override
    async def put(
        self, entry: Entry, node_id: str | None, parent_id: str | None, at: int | None
    ) -> TreeNode:
        made = await super().put(entry, node_id, parent_id, at)
        forks: list[SessionTree] = self.shared.get(self.tree_id, [])
        for fork in forks:
            await fork.append(entry, node_id=node_id)
        return made


class ForksOntoAnother(TreeMutation):
    """Gives the tree that has the new id as the fork."""

    @override
    async def fork(self, new_id: str, *, node_id: str | None = None) -> "ForksOntoAnother":
        try:
            return await super().fork(new_id, node_id=node_id)
        except CopyConflict:
            return self


class ReadsHalf(TreeMutation):
    """Reads of a tree that is not whole the nodes there are."""

    @override
    async def nodes(
        self, *, after: str | None = None, limit: int = 100, with_content: bool = True
    ) -> Page[TreeNode]:
        try:
            return await self.inner.nodes(after=after, limit=limit, with_content=with_content)
        except CorruptRecord:
            node = TreeNode(id="0", parent_id=None, kind="message", stored_at=0.0, revision=1)
            return Page(items=(node,))


class ListsInTheOrderOfWords(UpkeepMutation):
    """Lists trees as a dictionary orders words."""

    @override
    async def trees(self, *, after: str | None = None, limit: int = 100) -> Page[TreeInfo]:
        page = await self.inner.trees(after=after, limit=limit)
        found = sorted(page.items, key=lambda info: info.tree_id.casefold())
        return msgspec.structs.replace(page, items=tuple(found))


def _begins(new: StateSnapshot, old: StateSnapshot | None) -> bool:
    """Whether a conversation has all that another one has, and more."""
    before = [] if old is None else list(old.messages)
    return 0 < len(before) < len(new.messages) and list(new.messages)[: len(before)] == before


class WritesItAllAgain(TreeStatesMutation):
    """Writes a conversation that grew from its first message on."""

    @override
    async def save(self, key: str, snapshot: StateSnapshot) -> int:
        if _begins(snapshot, await peek(self.inner, key)):
            await self.inner.save(key, StateSnapshot(version=snapshot.version))
        return await self.inner.save(key, snapshot)


class DeletesWhatDiffers(TreeStatesMutation):
    """Removes a conversation that another one does not go on from."""

    @override
    async def save(self, key: str, snapshot: StateSnapshot) -> int:
        old = await peek(self.inner, key)
        is_another = old is not None and old.messages != snapshot.messages
        saved = await self.inner.save(key, snapshot)
        if is_another and not _begins(snapshot, old):
            await self.inner.delete(key)
            return await self.inner.save(key, snapshot)
        return saved


class WritesWhatIsThere(TreeStatesMutation):
    """Writes a snapshot again that is there."""

    @override
    async def save(self, key: str, snapshot: StateSnapshot) -> int:
        if await peek(self.inner, key) == snapshot:
            await self.inner.save(key, snapshot.replace(turn=snapshot.turn + 1))
        return await self.inner.save(key, snapshot)


class RecentByKey(TreeStatesMutation):
    """Gives the trees changed last by their keys."""

    @override
    async def recent(self, *, limit: int = 100) -> Sequence[StateInfo]:
        found = await self.whole.recent(limit=limit)
        return sorted(found, key=lambda row: row.key)


async def shares_a_fork(place: Tracked) -> bool:
    """Append to a tree that was forked."""
    tree, _ = await trees_of(place, "a")
    fork = await tree.fork("f")
    await grow(tree, "b")
    return await path_of(fork) == ["a", "b"]


async def forks_onto_another(place: Tracked) -> bool:
    """Fork a tree onto another one."""
    tree, _ = await trees_of(place, "a")
    await grow(upkeep_of(await place.connect()).tree("f"), "z")
    try:
        return (await tree.fork("f")).tree_id != "f"
    except CopyConflict:
        return False


async def reads_half_a_tree(place: Tracked) -> bool:
    """Import what is cut off, and read the nodes."""
    handle, other = await place.connect(), upkeep_of(await place.another())
    await upkeep_of(handle).tree_states().save("t", snapshot(*"a" * 200))
    lines = [line async for line in upkeep_of(handle).export()]
    try:
        await other.import_lines(lines[:-2])
    except InvalidExport:
        return await _has_nodes(other.tree("t"))
    return False


async def _has_nodes(tree: SessionTree) -> bool:
    try:
        return bool((await tree.nodes()).items)
    except CorruptRecord:
        return False


async def lists_as_words(place: Tracked) -> bool:
    """List two trees."""
    upkeep = upkeep_of(await place.connect())
    for id_ in ("B", "a"):
        await grow(upkeep.tree(id_), "n")
    return [info.tree_id for info in (await upkeep.trees()).items] == ["a", "B"]


async def _saved(place: Tracked, *saved: StateSnapshot) -> tuple[Handle, TreeStateStore]:
    """Return a handle and a store in which snapshots were saved."""
    handle = await place.connect()
    store = upkeep_of(handle).tree_states()
    for one in saved:
        await store.save("k", one)
    return handle, store


async def writes_it_all_again(place: Tracked) -> bool:
    """Save a conversation that grows."""
    handle, _ = await _saved(place, snapshot("a"), snapshot("a", "b"))
    return (await upkeep_of(handle).tree("k").info()).message_count == 3


async def deletes_what_differs(place: Tracked) -> bool:
    """Save another conversation."""
    handle, _ = await _saved(place, snapshot("a"), snapshot("x"))
    return (await upkeep_of(handle).tree("k").info()).message_count == 1


async def writes_what_is_there(place: Tracked) -> bool:
    """Save one snapshot twice."""
    handle, _ = await _saved(place, snapshot("a"), snapshot("a"))
    return (await upkeep_of(handle).tree("k").info()).node_count > 2


async def gives_them_by_key(place: Tracked) -> bool:
    """Save under two keys."""
    times = iter(range(1, 100))
    store = upkeep_of(await place.connect(clock=lambda: float(next(times)))).tree_states()
    for key in ("a", "b"):
        await store.save(key, snapshot("x"))
    return [row.key for row in await store.recent()] == ["a", "b"]


MUTANTS = (
    wrong(
        "a fork that shares",
        "A fork and its tree go on apart.",
        "TREE-FORK-002",
        "a fork that is a view of its tree",
        shares_a_fork,
        tree=Shares,
    ),
    wrong(
        "a fork onto another tree",
        "To fork onto another tree of the new id conflicts.",
        "TREE-FORK-003",
        "CREATE IF NOT EXISTS",
        forks_onto_another,
        tree=ForksOntoAnother,
    ),
    wrong(
        "half a tree read",
        "A tree whose import was cut off is not read.",
        "TREE-COPY-001",
        "rows that are there before the one that says they are whole",
        reads_half_a_tree,
        tree=ReadsHalf,
    ),
    wrong(
        "trees in the order of words",
        "Trees are listed in the order of their ids' bytes.",
        "TREE-LIST-001",
        "ORDER BY with the collation of a locale",
        lists_as_words,
        upkeep=ListsInTheOrderOfWords,
    ),
    wrong(
        "a conversation written all again",
        "A conversation that grew is stored by the messages that are new.",
        "TREE-STATE-001",
        "openai/openai-agents-python#2843",
        writes_it_all_again,
        tree_states=WritesItAllAgain,
    ),
    wrong(
        "another way that removes the first",
        "A conversation that went another way leaves the other one.",
        "TREE-STATE-002",
        "an edit of a message that cuts off what came after it",
        deletes_what_differs,
        tree_states=DeletesWhatDiffers,
    ),
    wrong(
        "a save of what is there",
        "To save again what is there writes nothing.",
        "TREE-STATE-003",
        "a save on a timer",
        writes_what_is_there,
        tree_states=WritesWhatIsThere,
    ),
    wrong(
        "the latest by key",
        "The trees changed last come first.",
        "TREE-STATE-004",
        "a listing that is cut short before it is sorted",
        gives_them_by_key,
        tree_states=RecentByKey,
    ),
)
