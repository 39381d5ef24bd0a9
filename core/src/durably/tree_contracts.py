"""What a session tree promises: a conversation whose every turn may have several next ones."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from durably.entries import Entry, JsonValue
from durably.logstore import Page
from durably.tree_values import TreeInfo, TreeNode, TreeStats

__all__ = ["SessionTree"]


class SessionTree(ABC):
    """One tree of nodes, with a leaf at which it grows; the first append makes it.

    Nothing is ever taken away or changed but name, labels and the leaf, whatever is branched.
    Every change is atomic, the leaf included. Without ``expected_revision`` changes of others
    are no obstacle: two that append at once after the same node make two siblings, and the leaf
    is the one stored last. With it, a change is refused once somebody else made one;
    the revision is that of a ``TreeInfo``, of the ``TreeNode`` stored last, or 0 for a tree that
    is not there. A tree that is being copied or forked cannot be read before it is whole: until
    then it is ``CorruptRecord`` to all but its deletion and the fork or copy repeated.
    """

    @property
    @abstractmethod
    def tree_id(self) -> str:
        """The tree's id."""

    @abstractmethod
    async def append(
        self,
        entry: Entry,
        *,
        node_id: str | None = None,
        parent_id: str | None = None,
        expected_revision: int | None = None,
    ) -> TreeNode:
        """Store an entry as a message after ``parent_id``, or the leaf, and make it the leaf.

        ``node_id`` names it, up to 256 bytes, and makes the call safe to repeat: the first write
        wins, and a node that is there is returned as it is, whatever the call carries. Without,
        it has a fresh unique id. What is read and written does not grow with the tree.

        Returns:
            The node.

        Raises:
            NodeNotFound: there is no node ``parent_id``.
            InvalidNode: it would be its own parent.
            InvalidLimit: ``expected_revision`` is not an integer of at least 0.
            RevisionConflict: the tree is not at ``expected_revision``.
            NotSerializable: it is not an entry, or JSON cannot give it back exactly.
            RecordTooLarge: it is larger than the backend's limit.
            StorageBusy: others changed the tree between reading and writing, every time.
            CorruptRecord: the tree's head cannot be read.
        """

    @abstractmethod
    async def compact(
        self,
        summary: Sequence[Entry],
        *,
        first_kept_id: str | None = None,
        node_id: str | None = None,
        parent_id: str | None = None,
        expected_revision: int | None = None,
    ) -> TreeNode:
        """Store a summary that stands for what is before it, and make it the leaf.

        To ``messages`` the path then begins with ``summary``, goes on with the messages from
        ``first_kept_id`` to here, and then with what follows. Read is the path back to
        ``first_kept_id``. The rest is as in ``append``.

        Returns:
            The node.

        Raises:
            NodeNotFound: there is no node ``parent_id``.
            InvalidNode: ``first_kept_id`` is not on the path, or it would be its own parent.
            InvalidLimit: ``expected_revision`` is not an integer of at least 0.
            RevisionConflict: the tree is not at ``expected_revision``.
            NotSerializable: one of ``summary`` is not an entry, or JSON cannot give it back
                exactly.
            RecordTooLarge: it is larger than the backend's limit.
            StorageBusy: others changed the tree between reading and writing, every time.
            CorruptRecord: the tree's head, or a node on the path, cannot be read.
        """

    @abstractmethod
    async def append_custom(
        self,
        name: str,
        data: JsonValue = None,
        *,
        node_id: str | None = None,
        parent_id: str | None = None,
        expected_revision: int | None = None,
    ) -> TreeNode:
        """Store a node of the application's own, and make it the leaf; it is no message.

        The rest is as in ``append``.

        Returns:
            The node.

        Raises:
            NodeNotFound: there is no node ``parent_id``.
            InvalidNode: it would be its own parent.
            InvalidLimit: ``expected_revision`` is not an integer of at least 0.
            RevisionConflict: the tree is not at ``expected_revision``.
            NotSerializable: ``name`` is not text, or JSON cannot give back ``data`` exactly.
            RecordTooLarge: it is larger than the backend's limit.
            StorageBusy: others changed the tree between reading and writing, every time.
            CorruptRecord: the tree's head cannot be read.
        """

    @abstractmethod
    async def branch(
        self, node_id: str | None, *, expected_revision: int | None = None
    ) -> TreeInfo:
        """Move the leaf to a node, or with None before the first, for the next append and reader.

        Returns:
            The tree as it is then.

        Raises:
            TreeNotFound: there is no such tree.
            NodeNotFound: there is no such node.
            InvalidLimit: ``expected_revision`` is not an integer of at least 0.
            RevisionConflict: the tree is not at ``expected_revision``.
            StorageBusy: others changed the tree between reading and writing, every time.
            CorruptRecord: the tree's head cannot be read.
        """

    @abstractmethod
    async def label(self, node_id: str, label: str | None) -> TreeInfo:
        """Put a label on a node in place of the one it has, or take it away with None.

        Returns:
            The tree as it is then.

        Raises:
            TreeNotFound: there is no such tree.
            NodeNotFound: there is no such node.
            NotSerializable: ``label`` is not text.
            RecordTooLarge: all labels together are larger than the backend's limit for heads.
            StorageBusy: others changed the tree between reading and writing, every time.
            CorruptRecord: the tree's head cannot be read.
        """

    @abstractmethod
    async def rename(self, name: str | None) -> TreeInfo:
        """Give the tree a name, or take it away with None.

        Returns:
            The tree as it is then.

        Raises:
            TreeNotFound: there is no such tree.
            NotSerializable: ``name`` is not text.
            RecordTooLarge: name and labels are larger than the backend's limit for heads.
            StorageBusy: others changed the tree between reading and writing, every time.
            CorruptRecord: the tree's head cannot be read.
        """

    @abstractmethod
    async def path(self, leaf_id: str | None = None) -> Sequence[TreeNode]:
        """Read the nodes from the root to ``leaf_id``, or to the leaf.

        What is read beside them stays within a small multiple of the path, however large the
        tree is.

        Returns:
            The nodes, root first; an empty list where there is no tree, or its leaf is before
            the first node.

        Raises:
            NodeNotFound: there is no node ``leaf_id``.
            StorageBusy: the tree was deleted and made again while it was read, every time.
            UnknownEntryType: a node or an entry is of a type this version does not know.
            CorruptRecord: stored bytes cannot be read.
        """

    @abstractmethod
    async def messages(self, leaf_id: str | None = None) -> Sequence[Entry]:
        """Read the conversation from the root to ``leaf_id``, or to the leaf, as a model sees it.

        The last compaction on the path stands for what it summarises: first comes its summary,
        then the messages from the first one kept on, then what follows it. Nothing before that
        is read.

        Returns:
            The entries; an empty list where there is no tree, or its leaf is before the first
            node.

        Raises:
            NodeNotFound: there is no node ``leaf_id``.
            StorageBusy: the tree was deleted and made again while it was read, every time.
            UnknownEntryType: a node or an entry is of a type this version does not know.
            CorruptRecord: stored bytes cannot be read.
        """

    @abstractmethod
    async def info(self) -> TreeInfo:
        """Read what is known of the tree without its nodes.

        Returns:
            The tree.

        Raises:
            TreeNotFound: there is no such tree.
            CorruptRecord: the tree's head cannot be read.
        """

    @abstractmethod
    async def stats(self) -> TreeStats:
        """Count what is in the tree; all of it is read, some nodes at a time.

        Returns:
            The counts; nodes of a kind this version does not know are among them.

        Raises:
            TreeNotFound: there is no such tree.
            StorageBusy: the tree was deleted and made again while it was read, every time.
            CorruptRecord: stored bytes cannot be read.
        """

    @abstractmethod
    async def nodes(
        self, *, after: str | None = None, limit: int = 100, with_content: bool = True
    ) -> Page[TreeNode]:
        """Read nodes in the order in which they were stored, each after its parent.

        ``after`` is a node's id, exclusive, as in ``Page.next``; ``limit`` is 1 to 1,000. Without
        ``with_content`` they come without entry, summary, name and data, and types this version
        does not know are no obstacle: that is what is needed to draw a tree.

        Returns:
            A page of nodes; ``next`` is None at the end, and where there is no tree.

        Raises:
            NodeNotFound: there is no node ``after``.
            InvalidLimit: ``limit`` is out of its range.
            StorageBusy: the tree was deleted and made again while it was read, every time.
            UnknownEntryType: a node or an entry is of a type this version does not know.
            CorruptRecord: stored bytes cannot be read.
        """

    @abstractmethod
    async def fork(self, new_id: str, *, node_id: str | None = None) -> "SessionTree":
        """Copy the path to ``node_id``, or to the leaf, into a new tree that remembers this one.

        Nodes keep ids, labels, times and every byte; the two trees share nothing. Repeating it
        after it was cut off completes it, and changes nothing of a fork that is complete.

        Returns:
            The new tree.

        Raises:
            TreeNotFound: there is no such tree.
            NodeNotFound: there is no node ``node_id``.
            CopyConflict: there is another tree of the new id; nothing of it was changed.
            StorageBusy: others changed one of the two between reading and writing, every time.
            CorruptRecord: the tree's head, or a node's place in it, cannot be read.
        """

    @abstractmethod
    async def delete(self) -> bool:
        """Remove the tree with all of its nodes; trees forked from it stay.

        Returns:
            Whether there was one.
        """
