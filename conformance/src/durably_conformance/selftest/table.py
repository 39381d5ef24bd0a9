"""Rows of the tables: wrong backends with what they fail, and odd ones that fail nothing."""

import inspect
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from durably.testing import Harness
from durably_conformance.collecting import table_modules
from durably_conformance.selftest.tracking import Tracked

__all__ = ["Mutant", "Probe", "Tables", "Variant", "all_tables", "probe_length"]

Probe = Callable[[Tracked], Awaitable[bool]]
"""Whether the fault shows in a place; it runs no check, and is false of a correct backend.

It may borrow the suite's words for what it stores and how that is read.
"""


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """A deliberately wrong backend.

    ``says`` is one sentence that names the rule it breaks, ``fails`` the ids of exactly the
    checks it fails, ``provenance`` where somebody made this mistake. ``scheme``, where it has
    one, has to be installed for it to run.
    """

    name: str
    says: str
    fails: frozenset[str]
    provenance: str
    harness: Callable[[], Harness]
    probe: Probe
    scheme: str = ""


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """An odd backend that breaks no rule; ``says`` what is odd about it."""

    name: str
    says: str
    harness: Callable[[], Harness]
    scheme: str = ""


class Tables(msgspec.Struct, frozen=True, kw_only=True):
    """All rows, and for checks that are no mutant's only killer, why not."""

    mutants: tuple[Mutant, ...] = ()
    variants: tuple[Variant, ...] = ()
    excuses: Mapping[str, str] = {}


def all_tables() -> Tables:
    """Return ``MUTANTS``, ``VARIANTS`` and ``EXCUSES`` of every module that has them.

    Raises:
        ValueError: a name or an excuse is there twice.
    """
    mutants: list[Mutant] = []
    variants: list[Variant] = []
    excuses: list[tuple[str, str]] = []
    for module in table_modules():
        mutants += getattr(module, "MUTANTS", ())
        variants += getattr(module, "VARIANTS", ())
        excuses += getattr(module, "EXCUSES", {}).items()
    names = [*(one.name for one in mutants), *(one.name for one in variants)]
    for found in (names, [id_ for id_, _ in excuses]):
        twice = sorted({one for one in found if found.count(one) > 1})
        if twice:
            raise ValueError(f"twice in the tables: {', '.join(twice)}")
    return Tables(mutants=tuple(mutants), variants=tuple(variants), excuses=dict(excuses))


def probe_length(probe: Probe) -> int:
    """Return how many lines a probe has, its signature aside."""
    lines = [line for line in inspect.getsource(probe).splitlines() if line.strip()]
    return len(lines) - 1
