"""The shared tables: ids and values that broke other libraries, and what exact means here."""

import dataclasses
import datetime as dt
import decimal
import enum
import math
import pathlib
import uuid

import msgspec

from durably import InterruptReason, TextPart

HOSTILE_IDS = (
    *("foo", "Foo", "FOO", "foobar", "foo:1", "foo/1", "foo*", "foo ", " foo", "foo\n"),
    *("caf\u00e9", "cafe\u0301", "stra\u00dfe", "strasse", "\u0130", "i", "I", "\u0131"),
    *("a:b", "a/b", "a%2Fb", "a%2fb", "a\\b", "a//b", "/a", "a/", "a|b", "a,b", "a.b", "a_b"),
    *("..", ".", "../x", "...", "*", "?", "%", "_", "a%", "a?", "[a]", "~", "#", "&"),
    *("{}", "a{b}", "{a}b", "}{", "$1", ":name", "?1", "@x", "--", ";", "'", '"', "`", "''"),
    *(" ", "  ", "\t", "\n", "\r\n", "\x01", "\x7f", "\u200b", "\u2028", "\ufeff", "\ufffd"),
    *("\U0001f600", "\U0001f468\u200d\U0001f469", "0", "00", "1", "01", "-1", "None", "null"),
    *("x'); DROP TABLE durably_logs; --", "' OR 1=1 --", "C:x", "CON", "a" * 255),
    *("a" * 256, "a" * 255 + "b", "\u00e9" * 128, "\U0001f600" * 64, "\U0010ffff" * 64),
)

REFUSED_IDS = {
    "empty": "",
    "257 bytes": "a" * 257,
    "257 bytes of 129 characters": "\u00e9" * 128 + "a",
    "260 bytes of emoji": "\U0001f600" * 65,
    "NUL": "a\x00b",
    "NUL alone": "\x00",
    "lone high surrogate": "a\ud800",
    "lone low surrogate": "\udc97",
    "surrogates in a pair": "\ud83d\ude00",
    "None": None,
    "int": 7,
    "zero": 0,
    "bool": False,
    "bytes": b"a",
    "list": ["a"],
}


def nested(levels: int, *, of: type = list) -> object:
    """Return so many containers, each inside the other."""
    value: object = of()
    for _ in range(levels - 1):
        value = [value] if of is list else {"k": value}
    return value


NUMBERS = {
    "zero": 0,
    "one": 1,
    "one as a float": 1.0,
    "true": True,
    "false": False,
    "zero as a float": 0.0,
    "minus zero": -0.0,
    "2**53 + 1": 2**53 + 1,
    "2**63 - 1": 2**63 - 1,
    "2**63": 2**63,
    "-(2**63) - 1": -(2**63) - 1,
    "2**64": 2**64,
    "2**70": 2**70,
    "-(2**70)": -(2**70),
    "10**4000": 10**4000,
    "2**53 as a float": 2.0**53,
    "a tenth": 0.1,
    "1e16": 1e16,
    "1e22": 1e22,
    "the smallest float": 5e-324,
    "1e308": 1e308,
    "the largest float": 1.7976931348623157e308,
}

TEXTS = {
    "no text": "",
    "NUL": "a\x00b",
    "controls": "".join(map(chr, range(32))) + "\x7f",
    "quotes": "\"'\\/`",
    "CRLF": "a\r\nb\rc\n",
    "line separators": "\u2028\u2029\u0085",
    "byte order mark": "\ufeffx",
    "noncharacter": "\uffff\ufdd0",
    "astral": "\U0001f600\U0010ffff",
    "NFC": "caf\u00e9",
    "NFD": "cafe\u0301",
    "lone high surrogate": "a\ud800b",
    "lone low surrogate": "\udc97",
    "surrogates the wrong way round": "\udc00\ud800",
    "a lone surrogate beside an emoji": "\U0001f600\ud83d",
    "number in text": "1e400",
}

CONTAINERS = {
    "null": None,
    "no items": [],
    "no fields": {},
    "items": [1, 1.0, True, "1", None, [], {}],
    "order of fields": {"b": 1, "a": 2, "": 3},
    "lone surrogate in a key": {"\ud800": 1, "\udc00x": [2.0, 2**70]},
    "NUL in a key": {"\x00": "\x00"},
    "looks like an entry": {"type": "tool_call", "call_id": 1},
    "looks like a record": {"entries": [{"type": "unheard-of"}], "meta": {}},
    "nested 200 deep": nested(200),
    "nested 200 deep in dicts": nested(200, of=dict),
    "lone surrogate nested 200 deep": [nested(200), "\ud800"],
}

