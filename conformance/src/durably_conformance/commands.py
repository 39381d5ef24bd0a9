"""What each command does; it prints, and returns its exit code."""

import argparse
import asyncio
import fnmatch
import os
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from durably.urls import closest
from durably_conformance import engine
from durably_conformance.collecting import all_checks
from durably_conformance.context import said
from durably_conformance.explaining import explained, listed, markdown
from durably_conformance.killtable import kill_table, reasons_against
from durably_conformance.masking import Mask
from durably_conformance.matrix import matrix
from durably_conformance.reading import check_comparable, read_report
from durably_conformance.registry import Check
from durably_conformance.regressions import differences, regressions
from durably_conformance.report import Report, Verdict
from durably_conformance.selftest.proving import prove
from durably_conformance.selftest.table import all_tables
from durably_conformance.showing import Progress, findings, heading, verdict_lines
from durably_conformance.targets import CannotRun, harness_of, reach, resolved
from durably_conformance.wording import amount

__all__ = ["diff", "explain", "list_", "matrix_", "run", "selftest"]

CODES: Mapping[Verdict, int] = {"full": 0, "core": 0, "nonconforming": 1, "incomplete": 3}


def run(given: argparse.Namespace) -> int:
    """Judge a backend.

    Raises:
        CannotRun: it cannot be had, or what is asked for is not there.
    """
    target = _target(given.url, given.harness)
    mask = Mask(target)
    try:
        report = mask.report(_report(given, target, mask))
        _say([*findings(report, all_checks()), *verdict_lines(report)])
        if given.json:
            _write(given.json, report)
    except CannotRun as error:
        raise CannotRun(mask(str(error))) from error
    except (SystemExit, asyncio.CancelledError) as error:
        raise CannotRun(f"the backend cannot be judged: {mask(said(error))}") from error
    return CODES[report.level]


def _target(url: str | None, harness: str | None) -> str:
    if (url is None) == (harness is None):
        raise CannotRun(
            "give a URL, such as mydb://localhost/test, or --harness package.module:harness"
        )
    if url is not None and "://" not in url and ":" in url and "$" not in url:
        raise CannotRun(f"{url!a} is no URL. If it is a harness, write: --harness {url}")
    if harness is not None and "://" in harness:
        raise CannotRun("--harness takes package.module:harness. Give a URL without --harness")
    return resolved(url or harness or "")


def _report(given: argparse.Namespace, target: str, mask: Mask) -> Report:
    checks = all_checks()
    _check_only(given.only, checks)
    _check_writable(given.json)
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as python -m does, for a harness among tests
    harness = harness_of(target)
    asyncio.run(reach(harness))
    _say([heading(mask(harness.name), checks, given.profile, given.seed)])
    try:
        return engine.run(
            harness,
            profile=given.profile,
            only=given.only,
            seed=given.seed,
            checks=checks,
            progress=Progress(checks, sys.stdout),
        )
    except Exception as error:
        raise CannotRun(f"{harness.name} cannot be judged: {said(error)}") from error


def _check_only(only: Collection[str] | None, checks: Iterable[Check]) -> None:
    """Refuse what names no check; a misspelt id would else leave everything out."""
    ids = [one.id for one in checks]
    for pattern in only or ():
        if not any(fnmatch.fnmatchcase(id_, pattern) for id_ in ids):
            raise _no_check(pattern, ids)


def _no_check(given: str, ids: Collection[str]) -> CannotRun:
    guess = closest(given, ids)
    meant = f", did you mean {guess}?" if guess else "."
    return CannotRun(f"there is no check {given!a}{meant} See: durably-conformance list")


def _check_writable(path: str | None) -> None:
    """Refuse a file that cannot be written before a run that may take minutes."""
    if path is None:
        return
    folder = Path(path).absolute().parent
    if Path(path).is_dir() or not os.access(folder, os.W_OK):
        raise CannotRun(f"the report cannot be written to {path}. Name a file in a folder")


def _write(path: str, report: Report) -> None:
    try:
        Path(path).write_bytes(report.to_json() + b"\n")
    except OSError as error:
        raise CannotRun(f"the report cannot be written to {path}: {error.strerror}") from error
    _say([f"The report is in {path}."])


def explain(given: argparse.Namespace) -> int:
    """Say what a check asks for.

    Raises:
        CannotRun: there is none of this id.
    """
    checks = {one.id: one for one in all_checks()}
    id_: str = given.id.upper()
    if id_ not in checks:
        raise _no_check(given.id, checks)
    _say(explained(checks[id_], all_tables()))
    return 0


def list_(given: argparse.Namespace) -> int:
    """List the checks."""
    checks = all_checks()
    _say(markdown(checks) if given.markdown else listed(checks))
    return 0


def matrix_(given: argparse.Namespace) -> int:
    """Put reports side by side.

    Raises:
        CannotRun: one cannot be read, or they come from different checks.
    """
    reports = {path: read_report(path) for path in given.reports}
    if not given.different_checks:
        check_comparable(reports)
    _say(matrix(reports, all_checks()))
    return 0


def diff(given: argparse.Namespace) -> int:
    """Say what became worse.

    Raises:
        CannotRun: a report cannot be read, or they come from different checks.
    """
    old, new = read_report(given.old), read_report(given.new)
    if not given.different_checks:
        check_comparable({given.old: old, given.new: new})
    _say(differences(old, new))
    return 1 if regressions(old, new) else 0


def selftest(_: argparse.Namespace) -> int:
    """Prove the suite."""
    tables, checks = all_tables(), all_checks()
    rows = len(tables.mutants) + len(tables.variants)
    _say([f"{amount(rows, 'backend')} against {amount(len(checks), 'check')}: about a minute", ""])
    proof = prove(processes=os.cpu_count() or 1, say=_follow)
    _follow("")
    _say(kill_table(proof))
    return 1 if reasons_against(proof) else 0


def _follow(line: str) -> None:
    """Show on a terminal how far it is, in a line that the next one replaces."""
    if sys.stdout.isatty():
        sys.stdout.write(f"\r\x1b[K{line[:78]}")
        sys.stdout.flush()


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)  # noqa: T201 - what a command is for
    sys.stdout.flush()
