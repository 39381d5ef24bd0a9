"""A run as a person follows and reads it: progress, what failed and why, the verdict in words."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TextIO

from durably_conformance.registry import Check, Contract
from durably_conformance.report import Report, Result, Status
from durably_conformance.verdict import RESIDUE
from durably_conformance.wording import CONTRACTS, STATUSES, VERDICTS, amount, counted, filled

__all__ = ["Progress", "findings", "heading", "verdict_lines"]

BAD: tuple[Status, ...] = ("failed", "undeclared", "error", "known_failure", "unexpected_pass")
_CLEAR = "\r\x1b[K"
_LEFT_OUT: Mapping[Status, str] = {
    "unsupported": "Was not applicable:",
    "not_run": "Was not run:",
}
_LEVELS = {"must": "", "should": " (a remark)", "candidate": " (does not count yet)"}


def heading(name: str, checks: Sequence[Check], profile: str, seed: int) -> str:
    """Return the line a run begins with."""
    return f"{name}: {amount(len(checks), 'check')}, profile {profile}, seed {seed}"


class Progress:
    """Prints a line for each contract once its checks are done; on a terminal, each check, too."""

    def __init__(self, checks: Iterable[Check], out: TextIO) -> None:
        self._contract: dict[str, Contract] = {one.id: one.contract for one in checks}
        self._left = Counter(self._contract.values())
        self._found: dict[Contract, Counter[Status]] = {}
        self._out = out
        self._done = 0

    def __call__(self, result: Result) -> None:
        """Take note of what became of a check."""
        contract = self._contract[result.id]
        self._done += 1
        self._left[contract] -= 1
        found = self._found.setdefault(contract, Counter())
        found[result.status] += 1
        if self._out.isatty():
            self._out.write(f"{_CLEAR}{self._done} of {len(self._contract)}  {result.id}")
        if not self._left[contract]:
            clear = _CLEAR if self._out.isatty() else ""
            self._out.write(f"{clear}  {CONTRACTS[contract][0]:16}  {counted(found)}\n")
        self._out.flush()


def findings(report: Report, checks: Sequence[Check]) -> list[str]:
    """Return what failed, and what was not run or did not apply, each with its reason."""
    rules = {one.id: one.rule for one in checks}
    refusals = {one.id for one in checks if one.refuses}
    lines: list[str] = []
    for one in report.checks:
        if one.status in BAD:
            said = "" if one.status == "failed" else f"{STATUSES[one.status]}: "
            lines += filled(f"{rules[one.id]}{_LEVELS[one.level]}", f"  {one.id:15} ", " " * 18)
            lines += filled(f"{said}{one.reason or ''}", " " * 18, " " * 18)
    if lines:
        lines = ["", "What failed:", *lines]
        first = next(one.id for one in report.checks if one.status in BAD)
        lines += ["", f"What a check asks for: durably-conformance explain {first}"]
    for status, title in _LEFT_OUT.items():
        found = _by_reason(report, status, refusals)
        if found:
            lines += ["", title]
        for reason, ids in found.items():
            lines += filled(reason, "  ", "    ")
            lines += filled(_named(ids, report), "      ", "      ")
    return lines


def _by_reason(
    report: Report, status: Status, refusals: Collection[str]
) -> Mapping[str, list[str]]:
    """Return ids by their reason; the many that would refuse what is offered share one."""
    found: dict[str, list[str]] = {}
    for one in report.checks:
        if one.status == status:
            offered = status == "unsupported" and one.id in refusals
            reason = "nothing is to be refused, since it is offered" if offered else one.reason
            found.setdefault(reason or "for no reason", []).append(one.id)
    return found


def _named(ids: list[str], report: Report) -> str:
    """Return the ids, or how many they are where that is most of them."""
    few = 2 * len(ids) <= len(report.checks)
    return ", ".join(ids) if few else amount(len(ids), "check")


def verdict_lines(report: Report) -> list[str]:
    """Return what was judged, and the verdict in words."""
    lines = ["", *filled(_judged(report)), *filled(_verdict(report))]
    ids = {one.id for one in report.checks}
    other = [line for line in report.why if line.split(" ")[0] not in ids]
    if report.level == "core":
        unseen = [line for line in other if line.startswith(RESIDUE)]
        less = [line for line in other if line not in unseen]
        lines += filled(f"It is not full: {'; '.join(less)}.") if less else []
        return lines + [line for one in unseen for line in filled(f"Note: {one}.")]
    return lines + [line for one in other for line in filled(one, "  ", "    ")]


def _judged(report: Report) -> str:
    backend = report.backend
    parts = [
        f"{backend.distribution} {backend.version}".strip(),
        backend.engine,
        f"durably {report.core}",
        f"suite {report.suite.version}",
        f"contract {report.suite.contract}",
        f"{report.environment.seconds:.1f} s",
    ]
    return "; ".join(filter(None, parts))


def _verdict(report: Report) -> str:
    name = report.backend.name or "The backend"
    if report.level == "nonconforming":
        bad = sum(one.status in BAD and one.level == "must" for one in report.checks)
        return f"{name} does not conform: {amount(bad, 'must-check')} did not pass."
    if report.level == "incomplete":
        left = amount(_unjudged(report), "must-check")
        return f"The verdict on {name} is incomplete: {left} did not run, or could not judge."
    kept = "every must-check of what it declares passed"
    more = ", in every family" if report.level == "full" else ""
    return f"{name} {VERDICTS[report.level]}: {kept}{more}."


def _unjudged(report: Report) -> int:
    return sum(one.status in ("error", "not_run") and one.level == "must" for one in report.checks)
