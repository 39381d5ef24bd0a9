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
from durably.plugins import CONTRACT
from durably.testing import Harness
from durably_conformance.collecting import all_checks
from durably_conformance.context import T, is_an_end, said
from durably_conformance.judging import TIMEOUT, closed, judge, words
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
    """Judge a backend; ``run_checks`` in an event loop of its own.

    Raises:
        RuntimeError: the backend ended the loop, by SystemExit in a task of its own.
    """
    work = run_checks(
        harness,
        profile=profile,
        only=only,
        seed=seed,
        timeout=timeout,
        checks=checks,
        progress=progress,
    )
    try:
        return asyncio.run(work)
    except SystemExit as error:
        raise RuntimeError(f"the backend ended the event loop: {said(error)}") from error


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
    ``timeout`` is for each check; it cannot interrupt a backend that blocks the event loop.

    Raises:
        OSError: the source of the suite, which reports name by a digest, cannot be read.
    """
    begun, started = time.perf_counter(), datetime.now(UTC).isoformat(timespec="seconds")
    chosen = all_checks() if checks is None else checks
    digest = digest_of(chosen)
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
            digest=digest,
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


async def _backend(harness: Harness) -> BackendInfo:
    """Return what was judged, as far as it says."""
    return BackendInfo(
        name=harness.name,
        distribution=harness.distribution,
        version=_version(harness.distribution),
        engine=await _engine(harness),
    )


def _version(distribution: str) -> str:
    """Return what is installed under a name; nothing where that is none."""
    try:
        return metadata.version(distribution)
    except (metadata.PackageNotFoundError, ValueError):
        return ""


async def _engine(harness: Harness) -> str:
    """Return which engine the backend says is behind it; nothing where it cannot say."""
    t = T(harness)
    try:
        async with asyncio.timeout(TIMEOUT):
            facts = await (await t.connect()).log_store.describe()
            return str(facts.get("engine", ""))
    except BaseException as error:
        if is_an_end(error):
            raise
        return ""
    finally:
        await closed(t, TIMEOUT)


def _declared(harness: Harness) -> dict[str, str]:
    fields = getattr(harness.capabilities, "__struct_fields__", ())
    return {name: words(getattr(harness.capabilities, name)) for name in fields}
