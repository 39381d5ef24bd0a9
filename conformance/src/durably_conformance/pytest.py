"""The checks as tests of pytest: ``TestConformance = suite("mydb://localhost/test")``."""

import asyncio
import fnmatch
import functools
from collections.abc import Collection

import pytest

from durably.testing import Harness
from durably_conformance.collecting import all_checks
from durably_conformance.engine import Profile, judge
from durably_conformance.masking import Mask
from durably_conformance.registry import Check
from durably_conformance.report import Result
from durably_conformance.targets import CannotRun, harness_of, reach, resolved
from durably_conformance.wording import STATUSES

__all__ = ["suite"]


def suite(
    target: str | Harness,
    *,
    profile: Profile = "quick",
    only: Collection[str] | None = None,
    seed: int = 0,
) -> type:
    """Return a class with a test for each check, to be bound to a name that begins with Test.

    ``target`` is a harness, the URL of an installed backend, or ``package.module:harness``; it is
    opened when the first test runs. ``only`` are ids of checks, or patterns such as ``SES-*``. A
    check of something declared absent is skipped with the declared reason. What the verdict of a
    run forgives is an expected failure: that of a check which is no must, and one that
    ``known_failures`` names. A stale excuse fails.
    """
    chosen = [
        one
        for one in all_checks()
        if (profile == "full" or one.family == "named") and _is_chosen(one, only)
    ]

    @functools.cache
    def opened() -> tuple[Harness, Mask] | str:
        return _opened(target)

    class Conformance:
        @pytest.mark.parametrize("one", chosen, ids=lambda one: one.id)
        def test_check(self, one: Check) -> None:
            found = opened()
            if isinstance(found, str):
                pytest.fail(found, pytrace=False)
            harness, mask = found
            _settle(one, mask.result(asyncio.run(judge(harness, one, seed=seed))))

    return Conformance


def _is_chosen(one: Check, only: Collection[str] | None) -> bool:
    return only is None or any(fnmatch.fnmatchcase(one.id, pattern) for pattern in only)


def _opened(target: str | Harness) -> tuple[Harness, Mask] | str:
    """Return the harness, reached once, or why it cannot be had."""
    mask = Mask()
    try:
        if isinstance(target, str):
            target = resolved(target)
            mask = Mask(target)
            target = harness_of(target)
        asyncio.run(reach(target))
    except CannotRun as error:
        return mask(str(error))
    return target, mask


def _settle(one: Check, result: Result) -> None:
    """End a test as the verdict of a run would count the result."""
    if result.status == "passed":
        return
    if result.status in ("unsupported", "not_run"):
        pytest.skip(result.reason or STATUSES[result.status])
    stale = result.status == "unexpected_pass"
    if result.status == "known_failure" or (one.level != "must" and not stale):
        pytest.xfail(f"{one.level}: {result.reason}")
    pytest.fail(_words(one, result), pytrace=False)


def _words(one: Check, result: Result) -> str:
    """Return the id, the rule, and what was got and wanted."""
    said = "" if result.status == "failed" else f"{STATUSES[result.status]}: "
    return (
        f"{one.id}: {one.rule}\n"
        f"  {said}{result.reason}\n"
        f"  What it asks for: durably-conformance explain {one.id}"
    )
