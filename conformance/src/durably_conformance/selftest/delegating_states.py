"""States and trees, passed on: a mutant overrides the one thing it spoils."""

from collections.abc import Sequence
from typing import Any, Self

from typing_extensions import override

from durably import (
    Entry,
    JsonValue,
    Page,
    SessionTree,
    StateInfo,
    StateSnapshot,
    StateStore,
    TreeInfo,
    TreeNode,
    TreeStateStore,
    TreeStats,
)

__all__ = ["StatesMutation", "TreeMutation", "TreeStatesMutation"]


class StatesMutation(StateStore):
    """Passes every operation on to ``inner``; ``shared`` is common to all handles of a place."""

    def __init__(self, inner: StateStore, shared: dict[str, Any]) -> None:
        self.inner = inner
        self.shared = shared

    @override
    async def save(self, key: str, snapshot: StateSnapshot) -> int:
        return await self.inner.save(key, snapshot)

    @override
    async def load(self, key: str) -> StateSnapshot:
        return await self.inner.load(key)

    @override
    async def has(self, key: str) -> bool:
        return await self.inner.has(key)

    @override
    async def delete(self, key: str) -> bool:
        return await self.inner.delete(key)

    @override
    async def list(self, *, after: str | None = None, limit: int = 100) -> Page[StateInfo]:
        return await self.inner.list(after=after, limit=limit)


class TreeStatesMutation(StatesMutation):
    """Passes every operation on to ``whole``, which ``inner`` is, too."""

    def __init__(self, inner: TreeStateStore, shared: dict[str, Any]) -> None:
        super().__init__(inner, shared)
        self.whole = inner

    async def recent(self, *, limit: int = 100) -> Sequence[StateInfo]:
        """List the trees changed last, newest first."""
        return await self.whole.recent(limit=limit)


class TreeMutation(SessionTree):
    """Passes every operation on to ``inner``; ``shared`` is common to all handles of a place."""

    def __init__(self, inner: SessionTree, shared: dict[str, Any]) -> None:
        self.inner = inner
        self.shared = shared

    @property
    @override
    def tree_id(self) -> str:
        return self.inner.tree_id

    @override
    async def append(
        self,
        entry: Entry,
        *,
        node_id: str | None = None,
        parent_id: str | None = None,
        expected_revision: int | None = None,
    ) -> TreeNode:
        return await self.inner.append(
            entry, node_id=node_id, parent_id=parent_id, expected_revision=expected_revision
        )

    @override
    async def compact(
        self,
        summary: Sequence[Entry],
        *,
        first_kept_id: str | None = None,
        node_id: str | None = None,
        parent_id: str | None = None,
        expected_revision: int | None = None,
    ) -> TreeNode:
        return await self.inner.compact(
            summary,
            first_kept_id=first_kept_id,
            node_id=node_id,
            parent_id=parent_id,
            expected_revision=expected_revision,
        )

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
        return await self.inner.append_custom(
            name, data, node_id=node_id, parent_id=parent_id, expected_revision=expected_revision
        )

    @override
    async def branch(
        self, node_id: str | None, *, expected_revision: int | None = None
    ) -> TreeInfo:
        return await self.inner.branch(node_id, expected_revision=expected_revision)

    @override
    async def label(self, node_id: str, label: str | None) -> TreeInfo:
        return await self.inner.label(node_id, label)

    @override
    async def rename(self, name: str | None) -> TreeInfo:
        return await self.inner.rename(name)

    @override
    async def path(self, leaf_id: str | None = None) -> Sequence[TreeNode]:
        return await self.inner.path(leaf_id)

    @override
    async def messages(self, leaf_id: str | None = None) -> Sequence[Entry]:
        return await self.inner.messages(leaf_id)

    @override
    async def info(self) -> TreeInfo:
        return await self.inner.info()

    @override
    async def stats(self) -> TreeStats:
        return await self.inner.stats()

    @override
    async def nodes(
        self, *, after: str | None = None, limit: int = 100, with_content: bool = True
    ) -> Page[TreeNode]:
        return await self.inner.nodes(after=after, limit=limit, with_content=with_content)

    @override
    async def fork(self, new_id: str, *, node_id: str | None = None) -> Self:
        return type(self)(await self.inner.fork(new_id, node_id=node_id), self.shared)

    @override
    async def delete(self) -> bool:
        return await self.inner.delete()
