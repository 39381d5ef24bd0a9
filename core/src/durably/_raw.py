"""JSON taken apart and put together again, every part with the bytes it has."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias, cast

import msgspec

from durably.codec import decode_with, dump_json, load_json

__all__ = ["RawObject", "join_items", "join_object", "split_array", "split_object"]

RawObject: TypeAlias = dict[str, msgspec.Raw]

_object: msgspec.json.Decoder[RawObject] = msgspec.json.Decoder(RawObject)
_array: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])


def split_object(data: bytes | msgspec.Raw) -> RawObject:
    """Split a JSON object into its fields.

    Raises:
        msgspec.DecodeError: the bytes are no JSON object.
    """
    try:
        return decode_with(_object, data)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        value = load_json(bytes(data))
        if not isinstance(value, dict):
            raise
        return {name: _raw(member) for name, member in cast("dict[str, object]", value).items()}


def split_array(data: bytes | msgspec.Raw) -> list[msgspec.Raw]:
    """Split a JSON array into its items.

    Raises:
        msgspec.DecodeError: the bytes are no JSON array.
    """
    try:
        return decode_with(_array, data)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        value = load_json(bytes(data))
        if not isinstance(value, list):
            raise
        return [_raw(item) for item in cast("list[object]", value)]


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(dump_json(value))


def join_items(items: Iterable[bytes | msgspec.Raw]) -> msgspec.Raw:
    """Return the JSON array of encoded items."""
    return msgspec.Raw(b"[" + b",".join(map(bytes, items)) + b"]")


def join_object(fields: Mapping[str, msgspec.Raw]) -> bytes:
    """Return the JSON object of encoded fields."""
    members = [dump_json(name) + b":" + bytes(raw) for name, raw in fields.items()]
    return b"{" + b",".join(members) + b"}"
