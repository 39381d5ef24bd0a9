"""Reports read back from files."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from durably_conformance.report import Report
from durably_conformance.targets import CannotRun

__all__ = ["check_comparable", "read_report"]


def read_report(path: str) -> Report:
    """Read a report from a file.

    Raises:
        CannotRun: it cannot be read, or is no report.
    """
    try:
        return Report.from_json(Path(path).read_bytes())
    except OSError as error:
        raise CannotRun(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CannotRun(f"{path} is no report: {error}. Make one with run --json FILE") from error


def check_comparable(reports: Mapping[str, Report]) -> None:
    """Refuse reports of different checks.

    Raises:
        CannotRun: there are some.
    """
    (first, one), *others = reports.items()
    for other, report in others:
        if report.suite.digest != one.suite.digest:
            raise CannotRun(
                f"{first} and {other} come from different checks. Run both with one version of"
                " the suite, or compare the checks they share with --different-checks"
            )
