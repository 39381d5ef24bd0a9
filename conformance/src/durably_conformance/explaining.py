"""What a check asks for, and all there are, in words."""

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence

from durably_conformance.registry import Check
from durably_conformance.selftest.table import Tables
from durably_conformance.wording import CONTRACTS, amount, cell, filled

__all__ = ["explained", "listed", "markdown"]

_REPORT = re.compile(r"([\w.-]+/[\w.-]+)#([0-9]+)")

LEVELS: Mapping[str, str] = {
    "must": "must: a backend that fails it does not conform",
    "should": "should: a backend that fails it conforms, with a remark",
    "candidate": "candidate: it is tried out, and does not count yet",
}


def explained(one: Check, tables: Tables) -> list[str]:
    """Return everything there is to know about a check."""
    contract, about = CONTRACTS[one.contract]
    facts = {
        "contract": f"{contract}, {about}",
        "level": LEVELS[one.level],
        "applies": _applies(one),
    }
    if one.family != "named":
        facts["family"] = f"{one.family}, which only the profile full runs"
    lines = [one.id, *filled(one.rule, "  ", "  "), ""]
    for name, value in facts.items():
        lines += filled(value, f"  {name:9} ", " " * 12)
    more = one.explanation[len(_first_sentence(one)) :].strip()
    if more:
        lines += ["", *(line for part in more.split("\n\n") for line in filled(part, "  ", "  "))]
    lines += _why(one, tables)
    source = textwrap.dedent(inspect.getsource(one.function)).rstrip()
    return [*lines, "", f"Its text, in {one.module}:", "", textwrap.indent(source, "  ")]


def _first_sentence(one: Check) -> str:
    """Return the rule as it stands in the docstring, whose lines break elsewhere."""
    pattern = r"\s+".join(map(re.escape, one.rule.split()))
    found = re.match(pattern, one.explanation)
    return found[0] if found else ""


def _applies(one: Check) -> str:
    if one.refuses:
        return f"where {one.refuses} is declared absent"
    return f"where {', '.join(one.needs)} is declared" if one.needs else "always"


def _why(one: Check, tables: Tables) -> list[str]:
    """Return the public reports of the bug, and the wrong backends that fail the check."""
    lines: list[str] = []
    if one.reports:
        lines += ["", "It would have found:"]
        lines += [line for name in one.reports for line in filled(_address(name), "  ", "    ")]
    found = [row for row in tables.mutants if one.id in row.fails]
    if found:
        lines += ["", "Mistakes that it finds:"]
    for row in found:
        lines += filled(f"{row.name}: {_provenance(row.provenance)}", "  ", "    ")
    if one.id in tables.excuses:
        lines += ["", *filled(f"No mistake is found by it alone: {tables.excuses[one.id]}")]
    return lines


def _provenance(text: str) -> str:
    found = _REPORT.fullmatch(text)
    return f"as in {text}" if found else text


def _address(report: str) -> str:
    """Return where a public report is read; a text that names none stays as it is."""
    found = _REPORT.fullmatch(report)
    return f"https://github.com/{found[1]}/issues/{found[2]}" if found else report


def listed(checks: Iterable[Check]) -> Iterator[str]:
    """Return a line for each check, by contract."""
    contract = ""
    for one in checks:
        if one.contract != contract:
            contract = one.contract
            yield from ("", CONTRACTS[one.contract][0])
        level = "" if one.level == "must" else f" ({one.level})"
        yield from filled(f"{one.rule}{level}", f"  {one.id:15} ", " " * 18)


def markdown(checks: Sequence[Check]) -> Iterator[str]:
    """Return the list as a page."""
    yield "# The checks"
    yield ""
    yield f"{amount(len(checks), 'rule')} that `durably-conformance run` asks of a backend."
    yield "`durably-conformance explain ID` prints the text of one, and the mistakes that it finds."
    yield "This page is made by `durably-conformance list --markdown`."
    yield ""
    yield "A backend that fails a *must* does not conform; a *should* is a remark; a"
    yield "*candidate* does not count yet. What a backend declares absent is not asked for, and"
    yield "has to be refused."
    contract = ""
    for one in checks:
        if one.contract != contract:
            contract = one.contract
            heading, about = CONTRACTS[one.contract]
            yield from ("", f"## {heading}", "", f"About {about}.", "")
            yield from ("| id | rule | level | reported as |", "| --- | --- | --- | --- |")
        reports = ", ".join(map(_link, one.reports))
        yield f"| {one.id} | {cell(one.rule)} | {one.level} | {reports} |"


def _link(report: str) -> str:
    address = _address(report)
    return cell(report) if address == report else f"[{report}]({address})"
