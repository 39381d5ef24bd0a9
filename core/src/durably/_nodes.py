"""How nodes and heads of trees lie in a log, and how they are changed without being understood.

A record is one node under its id: ``{"kind": ..., "parent": ..., "at": ...}`` with what the kind
has beside. ``parent`` is left out for a root; ``at`` is when the node was made, which a fork's
keeps. The head of the log is ``{"leaf": ..., "name": ..., "labels": ..., "parent": ...}``, of
which what is absent is left out; while a fork is being written it is ``{"forking": ...}``.
"""

from collections.abc import Mapping, Sequence

import msgspec

from durably._raw import RawObject, join_items, join_object
from durably._records import decode_entries, encode_entries, payload, raw_items, raw_object
from durably._writing import UNFINISHED
from durably.codec import Codec, dump_json
from durably.entries import Entry, JsonValue
from durably.errors import CorruptRecord, UnknownEntryType
from durably.logstore import LogId, LogState, Record
from durably.tree_values import NODE_KINDS, TreeInfo, TreeNode, TreeParent

__all__ = [
    "KIND",
    "Head",
    "Link",
    "check_kind",
    "compaction_fields",
    "custom_fields",
    "decode_link",
    "decode_node",
    "encoded_custom",
    "encoded_message",
    "forking_from",
    "forking_head",
    "is_unfinished",
    "join_node",
    "message_fields",
    "read_head",
    "tree_info",
]

KIND = "tree"
"""The kind of log that holds a tree."""

