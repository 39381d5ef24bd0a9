"""The checks there are: each an async function with an id, a rule and what it needs."""

import inspect
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from durably.capabilities import Capabilities

if TYPE_CHECKING:
    from durably_conformance.context import T

__all__ = [
    "FAMILIES",
    "NEEDS",
    "Check",
    "Contract",
    "Family",
    "Level",
    "Registry",
    "check",
    "source_of",
]

Level: TypeAlias = Literal["must", "should", "candidate"]
"""``must`` decides the verdict, ``should`` is a remark, ``candidate`` does not count yet."""

Contract: TypeAlias = Literal[
    "harness", "storage", "logstore", "session", "checkpointer", "saver", "states", "tree"
]
Family: TypeAlias = Literal["named", "model", "crash", "concurrency", "network"]

FAMILIES: tuple[Family, ...] = ("named", "model", "crash", "concurrency", "network")
"""The level ``full`` needs checks of every one of them."""

NEEDS: Mapping[Contract, tuple[str, ...]] = {
    "harness": (),
    "storage": (),
    "logstore": ("log_store",),
    "session": ("sessions",),
    "checkpointer": ("checkpointer",),
    "saver": ("checkpoint_saver",),
    "states": (),
    "tree": (),
}
"""The capability that each contract is; what a handle may have beside them is none."""

Function: TypeAlias = "Callable[[T], Awaitable[None]]"

_ID = re.compile(r"[A-Z]+(-[A-Z]+)*-[0-9]{3}")
_FIRST = re.compile(r"(.+?[.!?])(\s|$)", re.DOTALL)


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check; ``rule`` is the first sentence of its docstring.

    ``requires`` are capabilities without which it does not apply. A check that ``refuses`` one
    applies only where it is declared absent. ``reports`` are real bugs it would have found.
    """

    id: str
    level: Level
    contract: Contract
    family: Family
    requires: tuple[str, ...]
    refuses: str
    reports: tuple[str, ...]
    rule: str
    explanation: str
    module: str
    function: Function

    @property
    def needs(self) -> tuple[str, ...]:
        """Every capability it needs, that of its contract first."""
        own = () if self.refuses else NEEDS[self.contract]
        return (*own, *(name for name in self.requires if name not in own))

    @property
    def is_first(self) -> bool:
        """Whether it asks for an honest harness, without which nothing else means anything."""
        return self.contract == "harness"


class Registry:
    """Checks by id, in the order in which they were made."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}

    def check(
        self,
        id: str,  # noqa: A002 - what it is
        *,
        level: Level = "must",
        contract: Contract,
        family: Family = "named",
        requires: tuple[str, ...] = (),
        refuses: str = "",
        reports: tuple[str, ...] = (),
    ) -> Callable[[Function], Function]:
        """Return a decorator that registers a check.

        Raises:
            ValueError: the id is taken or none, the docstring has no sentence, or a capability
                is unknown.
        """

        def register(function: Function) -> Function:
            explanation = inspect.getdoc(function) or ""
            one = Check(
                id=id,
                level=level,
                contract=contract,
                family=family,
                requires=requires,
                refuses=refuses,
                reports=reports,
                rule=_rule(id, explanation),
                explanation=explanation,
                module=function.__module__,
                function=function,
            )
            self._add(one)
            return function

        return register

    @property
    def checks(self) -> tuple[Check, ...]:
        """All of them: those about the harness first, then by contract and id."""
        contracts = list(NEEDS)
        order = sorted(
            self._checks.values(), key=lambda one: (contracts.index(one.contract), one.id)
        )
        return tuple(order)

    def _add(self, one: Check) -> None:
        if not _ID.fullmatch(one.id):
            raise ValueError(f"{one.id!r} is no id such as SES-APP-001")
        if one.id in self._checks:
            raise ValueError(f"two checks are called {one.id}")
        if not inspect.iscoroutinefunction(one.function):
            raise ValueError(f"{one.id} is not an async function")
        for name in (*one.requires, *filter(None, [one.refuses])):
            if name not in Capabilities.__struct_fields__:
                raise ValueError(f"{one.id} needs {name!r}, which is no capability")
        self._checks[one.id] = one


def _rule(id_: str, explanation: str) -> str:
    if sys.flags.optimize > 1:  # python -OO takes docstrings away
        return "its rule is not known under python -OO"
    found = _FIRST.match(explanation)
    if found is None:
        raise ValueError(f"{id_} has no sentence as its docstring: that is its rule")
    return " ".join(found[1].split())


def source_of(one: Check) -> str:
    """Return the text of the module a check lies in.

    Raises:
        OSError: it cannot be read.
    """
    try:
        return inspect.getsource(sys.modules[one.module])
    except (KeyError, OSError, TypeError) as error:
        raise OSError(f"the source of {one.id}, {one.module}, cannot be read") from error


REGISTRY = Registry()
"""The suite's own."""

check = REGISTRY.check
