"""Snapshots kept as trees: what a conversation was before it went another way is kept, too.

A message is a node; a custom node after the last one holds the rest of the snapshot. A save
writes the messages that are new since those the tree's path shares with the snapshot, and one
such node. Where the conversation went another way, they go after the last message it shares.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from heapq import nlargest
from itertools import takewhile

import msgspec

from durably._nodes import (
    KIND,
    Head,
    encoded_custom,
    encoded_message,
    is_unfinished,
    join_node,
)
from durably._paging import all_logs
from durably._paths import Said, Step, conversation, start, until_kept, walk
from durably._records import decode_entries, encode_entries, payload, raw_object
from durably._retry import until_unchallenged
from durably._snapshots import encoded, read_snapshot
from durably._tree_pages import page_of_trees, whole_state
from durably._typing import override
from durably.checks import MAX_LIST_LIMIT, check_count
from durably.codec import dump_json
from durably.errors import CorruptRecord, StateNotFound, UnknownEntryType
from durably.logstore import Batch, LogId, LogState, LogStore, NewRecord, Page, Range, new_key
from durably.migrate import Migrators
from durably.runs import StateSnapshot
from durably.states import StateInfo, StateStore, described

__all__ = ["STATE_NODE", "TreeStateStore"]

STATE_NODE = "durably:state"
"""The name of the custom nodes that hold a snapshot without its messages."""

CACHED_TREES = 128


class _Saved(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot as it is to be stored, with digests of its messages and of the rest."""

    fields: bytes
    messages: list[bytes]
    state: bytes
    digests: tuple[bytes, ...]


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    """What a writer must know of a tree to append the next snapshot.

    ``ends`` are the nodes at which the path has the conversation up to each message, where there
    are such; ``state`` is the digest of the rest of the snapshot, if the leaf holds it.
    """

    revision: int = 0
    head: Head = Head()
    digests: tuple[bytes, ...] = ()
    ends: tuple[str | None, ...] = ()
    state: bytes = b""

    def has(self, saved: _Saved) -> bool:
        """Whether the tree's leaf is this very snapshot."""
        return (self.state, self.digests) == (saved.state, saved.digests)

    def shared(self, saved: _Saved) -> int:
        """Return how many of the first messages need not be written again."""
        pairs = zip(self.digests, saved.digests, strict=False)
        count = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        while 0 < count < len(self.ends) and self.ends[count - 1] is None:
            count -= 1
        return count

    def parent(self, count: int) -> str | None:
        """Return the node after which a conversation that shares so many messages goes on."""
        if count == len(self.ends):
            return self.head.leaf
        return self.ends[count - 1] if count else None


