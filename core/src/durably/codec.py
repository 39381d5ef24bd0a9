"""Values to JSON bytes and back: exact, strict on writing, lenient on reading.

Written is what JSON gives back equal and of the same type; anything else is refused with its
path before a byte is stored. Read are fields by name: one this version does not know is
ignored, a missing optional one gets its default. msgspec does both; the standard library
steps in for lone surrogates, which msgspec refuses. The errors of both hold the text at fault;
ours are raised after those were handled, so that no error has content behind it.
"""

import json
import marshal
import math
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from operator import attrgetter
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar, cast

import msgspec

from durably.entries import ENTRY_TYPES, PART_TYPES
from durably.errors import NotSerializable
from durably.runs import InterruptReason, RunHead, StateSnapshot

__all__ = ["Codec", "decode_with", "dump_json", "load_json", "named"]

T = TypeVar("T")

Path: TypeAlias = "tuple[Path, str | int] | tuple[str]"

MAX_NESTING = 256
MAX_INTEGER_DIGITS = 4300
"""Beyond, Python itself refuses to read an integer's text."""

_MARSHAL_WITHOUT_REFERENCES = 2

_LARGEST = 10**MAX_INTEGER_DIGITS
_EXACT = frozenset({str, bool, type(None)})
_STRUCTS: frozenset[type[msgspec.Struct]] = frozenset(
    {*ENTRY_TYPES, *PART_TYPES, InterruptReason, RunHead, StateSnapshot}
)
_TYPED_FIELDS = frozenset({"content", "interrupt", "messages", "parts"})
"""The fields of ours that hold values of ours; every other one holds plain JSON."""

_fields_of: dict[type, Callable[[Any], tuple[object, ...]]] = {
    type_: attrgetter(*type_.__struct_fields__, type_.__struct_fields__[0]) for type_ in _STRUCTS
}
"""Returns a struct's fields; one of them twice, since of a single one no tuple is made."""

_JOINING = re.compile("[\ud800-\udbff][\udc00-\udfff]")
"""Two lone surrogates in a row, which JSON gives back as one character."""

_QUOTED = re.compile(r"'.*'", re.DOTALL)
"""Where msgspec's messages repeat a value; names of types it puts in backticks."""

_PLACE = re.compile(r"(?P<what>.*) - at `\$\.?(?P<path>.*)`", re.DOTALL)
_encoder = msgspec.json.Encoder()


class Codec(Generic[T]):
    """Encodes and decodes values of one type."""

    def __init__(self, type_: Any) -> None:  # noqa: ANN401 - typing has no word for a type form
        self._type = type_
        self._struct: type[msgspec.Struct] | None = type_ if type_ in _STRUCTS else None
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(type_)

    def encode(self, value: T, path: str) -> bytes:
        """Return the JSON of a value; ``path`` is its name in errors.

        Raises:
            NotSerializable: JSON cannot give back the value exactly, or it is of a wrong type.
        """
        data = self._encode_simple(value)
        return self._encode_any(value, path) if data is None else data

    def _encode_simple(self, value: T) -> bytes | None:
        """Encode what is seen at a glance to be exact; None for what takes a closer look.

        What equals its decoding can still differ in type, by a subclass: ``marshal`` takes none.
        """
        try:
            marshal.dumps(_bare(value), _MARSHAL_WITHOUT_REFERENCES)
            data = _encoder.encode(value)
            shallow = data.count(b"[") + data.count(b"{") < MAX_NESTING
            return data if shallow and self._decoder.decode(data) == value else None
        except (LookupError, RecursionError, TypeError, ValueError):
            return None

    def _encode_any(self, value: T, path: str) -> bytes:
        if self._struct is not None and type(value) is not self._struct:
            raise NotSerializable(path, f"{named(value)} is not a {self._struct.__name__}")
        _check(value, (path,), MAX_NESTING)
        data = _encode(value, path)
        try:
            same = self.decode(data) == value
        except msgspec.ValidationError as error:
            _refuse_type(path, str(error))
        if not same:
            raise NotSerializable(path, "it would come back as something else")
        return data

    def decode(self, data: bytes) -> T:
        """Return the value of some JSON.

        Raises:
            msgspec.DecodeError: the bytes are no such value.
        """
        try:
            return self._decoder.decode(data)
        except (msgspec.DecodeError, RecursionError):
            pass  # so that nothing that follows is chained to it
        return self._decode_any(data)

    def _decode_any(self, data: bytes) -> T:
        try:
            return decode_with(self._decoder, data)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            value: T = msgspec.convert(load_json(data), type=self._type)
            return value