_NULL = msgspec.Raw(b"null")


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """Where a node hangs, and what little else is known of it without its content."""

    kind: str
    parent: str | None = None
    at: float | None = None
    first_kept: str | None = None
    name: str | None = None


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a tree, with ``fields`` as it was stored."""

    leaf: str | None = None
    name: str | None = None
    labels: dict[str, str] = {}
    parent: TreeParent | None = None
    fields: RawObject = {}

    def changed(self, **changes: object) -> bytes:
        """Return the bytes of the head with some fields set; None and {} take one away."""
        fields = dict(self.fields)
        for field, value in changes.items():
            fields.pop(field, None)
            if value not in (None, {}):
                fields[field] = _raw(msgspec.to_builtins(value))
        return join_object(fields)


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    leaf: str | None = None
    name: str | None = None
    labels: dict[str, str] = {}
    parent: TreeParent | None = None


class _Forking(msgspec.Struct, frozen=True, kw_only=True):
    forking: TreeParent


_link: Codec[Link] = Codec(Link)
_head: Codec[_Known] = Codec(_Known)
_forking: Codec[_Forking] = Codec(_Forking)
_json: Codec[JsonValue] = Codec(JsonValue)
_text: Codec[str] = Codec(str)


def read_head(log: LogId, state: LogState) -> Head:
    """Return the head of a tree that is whole.

    Raises:
        CorruptRecord: it cannot be read, or belongs to a copy or fork that was cut off.
    """
    head = _present(log, state)
    if is_unfinished(log, state):
        raise CorruptRecord(log, "it is a copy or fork that is not complete: repeat that")
    try:
        known = _head.decode(head)
    except msgspec.DecodeError as error:
        raise CorruptRecord(log, f"its head cannot be read: {error}") from error
    return Head(
        leaf=known.leaf,
        name=known.name,
        labels=known.labels,
        parent=known.parent,
        fields=raw_object(head, log, "head"),
    )


def _present(log: LogId, state: LogState) -> bytes:
    if state.head is None:
        raise CorruptRecord(log, "its head is missing")
    return state.head


def is_unfinished(log: LogId, state: LogState) -> bool:
    """Whether a tree is still being copied or forked, or was until a crash.

    Raises:
        CorruptRecord: its head is missing.
    """
    return _present(log, state) == UNFINISHED or forking_from(state) is not None


def forking_from(state: LogState) -> TreeParent | None:
    """Return where a fork that is not complete comes from; None for anything else."""
    try:
        return _forking.decode(state.head or b"").forking
    except msgspec.DecodeError:
        return None


def forking_head(parent: TreeParent) -> bytes:
    """Return the head of a fork that is being written."""
    return dump_json({"forking": msgspec.to_builtins(parent)})


def tree_info(log: LogId, state: LogState) -> TreeInfo:
    """Return what is known of a tree from its state.

    Raises:
        CorruptRecord: its head cannot be read.
    """
    head = read_head(log, state)
    return TreeInfo(
        tree_id=log.id,
        revision=state.revision,
        name=head.name,
        leaf_id=head.leaf,
        labels=head.labels,
        parent=head.parent,
        node_count=state.record_count,
        message_count=state.entry_count,
        created_at=state.created_at,
        updated_at=state.updated_at,
    )


def message_fields(entry: Entry) -> RawObject:
    """Return what a message has beside its place.

    Raises:
        NotSerializable: it is not an entry, or JSON cannot give it back exactly.
    """
    (encoded,) = encode_entries([entry], "entry")
    return encoded_message(encoded)


def encoded_message(entry: bytes) -> RawObject:
    """Return what a message has beside its place, of an entry that is JSON already."""
    return {"kind": _raw("message"), "entry": msgspec.Raw(entry)}


def compaction_fields(summary: Sequence[Entry], first_kept: str | None) -> RawObject:
    """Return what a compaction has beside its place.

    Raises:
        NotSerializable: one is not an entry, or JSON cannot give it back exactly.
    """
    fields: RawObject = {
        "kind": _raw("compaction"),
        "summary": join_items(encode_entries(summary, "summary")),
    }
    return fields if first_kept is None else fields | {"first_kept": _raw(first_kept)}


def custom_fields(name: str, data: JsonValue) -> RawObject:
    """Return what a node of an application's own has beside its place.

    Raises:
        NotSerializable: ``name`` is not text, or JSON cannot give back ``data`` exactly.
    """
    return encoded_custom(_text.encode(name, "name"), _json.encode(data, "data"))


def encoded_custom(name: bytes, data: bytes) -> RawObject:
    """Return what a custom node has beside its place, of a name and data that are JSON already."""
    return {"kind": _raw("custom"), "name": msgspec.Raw(name), "data": msgspec.Raw(data)}


def join_node(fields: RawObject, parent: str | None, at: float) -> bytes:
    """Return the data of a node."""
    place = {"at": _raw(at)} if parent is None else {"parent": _raw(parent), "at": _raw(at)}
    return join_object({"kind": fields["kind"], **place, **fields})


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(dump_json(value))


def decode_link(log: LogId, record: Record) -> Link:
    """Return where a node hangs.

    Raises:
        CorruptRecord: the bytes are no node.
    """
    try:
        return _link.decode(payload(log, record))
    except msgspec.DecodeError as error:
        raise CorruptRecord(log, f"it is no node: {error}", record=record.key) from error


def decode_node(
    log: LogId, record: Record, labels: Mapping[str, str], *, with_content: bool = True
) -> TreeNode:
    """Return a node.

    Raises:
        UnknownEntryType: it, or an entry in it, is of a type this version does not know.
        CorruptRecord: the bytes are no node.
    """
    link = decode_link(log, record)
    node = TreeNode(
        id=record.key,
        parent_id=link.parent,
        kind=link.kind,
        stored_at=record.stored_at if link.at is None else link.at,
        revision=record.revision,
        label=labels.get(record.key),
    )
    if not with_content:
        return node
    check_kind(log, record, link)
    fields = raw_object(payload(log, record), log, record.key)
    if link.kind == "message":
        (entry,) = decode_entries([fields.get("entry", _NULL)], log, record.key)
        return msgspec.structs.replace(node, entry=entry)
    if link.kind == "compaction":
        items = raw_items(fields.get("summary", _NULL), log, record.key)
        summary = decode_entries(items, log, record.key)
        return msgspec.structs.replace(node, summary=summary, first_kept_id=link.first_kept)
    try:
        data = _json.decode(bytes(fields.get("data", _NULL)))
    except msgspec.DecodeError as error:
        raise CorruptRecord(log, f"its data cannot be read: {error}", record=record.key) from error
    return msgspec.structs.replace(node, name=link.name, data=data)


def check_kind(log: LogId, record: Record, link: Link) -> None:
    """Refuse a node of a kind this version does not know.

    Raises:
        UnknownEntryType: it is of such a kind.
    """
    if link.kind not in NODE_KINDS:
        raise UnknownEntryType(log, record=record.key, index=0, entry_type=link.kind)
