"""Pages of trees, and of the nodes of one."""

from collections.abc import Callable
from typing import TypeVar

from durably._nodes import KIND, decode_node, is_unfinished, tree_info
from durably._paging import filtered_page
from durably._paths import Start, read_on
from durably.checks import MAX_LIST_LIMIT, check_count
from durably.logstore import LogId, LogInfo, LogState, LogStore, Page, Range
from durably.states import state_of
from durably.tree_values import TreeInfo, TreeNode

__all__ = ["list_trees", "node_page", "page_of_trees", "whole_state"]

T = TypeVar("T")


async def list_trees(store: LogStore, *, after: str | None, limit: int) -> Page[TreeInfo]:
    """List trees; see ``Storage.trees``."""
    return await page_of_trees(store, tree_info, after=after, limit=limit)


async def page_of_trees(
    store: LogStore, make: Callable[[LogId, LogState], T], *, after: str | None, limit: int
) -> Page[T]:
    """Return a page of what is made of the trees that are complete.

    Raises:
        InvalidLimit: ``limit`` is out of its range.
        CorruptRecord: the head of one cannot be read.
    """
    check_count("limit", limit, minimum=1, maximum=MAX_LIST_LIMIT)

    def accept(found: LogInfo) -> T | None:
        state = whole_state(found)
        return None if state is None else make(LogId(kind=KIND, id=found.id), state)

    return await filtered_page(store, KIND, after=after, limit=limit, accept=accept, is_narrow=True)


def whole_state(found: LogInfo) -> LogState | None:
    """Return the state of a tree that was listed; None if it is not complete.

    Raises:
        CorruptRecord: its head is missing.
    """
    state = state_of(KIND, found)
    return None if is_unfinished(LogId(kind=KIND, id=found.id), state) else state


async def node_page(
    store: LogStore, log: LogId, begun: Start, after: int, *, limit: int, with_content: bool
) -> Page[TreeNode]:
    """Return a page of the nodes that come after a seq; one more is read, to tell whether it ends.

    Raises:
        UnknownEntryType: a node or an entry is of a type this version does not know.
        CorruptRecord: a node cannot be read.
    """
    span = Range(after=after, limit=limit + 1)
    records = (await read_on(store, log, span, begun)).records
    shown = records[:limit]
    found = tuple(
        decode_node(log, record, begun.head.labels, with_content=with_content) for record in shown
    )
    return Page(items=found, next=found[-1].id if len(records) > len(found) else None)
