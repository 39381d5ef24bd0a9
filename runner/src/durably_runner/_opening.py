"""The calls of a run that have no result yet."""

import msgspec

from durably import ToolCallEntry
from durably_runner._decisions import decisions
from durably_runner._progress import Progress
from durably_runner.interrupts import Decision

__all__ = ["Call", "open_calls"]


class Call(msgspec.Struct, frozen=True):
    """A call, how many of the same id came before it in the run, and what was decided of it."""

    entry: ToolCallEntry
    occurrence: int
    decision: Decision | None


def open_calls(progress: Progress) -> list[Call]:
    """Return the calls without a result, in order."""
    calls = [entry for entry in progress.entries if isinstance(entry, ToolCallEntry)]
    totals: dict[str, int] = {}
    for entry in calls:
        totals[entry.call_id] = totals.get(entry.call_id, 0) + 1
    decided = decisions(progress.entries, progress.run_id)
    pending: list[Call] = []
    for entry in reversed(progress.pending):
        occurrence = totals[entry.call_id] = totals[entry.call_id] - 1
        pending.append(Call(entry, occurrence, decided.get((entry.call_id, occurrence))))
    return pending[::-1]
