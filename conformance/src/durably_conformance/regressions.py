"""What became worse from one report to the next."""

from collections.abc import Iterator, Mapping

from durably_conformance.report import Report, Result, Status
from durably_conformance.wording import STATUSES, VERDICTS, amount, filled

__all__ = ["differences", "regressions"]

_WELL: tuple[Status, ...] = ("passed", "unsupported", "not_run")


def regressions(old: Report, new: Report) -> list[Result]:
    """Return the checks that did well and no longer do; candidates do not count."""
    before = {one.id: one for one in old.checks}
    return [
        one
        for one in new.checks
        if one.level != "candidate" and one.id in before and _is_worse(before[one.id], one)
    ]


def _is_worse(before: Result, after: Result) -> bool:
    if before.status == "passed":
        return after.status != "passed"
    return before.status in _WELL and after.status not in _WELL


def differences(old: Report, new: Report) -> Iterator[str]:
    """Return in words what became worse, what else changed, and what is in one of them alone."""
    before = {one.id: one for one in old.checks}
    worse = regressions(old, new)
    other = [
        one
        for one in new.checks
        if one not in worse and one.id in before and before[one.id].status != one.status
    ]
    yield from _changes("Became worse:", worse, before)
    yield from _changes("Changed:", other, before)
    after = {one.id for one in new.checks}
    for name, ids in (("old", before.keys() - after), ("new", after - before.keys())):
        if ids:
            yield from filled(f"Only in the {name} report: {', '.join(sorted(ids))}", "", "  ")
    yield f"The verdict: {VERDICTS[old.level]} before, {VERDICTS[new.level]} now."
    yield f"{amount(len(worse), 'check')} became worse." if worse else "Nothing became worse."


def _changes(title: str, found: list[Result], before: Mapping[str, Result]) -> Iterator[str]:
    if not found:
        return
    yield title
    for one in found:
        words = f"{STATUSES[before[one.id].status]} before, {STATUSES[one.status]} now"
        yield from filled(words, f"  {one.id:15} ", " " * 18)
        if one.reason:
            yield from filled(one.reason, " " * 18, " " * 18)
    yield ""
