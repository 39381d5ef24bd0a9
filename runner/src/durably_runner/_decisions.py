"""Decisions as they lie in a run, and which call each of them is for."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import msgspec

from durably import (
    AssistantTextEntry,
    CustomEntry,
    Entry,
    InputEntry,
    InterruptReason,
    ReasoningEntry,
    ToolCallEntry,
)
from durably_runner._graph import HANDOFF
from durably_runner._words import json_of, plain_text
from durably_runner.errors import DecisionRefused, InvalidOptions
from durably_runner.interrupts import Decision, Interrupt

__all__ = [
    "check_decision",
    "check_said",
    "decisions",
    "digest_of",
    "entries_of",
    "is_recorded",
    "reason_of",
]

KIND = "durably.decision"
"""The kind of the entry that holds a decision; only a decision that was given makes one."""


def digest_of(call: ToolCallEntry, run_id: str) -> str:
    """Return what identifies a call's arguments within its run.

    Spaces and the order of names in them make no difference.
    """
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
        canonical = msgspec.json.encode(arguments, order="deterministic")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        canonical = call.arguments.encode("utf-8", "surrogatepass")
    return blake2b(run_id.encode() + b"\0" + canonical, digest_size=16).hexdigest()


def reason_of(call: ToolCallEntry, interrupt: Interrupt, run_id: str) -> InterruptReason:
    """Return why a run waits, bound to the call that asked.

    Raises:
        NotSerializable: its data is no JSON.
    """
    json_of(interrupt.data)
    return InterruptReason(
        call_id=call.call_id,
        tool_name=call.name,
        arguments_digest=digest_of(call, run_id),
        reason=plain_text(interrupt.reason),
        data=interrupt.data,
    )


def entries_of(decision: Decision) -> list[Entry]:
    """Return a decision as it is kept in a run, and as the model is told of it."""
    verb = "approved" if decision.approved else "declined"
    said = f"{decision.decided_by} {verb} the call of {decision.tool_name} ({decision.call_id})."
    return [
        CustomEntry(kind=KIND, data=msgspec.to_builtins(decision)),
        InputEntry(role="user", content=f"{said} {decision.note}".rstrip()),
    ]


def _decision_in(entry: Entry) -> Decision | None:
    if not isinstance(entry, CustomEntry) or entry.kind != KIND:
        return None
    try:
        return msgspec.convert(entry.data, Decision)
    except msgspec.ValidationError:  # whatever it is, it decides nothing
        return None


def check_said(entries: Iterable[Entry], who: str) -> None:
    """Refuse entries that would pass for a decision: what is said decides nothing.

    Raises:
        InvalidOptions: one would.
    """
    if any(isinstance(entry, CustomEntry) and entry.kind == KIND for entry in entries):
        raise InvalidOptions(f"{who} contains an entry of kind {KIND}", hint="Give a Decision")


def is_recorded(decision: Decision, entries: Sequence[Entry]) -> bool:
    """Whether a run has this very decision already."""
    return any(_decision_in(entry) == decision for entry in entries)


def check_decision(decision: Decision, run_id: str, waits_for: InterruptReason | None) -> None:
    """Refuse a decision about something else than what a run waits for.

    Raises:
        DecisionRefused: it is.
    """
    if waits_for is None or not decision.answers(waits_for):
        asked = "no person" if waits_for is None else f"one about call {waits_for.call_id!a}"
        raise DecisionRefused(run_id, decision.call_id, f"the run waits for {asked}")


def decisions(entries: Sequence[Entry], run_id: str) -> dict[tuple[str, int], Decision]:
    """Return the decision each call may act upon, by call_id and occurrence.

    A decision is for one call: the first that comes after it with the same tool and arguments. It
    lapses once the model has answered without a call and is told something new, and when another
    agent takes over.
    """
    unused: dict[tuple[str, str], list[Decision]] = {}
    found: dict[tuple[str, int], Decision] = {}
    seen: dict[str, int] = {}
    is_answered = False
    for entry in entries:
        if (decision := _decision_in(entry)) is not None:
            key = decision.tool_name, decision.arguments_digest
            unused.setdefault(key, []).append(decision)
        elif isinstance(entry, ToolCallEntry):
            occurrence = seen.get(entry.call_id, 0)
            seen[entry.call_id] = occurrence + 1
            if entry.name.startswith(HANDOFF):
                unused.clear()
            if unused and (waiting := unused.get((entry.name, digest_of(entry, run_id)))):
                found[entry.call_id, occurrence] = waiting.pop(0)
        elif isinstance(entry, InputEntry) and is_answered:
            unused.clear()
        if not isinstance(entry, ReasoningEntry | CustomEntry):
            is_answered = isinstance(entry, AssistantTextEntry)
    return found
