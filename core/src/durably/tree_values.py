"""What a session tree hands out: its nodes, and what is known of a whole tree."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from durably.entries import Entry, JsonValue

__all__ = ["NODE_KINDS", "NodeKind", "TreeInfo", "TreeNode", "TreeParent", "TreeStats"]

NodeKind: TypeAlias = Literal["message", "compaction", "custom"]

NODE_KINDS: tuple[NodeKind, ...] = ("message", "compaction", "custom")


class TreeNode(msgspec.Struct, frozen=True, kw_only=True):
    """One node of a tree; ``kind`` says which of the fields below mean something.

    A ``message`` has its ``entry``. A ``compaction`` has a ``summary`` that stands for what is
    before it on its path, but for the messages from ``first_kept_id`` on; None keeps none. A
    ``custom`` node has ``name`` and ``data``, which are the application's own. A newer version
    may have stored another kind. ``parent_id`` is None for a root. ``stored_at`` is epoch
    seconds, of the node that a fork's was copied from; ``revision`` the tree's when the node was
    stored in it.
    """

    id: str
    parent_id: str | None
    kind: str
    stored_at: float
    revision: int
    label: str | None = None
    entry: Entry | None = None
    summary: Sequence[Entry] = ()
    first_kept_id: str | None = None
    name: str | None = None
    data: JsonValue = None


class TreeParent(msgspec.Struct, frozen=True, kw_only=True):
    """Where a tree was forked from; ``node_id`` is None where that was before the first node."""

    tree_id: str
    node_id: str | None = None


class TreeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a tree without reading a node; times are epoch seconds.

    ``leaf_id`` is the node the next one goes after, None before the first; ``labels`` are by
    the ids of their nodes.
    """

    tree_id: str
    revision: int
    name: str | None
    leaf_id: str | None
    labels: Mapping[str, str]
    parent: TreeParent | None
    node_count: int
    message_count: int
    created_at: float
    updated_at: float


class TreeStats(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a tree: its nodes by kind, and its shape.

    ``leaf_count`` counts the nodes without a child, which is how many branches there are;
    ``fork_count`` those with more than one; ``depth`` is the length of the longest path.
    """

    nodes_by_kind: Mapping[str, int]
    root_count: int
    leaf_count: int
    fork_count: int
    depth: int
