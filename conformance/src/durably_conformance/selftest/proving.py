"""Proving the suite: each wrong backend fails exactly what it declares, each odd one nothing."""

import asyncio
import multiprocessing
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
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

Uses: TypeAlias = Mapping[str, frozenset[str]]
"""Which contracts each check asks a correct backend for."""

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
    processes: int = 1,
) -> Proof:
    """Run every row of the tables against the checks.

    ``only`` names rows; ``say`` hears of each as it is done. Rows whose backend is not installed
    are in ``absent``. Several ``processes`` share the rows of the suite's own tables.
    """
    rows_of, chosen = tables or all_tables(), tuple(all_checks() if checks is None else checks)
    rows: list[Mutant | Variant] = [*rows_of.mutants, *rows_of.variants]
    there = [one for one in rows if is_installed(one.scheme) and (only is None or one.name in only)]
    if processes > 1 and tables is None and checks is None:
        outcomes = _shared_out([one.name for one in there], seed, processes, say)
    else:
        outcomes = asyncio.run(_outcomes(there, chosen, seed, say))
    return Proof(
        checks=chosen,
        tables=rows_of,
        mutants={one.name: outcomes[one.name] for one in there if isinstance(one, Mutant)},
        variants={one.name: outcomes[one.name] for one in there if isinstance(one, Variant)},
        hollow=() if only is not None else tuple(asyncio.run(_hollow_faults(chosen, seed))),
        absent=tuple(one.name for one in rows if not is_installed(one.scheme)),
    )


def _shared_out(
    names: Sequence[str], seed: int, processes: int, say: Say | None
) -> dict[str, Outcome]:
    """Run rows in several processes, which start afresh and so share nothing with this one."""
    outcomes: dict[str, Outcome] = {}
    context = multiprocessing.get_context("spawn")
    shares = [names[start::processes] for start in range(processes)]
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        for found in pool.map(_prove_some, shares, [seed] * processes):
            outcomes |= found
    for name in names:
        _tell(say, outcomes[name])
    return outcomes


def _prove_some(names: Collection[str], seed: int) -> dict[str, Outcome]:
    tables = all_tables()
    rows: list[Mutant | Variant] = [*tables.mutants, *tables.variants]
    rows = [one for one in rows if one.name in names]
    return asyncio.run(_outcomes(rows, all_checks(), seed, None))


def is_installed(scheme: str) -> bool:
    """Whether a row's backend is there; none is asked for by an empty scheme."""
    return not scheme or scheme in backends.schemes()


async def _outcomes(
    rows: Sequence[Mutant | Variant], checks: Sequence[Check], seed: int, say: Say | None
) -> dict[str, Outcome]:
    uses = await _uses(checks, seed)
    outcomes: dict[str, Outcome] = {}
    for one in rows:
        outcomes[one.name] = await _outcome(one, checks, seed, uses)
        _tell(say, outcomes[one.name])
    return outcomes


def _tell(say: Say | None, outcome: Outcome) -> None:
    if say is not None:
        say(f"{outcome.name}: fails {', '.join(sorted(outcome.failed)) or 'nothing'}")


async def _uses(checks: Sequence[Check], seed: int) -> Uses:
    """Find out which contracts each check asks for, so that rows need not run what they pass."""
    uses: dict[str, frozenset[str]] = {}
    for one in checks:
        correct = MemoryMutant()
        await results_of(correct, [one], profile="full", seed=seed, timeout=TIMEOUT)
        uses[one.id] = frozenset(correct.touched)
    return uses


def _concerned(harness: Harness, checks: Sequence[Check], uses: Uses) -> Sequence[Check]:
    """Return the checks that meet what is wrapped; every other one goes as on correct memory."""
    wrapped = harness.wrapped if isinstance(harness, MemoryMutant) else None
    if wrapped is None:
        return checks
    return [one for one in checks if one.is_first or uses[one.id] & wrapped]


async def _outcome(
    one: Mutant | Variant, checks: Sequence[Check], seed: int, uses: Uses
) -> Outcome:
    harness = one.harness()
    concerned = _concerned(harness, checks, uses)
    results = await results_of(harness, concerned, profile="full", seed=seed, timeout=TIMEOUT)
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
