"""How a tool asks for a person, and how the person's answer is bound to what was asked."""

import time
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Self

import msgspec

from durably import (
    AssistantTextEntry,
    CustomEntry,
    Entry,
    InputEntry,
    InterruptReason,
    JsonValue,
    ReasoningEntry,
    ToolCallEntry,
)
from durably_runner.errors import DecisionRefused, InvalidOptions

__all__ = [
    "Decision",
    "Interrupt",
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


class Interrupt(Exception):
    """Raised by a tool, before it does anything, to hand the run to a person.

    The call gets a result that says so, the run is saved as ``interrupted`` with the reason, and
    control goes back to the caller. ``data`` is JSON for whoever decides.
    """

    def __init__(self, reason: str, data: JsonValue = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.data = data


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What a person decided about one call: who, when, and about which tool with which arguments.

    Who the person is, and whether they may decide, is the host's business. ``decided_at`` is in
    epoch seconds; ``note`` is told to the model.
    """

    call_id: str
    tool_name: str
    arguments_digest: str
    approved: bool
    decided_by: str
    decided_at: float
    note: str = ""

    @classmethod
    def on(
        cls, interrupt: InterruptReason, *, approved: bool, decided_by: str, note: str = ""
    ) -> Self:
        """Return a decision, made now, about exactly what an interrupt asks."""
        return cls(
            call_id=interrupt.call_id,
            tool_name=interrupt.tool_name,
            arguments_digest=interrupt.arguments_digest,
            approved=approved,
            decided_by=decided_by,
            decided_at=time.time(),
            note=note,
        )

    def answers(self, interrupt: InterruptReason) -> bool:
        """Whether this is about what an interrupt asks."""
        asked = (interrupt.call_id, interrupt.tool_name, interrupt.arguments_digest)
        return (self.call_id, self.tool_name, self.arguments_digest) == asked


def digest_of(call: ToolCallEntry) -> str:
    """Return what identifies a call's arguments, whatever their spaces and order of names."""
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
        canonical = msgspec.json.encode(arguments, order="deterministic")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        canonical = call.arguments.encode("utf-8", "surrogatepass")
    return blake2b(canonical, digest_size=16).hexdigest()


def reason_of(call: ToolCallEntry, interrupt: Interrupt) -> InterruptReason:
    """Return why a run waits, bound to the call that asked."""
    return InterruptReason(
        call_id=call.call_id,
        tool_name=call.name,
        arguments_digest=digest_of(call),
        reason=interrupt.reason,
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
    return msgspec.convert(entry.data, Decision)


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


def decisions(entries: Sequence[Entry]) -> dict[tuple[str, int], Decision]:
    """Return the decision each call may act upon, by call_id and occurrence.

    A decision is for one call: the first that comes after it with the same tool and arguments. It
    lapses once the model has answered without a call and is told something new.
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
            if unused and (waiting := unused.get((entry.name, digest_of(entry)))):
                found[entry.call_id, occurrence] = waiting.pop(0)
        elif isinstance(entry, InputEntry) and is_answered:
            unused.clear()
        if not isinstance(entry, ReasoningEntry | CustomEntry):
            is_answered = isinstance(entry, AssistantTextEntry)
    return found
