"""How entries lie in a record, and how stored ones are changed without being understood.

A record of a session or a run is the JSON object ``{"entries": [...], "meta": {...}}``. It is
read in one typed step; only where that fails are the entries looked at one by one, to say
which of them is at fault. Changes work on raw JSON, so that fields and entry types this
version does not know keep their bytes.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NoReturn, cast

import msgspec

from durably._raw import RawObject, join_items, split_array, split_object
from durably.checks import check_status
from durably.codec import Codec, load_json, named
from durably.entries import ENTRY_TYPES, PART_TYPES, Entry, JsonObject
from durably.errors import CorruptRecord, NotSerializable, UnknownEntryType
from durably.logstore import LogId, Record
from durably.runs import RUN_STATUSES, SNAPSHOT_STATUSES, RunHead, StateSnapshot

__all__ = [
    "SegmentBody",
    "decode_entries",
    "decode_head",
    "decode_segment",
    "decode_snapshot",
    "encode_entries",
    "encode_head",
    "encode_segment",
    "encode_snapshot",
    "payload",
    "raw_items",
    "raw_object",
    "split_segment",
]


class SegmentBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a record of a session or a run holds."""

    entries: list[Entry]
    meta: JsonObject | None = None


DEFAULT_VERSION = StateSnapshot().version

_entry: Codec[Entry] = Codec(Entry)
_entries: Codec[list[Entry]] = Codec(list[Entry])
_segment: Codec[SegmentBody] = Codec(SegmentBody)
_head: Codec[RunHead] = Codec(RunHead)
_snapshot: Codec[StateSnapshot] = Codec(StateSnapshot)
_meta: Codec[JsonObject] = Codec(JsonObject)


def _tags(types: Iterable[type[msgspec.Struct]]) -> frozenset[str]:
    return frozenset(str(type_.__struct_config__.tag) for type_ in types)


_ENTRY_TYPES: frozenset[type] = frozenset(ENTRY_TYPES)
_ENTRY_TAGS = _tags(ENTRY_TYPES)
_PART_TAGS = _tags(PART_TYPES)


def encode_entries(entries: Iterable[Entry], path: str = "entries") -> list[bytes]:
    """Return the JSON of each entry.

    Raises:
        NotSerializable: one is not an entry, or JSON cannot give it back exactly.
    """
    try:
        found = list(entries)
    except TypeError as error:
        raise NotSerializable(path, f"{named(entries)} is no sequence of entries") from error
    encoded: list[bytes] = []
    for index, entry in enumerate(found):
        place = f"{path}[{index}]"
        if type(entry) not in _ENTRY_TYPES:
            raise NotSerializable(place, f"{named(entry)} is not an entry")
        encoded.append(_entry.encode(entry, place))
    return encoded


def encode_segment(entries: Iterable[Entry], meta: JsonObject | None = None) -> tuple[bytes, int]:
    """Return the data of a record of these entries, and how many they are.

    Raises:
        NotSerializable: one is not an entry, ``meta`` is not a JSON object, or JSON cannot give
            them back exactly.
    """
    encoded, count = _encode_array(entries)
    if meta is None:
        return b'{"entries":' + encoded + b"}", count
    return b'{"entries":' + encoded + b',"meta":' + _meta.encode(meta, "meta") + b"}", count


def _encode_array(entries: Iterable[Entry]) -> tuple[bytes, int]:
    """Encode entries in one go; one by one where that fails, to say which is at fault."""
    try:
        found = list(entries)
    except TypeError as error:
        raise NotSerializable("entries", f"{named(entries)} is no sequence of entries") from error
    if _ENTRY_TYPES.issuperset(map(type, found)):
        with suppress(NotSerializable):
            return _entries.encode(found, "entries"), len(found)
    return bytes(join_items(encode_entries(found))), len(found)


def payload(log: LogId, record: Record) -> bytes:
    """Return the data of a record that was read with it.

    Raises:
        CorruptRecord: the store returned the record without data.
    """
    if record.data is None:
        raise CorruptRecord(log, "its data is missing", record=record.key)
    return record.data


def decode_segment(log: LogId, record: Record) -> SegmentBody:
    """Return what a record of a session or a run holds.

    Raises:
        UnknownEntryType: this version does not know the type of an entry in it.
        CorruptRecord: the bytes are no such record.
    """
    data = payload(log, record)
    try:
        return _segment.decode(data)
    except msgspec.DecodeError as error:
        _, items = split_segment(log, record)
        _explain(items, log, record.key)
        raise CorruptRecord(log, str(error), record=record.key) from error


