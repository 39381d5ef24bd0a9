"""Reading a path of a tree from its leaf back, and little beside it, however large the tree is.

A node's parent mostly lies right before it. So records are read backwards in windows, each twice
as wide as what was made use of in the one before; a parent that is in none is read by its id.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import NamedTuple, TypeAlias

import msgspec

from durably._nodes import Head, Link, check_kind, decode_link, read_head
from durably._records import decode_entries, payload, raw_items, raw_object
from durably.entries import Entry
from durably.errors import CorruptRecord, InvalidNode, NodeNotFound, RevisionConflict
from durably.logstore import Log, LogId, LogState, LogStore, Range, Record

__all__ = [
    "Said",
    "Start",
    "Step",
    "check_kept",
    "conversation",
    "decode_said",
    "read_on",
    "start",
    "until_kept",
    "walk",
]

WIDEST = 256
"""Records, of one window."""

INTERLEAVED = 2
"""How far apart the nodes of one path lie where two grow at once."""

_NULL = msgspec.Raw(b"null")


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A tree as it was when a path was begun, and where: ``leaf`` is None before the first node."""

    state: LogState
    head: Head
    leaf: str | None
    records: tuple[Record, ...]


class Step(NamedTuple):
    """A node on a path."""

    record: Record
    link: Link


class Said(NamedTuple):
    """A message as a model sees it, and the node that holds it.

    ``end`` is the node at which a path has the conversation up to this message, if there is one.
    """

    raw: msgspec.Raw
    record: str
    end: str | None


Enough: TypeAlias = Callable[[Step], bool]


async def start(store: LogStore, log: LogId, leaf_id: str | None) -> Start | None:
    """Look at a tree, and at the node from which a path is to be read; None for no tree.

    Raises:
        NodeNotFound: the tree has no node ``leaf_id``.
        CorruptRecord: its head cannot be read.
    """
    by_key = Range(newest=True, limit=1) if leaf_id is None else Range(keys=frozenset({leaf_id}))
    stored = await store.read(log, by_key)
    if stored is None:
        return None
    head = read_head(log, stored.state)
    if leaf_id is not None and not stored.records:
        raise NodeNotFound(log.id, leaf_id)
    leaf = head.leaf if leaf_id is None else leaf_id
    return Start(state=stored.state, head=head, leaf=leaf, records=stored.records)


async def walk(
    store: LogStore, log: LogId, begun: Start, is_enough: Enough = lambda _: False
) -> list[Step]:
    """Return the nodes from the root to the leaf, or from the first ``is_enough`` back on.

    Raises:
        RevisionConflict: the tree was deleted, and perhaps made again, meanwhile.
        CorruptRecord: a node cannot be read, or is missing.
    """
    steps: list[Step] = []
    wanted, below, width = begun.leaf, begun.state.next_seq, 0
    records: Sequence[Record] = begun.records
    while wanted is not None:
        used = 0
        for record in reversed(records):
            if record.key != wanted:
                continue
            step = Step(record, decode_link(log, record))
            steps.append(step)
            if is_enough(step):
                return steps[::-1]
            wanted, below, used = step.link.parent, record.seq, used + 1
        if wanted is None:
            break
        if used:
            span = Range(until=below - 1, newest=True, limit=width or min(2 * used, WIDEST))
            records, width = (await read_on(store, log, span, begun)).records, 0
        else:
            records = await _jump(store, log, wanted, below, begun)
            width = 2 if below - records[0].seq == INTERLEAVED else 1
    return steps[::-1]


async def check_kept(
    store: LogStore, log: LogId, stored: Log | None, parent: str | None, *, kept: str, by: str
) -> None:
    """Refuse that a node keeps from another one which is not on the path to its parent.

    The path is read back to that one, in the tree as it was ``stored``.

    Raises:
        InvalidNode: it is not on the path.
        RevisionConflict: the tree was deleted, and perhaps made again, meanwhile.
        CorruptRecord: a node cannot be read, or is missing.
    """
    if stored is not None:
        begun = Start(state=stored.state, head=Head(), leaf=parent, records=())
        steps = await walk(store, log, begun, lambda step: step.record.key == kept)
        if steps and steps[0].record.key == kept:
            return
    raise InvalidNode(log.id, by, f"the node {kept!a} is not on its path")


async def _jump(
    store: LogStore, log: LogId, wanted: str, below: int, begun: Start
) -> Sequence[Record]:
    """Read a node by its id; it was stored before those that come after it."""
    records = (await read_on(store, log, Range(keys=frozenset({wanted})), begun)).records
    if not records or records[0].seq >= below:
        raise CorruptRecord(log, "it is missing, or comes after its child", record=wanted)
    return records


async def read_on(store: LogStore, log: LogId, span: Range, begun: Start) -> Log:
    """Read more of a tree that was begun to be read.

    Raises:
        RevisionConflict: it was deleted, and perhaps made again, meanwhile.
    """
    stored = await store.read(log, span)
    epoch = 0 if stored is None else stored.state.epoch
    if stored is None or epoch != begun.state.epoch:
        raise RevisionConflict(log, expected=begun.state.epoch, actual=epoch)
    return stored


def until_kept() -> Enough:
    """Return what ends a walk once it has all that the conversation at its leaf is made of."""
    is_compacted = False
    first_kept: str | None = None

    def is_enough(step: Step) -> bool:
        nonlocal is_compacted, first_kept
        if not is_compacted and step.link.kind == "compaction":
            is_compacted, first_kept = True, step.link.first_kept
            return first_kept is None
        return is_compacted and step.record.key == first_kept

    return is_enough


def conversation(log: LogId, steps: Sequence[Step]) -> list[Said]:
    """Return the messages of a path as a model sees them.

    The steps go back at least as far as ``until_kept`` asks.

    Raises:
        UnknownEntryType: a node is of a kind this version does not know.
        CorruptRecord: a node cannot be read, or one that is kept is missing.
    """
    places = [place for place, step in enumerate(steps) if step.link.kind == "compaction"]
    if not places:
        return _messages(log, steps)
    record, link = steps[places[-1]]
    fields = raw_object(payload(log, record), log, record.key)
    items = raw_items(fields.get("summary", _NULL), log, record.key)
    before = [Said(item, record.key, None) for item in items]
    if link.first_kept is not None:
        keys = [step.record.key for step in steps[: places[-1]]]
        if link.first_kept not in keys:
            raise CorruptRecord(log, "the node it keeps from is missing", record=record.key)
        kept = _messages(log, steps[keys.index(link.first_kept) : places[-1]])
        before += [said._replace(end=None) for said in kept]
    if before:
        before[-1] = before[-1]._replace(end=record.key)
    return before + _messages(log, steps[places[-1] + 1 :])


def _messages(log: LogId, steps: Sequence[Step]) -> list[Said]:
    found: list[Said] = []
    for record, link in steps:
        check_kind(log, record, link)
        if link.kind == "message":
            fields = raw_object(payload(log, record), log, record.key)
            found.append(Said(fields.get("entry", _NULL), record.key, record.key))
    return found


def decode_said(log: LogId, messages: Sequence[Said]) -> list[Entry]:
    """Return the entries of messages.

    Raises:
        UnknownEntryType: one is of a type this version does not know.
        CorruptRecord: one is not an entry.
    """
    found: list[Entry] = []
    for record, group in groupby(messages, key=lambda said: said.record):
        found += decode_entries([said.raw for said in group], log, record)
    return found
