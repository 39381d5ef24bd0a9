"""Proving the suite: each wrong backend fails exactly what it declares, each odd one nothing."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import msgspec

from durably.plugins import backends
from durably.testing import Harness
from durably_conformance.collecting import all_checks
from durably_conformance.engine import results_of
from durably_conformance.registry import Check
from durably_conformance.report import Result
from durably_conformance.selftest.hollow import Hollow
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.table import Mutant, Tables, Variant, all_tables, probe_length
from durably_conformance.selftest.tracking import Tracked

__all__ = ["PROBE_LINES", "Outcome", "Proof", "is_installed", "prove"]

PROBE_LINES = 10
TIMEOUT = 10.0
"""Seconds; a mutant that hangs has failed by then."""

Say: TypeAlias = Callable[[str], None]
_KILLED = ("failed", "error", "undeclared")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one row: the checks it failed, why, and whether its probe shows the fault."""

    name: str
    failed: frozenset[str]
    reasons: dict[str, str] = {}
    probed: str = ""


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """Everything selftest found out; ``faults`` judges it."""

    checks: tuple[Check, ...]
    tables: Tables
    mutants: dict[str, Outcome]
    variants: dict[str, Outcome]
    hollow: tuple[str, ...]
    absent: tuple[str, ...] = ()

    @property
    def faults(self) -> list[str]:
        """Every reason why the suite is not proved, one line each; none if it is."""
        return [
            *(line for one in self.tables.mutants for line in self._of_mutant(one)),
            *(line for one in self.tables.variants for line in self._of_variant(one)),
            *self.hollow,
            *self._of_checks(),
        ]

    def without(self, id_: str) -> "Proof":
        """Return the proof as it were if a check did not exist; checks do not touch each other."""
        return msgspec.structs.replace(
            self,
            checks=tuple(one for one in self.checks if one.id != id_),
            mutants={name: _less(one, id_) for name, one in self.mutants.items()},
            variants={name: _less(one, id_) for name, one in self.variants.items()},
        )

    def unguarded(self) -> list[str]:
        """Return the must-checks whose removal would go unnoticed."""
        known = set(self.faults)
        musts = [one.id for one in self.checks if one.level == "must"]
        return [id_ for id_ in musts if not set(self.without(id_).faults) - known]

    def _of_mutant(self, one: Mutant) -> list[str]:
        outcome = self.mutants.get(one.name)
        if outcome is None:
            return []
        lines = [f"{one.name}: {outcome.probed}"] if outcome.probed else []
        if not one.fails:
            lines.append(f"{one.name}: declares no check it fails")
        if more := sorted(outcome.failed - one.fails):
            said = "; ".join(f"{id_} ({outcome.reasons.get(id_, '')})" for id_ in more)
            lines.append(f"{one.name}: fails undeclared {said}")
        if less := sorted(one.fails - outcome.failed):
            lines.append(f"{one.name}: is let pass by {', '.join(less)}")
        return lines

    def _of_variant(self, one: Variant) -> list[str]:
        outcome = self.variants.get(one.name)
        failed = sorted(outcome.failed) if outcome else []
        return [
            f"{one.name}: breaks no rule, but {id_} fails: {outcome.reasons[id_]}"
            for id_ in failed
            if outcome
        ]

    def _of_checks(self) -> list[str]:
        """Return what is wrong with who kills what: by the table, not by what was installed."""
        sole = {id_ for one in self.tables.mutants if len(one.fails) == 1 for id_ in one.fails}
        musts = {one.id for one in self.checks if one.level == "must"}
        excuses = set(self.tables.excuses)
        known = {one.id for one in self.checks}
        return [
            *(
                f"{id_}: no mutant fails it alone, and no excuse"
                for id_ in sorted(musts - sole - excuses)
            ),
            *(f"{id_}: has an excuse, and a mutant" for id_ in sorted(excuses & sole)),
            *(f"{id_}: has an excuse, and is no check" for id_ in sorted(excuses - known)),
        ]


def prove(
    *,
    tables: Tables | None = None,
    checks: Sequence[Check] | None = None,
    seed: int = 0,
    only: Collection[str] | None = None,
    say: Say | None = None,
) -> Proof:
    """Run every row of the tables against the checks.

    ``only`` names rows; ``say`` hears of each as it is done. Rows whose backend is not installed
    are in ``absent``.
    """
    return asyncio.run(
        _prove(
            tables or all_tables(),
            all_checks() if checks is None else tuple(checks),
            seed,
            only,
            say,
        )
    )


def is_installed(scheme: str) -> bool:
    """Whether a row's backend is there; none is asked for by an empty scheme."""
    return not scheme or scheme in backends.schemes()


async def _prove(
    tables: Tables,
    checks: Sequence[Check],
    seed: int,
    only: Collection[str] | None,
    say: Say | None,
) -> Proof:
    tell: Say = say or (lambda _: None)
    rows: list[Mutant | Variant] = [*tables.mutants, *tables.variants]
    there = [one for one in rows if is_installed(one.scheme) and (only is None or one.name in only)]
    mutants: dict[str, Outcome] = {}
    variants: dict[str, Outcome] = {}
    for one in there:
        outcome = await _outcome(one, checks, seed)
        (mutants if isinstance(one, Mutant) else variants)[one.name] = outcome
        tell(f"{one.name}: fails {', '.join(sorted(outcome.failed)) or 'nothing'}")
    hollow = [] if only is not None else await _hollow_faults(checks, seed)
    return Proof(
        checks=tuple(checks),
        tables=tables,
        mutants=mutants,
        variants=variants,
        hollow=tuple(hollow),
        absent=tuple(one.name for one in rows if not is_installed(one.scheme)),
    )


async def _outcome(one: Mutant | Variant, checks: Sequence[Check], seed: int) -> Outcome:
    harness = one.harness()
    results = await results_of(harness, checks, profile="full", seed=seed, timeout=TIMEOUT)
    failed = [result for result in results if result.status in _KILLED]
    return Outcome(
        name=one.name,
        failed=frozenset(result.id for result in failed),
        reasons={result.id: result.reason or "" for result in failed},
        probed=await _probed(one, harness) if isinstance(one, Mutant) else "",
    )


async def _probed(one: Mutant, harness: Harness) -> str:
    """Return what is wrong with a mutant's probe, nothing if it shows the fault and only that."""
    if probe_length(one.probe) > PROBE_LINES:
        return f"its probe has more than {PROBE_LINES} lines"
    if not await _shows(one, harness):
        return "its probe does not show the fault"
    if await _shows(one, MemoryMutant()):
        return "its probe shows the fault in a correct backend, too"
    return ""


async def _shows(one: Mutant, harness: Harness) -> bool:
    async with Tracked(harness) as tracked:
        return await one.probe(tracked)


async def _hollow_faults(checks: Sequence[Check], seed: int) -> list[str]:
    """Return which checks the hollow backend passes or skips; those that refuse do not apply."""
    positive = [one for one in checks if not one.refuses]
    faults: list[str] = []
    for hollow in (Hollow("raises"), Hollow("returns None")):
        found: list[Result] = await results_of(
            hollow, positive, profile="full", seed=seed, timeout=TIMEOUT, keep_going=True
        )
        faults += [
            f"{hollow.name}: {one.id} is {one.status}" for one in found if one.status != "failed"
        ]
    return faults


def _less(outcome: Outcome, id_: str) -> Outcome:
    return msgspec.structs.replace(outcome, failed=outcome.failed - {id_})