def _bare(value: object) -> Any:  # noqa: ANN401 - what marshal is to try
    """Return a value with the structs at its top replaced by their fields."""
    if isinstance(value, list):
        return [_fields_of[type(item)](item) for item in cast("list[object]", value)]
    fields = _fields_of.get(type(value))
    return value if fields is None else fields(value)


def decode_with(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw) -> T:
    """Return what a decoder makes of some bytes.

    Endless nesting is refused like any other fault, and no message repeats content.

    Raises:
        msgspec.DecodeError: the bytes are no such value.
    """
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        wordless = type(error)(_QUOTED.sub("'…'", str(error)))
    except RecursionError:
        wordless = msgspec.DecodeError("it is nested too deeply")
    raise wordless


def _encode(value: object, path: str) -> bytes:
    with suppress(UnicodeEncodeError):
        return _encoder.encode(value)
    _check_surrogates(value, (path,))
    return dump_json(msgspec.to_builtins(value))


def dump_json(value: object) -> bytes:
    """Return the ASCII JSON of plain values, lone surrogates as escapes."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def load_json(data: bytes) -> Any:  # noqa: ANN401 - JSON is any value
    """Return the plain values of some JSON, lone surrogates included.

    Raises:
        msgspec.DecodeError: the bytes are not JSON.
    """
    try:
        return json.loads(data, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        wordless = msgspec.DecodeError(str(error))
    raise wordless


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number is out of range")
    return value


def _check(value: object, path: Path, depth: int, *, plain: bool = False) -> None:
    kind = type(value)
    if kind in _EXACT:
        return
    if kind is int or kind is float:
        _check_number(cast("float", value), path)
    elif depth == 0:
        raise NotSerializable(_shown(path), f"it is nested deeper than {MAX_NESTING} levels")
    elif not plain and isinstance(value, msgspec.Struct) and kind in _STRUCTS:
        for name in value.__struct_fields__:
            member = getattr(value, name)
            _check(member, (path, name), depth - 1, plain=name not in _TYPED_FIELDS)
    else:
        plain = plain or kind is dict
        for key, member in _members(value, path):
            if type(member) not in _EXACT:
                _check(member, (path, key), depth - 1, plain=plain)


def _check_number(value: float, path: Path) -> None:
    if isinstance(value, int):
        if abs(value) >= _LARGEST:
            raise NotSerializable(_shown(path), f"an integer of over {MAX_INTEGER_DIGITS} digits")
    elif not math.isfinite(value):
        raise NotSerializable(_shown(path), f"JSON has no {value}")


def _members(value: object, path: Path) -> Iterable[tuple[str | int, object]]:
    if type(value) is list:
        return enumerate(cast("list[object]", value))
    if type(value) is not dict:
        raise NotSerializable(_shown(path), f"{named(value)} is not JSON", hint=_advice(value))
    fields = cast("dict[str, object]", value)
    for key in fields:
        if type(key) is not str:
            raise NotSerializable(_shown(path), f"a key of it is {named(key)}, not text")
    return fields.items()


def _check_surrogates(value: object, path: Path) -> None:
    """Refuse text that JSON would change; ``value`` is JSON already but for that."""
    if isinstance(value, str):
        if _JOINING.search(value):
            raise NotSerializable(
                _shown(path), "JSON would join two lone surrogates in its text to one character"
            )
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            _check_surrogates(getattr(value, name), (path, name))
    elif isinstance(value, (dict, list)):
        for key, member in _members(cast("object", value), path):
            _check_surrogates(key, path)
            _check_surrogates(member, (path, key))


def named(value: object) -> str:
    """Return the name of a value's type, with its module where it is not a builtin."""
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"


def _advice(value: object) -> str:
    if isinstance(value, (tuple, set, frozenset)):
        return "Pass a list"
    if isinstance(value, (bytes, bytearray)):
        return "Encode it as base64 text"
    return "Convert it to None, bool, int, float, str, list or dict first"


def _shown(path: Path) -> str:
    """Write a path as a person would: ``entries[3].raw.price``."""
    if len(path) == 1:
        return path[0]
    parent, key = path
    if isinstance(key, int):
        return f"{_shown(parent)}[{key}]"
    return f"{_shown(parent)}.{key}" if key.isidentifier() else f"{_shown(parent)}[{key!a}]"


def _refuse_type(path: str, message: str) -> NoReturn:
    found = _PLACE.fullmatch(message)
    if found is None:
        raise NotSerializable(path, message)
    inner = found["path"]
    joint = "." if inner and not inner.startswith("[") else ""
    raise NotSerializable(f"{path}{joint}{inner}", found["what"])
