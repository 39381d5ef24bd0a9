"""The nodes of a tree as a person reads them, those this version does not know among them."""

from collections.abc import AsyncIterator

import msgspec

from durably.commands.output import plain
from durably.commands.transcript import Said, transcript
from durably.errors import CorruptRecord, UnknownEntryType
from durably.tree_contracts import SessionTree
from durably.tree_values import TreeNode

__all__ = ["FoundNode", "brief", "read_nodes"]

PAGE = 100

BRIEF = 72
"""Characters of a text that is shown in one line."""

_TOO_LONG = 100 * BRIEF


class FoundNode(msgspec.Struct, frozen=True):
    """A node, and why it is without its content, if it is."""

    node: TreeNode
    problem: CorruptRecord | UnknownEntryType | None = None

    def said(self) -> Said:
        """Return who said what, not yet harmless."""
        node = self.node
        if isinstance(self.problem, UnknownEntryType):
            return Said(node.kind, f"(of the unknown type {self.problem.entry_type!a})")
        if self.problem is not None:
            return Said(node.kind, "(its content cannot be read)")
        if node.entry is not None:
            return next(transcript([node.entry]))
        if node.kind == "compaction":
            return Said(node.kind, "\n".join(one.text for one in transcript(node.summary)))
        return Said(f"custom {node.name}", "" if node.data is None else plain(node.data))

    def in_brief(self) -> Said:
        """Return who said what, as the beginning of a line each."""
        said = self.said()
        return Said(brief(said.heading), brief(said.text))


async def read_nodes(tree: SessionTree) -> AsyncIterator[FoundNode]:
    """Yield the nodes in the order in which they were stored, a page in memory at a time.

    Around one that cannot be read pages get smaller, until it is alone on its page.

    Raises:
        CorruptRecord: where a node hangs cannot be read.
    """
    place: str | None = None
    limit = PAGE
    while True:
        problem = None
        try:
            page = await tree.nodes(after=place, limit=limit)
            limit = min(PAGE, 2 * limit)
        except (CorruptRecord, UnknownEntryType) as error:
            if limit > 1:
                limit //= 2
                continue
            problem = error
            page = await tree.nodes(after=place, limit=1, with_content=False)
        for node in page.items:
            yield FoundNode(node, problem)
        if page.next is None:
            return
        place = page.next


def brief(text: str) -> str:
    """Return the beginning of a text as one line."""
    line = " ".join(text[:_TOO_LONG].split())
    if len(line) <= BRIEF and len(text) <= _TOO_LONG:
        return line
    return f"{line[:BRIEF]}…"
