"""Backends side by side, as a page in Markdown."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from durably_conformance.registry import Check
from durably_conformance.report import Report, Result, Status
from durably_conformance.wording import CONTRACTS, STATUSES, VERDICTS, cell, counted

__all__ = ["matrix"]

_PLAIN = ("passed", "unsupported", "not_run")
_OTHER = ("Other checks", "rules that this version of the suite does not know")


def matrix(reports: Mapping[str, Report], checks: Iterable[Check]) -> Iterator[str]:
    """Return the verdict on each backend, then a table for each contract.

    ``reports`` go by the name of their file. Rules and contracts are those of ``checks``.
    """
    named = _named(reports)
    known = {one.id: one for one in checks}
    grouped: dict[str, dict[str, str]] = {}
    for id_ in dict.fromkeys(one.id for report in named.values() for one in report.checks):
        contract = known[id_].contract if id_ in known else ""
        grouped.setdefault(contract, {})[id_] = known[id_].rule if id_ in known else ""
    yield from _summary(named)
    sections: list[tuple[str, tuple[str, str]]] = [*CONTRACTS.items(), ("", _OTHER)]
    for key, about in sections:
        if key in grouped:
            yield from ("", f"## {about[0]}", "", f"About {about[1]}.", "")
            yield from _table(grouped[key], named)
            yield from _notes(grouped[key], named)


def _named(reports: Mapping[str, Report]) -> dict[str, Report]:
    """Return reports by the name of their backend, or of their file where some share it."""
    names = Counter(one.backend.name for one in reports.values())
    return {
        (report.backend.name if names[report.backend.name] == 1 else Path(path).stem): report
        for path, report in reports.items()
    }


def _summary(named: Mapping[str, Report]) -> Iterator[str]:
    yield from ("# Compatibility", "")
    yield from _head("backend", "version", "engine", "durably", "profile", "verdict")
    for name, report in named.items():
        backend = report.backend
        version = f"{backend.distribution} {backend.version}".strip()
        words = VERDICTS[report.level]
        yield _row(name, version, backend.engine, report.core, report.suite.profile, words)


def _table(rules: Mapping[str, str], named: Mapping[str, Report]) -> Iterator[str]:
    found = [{one.id: one for one in report.checks} for report in named.values()]
    yield from _head("id", "rule", *named)
    for id_, rule in rules.items():
        yield _row(id_, rule, *(_word(results.get(id_)) for results in found))
    yield _row("", "in all", *(counted(_statuses(rules, results)) for results in found))


def _statuses(rules: Iterable[str], results: Mapping[str, Result]) -> Counter[Status]:
    return Counter(results[id_].status for id_ in rules if id_ in results)


def _word(result: Result | None) -> str:
    if result is None:
        return "no such check"
    word = STATUSES[result.status]
    return word if result.status in _PLAIN else word.upper()


def _notes(rules: Mapping[str, str], named: Mapping[str, Report]) -> Iterator[str]:
    """Return the reasons of what did not pass; checks that share one are named together."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, report in named.items():
        for one in report.checks:
            if one.id in rules and one.reason:
                reasons.setdefault((name, one.reason), []).append(one.id)
    if reasons:
        yield ""
    for (name, reason), ids in reasons.items():
        yield f"- {cell(name)}, {', '.join(ids)}: {cell(reason)}"


def _head(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield f"|{' --- |' * len(names)}"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell(one) for one in cells)} |"
