"""One call of the runner: everything it was given."""

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from durably import Entry, InputEntry, JsonObject, Session
from durably.checks import check_id
from durably_runner._steering import Steering
from durably_runner.agents import Agent
from durably_runner.errors import InvalidOptions
from durably_runner.events import Event
from durably_runner.interrupts import Decision, check_said
from durably_runner.options import CheckpointOptions, RunLimits, ThreadOptions
from durably_runner.usage import Usage

__all__ = ["Input", "Order", "inputs"]

Input: TypeAlias = str | Entry | list[Entry] | tuple[Entry, ...]
"""What is said to an agent: text of a user, or entries."""


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
        if (self.session is None) != (self.session_id is None):
            raise InvalidOptions("a session and a session_id go together: give both, or neither")
        if self.session_id is not None:
            check_id("session", self.session_id)
        check_said(self.inputs, "the input")
        drops = self.checkpoint is not None and self.checkpoint.delete_on_success
        if drops and self.session is None:
            raise InvalidOptions(
                "delete_on_success without a session would lose the run",
                hint="Give a session and a session_id",
            )


def inputs(given: Input) -> list[Entry]:
    """Return a run's input as entries; text is what a user said."""
    if isinstance(given, str):
        return [InputEntry(role="user", content=given)]
    return list(given) if isinstance(given, list | tuple) else [given]
