"""A small agent loop over durably: runs that resume, replay, hand over and wait for people.

``Runner.run(agent, input, session=…, session_id=…, checkpoint=CheckpointOptions(…))`` is all of
it. A model is any object with ``async respond(request)``; everything stored goes through the
contracts of ``durably``, so it runs on every backend.
"""

from durably_runner._order import Input
from durably_runner.agents import Agent
from durably_runner.conversation import Conversation
from durably_runner.engine import Engine, EngineSession
from durably_runner.errors import (
    AgentNotAttached,
    AgentNotFound,
    ConversationState,
    DecisionRefused,
    Declined,
    DirectoryInUse,
    InvalidAgent,
    InvalidArguments,
    InvalidOptions,
    InvalidOutput,
    LimitExceeded,
    OutputNotStored,
    RetryableModelError,
    RunExists,
)
from durably_runner.events import (
    Event,
    HandedOver,
    ModelAnswered,
    RunCompleted,
    RunInterrupted,
    RunStarted,
    Steered,
    ThreadSaved,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from durably_runner.interrupts import Decision, Interrupt
from durably_runner.models import Model, ModelRequest, ModelTurn, ScriptedModel, ToolSpec
from durably_runner.options import CheckpointOptions, IfRunExists, RunLimits, ThreadOptions
from durably_runner.results import RunResult
from durably_runner.runner import Runner
from durably_runner.tools import Tool, ToolContext, tool
from durably_runner.usage import Usage

__all__ = [
    "Agent",
    "AgentNotAttached",
    "AgentNotFound",
    "CheckpointOptions",
    "Conversation",
    "ConversationState",
    "Decision",
    "DecisionRefused",
    "Declined",
    "DirectoryInUse",
    "Engine",
    "EngineSession",
    "Event",
    "HandedOver",
    "IfRunExists",
    "Input",
    "Interrupt",
    "InvalidAgent",
    "InvalidArguments",
    "InvalidOptions",
    "InvalidOutput",
    "LimitExceeded",
    "Model",
    "ModelAnswered",
    "ModelRequest",
    "ModelTurn",
    "OutputNotStored",
    "RetryableModelError",
    "RunCompleted",
    "RunExists",
    "RunInterrupted",
    "RunLimits",
    "RunResult",
    "RunStarted",
    "Runner",
    "ScriptedModel",
    "Steered",
    "ThreadOptions",
    "ThreadSaved",
    "Tool",
    "ToolContext",
    "ToolFinished",
    "ToolSpec",
    "ToolStarted",
    "TurnStarted",
    "Usage",
    "tool",
]
