"""Agents: frozen descriptions of who answers, with which tools, and who may be handed over to."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import msgspec
import pydantic

from durably_runner.errors import AgentNotFound, InvalidAgent
from durably_runner.models import CallableModel, Model, ToolSpec
from durably_runner.tools import Tool

__all__ = ["Agent", "find_agent", "handoff_name", "handoff_target", "reachable", "specs"]

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

    @property
    def output(self) -> "pydantic.TypeAdapter[Any] | None":
        """What reads and writes the final output; None for text."""
        return None if self.output_type is None else pydantic.TypeAdapter(self.output_type)

    @property
    def targets(self) -> "tuple[Agent, ...]":
        """The agents this one may hand over to."""
        return tuple(self.handoffs() if callable(self.handoffs) else self.handoffs)


def reachable(entry: Agent) -> dict[str, Agent]:
    """Return every agent that can be reached from one, by name, that one first.

    Raises:
        InvalidAgent: two agents share a name, or two tools of one agent do.
    """
    found: dict[str, Agent] = {}
    waiting = [entry]
    while waiting:
        agent = waiting.pop(0)
        known = found.setdefault(agent.name, agent)
        if known is not agent:
            raise InvalidAgent(
                f"two agents are named {agent.name!a}",
                hint="A stored run knows its agent by name alone: give each its own",
            )
        waiting += [target for target in agent.targets if found.get(target.name) is not target]
    for agent in found.values():
        _check_tools(agent)
    return found


def _check_tools(agent: Agent) -> None:
    names = [spec.name for spec in specs(agent)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidAgent(f"agent {agent.name!a} has two tools named {twice!a}")


def find_agent(entry: Agent, name: str, run_id: str) -> Agent:
    """Return the agent of a name among those that can be reached.

    Raises:
        AgentNotFound: there is none.
        InvalidAgent: two agents share a name.
    """
    found = reachable(entry)
    if name not in found:
        raise AgentNotFound(run_id, name, tuple(found))
    return found[name]


def handoff_name(target: Agent) -> str:
    """Return the name of the tool that hands over to an agent."""
    return "transfer_to_" + re.sub(r"[^A-Za-z0-9_-]", "_", target.name)


def handoff_target(agent: Agent, tool_name: str) -> Agent | None:
    """Return the agent that a call of this tool hands over to, if it is such a tool."""
    return next((one for one in agent.targets if handoff_name(one) == tool_name), None)


def specs(agent: Agent) -> list[ToolSpec]:
    """Return everything the agent's model may call."""
    handoffs = [
        ToolSpec(
            name=handoff_name(target),
            description=f"Hand the conversation over to {target.name}.",
            parameters={"type": "object", "properties": {}},
        )
        for target in agent.targets
    ]
    return [tool.spec for tool in agent.tools] + handoffs
