"""The shape of a tree, from its nodes in the order in which they were stored."""

from collections import Counter

from durably._nodes import decode_link
from durably._paging import Portions
from durably.errors import CorruptRecord, RevisionConflict
from durably.logstore import LogId, LogState, LogStore, Record
from durably.tree_values import TreeStats

__all__ = ["read_shape"]


class _Shape:
    """Counts nodes; of each it keeps its depth and how many children it has."""

    def __init__(self) -> None:
        self._depths: dict[str, int] = {}
        self._children: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._roots = 0

    def add(self, log: LogId, record: Record) -> None:
        """Count a node; its parent was counted before.

        Raises:
            CorruptRecord: it is no node, or its parent is missing.
        """
        link = decode_link(log, record)
        self._kinds[link.kind] += 1
        if link.parent is None:
            self._roots += 1
            self._depths[record.key] = 1
            return
        if link.parent not in self._depths:
            raise CorruptRecord(log, "its parent is missing", record=record.key)
        self._children[link.parent] += 1
        self._depths[record.key] = self._depths[link.parent] + 1

    def stats(self) -> TreeStats:
        """Return the counts."""
        return TreeStats(
            nodes_by_kind=dict(self._kinds),
            root_count=self._roots,
            leaf_count=len(self._depths) - len(self._children),
            fork_count=sum(1 for count in self._children.values() if count > 1),
            depth=max(self._depths.values(), default=0),
        )


async def read_shape(store: LogStore, log: LogId, state: LogState) -> TreeStats:
    """Count what a tree has in a state, reading all of it.

    Raises:
        CorruptRecord: a record is no node, or its parent is missing.
        RevisionConflict: the tree was deleted, and perhaps made again, meanwhile.
    """
    shape, count = _Shape(), 0
    async for part in Portions(store, log, until=state.next_seq - 1):
        if part.state.epoch != state.epoch:
            break
        count += len(part.records)
        for record in part.records:
            shape.add(log, record)
    if count != state.record_count:
        raise RevisionConflict(log, expected=state.epoch, actual=0)
    return shape.stats()
