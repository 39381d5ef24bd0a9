"""Agents: frozen descriptions of who answers, with which tools, and who may be handed over to."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, cast

import msgspec

from durably_runner.errors import InvalidAgent
from durably_runner.models import CallableModel, Model
from durably_runner.tools import Tool

__all__ = ["Agent", "Instructions", "Validator"]

Instructions: TypeAlias = str | Callable[[Any], str | Awaitable[str]]
"""Text, or a function of the run's ``deps`` that returns it, called anew for every model call."""

Validator: TypeAlias = Callable[[Any], Any | Awaitable[Any]]


class Agent(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Who answers: a model with instructions, tools and agents it may hand over to.

    Behaviour comes from here and never from what is stored; a stored run names its agent, which
    is found again by that name among all that the entry agent can reach. ``handoffs`` may be a
    function, so that two agents can name each other. With an ``output_type`` the final answer is
    JSON of that type, else it is text. ``output_validator`` gets the final output once, when the
    run is completed, and returns it, or another one; what it raises fails the run.
    """

    name: str
    model: Model | CallableModel
    instructions: Instructions = ""
    tools: Sequence[Tool[..., Any]] = ()
    handoffs: "Sequence[Agent] | Callable[[], Sequence[Agent]]" = ()
    output_type: Any = None
    output_validator: Validator | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.model, Model) or callable(self.model)):
            named = type(self.model).__name__
            raise InvalidAgent(
                f"the model of agent {self.name!a} is {named}",
                hint="Give an object with async respond(request), or a function",
            )
        tools = cast("object", self.tools)
        is_list = isinstance(tools, Sequence)
        if not is_list or not all(isinstance(one, Tool) for one in cast("Sequence[object]", tools)):
            raise InvalidAgent(
                f"the tools of agent {self.name!a} are no list of tools",
                hint="Give a list of functions made tools by @tool",
            )

    @property
    def targets(self) -> "tuple[Agent, ...]":
        """The agents this one may hand over to."""
        return tuple(self.handoffs() if callable(self.handoffs) else self.handoffs)
