"""Running checks against a harness, each in a fresh place, and reporting what became of them."""

import asyncio
import fnmatch
import platform
import sys
import time
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Literal, TypeAlias

import msgspec

import durably
from durably.capabilities import Support
from durably.plugins import CONTRACT
from durably.testing import Harness
from durably_conformance.collecting import all_checks
from durably_conformance.context import CheckFailed, DoesNotApply, HarnessFailed, T, said
from durably_conformance.registry import Check
from durably_conformance.report import (
    BackendInfo,
    Environment,
    Report,
    Result,
    SuiteInfo,
    counts_of,
    digest_of,
)
from durably_conformance.verdict import verdict

__all__ = ["TIMEOUT", "Profile", "Progress", "judge", "results_of", "run", "run_checks"]

TIMEOUT = 120.0
"""Seconds after which a check has hung; generous, since no check decides by time."""

Profile: TypeAlias = Literal["quick", "full"]
Progress: TypeAlias = Callable[[Result], None]


def run(
    harness: Harness,
    *,
    profile: Profile = "quick",
    only: Collection[str] | None = None,
    seed: int = 0,
    timeout: float = TIMEOUT,
    checks: Sequence[Check] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Judge a backend; ``run_checks`` in an event loop of its own."""
    return asyncio.run(
        run_checks(
            harness,
            profile=profile,
            only=only,
            seed=seed,
            timeout=timeout,
            checks=checks,
            progress=progress,
        )
    )


async def run_checks(
    harness: Harness,
    *,
    profile: Profile = "quick",
    only: Collection[str] | None = None,
    seed: int = 0,
    timeout: float = TIMEOUT,  # noqa: ASYNC109 - of each check, not of this call
    checks: Sequence[Check] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Judge a backend.

    ``quick`` runs the named checks, ``full`` every family. ``only`` are ids, or patterns such as
    ``SES-*``; what it leaves out is reported as not run. ``checks`` are the suite's own.
    """
    begun, started = time.perf_counter(), datetime.now(UTC).isoformat(timespec="seconds")
    chosen = all_checks() if checks is None else checks
    results = await results_of(
        harness, chosen, profile=profile, only=only, seed=seed, timeout=timeout, progress=progress
    )
    level, why = verdict(
        chosen, results, unknown_excuses=set(harness.known_failures) - {one.id for one in chosen}
    )
    return Report(
        suite=SuiteInfo(
            version=metadata.version("durably-conformance"),
            contract=".".join(map(str, CONTRACT)),
            checks=len(chosen),
            digest=digest_of(chosen),
            profile=profile,
            seed=seed,
        ),
        core=metadata.version(durably.__name__),
        backend=await _backend(harness),
        environment=Environment(
            python=platform.python_version(),
            platform=f"{sys.platform}-{platform.machine()}",
            optimize=sys.flags.optimize,
            started=started,
            seconds=round(time.perf_counter() - begun, 3),
        ),
        capabilities=_declared(harness),
        limits=msgspec.structs.asdict(harness.limits),
        counts=counts_of(results),
        level=level,
        why=why,
        checks=tuple(results),
    )


async def results_of(
    harness: Harness,
    checks: Sequence[Check],
    *,
    profile: Profile = "quick",
    only: Collection[str] | None = None,
    seed: int = 0,
    timeout: float = TIMEOUT,  # noqa: ASYNC109 - of each check, not of this call
    progress: Progress | None = None,
    keep_going: bool = False,
) -> list[Result]:
    """Run checks and return what became of each, those about the harness first.

    If one of those does not pass, nothing else runs, unless told to ``keep_going``.
    """
    results: list[Result] = []
    stopped = ""
    for one in sorted(checks, key=lambda one: not one.is_first):
        reason = _left_out(one, profile, only)
        if not reason and not one.is_first:
            reason = stopped
        if reason:
            result = Result(id=one.id, status="not_run", level=one.level, reason=reason)
        else:
            result = await judge(harness, one, seed=seed, timeout=timeout)
        if one.is_first and result.status not in ("passed", "not_run") and not keep_going:
            stopped = stopped or f"{one.id} {result.status}: without it no other check means much"
        results.append(result)
        if progress is not None:
            progress(result)
    return results


def _left_out(one: Check, profile: Profile, only: Collection[str] | None) -> str:
    if only is not None and not any(fnmatch.fnmatchcase(one.id, pattern) for pattern in only):
        return "not chosen"
    if profile == "quick" and one.family != "named":
        return f"the family {one.family} is not in the profile quick"
    return ""


async def judge(
    harness: Harness,
    one: Check,
    *,
    seed: int = 0,
    timeout: float = TIMEOUT,  # noqa: ASYNC109 - the check's own
) -> Result:
    """Run one check in a fresh place and return what became of it."""
    result = _inapplicable(harness, one)
    if result is None:
        begun = time.perf_counter()
        result = await _attempted(harness, one, seed=seed, limit=timeout)
        seconds = round(time.perf_counter() - begun, 4)
        result = msgspec.structs.replace(result, seconds=seconds)
    return _excused(result, harness.known_failures.get(one.id))


def _inapplicable(harness: Harness, one: Check) -> Result | None:
    """Return the result of a check whose needs the declaration decides, else None."""
    for name in (*one.needs, *filter(None, [one.refuses])):
        declared: object = getattr(harness.capabilities, name, None)
        if declared is None:
            reason = f"{name} is not declared"
            return Result(id=one.id, status="undeclared", level=one.level, reason=reason)
        if name != one.refuses and not declared:
            return _unsupported(one, f"{name}: {_words(declared)}")
        if name == one.refuses and declared:
            return _unsupported(one, f"{name} is offered, so nothing is to be refused")
    return None


def _unsupported(one: Check, reason: str) -> Result:
    return Result(id=one.id, status="unsupported", level=one.level, reason=reason)


def _words(declared: object) -> str:
    if isinstance(declared, Support):
        return "yes" if declared else f"no: {declared.reason}"
    return str(getattr(declared, "name", declared)).lower().replace("_", " ")


async def _attempted(harness: Harness, one: Check, *, seed: int, limit: float) -> Result:
    t = T(harness, seed=f"{seed} {one.id}")
    status, reason = await _outcome(t, one, limit)
    try:
        async with asyncio.timeout(limit):
            await t.close()
    except (CheckFailed, HarnessFailed, TimeoutError) as error:
        if status in ("passed", "unsupported"):
            status = "failed" if isinstance(error, CheckFailed) else "error"
            reason = said(error) if isinstance(error, TimeoutError) else str(error)
    return Result(
        id=one.id,
        status=status,
        level=one.level,
        assertions=t.assertions,
        evidence=dict(t.evidence),
        reason=reason,
    )


_Outcome: TypeAlias = tuple[Literal["passed", "failed", "error", "unsupported"], str | None]


async def _outcome(t: T, one: Check, limit: float) -> _Outcome:
    """Run the function of a check; whatever a backend raises is its failure."""
    clock = asyncio.timeout(limit)
    try:
        async with clock:
            await one.function(t)
    except Exception as error:  # noqa: BLE001 - a backend may raise anything
        if clock.expired():
            return "error", f"hung: no end after {limit:g} seconds"
        return _judged(error)
    if t.failure is not None:
        return "failed", str(t.failure)
    if not t.assertions:
        return "error", "vacuous: it asserted nothing"
    return "passed", None


def _judged(error: Exception) -> _Outcome:
    """Return whose fault it is that a check ended with an error."""
    if isinstance(error, CheckFailed):
        return "failed", str(error)
    if isinstance(error, DoesNotApply):
        return "unsupported", str(error)
    if isinstance(error, HarnessFailed):
        return "error", str(error)
    return "failed", f"raised {said(error)}"


def _excused(result: Result, excuse: str | None) -> Result:
    """Return a result as it counts for a check whose failure the harness announced."""
    if excuse is None:
        return result
    if result.status == "passed":
        reason = f"it passes, so the excuse is stale: {excuse}"
        return msgspec.structs.replace(result, status="unexpected_pass", reason=reason)
    if result.status == "failed":
        reason = f"{excuse} ({result.reason})"
        return msgspec.structs.replace(result, status="known_failure", reason=reason)
    return result


async def _backend(harness: Harness) -> BackendInfo:
    """Return what was judged, as far as it says."""
    engine = ""
    t = T(harness)
    try:
        async with asyncio.timeout(TIMEOUT):
            facts = await (await t.connect()).log_store.describe()
            engine = str(facts.get("engine", ""))
            await t.close()
    except Exception:  # noqa: BLE001 - what it cannot say is left out
        engine = ""
    version = metadata.version(harness.distribution) if harness.distribution else ""
    return BackendInfo(
        name=harness.name, distribution=harness.distribution, version=version, engine=engine
    )


def _declared(harness: Harness) -> dict[str, str]:
    fields = getattr(harness.capabilities, "__struct_fields__", ())
    return {name: _words(getattr(harness.capabilities, name)) for name in fields}
