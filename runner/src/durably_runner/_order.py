"""One call of the runner: everything it was given."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from durably import Entry, InputEntry, JsonObject, Session
from durably.checks import check_id
from durably.codec import Codec
from durably_runner._decisions import check_said
from durably_runner._steering import Steering
from durably_runner.agents import Agent
from durably_runner.errors import InvalidOptions
from durably_runner.events import Event
from durably_runner.interrupts import Decision
from durably_runner.options import CheckpointOptions, RunLimits, ThreadOptions
from durably_runner.usage import Usage

__all__ = ["Input", "Order", "inputs"]

Input: TypeAlias = str | Entry | Sequence[Entry]
"""What is said to an agent: text of a user, or entries."""

_entry: Codec[Entry] = Codec(Entry)


class Order(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What ``Runner.run`` was called with; ``emit`` is told of every event.

    ``steering`` is filled by a conversation, ``state_version`` and ``extra`` are
    its snapshots' own.
    """

    agent: Agent
    inputs: list[Entry]
    run_id: str
    session: Session | None
    session_id: str | None
    checkpoint: CheckpointOptions | None
    deps: Any
    limits: RunLimits
    parent_usage: Usage | None
    thread: ThreadOptions | None
    decision: Decision | None
    emit: Callable[[Event], object]
    steering: Steering = msgspec.field(default_factory=Steering)
    state_version: int = 1
    extra: JsonObject = {}

    def __post_init__(self) -> None:
        _check_type("session", self.session, Session)
        _check_type("checkpoint", self.checkpoint, CheckpointOptions)
        _check_type("thread", self.thread, ThreadOptions)
        if (self.session is None) != (self.session_id is None):
            raise InvalidOptions("a session and a session_id go together: give both, or neither")
        if self.session_id is not None:
            check_id("session", self.session_id)
        options = self.checkpoint
        if options is None:
            return
        if options.delete_on_success and self.session is None:
            raise InvalidOptions(
                "delete_on_success without a session would lose the run",
                hint="Give a session and a session_id",
            )
        if self.decision is not None and options.if_run_exists in {"restart", "fail"}:
            raise InvalidOptions(f"a decision contradicts if_run_exists={options.if_run_exists}")


def _check_type(name: str, given: object, wanted: type) -> None:
    if given is not None and not isinstance(given, wanted):
        raise InvalidOptions(f"{name} is {type(given).__name__}, not {wanted.__name__}")


def inputs(given: Input, who: str = "the input") -> list[Entry]:
    """Return what was said to an agent as entries that can be stored.

    Raises:
        InvalidOptions: it is neither text nor entries, or would pass for a decision.
        NotSerializable: JSON cannot give it back exactly.
    """
    said: object = given
    if isinstance(said, str):
        entries: list[object] = [InputEntry(role="user", content=said)]
    else:
        entries = [*said] if isinstance(said, Sequence) else [said]
    found = [entry for entry in entries if isinstance(entry, Entry)]
    if len(found) < len(entries):
        wrong = next(type(entry).__name__ for entry in entries if not isinstance(entry, Entry))
        raise InvalidOptions(f"{who} holds {wrong}", hint="Give text, an entry, or a list of them")
    check_said(found, who)
    for index, entry in enumerate(found):
        _entry.encode(entry, f"{who}[{index}]")
    return found
