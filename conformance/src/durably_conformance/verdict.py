"""From what became of each check to one word, and why it is that one."""

from collections.abc import Iterable, Mapping, Sequence

from durably_conformance.context import NO_DUMP
from durably_conformance.registry import FAMILIES, Check
from durably_conformance.report import Result, Verdict

__all__ = ["RESIDUE", "verdict"]

RESIDUE = "residue was not looked at"
"""How the line begins that says that nobody looked for what deletes leave behind."""

UNTESTED = {
    "crash": ", so what survives a crash is declared and not tested",
    "concurrency": ", so who may write at once is declared and not tested",
}

_BROKEN = ("failed", "undeclared", "known_failure", "unexpected_pass")
_UNJUDGED = ("error", "not_run")
_RAN = ("passed", "unsupported")


def verdict(
    checks: Sequence[Check], results: Sequence[Result], unknown_excuses: Iterable[str] = ()
) -> tuple[Verdict, tuple[str, ...]]:
    """Return the level, and a line for each thing that keeps it from a higher one.

    ``core``: every must-check of what is declared passed. ``full``: so did those of every
    family, none of which is empty. ``nonconforming``: a must-check failed, or an excuse is
    stale. ``incomplete``: one could not be judged. Candidates never count. Where it is good, it
    says, too, whether nobody could look past the backend for what deletes leave behind.
    """
    by_id = {one.id: one for one in results}
    musts = [one for one in checks if one.level == "must"]
    why = [f"known_failures names {id_}, which is no check" for id_ in sorted(unknown_excuses)]
    why += [_line(one) for one in results if _is_broken(one)]
    if why:
        return "nonconforming", tuple(why)
    named = [by_id[one.id] for one in musts if one.family == "named"]
    why = [_line(one) for one in named if one.status in _UNJUDGED]
    if why or not any(one.status == "passed" for one in named):
        return "incomplete", tuple(why) or ("no check passed",)
    why = _missing(musts, by_id)
    remarks = [_line(one) for one in results if one.level == "should" and one.status not in _RAN]
    return ("core" if why else "full"), (*why, *_unseen(musts, by_id), *remarks)


def _is_broken(one: Result) -> bool:
    if one.status == "unexpected_pass":
        return True
    return one.level == "must" and one.status in _BROKEN


def _missing(musts: Sequence[Check], by_id: Mapping[str, Result]) -> list[str]:
    """Return why the families beyond the named checks do not count as passed."""
    missing: list[str] = []
    for family in FAMILIES[1:]:
        of_family = [by_id[one.id] for one in musts if one.family == family]
        if not of_family:
            missing.append(f"the suite has no {family} checks{UNTESTED.get(family, '')}")
        missing += [_line(one) for one in of_family if one.status in _UNJUDGED]
    return missing


def _unseen(musts: Sequence[Check], by_id: Mapping[str, Result]) -> list[str]:
    """Return a line about the checks for which the place would have to be read as it lies."""
    ids = [one.id for one in musts if by_id[one.id].reason == NO_DUMP]
    return [f"{RESIDUE} by {', '.join(ids)}: {NO_DUMP}"] if ids else []


def _line(one: Result) -> str:
    return f"{one.id} {one.status}: {one.reason}" if one.reason else f"{one.id} {one.status}"
