"""Where a rewind cuts and what a trim replaces: pure functions over values and raw JSON."""

from collections.abc import Sequence

import msgspec

from durably._raw import RawObject, join_object, split_object
from durably.codec import dump_json, load_json
from durably.entries import unanswered
from durably.logstore import Record

__all__ = [
    "Cut",
    "call_id_of",
    "find_cut",
    "is_trimmed",
    "kept_items",
    "trim_item",
    "trim_marker",
]


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """Where a rewind cuts a session.

    The records after ``last_seq`` go. Where ``keep_of_last`` is not None the cut lands inside
    the record of ``last_seq``, of which only so many entries stay.
    """

    last_seq: int
    keep_of_last: int | None = None


def find_cut(records: Sequence[Record], keep_entries: int) -> Cut | None:
    """Return the cut that keeps so many entries, or None where nothing is to be cut.

    ``records`` are those of the session, ascending; their data is not looked at. 0 cuts every
    record; a count at or past the end cuts nothing, and empty records at the end stay.
    """
    if keep_entries == 0:
        return Cut(last_seq=0) if records else None
    if keep_entries >= sum(record.entry_count for record in records):
        return None
    left = keep_entries
    for record in records:
        if left <= record.entry_count:
            inside = left < record.entry_count
            return Cut(last_seq=record.seq, keep_of_last=left if inside else None)
        left -= record.entry_count
    return None


def kept_items(items: Sequence[msgspec.Raw], keep: int) -> list[msgspec.Raw]:
    """Return the first so many raw entries without the tool calls that have no result there."""
    kept = items[:keep]
    dangling = set(unanswered(_step(item) for item in kept))
    return [item for position, item in enumerate(kept) if position not in dangling]


def _step(item: msgspec.Raw) -> tuple[str, str] | None:
    entry = _fields(item)
    call_id = _value(entry, "call_id")
    if not isinstance(call_id, str):
        return None
    match _value(entry, "type"):
        case "tool_call":
            return "call", call_id
        case "tool_result":
            return "result", call_id
        case _:
            return None


def _fields(item: msgspec.Raw) -> RawObject:
    """Return the raw fields of an entry; one that is no object has none and is left alone."""
    try:
        return split_object(item)
    except msgspec.DecodeError:
        return {}


def _value(fields: RawObject, name: str) -> object:
    """Return the value of a field, None where it is missing or cannot be read."""
    try:
        value: object = load_json(bytes(fields.get(name, msgspec.Raw(b"null"))))
    except msgspec.DecodeError:
        return None
    return value


def call_id_of(item: msgspec.Raw) -> str:
    """Return the ``call_id`` of a raw entry, empty where it has none."""
    call_id = _value(_fields(item), "call_id")
    return call_id if isinstance(call_id, str) else ""


def is_trimmed(item: bytes) -> bool:
    """Whether a raw tool result was trimmed before."""
    return bool(_value(_fields(msgspec.Raw(item)), "trimmed_chars"))


def trim_marker(chars: int) -> str:
    """Return what ends a trimmed output; its length is part of the stored format."""
    return f"\n[{chars} characters trimmed]"


def trim_item(item: msgspec.Raw, keep_chars: int) -> msgspec.Raw | None:
    """Return a raw tool result with its output trimmed, or None where nothing is to be done.

    An output keeps its first ``keep_chars`` characters and ends with a marker; ``raw`` and
    ``parts`` go, every other field stays. How much of an output is left is computed from
    ``trimmed_chars``, so text that looks like a marker deceives nobody, and trimming again to
    the same length does nothing. An output is never made longer.
    """
    fields = _fields(item)
    output, gone = _value(fields, "output"), _value(fields, "trimmed_chars") or 0
    if _value(fields, "type") != "tool_result" or not isinstance(output, str):
        return None
    if not isinstance(gone, int):
        return None
    left = len(output) - (len(trim_marker(gone)) if gone else 0)
    if left <= keep_chars:
        return None
    gone += left - keep_chars
    trimmed = output[:keep_chars] + trim_marker(gone)
    if len(trimmed) > len(output):
        return None
    for name in ("raw", "parts"):
        fields.pop(name, None)
    fields["output"] = msgspec.Raw(dump_json(trimmed))
    fields["trimmed_chars"] = msgspec.Raw(dump_json(gone))
    return msgspec.Raw(join_object(fields))
