"""The final output of a run: made of the model's last word, stored as JSON, and brought back."""

import inspect
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pydantic

from durably import (
    AssistantTextEntry,
    Entry,
    InputEntry,
    JsonValue,
    NotSerializable,
    RunSnapshot,
    TextPart,
    ToolCallEntry,
    ToolResultEntry,
)
from durably.codec import Codec
from durably_runner._words import to_json
from durably_runner.agents import Agent
from durably_runner.errors import InvalidOutput

__all__ = ["adapter_of", "is_answered", "make_output", "revived", "storable", "text_of"]

_json: Codec[Any] = Codec(Any)

_ASKING = InputEntry | ToolResultEntry


def adapter_of(agent: Agent | None) -> "pydantic.TypeAdapter[Any] | None":
    """Return what reads and writes an agent's output; None for text."""
    if agent is None or agent.output_type is None:
        return None
    try:
        return _adapter(agent.output_type)
    except TypeError:  # a type that cannot be a key
        return pydantic.TypeAdapter(agent.output_type)


@lru_cache(maxsize=128)
def _adapter(output_type: Any) -> "pydantic.TypeAdapter[Any]":  # noqa: ANN401 - any type
    return pydantic.TypeAdapter(output_type)


def _last_answer(entries: Sequence[Entry]) -> list[Entry]:
    """Return what the model said after the last thing it was told."""
    asked = [place for place, entry in enumerate(entries) if isinstance(entry, _ASKING)]
    return list(entries[asked[-1] + 1 :] if asked else entries)


def is_answered(entries: Sequence[Entry]) -> bool:
    """Whether the model's last word needs no other: it said something, and called no tool."""
    answer = _last_answer(entries)
    return bool(answer) and not any(isinstance(entry, ToolCallEntry) for entry in answer)


def text_of(entries: Sequence[Entry]) -> str:
    """Return the text of the model's last word."""
    said = [one.content for one in _last_answer(entries) if isinstance(one, AssistantTextEntry)]
    return "".join(
        content
        if isinstance(content, str)
        else "".join(part.text for part in content if isinstance(part, TextPart))
        for content in said
    )


async def make_output(agent: Agent, entries: Sequence[Entry], run_id: str) -> Any:  # noqa: ANN401 - any type
    """Return the output that the model's last word is to the agent.

    Raises:
        InvalidOutput: it is not of the agent's ``output_type``.
    """
    output: Any = text_of(entries)
    adapter = adapter_of(agent)
    if adapter is not None:
        try:
            output = adapter.validate_json(output)
        except pydantic.ValidationError as error:
            faults = "; ".join(one["msg"] for one in error.errors(include_url=False))
            raise InvalidOutput(run_id, agent.name, faults) from error
    if agent.output_validator is not None:
        output = agent.output_validator(output)
        output = await output if inspect.isawaitable(output) else output
    return output


def storable(agent: Agent, output: object) -> tuple[JsonValue, str | None]:
    """Return an output as JSON, or None and why that cannot be.

    What no ``output_type`` brings back must be JSON as it is.
    """
    adapter = adapter_of(agent)
    try:
        if adapter is not None:
            return to_json(_dumped(adapter, output)), None
        _json.encode(output, "output")
    except NotSerializable as error:
        return None, f"the output is no JSON: {error.reason}"
    return output, None


def _dumped(adapter: "pydantic.TypeAdapter[Any]", output: object) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a validator may have returned another type
        return adapter.dump_python(output, by_alias=True, round_trip=True)


def revived(agent: Agent | None, run: RunSnapshot) -> tuple[Any, str | None]:
    """Return a stored output as what the agent makes of it, or why there is none.

    Finished work outlives its agent.
    """
    head = run.head
    if agent is None and head.agent_name:
        message = f"run {run.run_id!a} was completed by agent {head.agent_name!a}, gone since"
        warnings.warn(message, stacklevel=2)
    if head.error is None:
        return _typed(agent, run), None
    if agent is not None and agent.output_type is None and agent.output_validator is None:
        return text_of(run.entries), None
    return None, head.error


def _typed(agent: Agent | None, run: RunSnapshot) -> Any:  # noqa: ANN401 - any type
    stored = run.head.output
    adapter = adapter_of(agent)
    if adapter is None:
        return stored
    try:
        return adapter.validate_json(_json.encode(stored, "output"))
    except pydantic.ValidationError:
        message = f"the output of run {run.run_id!a} is not of the agent's output_type any more"
        warnings.warn(message, stacklevel=2)
        return stored
