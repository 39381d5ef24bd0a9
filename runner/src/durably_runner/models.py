"""What a model is asked and what it answers: any object with ``async respond(request)``."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from durably import AssistantTextEntry, Entry, JsonObject, JsonValue
from durably_runner.errors import InvalidAgent

__all__ = ["Model", "ModelRequest", "ModelTurn", "ScriptedModel", "ToolSpec", "respond"]


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as a model sees it; ``parameters`` is a JSON schema of an object."""

    name: str
    description: str
    parameters: JsonObject


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is asked.

    ``entries`` is the whole transcript: earlier runs of the session, then this run's own.
    ``turn`` counts this run's model calls from 1, also across a resume. ``output_schema`` is the
    JSON schema the final answer must have, None for text. ``context_state`` is what a turn last
    returned of it, in this run or in the session's last one.
    """

    run_id: str
    agent_name: str
    instructions: str
    entries: Sequence[Entry]
    tools: Sequence[ToolSpec]
    turn: int
    output_schema: JsonObject | None = None
    context_state: JsonValue = None


class ModelTurn(msgspec.Struct, frozen=True, kw_only=True):
    """What a model answers: entries, and what they cost.

    A turn that calls no tool ends the run. ``context_state`` is kept with the run and given back
    with the next request; UNSET leaves it as it is.
    """

    entries: Sequence[Entry]
    input_tokens: int = 0
    output_tokens: int = 0
    finish_reason: str | None = None
    context_state: JsonValue | msgspec.UnsetType = msgspec.UNSET


@runtime_checkable
class Model(Protocol):
    """Anything that answers requests; what it raises ends the run (see ``Runner.run``)."""

    async def respond(self, request: ModelRequest) -> ModelTurn:
        """Answer."""
        ...


Answer: TypeAlias = ModelTurn | Sequence[Entry] | Entry | str
"""What a plain callable may return: a turn, its entries, or its text."""

CallableModel: TypeAlias = Callable[[ModelRequest], Answer | Awaitable[Answer]]


class ScriptedModel:
    """A model that answers turn n with the n-th answer of a script, for tests and demos.

    It keeps no state but a list of the ``requests`` it was asked, so that a new one in another
    process goes on where a run is.
    """

    def __init__(self, *script: Answer) -> None:
        self._script = script
        self.requests: list[ModelRequest] = []

    async def respond(self, request: ModelRequest) -> ModelTurn:
        """Answer with the script's line for this turn.

        Raises:
            IndexError: the script has no line for it.
        """
        self.requests.append(request)
        if request.turn > len(self._script):
            raise IndexError(f"the script has {len(self._script)} lines, asked for {request.turn}")
        return _as_turn(self._script[request.turn - 1])


async def respond(model: Model | CallableModel, request: ModelRequest) -> ModelTurn:
    """Ask a model, or a plain callable."""
    ask = model.respond if isinstance(model, Model) else model
    answer = ask(request)
    return _as_turn(await answer if inspect.isawaitable(answer) else answer)


def _as_turn(answer: Any) -> ModelTurn:  # noqa: ANN401 - whatever somebody's model returned
    """Return an answer as a turn.

    Raises:
        InvalidAgent: it is no answer.
    """
    if isinstance(answer, ModelTurn):
        return answer
    if isinstance(answer, str):
        return ModelTurn(entries=[AssistantTextEntry(content=answer)])
    if isinstance(answer, Entry):
        return ModelTurn(entries=[answer])
    if isinstance(answer, Sequence):
        return ModelTurn(entries=list(answer))  # pyright: ignore[reportUnknownArgumentType] - the store checks them
    raise InvalidAgent(
        f"a model answered with {type(answer).__name__}",
        hint="Return a ModelTurn, entries, or text",
    )