def split_segment(log: LogId, record: Record) -> tuple[RawObject, list[msgspec.Raw]]:
    """Return the raw fields of a record of a session or a run, and the raw entries among them.

    Raises:
        CorruptRecord: the bytes are no such record.
    """
    fields = raw_object(payload(log, record), log, record.key)
    return fields, raw_items(fields.get("entries", msgspec.Raw(b"null")), log, record.key)


def decode_entries(items: Sequence[msgspec.Raw], log: LogId, record: str) -> list[Entry]:
    """Return the entries of raw ones.

    Raises:
        UnknownEntryType: this version does not know the type of one.
        CorruptRecord: one is not an entry.
    """
    try:
        return _entries.decode(bytes(join_items(items)))
    except msgspec.DecodeError as error:
        _explain(items, log, record)
        raise CorruptRecord(log, str(error), record=record) from error


def decode_head(log: LogId, head: bytes | None) -> RunHead:
    """Return the head of a run.

    Raises:
        CorruptRecord: it is missing or cannot be read.
    """
    if head is None:
        raise CorruptRecord(log, "its head is missing")
    try:
        return _head.decode(head)
    except msgspec.DecodeError as error:
        raise CorruptRecord(log, f"its head cannot be read: {error}") from error


def encode_head(head: RunHead) -> bytes:
    """Return the JSON of a run's head.

    Raises:
        NotSerializable: it is not one, or JSON cannot give it back exactly.
    """
    data = _head.encode(head, "head")
    check_status("head.status", head.status, RUN_STATUSES)
    return data


def encode_snapshot(snapshot: StateSnapshot) -> bytes:
    """Return the JSON of everything in a snapshot but its messages.

    The version is always written: one left out would read as none.

    Raises:
        NotSerializable: it is not one, or JSON cannot give it back exactly.
    """
    if type(snapshot) is StateSnapshot:
        snapshot = msgspec.structs.replace(snapshot, messages=[])
    data = _snapshot.encode(snapshot, "snapshot")
    check_status("snapshot.status", snapshot.status, SNAPSHOT_STATUSES)
    if snapshot.version != DEFAULT_VERSION:
        return data
    return b'{"version":%d' % DEFAULT_VERSION + (b"}" if data == b"{}" else b"," + data[1:])


def decode_snapshot(log: LogId, record: str, data: bytes) -> StateSnapshot:
    """Return a snapshot without its messages.

    Raises:
        CorruptRecord: it cannot be read.
    """
    try:
        return _snapshot.decode(data)
    except msgspec.DecodeError as error:
        raise CorruptRecord(log, str(error), record=record) from error


def _explain(items: Sequence[msgspec.Raw], log: LogId, record: str) -> None:
    """Raise for the first entry that cannot be read."""
    for index, item in enumerate(items):
        try:
            _entry.decode(bytes(item))
        except msgspec.DecodeError as error:
            _blame(item, error, log, record, index)


def _blame(
    item: msgspec.Raw, error: msgspec.DecodeError, log: LogId, record: str, index: int
) -> NoReturn:
    unknown = _unknown_type(bytes(item))
    if unknown is None:
        raise CorruptRecord(log, str(error), record=record, index=index) from error
    raise UnknownEntryType(log, record=record, index=index, entry_type=unknown) from error


def _unknown_type(item: bytes) -> str | None:
    """Return the type that an entry or a part in it names and this version does not know."""
    try:
        entry = _fields(load_json(item))
    except msgspec.DecodeError:
        return None
    parts = [*_list(entry.get("content")), *_list(entry.get("parts"))]
    claims = [(entry.get("type"), _ENTRY_TAGS)]
    claims += [(_fields(part).get("type"), _PART_TAGS) for part in parts]
    for tag, tags in claims:
        if isinstance(tag, str) and tag not in tags:
            return tag
    return None


def _fields(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def raw_object(data: bytes | msgspec.Raw, log: LogId, record: str) -> RawObject:
    """Split a JSON object into its fields, each with the bytes it has.

    Raises:
        CorruptRecord: the bytes are no JSON object.
    """
    try:
        return split_object(data)
    except msgspec.DecodeError as error:
        raise CorruptRecord(log, f"no JSON object: {error}", record=record) from error


def raw_items(data: bytes | msgspec.Raw, log: LogId, record: str) -> list[msgspec.Raw]:
    """Split a JSON array into its items, each with the bytes it has.

    Raises:
        CorruptRecord: the bytes are no JSON array.
    """
    try:
        return split_array(data)
    except msgspec.DecodeError as error:
        raise CorruptRecord(log, f"no JSON array: {error}", record=record) from error
