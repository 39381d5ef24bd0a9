"""How a whole snapshot lies in a record, and how it is read: brought up to date where asked.

A record holds ``{"messages": [...], "snapshot": {...}}``, the snapshot without its messages. To
the steps of migrators it is one object again.
"""

from collections.abc import Iterable, Sequence

import msgspec

from durably._raw import RawObject, join_items, join_object, split_object
from durably._records import (
    decode_entries,
    decode_snapshot,
    encode_entries,
    encode_snapshot,
    raw_items,
    raw_object,
)
from durably.checks import check_count
from durably.codec import Codec, load_json
from durably.entries import JsonObject
from durably.errors import CorruptRecord, InvalidLimit, MigrationError, NotSerializable
from durably.logstore import LogId
from durably.migrate import Migrators, check_known, version_of
from durably.runs import StateSnapshot

__all__ = ["encoded", "join_snapshot", "read_snapshot"]

_object: Codec[JsonObject] = Codec(JsonObject)


def encoded(snapshot: StateSnapshot, migrators: Migrators | None) -> tuple[bytes, list[bytes]]:
    """Return the JSON of a snapshot without its messages, and that of each message.

    Raises:
        NotSerializable: it holds what JSON cannot give back exactly.
        InvalidStatus: its status is none of ``SNAPSHOT_STATUSES``.
        InvalidLimit: there are migrators, and its version is not theirs.
    """
    fields = encode_snapshot(snapshot)
    if migrators is not None:
        version = migrators.version
        check_count("snapshot.version", snapshot.version, minimum=version, maximum=version)
    return fields, encode_entries(snapshot.messages, "snapshot.messages")


def join_snapshot(snapshot: bytes, messages: Iterable[bytes]) -> bytes:
    """Return the data of a record that holds a snapshot whole."""
    fields: RawObject = {"messages": join_items(messages), "snapshot": msgspec.Raw(snapshot)}
    return join_object(fields)


def read_snapshot(
    log: LogId,
    record: str,
    snapshot: msgspec.Raw,
    messages: Sequence[msgspec.Raw],
    migrators: Migrators | None,
) -> StateSnapshot:
    """Return a snapshot, migrated where there are migrators.

    Raises:
        SchemaTooNew: it is of a later version than the migrators.
        MigrationError: a step to a newer version is missing, or failed.
        UnknownEntryType: a message is of a type this version does not know.
        CorruptRecord: stored bytes cannot be read.
    """
    if migrators is None:
        return _decoded(log, record, snapshot, messages)
    place = f"the snapshot in record {record!a} of {log}"
    fields = raw_object(snapshot, log, record)
    found = _version(fields, log, record)
    check_known(found, migrators, place)
    if found == migrators.version:
        return _decoded(log, record, snapshot, messages)
    whole = _loaded(join_object({**fields, "messages": join_items(messages)}), log, record)
    migrated = migrators.migrate(whole, place=place)
    try:
        fields = split_object(_object.encode(migrated, "snapshot"))
        items = raw_items(fields.pop("messages", msgspec.Raw(b"[]")), log, record)
        return _decoded(log, record, msgspec.Raw(join_object(fields)), items)
    except (CorruptRecord, NotSerializable) as error:
        reason = f"what the steps returned is no snapshot: {error.reason}"
        raise MigrationError(place, found=found, wanted=migrators.version, reason=reason) from error


def _decoded(
    log: LogId, record: str, snapshot: msgspec.Raw, messages: Sequence[msgspec.Raw]
) -> StateSnapshot:
    return msgspec.structs.replace(
        decode_snapshot(log, record, bytes(snapshot)),
        messages=decode_entries(messages, log, record),
    )


def _loaded(data: bytes, log: LogId, record: str) -> JsonObject:
    try:
        loaded: JsonObject = load_json(data)
    except msgspec.DecodeError as error:
        raise CorruptRecord(log, str(error), record=record) from error
    return loaded


def _version(fields: RawObject, log: LogId, record: str) -> int:
    named = join_object({name: fields[name] for name in fields if name == "version"})
    try:
        return version_of(_loaded(named, log, record))
    except InvalidLimit as error:
        raise CorruptRecord(log, "its version is no number", record=record) from error
