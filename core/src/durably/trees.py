"""The ``SessionTree`` contract over a log store: a record is one node, the head holds the leaf.

A node is stored together with a head in which the leaf is moved, at the revision that was read.
Whoever loses that race keeps the parent it had read, since nodes never go, and merges the leaf
into the head there is now.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from durably import _nodes as nodes
from durably._forks import fork
from durably._paths import Start, check_kept, conversation, decode_said, start, until_kept, walk
from durably._raw import RawObject
from durably._retry import until_unchallenged
from durably._shapes import read_shape
from durably._tree_pages import node_page
from durably._typing import override
from durably.checks import MAX_LIST_LIMIT, check_count, check_id, check_revision_token, check_size
from durably.codec import Codec
from durably.entries import Entry, JsonValue
from durably.errors import InvalidNode, NodeNotFound, RevisionConflict, TreeNotFound
from durably.logstore import Batch, Log, LogId, LogStore, NewRecord, Page, Range, Record, new_key
from durably.rules import check_revision
from durably.tree_contracts import SessionTree
from durably.tree_values import TreeInfo, TreeNode, TreeStats

__all__ = ["LogSessionTree"]

T = TypeVar("T")

SPARE = 8
"""One in so many bytes of a head is left to the leaf and the parent, when labels fill it."""

_text: Codec[str] = Codec(str)


class LogSessionTree(SessionTree):
    """A tree kept in a log of the kind ``tree``."""

    def __init__(
        self, store: LogStore, tree_id: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._log = LogId(kind=nodes.KIND, id=tree_id)
        self._clock = clock

    @property
    @override
    def tree_id(self) -> str:
        return self._log.id

    @override
    async def append(
        self,
        entry: Entry,
        *,
        node_id: str | None = None,
        parent_id: str | None = None,
        expected_revision: int | None = None,
    ) -> TreeNode:
        fields = nodes.message_fields(entry)
        return await self._add(fields, node_id, parent_id, expected_revision)

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
        fields = nodes.compaction_fields(summary, first_kept_id)
        return await self._add(fields, node_id, parent_id, expected_revision, first_kept_id)

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
        fields = nodes.custom_fields(name, data)
        return await self._add(fields, node_id, parent_id, expected_revision)

    async def _add(
        self,
        fields: RawObject,
        node_id: str | None,
        parent_id: str | None,
        expected: int | None,
        first_kept: str | None = None,
    ) -> TreeNode:
        check_revision_token(expected)
        for id_ in (node_id, parent_id, first_kept):
            if id_ is not None:
                check_id("node", id_)
        key = new_key() if node_id is None else node_id
        if key == parent_id:
            raise InvalidNode(self.tree_id, key, "it would be its own parent")
        parent, epoch = parent_id, None

        async def attempt() -> TreeNode:
            nonlocal parent, epoch
            stored, there = await self._look(node_id, parent_id)
            if node_id in there:
                return await self._node(key)
            check_revision(self._log, stored, expected)
            head = nodes.Head() if stored is None else nodes.read_head(self._log, stored.state)
            if parent_id is not None and parent_id not in there:
                raise NodeNotFound(self.tree_id, parent_id)
            life = 0 if stored is None else stored.state.epoch
            if epoch is None or epoch not in {0, life}:
                parent, epoch = parent_id or head.leaf, life
                if first_kept is not None:
                    await check_kept(
                        self._store, self._log, stored, parent, kept=first_kept, by=key
                    )
            at = self._clock()
            record = NewRecord(
                key=key,
                data=nodes.join_node(fields, parent, at),
                entry_count=1 if "entry" in fields else 0,
            )
            revision = 0 if stored is None else stored.state.revision
            head_bytes = head.changed(leaf=key)
            return await self._put(
                Batch(records=(record,), head=head_bytes, expected_revision=revision, at=at)
            )

        return await _unchallenged(attempt, expected)

    async def _look(self, *ids: str | None) -> tuple[Log | None, frozenset[str]]:
        """Read the state, and which of some nodes there are."""
        keys = frozenset(id_ for id_ in ids if id_ is not None)
        span = Range(keys=keys, with_data=False) if keys else Range(limit=0)
        stored = await self._store.read(self._log, span)
        records = stored.records if stored else ()
        return stored, frozenset(record.key for record in records)

    async def _put(self, batch: Batch) -> TreeNode:
        applied = await self._store.append(self._log, batch)
        (new,) = batch.records
        record = Record(
            seq=applied.seq,
            key=batch.record_keys[0],
            entry_count=new.entry_count,
            stored_at=batch.at,
            revision=applied.revision,
            data=new.data,
        )
        return nodes.decode_node(self._log, record, {})

    async def _node(self, node_id: str) -> TreeNode:
        """Read a node that was there a moment ago."""
        try:
            begun = await start(self._store, self._log, node_id)
        except NodeNotFound:
            begun = None
        if begun is None:
            raise RevisionConflict(self._log, expected=1, actual=0)
        return nodes.decode_node(self._log, begun.records[0], begun.head.labels)

    @override
    async def branch(
        self, node_id: str | None, *, expected_revision: int | None = None
    ) -> TreeInfo:
        return await self._change(
            lambda head: head.changed(leaf=node_id), node_id, expected_revision
        )

    @override
    async def label(self, node_id: str, label: str | None) -> TreeInfo:
        if label is not None:
            _text.encode(label, "label")

        def change(head: nodes.Head) -> bytes:
            labels = {id_: text for id_, text in head.labels.items() if id_ != node_id}
            return head.changed(labels=labels if label is None else {**labels, node_id: label})

        return await self._change(change, node_id, room=True)

    @override
    async def rename(self, name: str | None) -> TreeInfo:
        if name is not None:
            _text.encode(name, "name")
        return await self._change(lambda head: head.changed(name=name), room=True)

    async def _change(
        self,
        change: Callable[[nodes.Head], bytes],
        node_id: str | None = None,
        expected: int | None = None,
        *,
        room: bool = False,
    ) -> TreeInfo:
        """Change the head; where it is to grow, ``room`` is left in it for leaf and parent."""
        check_revision_token(expected)
        if node_id is not None:
            check_id("node", node_id)

        async def attempt() -> TreeInfo:
            stored, there = await self._look(node_id)
            if stored is None:
                raise TreeNotFound(self.tree_id)
            check_revision(self._log, stored, expected)
            known = nodes.read_head(self._log, stored.state)
            if node_id is not None and node_id not in there:
                raise NodeNotFound(self.tree_id, node_id)
            head = change(known)
            limit = self._store.limits.head_bytes
            if not room or len(head) > len(stored.state.head or b""):
                check_size(self._log, "head", len(head), limit - limit // SPARE if room else limit)
            revision = stored.state.revision
            batch = Batch(head=head, expected_revision=revision, at=self._clock())
            applied = await self._store.append(self._log, batch)
            state = msgspec.structs.replace(
                stored.state, revision=applied.revision, head=head, updated_at=batch.at
            )
            return nodes.tree_info(self._log, state)

        return await _unchallenged(attempt, expected)

    @override
    async def path(self, leaf_id: str | None = None) -> Sequence[TreeNode]:
        async def attempt() -> Sequence[TreeNode]:
            begun = await self._start(leaf_id)
            steps = await walk(self._store, self._log, begun) if begun else []
            labels = begun.head.labels if begun else {}
            return [nodes.decode_node(self._log, step.record, labels) for step in steps]

        return await until_unchallenged(attempt)

    @override
    async def messages(self, leaf_id: str | None = None) -> Sequence[Entry]:
        async def attempt() -> Sequence[Entry]:
            begun = await self._start(leaf_id)
            steps = await walk(self._store, self._log, begun, until_kept()) if begun else []
            return decode_said(self._log, conversation(self._log, steps))

        return await until_unchallenged(attempt)

    async def _start(self, leaf_id: str | None) -> Start | None:
        if leaf_id is not None:
            check_id("node", leaf_id)
        begun = await start(self._store, self._log, leaf_id)
        if begun is None and leaf_id is not None:
            raise NodeNotFound(self.tree_id, leaf_id)
        return begun

    @override
    async def info(self) -> TreeInfo:
        stored, _ = await self._look()
        if stored is None:
            raise TreeNotFound(self.tree_id)
        return nodes.tree_info(self._log, stored.state)

    @override
    async def stats(self) -> TreeStats:
        async def attempt() -> TreeStats:
            stored, _ = await self._look()
            if stored is None:
                raise TreeNotFound(self.tree_id)
            nodes.read_head(self._log, stored.state)
            return await read_shape(self._store, self._log, stored.state)

        return await until_unchallenged(attempt)

    @override
    async def nodes(
        self, *, after: str | None = None, limit: int = 100, with_content: bool = True
    ) -> Page[TreeNode]:
        check_count("limit", limit, minimum=1, maximum=MAX_LIST_LIMIT)
        if after is not None:
            check_id("node", after)

        async def attempt() -> Page[TreeNode]:
            begun = await self._start(after)
            if begun is None:
                return Page(items=())
            seq = 0 if after is None else begun.records[0].seq
            return await node_page(
                self._store, self._log, begun, seq, limit=limit, with_content=with_content
            )

        return await until_unchallenged(attempt)

    @override
    async def fork(self, new_id: str, *, node_id: str | None = None) -> SessionTree:
        copy = LogSessionTree(self._store, new_id, clock=self._clock)
        if node_id is not None:
            check_id("node", node_id)
        await fork(self._store, self._log, copy._log, node_id, clock=self._clock)
        return copy

    @override
    async def delete(self) -> bool:
        return await self._store.delete(self._log)


async def _unchallenged(attempt: Callable[[], Awaitable[T]], expected: int | None) -> T:
    """Make a change again where others were faster, unless a revision is expected."""
    return await (until_unchallenged(attempt) if expected is None else attempt())
