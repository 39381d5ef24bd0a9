"""Words for what a report says in identifiers, and text laid out in lines."""

import re
import shutil
import textwrap
from collections.abc import Mapping

from durably.commands.harmless import one_line
from durably_conformance.registry import Contract
from durably_conformance.report import Status, Verdict

__all__ = ["CONTRACTS", "STATUSES", "VERDICTS", "amount", "cell", "counted", "filled"]

WIDEST = 100
"""Columns; longer lines are hard to read."""

STATUSES: Mapping[Status, str] = {
    "passed": "passed",
    "failed": "failed",
    "error": "not judged",
    "undeclared": "not declared",
    "known_failure": "known to fail",
    "unexpected_pass": "passed in spite of its excuse",
    "unsupported": "not applicable",
    "not_run": "not run",
}

VERDICTS: Mapping[Verdict, str] = {
    "full": "conforms, level full",
    "core": "conforms, level core",
    "nonconforming": "does not conform",
    "incomplete": "incomplete",
}

CONTRACTS: Mapping[Contract, tuple[str, str]] = {
    "harness": ("The harness", "what the tests themselves stand on"),
    "storage": (
        "Storage",
        "values, decoding, versions, namespaces, pruning, copies, opening and closing",
    ),
    "logstore": ("LogStore", "the class a backend implements, durably.logstore.LogStore"),
    "session": ("Session", "conversations across runs, durably.contracts.Session"),
    "checkpointer": ("Checkpointer", "progress in a run, durably.contracts.Checkpointer"),
    "saver": ("CheckpointSaver", "snapshots of a thread, durably.contracts.CheckpointSaver"),
    "states": ("StateStore", "one snapshot per key, and migrators, durably.states.StateStore"),
    "tree": (
        "SessionTree",
        "conversations that branch, durably.tree_contracts.SessionTree, and snapshots kept so",
    ),
}
"""A heading for each contract, and what it is about."""


def amount(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def counted(statuses: Mapping[Status, int]) -> str:
    """Return how often each status came up, in words."""
    return ", ".join(f"{statuses[one]} {STATUSES[one]}" for one in STATUSES if statuses.get(one))


def filled(text: str, first: str = "", rest: str = "") -> list[str]:
    """Return a text that others wrote as harmless lines with an indentation."""
    return textwrap.wrap(
        one_line(" ".join(text.split())),
        min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]


def cell(text: str) -> str:
    """Return a text that others wrote as a cell of a Markdown table."""
    line = one_line(" ".join(text.split()))
    return re.sub(r"([|*_<\\])", r"\\\1", line)
