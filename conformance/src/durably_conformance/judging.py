"""What becomes of one check: it is run in a fresh place, and whatever happens is somebody's."""

import asyncio
import time
import traceback
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from durably import DurablyError
from durably.capabilities import Support
from durably.testing import Harness
from durably_conformance.context import (
    CheckFailed,
    DoesNotApply,
    HarnessFailed,
    T,
    is_an_end,
    said,
)
from durably_conformance.registry import Check
from durably_conformance.report import Result

__all__ = ["TIMEOUT", "closed", "judge", "words"]

TIMEOUT = 120.0
"""Seconds after which a check has hung; generous, since no check decides by time.

A backend that blocks the event loop cannot be interrupted, by this or by anything in its process.
"""


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
            return _unsupported(one, f"{name}: {words(declared)}")
        if name == one.refuses and declared:
            return _unsupported(one, f"{name} is offered, so nothing is to be refused")
    return None


def _unsupported(one: Check, reason: str) -> Result:
    return Result(id=one.id, status="unsupported", level=one.level, reason=reason)


def words(declared: object) -> str:
    """Return what is declared of a capability, as a report says it."""
    if isinstance(declared, Support):
        return "yes" if declared else f"no: {declared.reason}"
    return str(getattr(declared, "name", declared)).lower().replace("_", " ")


async def _attempted(harness: Harness, one: Check, *, seed: int, limit: float) -> Result:
    t = T(harness, seed=f"{seed} {one.id}")
    status, reason = await _outcome(t, one, limit)
    trouble = await closed(t, limit)
    if trouble is not None and status in ("passed", "unsupported"):
        status, reason = trouble
    return Result(
        id=one.id,
        status=status,
        level=one.level,
        assertions=t.assertions,
        evidence=dict(t.evidence),
        reason=reason,
    )


async def closed(t: T, limit: float) -> "_Outcome | None":
    """Close and wipe what was opened, and return what stood against it."""
    try:
        async with asyncio.timeout(limit):
            await t.close()
    except CheckFailed as error:
        return "failed", str(error)
    except HarnessFailed as error:
        return "error", str(error)
    except TimeoutError as error:
        return "error", said(error)
    return None


_Outcome: TypeAlias = tuple[Literal["passed", "failed", "error", "unsupported"], str | None]


async def _outcome(t: T, one: Check, limit: float) -> _Outcome:
    """Run the function of a check; whatever a backend raises is its failure.

    An assertion that failed counts first, also where the check caught it and went on.
    """
    clock = asyncio.timeout(limit)
    try:
        async with clock:
            await one.function(t)
    except BaseException as error:
        if is_an_end(error):
            raise
        if t.failure is not None:
            return "failed", str(t.failure)
        if clock.expired():
            return "error", f"hung: no end after {limit:g} seconds"
        return _judged(error)
    if t.failure is not None:
        return "failed", str(t.failure)
    if not t.assertions:
        return "error", "vacuous: it asserted nothing"
    return "passed", None


def _judged(error: BaseException) -> _Outcome:
    """Return whose fault it is that a check ended with an error."""
    if isinstance(error, CheckFailed):
        return "failed", str(error)
    if isinstance(error, DoesNotApply):
        return "unsupported", str(error)
    if isinstance(error, HarnessFailed):
        return "error", str(error)
    return "failed", f"raised {said(error)}{_place(error)}"


def _place(error: BaseException) -> str:
    """Return where an error that is none of durably's was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, DurablyError) or not frames:
        return ""
    last = frames[-1]
    return f" at {Path(last.filename).name}:{last.lineno}, in {last.name}"


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
