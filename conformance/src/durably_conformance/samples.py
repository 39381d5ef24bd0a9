"""Values and texts that broke other libraries: what has to come back, and what cannot."""

import dataclasses
import datetime as dt
import decimal
import enum
import math
import pathlib
import uuid

import msgspec

from durably import TextPart

__all__ = ["BAD", "EITHER", "GOOD", "JSON", "TEXTS", "nested"]


def nested(levels: int) -> list[object]:
    """Return so many lists, each inside the other."""
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def _nested_dicts(levels: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(levels - 1):
        value = {"k": value}
    return value


def _cycle() -> list[object]:
    value: list[object] = []
    value.append(value)
    return value


JSON: dict[str, object] = {
    "null": None,
    "zero": 0,
    "one": 1,
    "one as a float": 1.0,
    "true": True,
    "false": False,
    "zero as a float": 0.0,
    "minus zero": -0.0,
    "2**53 + 1": 2**53 + 1,
    "2**63": 2**63,
    "-(2**63) - 1": -(2**63) - 1,
    "2**70": 2**70,
    "10**1000": 10**1000,
    "2**53 as a float": 2.0**53,
    "a tenth": 0.1,
    "1e22": 1e22,
    "the smallest float": 5e-324,
    "the largest float": 1.7976931348623157e308,
    "number in text": "1e400",
    "no items": [],
    "no fields": {},
    "items": [1, 1.0, True, "1", None, [], {}, ""],
    "keys": {"": 1, " ": 2, "a.b": 3, "$": 4, "\u00e9": 5, "__class__": "x", "type": "input"},
    "looks like a record": {"entries": [{"type": "unheard-of"}], "meta": {}},
    "nested 200 deep": nested(200),
    "nested 200 deep in objects": _nested_dicts(200),
}
"""JSON values by name."""

TEXTS = {
    "no text": "",
    "NUL": "a\x00b",
    "controls": "".join(map(chr, range(32))) + "\x7f",
    "quotes": "\"'\\/`",
    "blanks around it": " a\t",
    "CRLF": "a\r\nb\rc\n",
    "line separators": "\u2028\u2029\u0085",
    "byte order mark": "\ufeffx",
    "noncharacters": "\uffff\ufdd0",
    "astral": "\U0001f600\U0010ffff",
    "composed": "caf\u00e9",
    "decomposed": "cafe\u0301",
    "a number": "1e400",
    "lone high surrogate": "a\ud800b",
    "lone low surrogate": "\udc97",
    "surrogates the wrong way round": "\udc00\ud800",
    "a lone surrogate after an emoji": "\U0001f600\ud83d",
}
"""Texts by name."""

GOOD: tuple[dict[str, object], ...] = (
    JSON,
    {**TEXTS, "surrogate in a key": {"\ud800": [2.0, 2**70]}, "NUL in a key": {"\x00": 1}},
)
"""All of them, in two objects: one that is valid Unicode, and one that is not."""

EITHER: dict[str, object] = {
    "surrogates that JSON joins": "a\ud83d\ude00",
    "surrogates that JSON joins, in a key": {"\ud83d\ude00": 1},
    "nested 1,000 deep": nested(1000),
    "an integer of 5,000 digits": 10**5000,
}
"""What comes back as it is, or is refused: both are exact."""


class _Colour(enum.Enum):
    RED = "red"


class _Word(enum.StrEnum):
    RED = "red"


class _Number(enum.IntEnum):
    ONE = 1


class _Dict(dict[str, object]):
    pass


class _Text(str):
    __slots__ = ()


@dataclasses.dataclass
class _Point:
    x: int = 1


BAD: dict[str, tuple[object, str | None]] = {
    "nan": (math.nan, ""),
    "infinity": (math.inf, ""),
    "minus infinity": (-math.inf, ""),
    "nan inside": ([1, {"deep": math.nan}], "[1].deep"),
    "bytes": (b"x", ""),
    "bytearray": (bytearray(b"x"), ""),
    "naive datetime": (dt.datetime(2024, 1, 2, 3), ""),  # noqa: DTZ001 - a naive one is meant
    "aware datetime": (dt.datetime(2024, 1, 2, tzinfo=dt.UTC), ""),
    "date": (dt.date(2024, 1, 2), ""),
    "UUID": (uuid.UUID(int=1), ""),
    "Decimal": (decimal.Decimal("1.10"), ""),
    "Enum": (_Colour.RED, ""),
    "StrEnum": (_Word.RED, ""),
    "IntEnum": (_Number.ONE, ""),
    "set": ({1}, ""),
    "tuple": ((1, 2), ""),
    "tuple inside": ({"k": [(1,)]}, ".k[0]"),
    "dataclass": (_Point(), ""),
    "a content part": (TextPart(text="x"), ""),
    "Path": (pathlib.PurePosixPath("a"), ""),
    "complex number": (1j, ""),
    "object": (object(), ""),
    "class": (int, ""),
    "function": (nested, ""),
    "encoded JSON": (msgspec.Raw(b"1"), ""),
    "dict of a subclass": (_Dict(a=1), ""),
    "text of a subclass": (_Text("a"), ""),
    "key that is an integer": ({1: "x"}, ""),
    "key that is None": ({None: "x"}, ""),
    "key that is bytes": ({"k": {b"x": 1}}, ".k"),
    "a cycle": (_cycle(), None),
}
"""What JSON cannot give back, and where in it the fault lies; None is anywhere below."""
