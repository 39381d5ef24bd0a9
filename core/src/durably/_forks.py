"""Copying a path of one tree into another: never half of it for a whole, and repeatable.

Until the last batch the new tree's head says where it is being forked from: nobody takes it for a
tree, and whoever repeats the call goes on where it stopped. The last batch brings the head.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from durably._nodes import Head, forking_from, forking_head, is_unfinished, read_head
from durably._paging import in_batches
from durably._paths import start, walk
from durably._retry import until_unchallenged
from durably._writing import as_new
from durably.errors import CopyConflict, TreeNotFound
from durably.logstore import Batch, LogId, LogState, LogStore, Range, Record
from durably.rules import check_revision
from durably.tree_values import TreeParent

__all__ = ["fork"]

BATCH_RECORDS = 1000


async def fork(
    store: LogStore,
    source: LogId,
    target: LogId,
    node_id: str | None,
    *,
    clock: Callable[[], float],
) -> None:
    """Copy the path to a node into a new tree; see ``SessionTree.fork``."""

    async def attempt() -> None:
        nonlocal node_id
        found = await store.read(target, Range(limit=0))
        unfinished = None if found is None else forking_from(found.state)
        if node_id is None and unfinished is not None and unfinished.tree_id == source.id:
            node_id = unfinished.node_id
        begun = await start(store, source, node_id)
        if begun is None:
            raise TreeNotFound(source.id)
        node_id = begun.leaf
        parent = TreeParent(tree_id=source.id, node_id=begun.leaf)
        if found is not None and _is_complete(target, found.state, parent):
            return
        records = [step.record for step in await walk(store, source, begun)]
        there = None if found is None else await store.read(target)
        revision = 0 if found is None else found.state.revision
        check_revision(target, there, revision)
        known = [(one.key, one.data) for one in there.records] if there else []
        if known != [(one.key, one.data) for one in records[: len(known)]]:
            raise CopyConflict(target)
        for batch in _batches(records, len(known), begun.head, parent):
            change = msgspec.structs.replace(batch, expected_revision=revision, at=clock())
            revision = (await store.append(target, change)).revision

    await until_unchallenged(attempt)


def _is_complete(target: LogId, state: LogState, parent: TreeParent) -> bool:
    """Whether a tree is the fork wanted and whole; not, if it is only begun.

    Raises:
        CopyConflict: it is another tree.
    """
    is_begun = is_unfinished(target, state)
    if parent != (forking_from(state) if is_begun else read_head(target, state).parent):
        raise CopyConflict(target)
    return not is_begun


def _batches(
    records: Sequence[Record], known: int, head: Head, parent: TreeParent
) -> Iterator[Batch]:
    """Give the changes that complete a fork of which so many records are there."""
    labels = {one.key: head.labels[one.key] for one in records if one.key in head.labels}
    whole = head.changed(leaf=parent.node_id, labels=labels, parent=parent)
    portions = list(in_batches(map(as_new, records[known:]), most=BATCH_RECORDS)) or [()]
    for portion in portions[:-1]:
        yield Batch(records=portion, head=forking_head(parent))
    yield Batch(records=portions[-1], head=whole)
