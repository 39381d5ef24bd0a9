"""Finding the suite's own checks and tables: every module of a folder is imported."""

import importlib
import pkgutil
from types import ModuleType

from durably_conformance import checks, selftest
from durably_conformance.registry import REGISTRY, Check

__all__ = ["all_checks", "check_modules", "table_modules"]


def check_modules() -> list[ModuleType]:
    """Import and return every module of checks."""
    return _modules(checks, "")


def table_modules() -> list[ModuleType]:
    """Import and return every module with a table of mutants or variants."""
    return _modules(selftest, "mutants_")


def all_checks() -> tuple[Check, ...]:
    """Return every check of the suite, those about the harness first."""
    check_modules()
    return REGISTRY.checks


def _modules(package: ModuleType, prefix: str) -> list[ModuleType]:
    return [
        importlib.import_module(f"{package.__name__}.{info.name}")
        for info in pkgutil.iter_modules(package.__path__)
        if info.name.startswith(prefix)
    ]