GOOD_VALUES = NUMBERS | TEXTS | CONTAINERS


class Colour(enum.Enum):
    RED = "red"


class Word(enum.StrEnum):
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


class Dict(dict):
    """A dict that JSON would give back as a plain one."""


class Text(str):
    """Text that JSON would give back as plain text."""

    __slots__ = ()


@dataclasses.dataclass
class Point:
    x: int = 1


CYCLE: list = []
CYCLE.append(CYCLE)

BAD_VALUES = {
    "nan": (math.nan, "", "nan"),
    "inf": (math.inf, "", "inf"),
    "minus inf": (-math.inf, "", "-inf"),
    "nan inside": ([1, {"deep": math.nan}], "[1].deep", "nan"),
    "bytes": (b"x", "", "bytes"),
    "bytearray": (bytearray(b"x"), "", "bytearray"),
    "memoryview": (memoryview(b"x"), "", "memoryview"),
    "naive datetime": (dt.datetime(2024, 1, 2, 3), "", "datetime"),  # noqa: DTZ001
    "aware datetime": (dt.datetime(2024, 1, 2, tzinfo=dt.UTC), "", "datetime"),
    "date": (dt.date(2024, 1, 2), "", "date"),
    "timedelta": (dt.timedelta(1), "", "timedelta"),
    "UUID": (uuid.UUID(int=1), "", "UUID"),
    "Decimal": (decimal.Decimal("1.10"), "", "Decimal"),
    "Enum": (Colour.RED, "", "Colour"),
    "StrEnum": (Word.RED, "", "Word"),
    "IntEnum": (Number.ONE, "", "Number"),
    "set": ({1}, "", "set"),
    "frozenset": (frozenset({1}), "", "frozenset"),
    "tuple": ((1, 2), "", "tuple"),
    "tuple inside": ({"k": [(1,)]}, ".k[0]", "tuple"),
    "dataclass": (Point(), "", "Point"),
    "a content part": (TextPart(text="x"), "", "TextPart"),
    "a content part inside": ([TextPart(text="x")], "[0]", "TextPart"),
    "an interrupt": (
        InterruptReason(call_id="c", tool_name="t", arguments_digest="d", reason="r"),
        "",
        "InterruptReason",
    ),
    "Path": (pathlib.PurePosixPath("a"), "", "PurePosixPath"),
    "complex": (1j, "", "complex"),
    "object": (object(), "", "object"),
    "class": (int, "", "type"),
    "function": (nested, "", "function"),
    "Ellipsis": (..., "", "ellipsis"),
    "Raw": (msgspec.Raw(b"1"), "", "Raw"),
    "UNSET": (msgspec.UNSET, "", "UnsetType"),
    "dict of its own": (Dict(a=1), "", "Dict"),
    "text of its own": (Text("a"), "", "Text"),
    "key of int": ({1: "x"}, "", "int"),
    "key of None": ({None: "x"}, "", "None"),
    "key of StrEnum": ({Word.RED: "x"}, "", "Word"),
    "key of bytes": ({"k": {b"x": 1}}, ".k", "bytes"),
    "value behind a strange key": ({"a b": {"\ud800": b""}}, "['a b']['\\ud800']", "bytes"),
    "integer of 5,000 digits": (10**5000, "", "integer"),
    "nested 1000 deep": (nested(1000), None, "nested"),
    "nested 1000 deep in dicts": (nested(1000, of=dict), None, "nested"),
    "a cycle": (CYCLE, None, "nested"),
}
"""Value, its path below the place it is put at (None: deep below it), a word the error says."""


def identical(left: object, right: object) -> bool:
    """Whether two values are equal in everything: types, signs of zero and order of fields."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return left.hex() == right.hex()
    if isinstance(left, dict):
        return list(left) == list(right) and all(identical(left[k], right[k]) for k in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(identical, left, right))
    if isinstance(left, msgspec.Struct):
        return all(identical(getattr(left, k), getattr(right, k)) for k in left.__struct_fields__)
    return left == right
