"""The conformance suite of durably: does a backend keep every promise of the contracts?

``run(UrlHarness("mydb://localhost/test"))`` judges any installed backend and returns a report.
Checks are async functions in a registry, and know no test framework.
"""

from durably_conformance.collecting import all_checks
from durably_conformance.context import CheckFailed, T
from durably_conformance.engine import judge, run, run_checks
from durably_conformance.harness import UrlHarness
from durably_conformance.registry import Check, Registry, check
from durably_conformance.report import Report, Result

__all__ = [
    "Check",
    "CheckFailed",
    "Registry",
    "Report",
    "Result",
    "T",
    "UrlHarness",
    "all_checks",
    "check",
    "judge",
    "run",
    "run_checks",
]
