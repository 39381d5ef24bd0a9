"""Proving the suite: each wrong backend fails exactly what it declares, each odd one nothing."""

import asyncio
import multiprocessing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeAlias

import msgspec

from durably.plugins import backends
from durably.testing import Harness
from durably_conformance.collecting import all_checks
from durably_conformance.engine import judge, results_of
from durably_conformance.registry import Check
from durably_conformance.report import Result
from durably_conformance.selftest.hollow import Hollow
from durably_conformance.selftest.mutating import MemoryMutant, Mutated, noticed
from durably_conformance.selftest.table import Mutant, Tables, Variant, all_tables, probe_length
from durably_conformance.selftest.tracking import Tracked

__all__ = ["PROBE_LINES", "Outcome", "Proof", "is_installed", "prove"]

_Row: TypeAlias = Mutant | Variant
_Uses: TypeAlias = Mapping[str, frozenset[str]]
"""Which parts of a correct backend each check uses."""
_MORE = "more"
"""What a check that does not apply to memory may ask another backend for."""

PROBE_LINES = 10
TIMEOUT = 10.0
"""Seconds; a mutant that hangs has failed by then."""
PATIENCE = 60.0
"""Seconds for a check of which nobody said that it hangs; the machine may be slow."""

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
    rows: list[_Row] = [*rows_of.mutants, *rows_of.variants]
    there = [one for one in rows if is_installed(one.scheme) and (only is None or one.name in only)]
    uses = asyncio.run(_uses(chosen, seed))
    found: Iterable[Outcome]
    outcomes: dict[str, Outcome] = {}
    if processes > 1 and tables is None and checks is None:
        found = _shared_out([one.name for one in there], seed, uses, processes)
    else:
        found = (asyncio.run(_outcome(one, chosen, seed, uses)) for one in there)
    for outcome in found:
        outcomes[outcome.name] = outcome
        _tell(say, outcome)
    return Proof(
        checks=chosen,
        tables=rows_of,
        mutants={one.name: outcomes[one.name] for one in there if isinstance(one, Mutant)},
        variants={one.name: outcomes[one.name] for one in there if isinstance(one, Variant)},
        hollow=() if only is not None else tuple(asyncio.run(_hollow_faults(chosen, seed))),
        absent=tuple(one.name for one in rows if not is_installed(one.scheme)),
    )


def _shared_out(names: Sequence[str], seed: int, uses: _Uses, processes: int) -> Iterator[Outcome]:
    """Run rows in several processes, which start afresh and so share nothing with this one."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        running = [pool.submit(_prove_one, name, seed, uses) for name in names]
        for done in as_completed(running):
            yield done.result()


def _prove_one(name: str, seed: int, uses: _Uses) -> Outcome:
    tables = all_tables()
    rows: list[_Row] = [*tables.mutants, *tables.variants]
    [row] = [one for one in rows if one.name == name]
    return asyncio.run(_outcome(row, all_checks(), seed, uses))


def is_installed(scheme: str) -> bool:
    """Whether a row's backend is there; none is asked for by an empty scheme."""
    return not scheme or scheme in backends.schemes()


def _tell(say: Say | None, outcome: Outcome) -> None:
    if say is not None:
        say(f"{outcome.name}: fails {', '.join(sorted(outcome.failed)) or 'nothing'}")


async def _uses(checks: Sequence[Check], seed: int) -> _Uses:
    """Find out which parts of a backend each check uses, on correct memory.

    Raises:
        ValueError: a check does not pass there, and so may have ended before it asked.
    """
    uses: dict[str, frozenset[str]] = {}
    for one in checks:
        correct = noticed()
        result = await judge(correct, one, seed=seed, timeout=PATIENCE)
        if result.status not in ("passed", "unsupported"):
            raise ValueError(f"{one.id} is {result.status} on a correct backend: {result.reason}")
        more = {_MORE} if result.status == "unsupported" else set[str]()
        uses[one.id] = frozenset(correct.touched | more)
    return uses


def concerned(harness: Harness, checks: Sequence[Check], uses: _Uses) -> Sequence[Check]:
    """Return the checks that can meet what is wrapped; others go as on a correct backend.

    That rests on two premises: a wrapper does nothing when it is constructed, and a check that
    never uses a wrapped part cannot meet it. What does not apply to memory may apply to another
    backend, and then uses more than it did.
    """
    wrapped = harness.wrapped if isinstance(harness, Mutated) else None
    if wrapped is None:
        return checks
    met = wrapped if isinstance(harness, MemoryMutant) else wrapped | {_MORE}
    return [one for one in checks if one.is_first or uses[one.id] & met]


async def _outcome(one: _Row, checks: Sequence[Check], seed: int, uses: _Uses) -> Outcome:
    harness = one.harness()
    found = await results_of(
        harness, concerned(harness, checks, uses), profile="full", seed=seed, timeout=TIMEOUT
    )
    declared = one.fails if isinstance(one, Mutant) else frozenset[str]()
    by_id = {check.id: check for check in checks}
    results = [
        await judge(harness, by_id[result.id], seed=seed, timeout=PATIENCE)
        if _is_hung(result) and result.id not in declared
        else result
        for result in found
    ]
    failed = [result for result in results if result.status in _KILLED]
    return Outcome(
        name=one.name,
        failed=frozenset(result.id for result in failed),
        reasons={result.id: result.reason or "" for result in failed},
        probed=await _probed(one, harness) if isinstance(one, Mutant) else "",
    )


def _is_hung(result: Result) -> bool:
    """Whether time ran out, in a check or in closing what it had opened."""
    return result.status == "error" and (result.reason or "").startswith(("hung", "TimeoutError"))


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
