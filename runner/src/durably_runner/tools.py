"""Tools: functions a model may call, with a JSON schema made from their signature."""

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import (
    Any,
    Generic,
    NotRequired,
    ParamSpec,
    TypeVar,
    cast,
    get_args,
    get_type_hints,
    overload,
)

import msgspec
import pydantic
from typing_extensions import TypedDict

from durably import JsonObject, JsonValue, ToolCallEntry
from durably_runner._words import digest
from durably_runner.errors import Declined, InvalidAgent, InvalidArguments
from durably_runner.interrupts import Decision, Interrupt
from durably_runner.models import ToolSpec
from durably_runner.usage import Usage

__all__ = ["Tool", "ToolContext", "tool"]

P = ParamSpec("P")
R = TypeVar("R")

_VARIADIC = {
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
}


class ToolContext(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a tool may know of the call it answers; a parameter annotated with it receives it.

    ``deps`` is what the caller of the run gave, and is never stored. ``usage`` is what the call
    itself uses: give it to a nested run as ``parent_usage``. ``idempotency_key`` is the same
    whenever this very call of this run is executed again, and of no other call: tools run at least
    once. ``decision`` is what a person decided about this tool with these arguments; see
    ``require_decision``.
    """

    deps: Any
    run_id: str
    session_id: str | None
    agent_name: str
    call: ToolCallEntry
    occurrence: int
    turn: int
    usage: Usage
    decision: Decision | None = None

    @property
    def call_id(self) -> str:
        """The id the model gave the call; ids may repeat within a run, if a model's do."""
        return self.call.call_id

    @property
    def idempotency_key(self) -> str:
        """32 hexadecimal characters, from run_id, call_id, occurrence, tool and arguments."""
        call = [self.call_id, self.occurrence, self.call.name, self.call.arguments]
        return digest([self.run_id, *call])

    def require_decision(self, reason: str, data: JsonValue = None) -> Decision:
        """Return the decision that approved this very call; to be called before any side effect.

        It is bound to the tool and its arguments, and is good for one call. Where there is none
        the run is handed to a person, with the reason and the data.

        Raises:
            Interrupt: nobody decided yet; let it pass.
            Declined: a person declined the call; let it pass, and the model is told.
        """
        if self.decision is None:
            raise Interrupt(reason, data)
        if not self.decision.approved:
            note = f": {self.decision.note}" if self.decision.note else ""
            raise Declined(f"{self.decision.decided_by} declined this{note}")
        return self.decision


class Tool(msgspec.Struct, Generic[P, R], frozen=True, kw_only=True, eq=False):
    """A function as a tool; calling it calls the function."""

    name: str
    description: str
    parameters: JsonObject
    function: Callable[P, R]
    arguments: "pydantic.TypeAdapter[dict[str, Any]]"
    context_name: str | None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""
        return ToolSpec(name=self.name, description=self.description, parameters=self.parameters)

    def read_arguments(self, text: str) -> dict[str, Any]:
        """Return a model's arguments by name; no text stands for none.

        Raises:
            InvalidArguments: they are no JSON, or do not fit.
        """
        try:
            return self.arguments.validate_json(text or "{}")
        except pydantic.ValidationError as error:
            raise InvalidArguments(_faults(error)) from error

    async def run(self, context: ToolContext, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - its result
        """Call the function, a blocking one in a thread."""
        given = {} if self.context_name is None else {self.context_name: context}
        function = cast("Callable[..., Any]", self.function)
        if inspect.iscoroutinefunction(function):
            return await function(**arguments, **given)
        result = await asyncio.to_thread(_called, function, {**arguments, **given})
        return await result if inspect.isawaitable(result) else result


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a tool of a function, blocking or async: ``@tool`` or ``@tool(name=...)``.

    Its name and docstring become the tool's, its annotations the JSON schema. What it returns must
    be text, or what pydantic turns into JSON. What it raises the model is told, as an error.

    Raises:
        InvalidAgent: a parameter cannot be given by name, or its type has no JSON schema.
    """
    if function is None:
        return lambda given: _make(given, name, description)
    return _make(function, name, description)


def _faults(error: pydantic.ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    places = (".".join(map(str, one["loc"])) for one in faults)
    said = zip(places, (one["msg"] for one in faults), strict=True)
    return "; ".join(f"{place}: {what}" if place else what for place, what in said)


def _called(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401 - its result
    try:
        return function(**arguments)
    except StopIteration as error:  # which no future can hold
        raise RuntimeError("StopIteration") from error


def _make(function: Callable[P, R], name: str | None, description: str | None) -> Tool[P, R]:
    given_name = str(name or getattr(function, "__name__", type(function).__name__))
    try:
        hints = get_type_hints(function, include_extras=True)
        parameters = inspect.signature(function).parameters
        fields, context_name = _fields(parameters, hints)
        arguments = pydantic.TypeAdapter(_arguments_type(given_name, fields))
        schema = arguments.json_schema()
    except (NameError, TypeError, pydantic.errors.PydanticUserError) as error:
        raise InvalidAgent(f"tool {given_name!a} cannot be described: {error}") from error
    return Tool(
        name=given_name,
        description=inspect.cleandoc(description or function.__doc__ or ""),
        parameters=schema,
        function=function,
        arguments=arguments,
        context_name=context_name,
    )


def _fields(
    parameters: Mapping[str, inspect.Parameter], hints: Mapping[str, Any]
) -> tuple[dict[str, Any], str | None]:
    """Return the types of the arguments a model gives, and the name of the context's parameter."""
    fields: dict[str, Any] = {}
    context_name: str | None = None
    for name, parameter in parameters.items():
        if parameter.kind in _VARIADIC:
            raise TypeError(f"parameter {name!r} cannot be given by name")
        if name == "self" and name not in hints:
            raise TypeError("it is a method: make a tool of a function, or of a bound method")
        if hints.get(name) is not ToolContext and ToolContext in get_args(hints.get(name)):
            raise TypeError(f"annotate parameter {name!r} with ToolContext itself")
        if hints.get(name) is ToolContext:
            context_name = name
        elif parameter.default is inspect.Parameter.empty:
            fields[name] = hints.get(name, Any)
        else:
            fields[name] = NotRequired[hints.get(name, Any)]
    return fields, context_name


def _arguments_type(name: str, fields: Mapping[str, Any]) -> Any:  # noqa: ANN401 - made at run time
    made = cast("Any", TypedDict)(name, fields)
    made.__pydantic_config__ = pydantic.ConfigDict(extra="forbid")
    return made
