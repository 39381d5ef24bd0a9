"""The agents that can be reached from one by handing over, and what their models may call."""

import re

from durably_runner.agents import Agent
from durably_runner.errors import AgentNotFound, InvalidAgent
from durably_runner.models import ToolSpec

__all__ = ["HANDOFF", "find_agent", "handoff_name", "handoff_target", "reachable", "specs"]

HANDOFF = "transfer_to_"
"""What the name of a tool begins with that hands over to another agent."""


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
    return HANDOFF + re.sub(r"[^A-Za-z0-9_-]", "_", target.name)


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
