"""What a run tells while it goes on; see ``Runner.stream``."""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from durably import Entry, ToolCallEntry, ToolResultEntry
from durably_runner.models import ModelTurn
from durably_runner.results import RunResult

__all__ = [
    "Event",
    "HandedOver",
    "ModelAnswered",
    "RunCompleted",
    "RunInterrupted",
    "RunStarted",
    "Steered",
    "ThreadSaved",
    "ToolFinished",
    "ToolStarted",
    "TurnStarted",
]


class _Event(msgspec.Struct, frozen=True, kw_only=True):
    pass


class RunStarted(_Event, frozen=True, kw_only=True):
    """The run is owned by this call; ``is_resumed`` says that it was begun by an earlier one."""

    run_id: str
    agent_name: str
    is_resumed: bool


class TurnStarted(_Event, frozen=True, kw_only=True):
    """The model is about to be asked."""

    turn: int
    agent_name: str


class ModelAnswered(_Event, frozen=True, kw_only=True):
    """The model answered, and the answer is saved."""

    turn: int
    answer: ModelTurn


class ToolStarted(_Event, frozen=True, kw_only=True):
    """A tool is about to be called."""

    call: ToolCallEntry


class ToolFinished(_Event, frozen=True, kw_only=True):
    """A call has its result, and the result is saved."""

    call: ToolCallEntry
    result: ToolResultEntry


class HandedOver(_Event, frozen=True, kw_only=True):
    """Another agent goes on with the run."""

    from_agent: str
    to_agent: str


class Steered(_Event, frozen=True, kw_only=True):
    """Messages from outside joined the transcript, and are saved."""

    entries: Sequence[Entry]


class ThreadSaved(_Event, frozen=True, kw_only=True):
    """A snapshot of the thread was saved, as number ``seq``, in a ``status`` of its own."""

    seq: int
    status: str


class RunCompleted(_Event, frozen=True, kw_only=True):
    """The run is over, and stored wherever it was to be; always the last event."""

    result: RunResult


class RunInterrupted(_Event, frozen=True, kw_only=True):
    """The run waits for a person, and is saved; always the last event."""

    result: RunResult


Event: TypeAlias = (
    RunStarted
    | TurnStarted
    | ModelAnswered
    | ToolStarted
    | ToolFinished
    | HandedOver
    | Steered
    | ThreadSaved
    | RunCompleted
    | RunInterrupted
)
