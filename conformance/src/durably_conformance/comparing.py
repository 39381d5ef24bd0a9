"""Comparing what a backend gave with what it had to give, and saying so in one short line."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import cast

import msgspec

__all__ = ["counted", "difference", "is_same", "shown"]

SHOWN = 80
"""Characters of a value that a message repeats at most."""


def shown(value: object, limit: int = SHOWN) -> str:
    """Return a value's repr in one line, cut short."""
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def difference(got: object, want: object) -> str:
    """Say in a few words what was got and what was wanted; of lists, where they part."""
    here, there = _items(got), _items(want)
    if here is not None and there is not None:
        for position, (one, other) in enumerate(zip(here, there, strict=False)):
            if one != other:
                return f"at [{position}] got {shown(one)}, want {shown(other)}"
        if len(here) != len(there):
            return f"got {len(here)} items, want {len(there)}: {shown(here, 60)}"
    return f"got {shown(got)}, want {shown(want)}"


def counted(values: Iterable[object]) -> Counter[str]:
    """Return how often each value is there, by its repr."""
    return Counter(map(repr, values))


def is_same(got: object, want: object) -> bool:
    """Whether two values are equal with equal types all the way down: 1 is neither 1.0 nor True."""
    if type(got) is not type(want):
        return False
    mine, other = _table(got), _table(want)
    if mine is not None and other is not None:
        return mine.keys() == other.keys() and all(is_same(mine[k], other[k]) for k in mine)
    here, there = _items(got), _items(want)
    if here is not None and there is not None:
        return len(here) == len(there) and all(map(is_same, here, there))
    if isinstance(got, msgspec.Struct):
        return all(is_same(getattr(got, k), getattr(want, k)) for k in got.__struct_fields__)
    if isinstance(got, float):
        return repr(got) == repr(want)
    return got == want


def _items(value: object) -> list[object] | None:
    return list(cast("Iterable[object]", value)) if isinstance(value, list | tuple) else None


def _table(value: object) -> dict[object, object] | None:
    return dict(cast("Mapping[object, object]", value)) if isinstance(value, dict) else None