class TreeStateStore(StateStore):
    """Snapshots kept in trees, a key being the id of its tree.

    A save of a conversation that grew writes what is new; one of a conversation that went
    another way makes a branch, and one that changes nothing writes nothing. Nothing is ever
    lost: ``storage.tree(key)`` has all of it. A tree that was made otherwise is a snapshot of
    its messages.
    """

    def __init__(
        self,
        store: LogStore,
        *,
        migrators: Migrators | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._migrators = migrators
        self._clock = clock
        self._cache: OrderedDict[str, _Known] = OrderedDict()

    @override
    async def save(self, key: str, snapshot: StateSnapshot) -> int:
        """Store a snapshot at the leaf of a tree.

        Returns:
            The revision of the tree.

        Raises:
            NotSerializable: it holds what JSON cannot give back exactly.
            InvalidStatus: its status is none of ``SNAPSHOT_STATUSES``.
            InvalidLimit: its version is not that of the migrators: stored, it would be migrated
                wrongly, or could not be read.
            RecordTooLarge: a message, or the rest, is larger than the backend's limit.
            StorageBusy: others changed the tree between reading and writing, every time.
            UnknownEntryType: a node of the tree is of a kind this version does not know.
            CorruptRecord: the tree cannot be read.
        """
        log = LogId(kind=KIND, id=key)
        fields, messages = encoded(snapshot, self._migrators)
        saved = _Saved(
            fields=fields,
            messages=messages,
            state=_digest(fields),
            digests=tuple(map(_digest, messages)),
        )
        return await until_unchallenged(lambda: self._save(log, saved))

    async def _save(self, log: LogId, saved: _Saved) -> int:
        known = self._cache.pop(log.id, None)
        if known is None or (known.has(saved) and not await self._is_current(log, known)):
            known = await self._read(log)
        if not known.has(saved):
            known = await self._append(log, known, saved)
        self._cache[log.id] = known
        if len(self._cache) > CACHED_TREES:
            self._cache.popitem(last=False)
        return known.revision

    async def _is_current(self, log: LogId, known: _Known) -> bool:
        stored = await self._store.read(log, Range(limit=0))
        return stored is not None and stored.state.revision == known.revision

    async def _read(self, log: LogId) -> _Known:
        begun = await start(self._store, log, None)
        if begun is None:
            return _Known()
        steps = await walk(self._store, log, begun, until_kept())
        said = conversation(log, steps)
        state = _state_of(log, steps[-1:])
        return _Known(
            revision=begun.state.revision,
            head=begun.head,
            digests=tuple(_digest(_canonical(log, one)) for one in said),
            ends=tuple(one.end for one in said),
            state=b"" if state is None else _digest(bytes(state[1])),
        )

    async def _append(self, log: LogId, known: _Known, saved: _Saved) -> _Known:
        at = self._clock()
        count = known.shared(saved)
        ids = [new_key() for _ in saved.messages[count:]]
        nodes = [encoded_message(message) for message in saved.messages[count:]]
        nodes.append(encoded_custom(dump_json(STATE_NODE), saved.fields))
        parents = [known.parent(count), *ids]
        leaf = new_key()
        records = tuple(
            NewRecord(key=key, data=join_node(fields, parent, at), entry_count=int(key != leaf))
            for key, fields, parent in zip([*ids, leaf], nodes, parents, strict=True)
        )
        head = known.head.changed(leaf=leaf)
        batch = Batch(records=records, head=head, expected_revision=known.revision, at=at)
        applied = await self._store.append(log, batch)
        return _Known(
            revision=applied.revision,
            head=msgspec.structs.replace(
                known.head, leaf=leaf, fields=raw_object(head, log, "head")
            ),
            digests=saved.digests,
            ends=(*known.ends[:count], *ids),
            state=saved.state,
        )

    @override
    async def load(self, key: str) -> StateSnapshot:
        log = LogId(kind=KIND, id=key)

        async def attempt() -> StateSnapshot:
            begun = await start(self._store, log, None)
            if begun is None:
                raise StateNotFound(key)
            steps = await walk(self._store, log, begun, _until_whole())
            version = 1 if self._migrators is None else self._migrators.version
            plain = begun.leaf or "", msgspec.Raw(b'{"version":%d}' % version)
            record, state = _state_of(log, steps) or plain
            messages = [said.raw for said in conversation(log, steps)]
            return read_snapshot(log, record, state, messages, self._migrators)

        return await until_unchallenged(attempt)

    @override
    async def has(self, key: str) -> bool:
        log = LogId(kind=KIND, id=key)
        stored = await self._store.read(log, Range(limit=0))
        return stored is not None and not is_unfinished(log, stored.state)

    @override
    async def delete(self, key: str) -> bool:
        log = LogId(kind=KIND, id=key)
        self._cache.pop(key, None)
        return await self._store.delete(log)

    @override
    async def list(self, *, after: str | None = None, limit: int = 100) -> Page[StateInfo]:
        def make(log: LogId, state: LogState) -> StateInfo:
            return described(log.id, state)

        return await page_of_trees(self._store, make, after=after, limit=limit)

    async def recent(self, *, limit: int = 100) -> Sequence[StateInfo]:
        """List the trees changed last, newest first; those of one time by their keys.

        All of them are looked at, without content. ``limit`` is 1 to 1,000.

        Returns:
            At most ``limit`` keys with their times.

        Raises:
            InvalidLimit: ``limit`` is out of its range.
            CorruptRecord: what is stored of one cannot be read.
        """
        check_count("limit", limit, minimum=1, maximum=MAX_LIST_LIMIT)
        newest: list[StateInfo] = []
        async for found in all_logs(self._store, KIND, with_state=True):
            state = whole_state(found)
            if state is not None:
                newest.append(described(found.id, state))
            if len(newest) > 2 * limit:
                newest = nlargest(limit, newest, key=_by_time)
        return nlargest(limit, newest, key=_by_time)


def _by_time(info: StateInfo) -> float:
    return info.updated_at


def _state_of(log: LogId, steps: Sequence[Step]) -> tuple[str, msgspec.Raw] | None:
    """Return the last node that holds the rest of a snapshot, by its id, and what it holds."""
    for record, link in reversed(steps):
        if _is_state(Step(record, link)):
            fields = raw_object(payload(log, record), log, record.key)
            return record.key, fields.get("data", msgspec.Raw(b"null"))
    return None


def _is_state(step: Step) -> bool:
    return step.link.kind == "custom" and step.link.name == STATE_NODE


def _until_whole() -> Callable[[Step], bool]:
    """Return what ends a walk once it has a snapshot, messages and the rest."""
    has_messages = has_state = False
    is_kept = until_kept()

    def is_enough(step: Step) -> bool:
        nonlocal has_messages, has_state
        has_messages = has_messages or is_kept(step)
        has_state = has_state or _is_state(step)
        return has_messages and has_state

    return is_enough


def _canonical(log: LogId, said: Said) -> bytes:
    """Return the JSON this version would write for a message, where it knows the message."""
    with suppress(UnknownEntryType, CorruptRecord):
        (encoded,) = encode_entries(decode_entries([said.raw], log, said.record))
        return encoded
    return bytes(said.raw)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
