"""Handoffs: who goes on with a run, also after a crash, and what if there is nobody."""

import pytest

from builders import call, dump, result, user
from durably import ToolResultEntry
from durably_runner import (
    Agent,
    AgentNotFound,
    InvalidAgent,
    LimitExceeded,
    RunLimits,
    ScriptedModel,
    ToolContext,
    tool,
)
from runner_scenes import RUN_ID, calls, plant, run, scripted, segments, stored, turns, work

TO_HELPER = call("t", "transfer_to_helper")
HANDED = [user("old"), TO_HELPER, result("t", "Handed over to helper.")]


def pair(clerk_says=(), helper_says=(), **fields):
    """Return a clerk who may hand over to a helper, and the helper."""
    helper = scripted(*helper_says, name="helper", instructions="I help.")
    return scripted(*clerk_says, handoffs=[helper], **fields), helper


async def test_a_handoff_gives_the_run_to_another_agent(storage):
    """The target is asked next, with the whole transcript; the result and the head name it."""
    clerk, helper = pair([[TO_HELPER]], ["?", "done"])
    ended = await run(clerk, storage=storage)
    assert (turns(clerk), turns(helper)) == ([1], [2])
    request = helper.model.requests[0]
    assert (request.agent_name, request.instructions) == ("helper", "I help.")
    assert list(request.entries) == ended.entries[:3]
    assert ended.entries[2].output == "Handed over to helper."
    assert (ended.agent_name, ended.output) == ("helper", "done")
    head = (await stored(storage)).head
    assert (head.agent_name, head.pending_handoff) == ("helper", None)


async def test_a_model_sees_its_agents_handoffs_as_tools():
    """Each target is a tool without arguments, after the agent's own."""
    helper = scripted(name="the helper!")
    clerk = scripted("done", handoffs=[helper])
    await run(clerk)
    tools = clerk.model.requests[0].tools
    assert [one.name for one in tools] == ["work", "ask", "transfer_to_the_helper_"]
    assert tools[-1].parameters == {"type": "object", "properties": {}}


async def test_a_resumed_run_is_with_the_agent_it_was_with(storage):
    """The active agent is found again by its name in the graph of the entry agent."""
    clerk, helper = pair([[TO_HELPER]], ["?", calls("a"), "done"])
    with pytest.raises(LimitExceeded):
        await run(clerk, storage=storage, limits=RunLimits(max_turns=2))
    assert (await stored(storage)).head.agent_name == "helper"
    clerk, helper = pair([], ["?", "?", "done"])
    ended = await run(clerk, storage=storage)
    assert (turns(clerk), turns(helper)) == ([], [3])
    assert (ended.agent_name, ended.output) == ("helper", "done")


async def test_a_handoff_that_fired_is_completed_first(storage):
    """A run that stopped between a handoff and its application asks the target, not the first."""
    await plant(storage, "running", HANDED, pending_handoff="helper")
    clerk, helper = pair([], ["?", "done"])
    ended = await run(clerk, storage=storage)
    assert (turns(clerk), turns(helper)) == ([], [2])
    assert ended.agent_name == "helper"
    head = (await stored(storage)).head
    assert (head.agent_name, head.pending_handoff) == ("helper", None)


async def test_a_pending_handoff_is_stored_with_its_result(storage):
    """The head says who is to go on in the same save that says the call was answered."""
    seen = []

    async def respond(_):
        seen.append(await stored(storage))
        return "done"

    helper = Agent(name="helper", model=respond)
    await run(scripted([TO_HELPER], handoffs=[helper]), storage=storage)
    assert (seen[0].head.agent_name, seen[0].head.pending_handoff) == ("clerk", "helper")
    assert isinstance(seen[0].entries[-1], ToolResultEntry)


async def test_calls_beside_a_handoff_are_those_of_the_agent_that_made_them(storage):
    """What was called in the turn of a handoff runs with the first agent's tools, later too."""
    by = []

    @tool
    def look(context: ToolContext) -> str:
        """Look."""
        by.append((context.agent_name, context.turn))
        return ""

    entries = [user("old"), TO_HELPER, call("a", "look"), result("t", "Handed over to helper.")]
    await plant(storage, "running", entries, pending_handoff="helper")
    clerk, helper = pair([], ["?", "done"], tools=[look])
    await run(clerk, storage=storage)
    assert by == [("clerk", 1)]
    assert turns(helper) == [2]


async def test_of_two_handoffs_in_a_turn_the_first_counts(storage):
    """The second is told that it was not executed."""
    helper, other = scripted("?", "done", name="helper"), scripted(name="other")
    clerk = scripted([TO_HELPER, call("u", "transfer_to_other")], handoffs=[helper, other])
    ended = await run(clerk, storage=storage)
    assert ended.agent_name == "helper"
    assert not ended.entries[3].is_error
    assert (ended.entries[4].call_id, ended.entries[4].is_error) == ("u", True)
    assert "helper" in ended.entries[4].output


async def test_two_agents_of_one_name_are_an_error(place, storage):
    """Anywhere in the graph, for a fresh run and for a resume; nothing runs or is stored."""
    await plant(storage, "running")
    deep = scripted(name="deep", handoffs=[scripted(name="helper")])
    clerk = scripted("?", "done", handoffs=[scripted(name="helper"), deep])
    before = dump(place)
    for run_id in (RUN_ID, "fresh"):
        with pytest.raises(InvalidAgent, match="'helper'") as caught:
            await run(clerk, storage=storage, run_id=run_id)
        assert caught.value.hint
    assert (turns(clerk), dump(place)) == ([], before)


async def test_one_agent_reached_twice_is_one():
    """Two ways to one agent are no two agents."""
    shared = scripted(name="shared")
    clerk = scripted("done", handoffs=[shared, scripted(name="mid", handoffs=[shared])])
    assert (await run(clerk)).output == "done"


async def test_two_tools_of_one_name_are_an_error():
    """Also where one is a handoff's, and deep in the graph."""
    twice = scripted(name="b", tools=[work, work])
    mixed = scripted(name="c", handoffs=[scripted(name="x y"), scripted(name="x_y")])
    for agent in (twice, mixed, scripted(handoffs=[twice]), scripted(handoffs=[mixed])):
        with pytest.raises(InvalidAgent, match="two tools"):
            await run(agent)


@pytest.mark.parametrize("pending", [False, True])
async def test_a_missing_agent_fails_a_resume(place, storage, pending):
    """Renaming an agent is an error for its runs in flight; nothing ran, and nothing changed."""
    name = {"pending_handoff": "helper"} if pending else {"agent_name": "helper"}
    await plant(storage, "running", HANDED, **name)
    before = dump(place)
    agent = scripted("?", "done", handoffs=[scripted(name="assistant")])
    with pytest.raises(AgentNotFound, match="'helper'") as caught:
        await run(agent, storage=storage)
    assert (caught.value.name, caught.value.known) == ("helper", ("clerk", "assistant"))
    assert (turns(agent), dump(place)) == ([], before)


@pytest.mark.parametrize("drop", [False, True])
async def test_a_missing_agent_only_warns_on_a_replay(storage, drop):
    """Finished work does not fail on a deploy."""
    clerk, _ = pair([[TO_HELPER]], ["?", "done"])
    await run(clerk, storage=storage, delete_on_success=drop)
    lonely = scripted()
    with pytest.warns(UserWarning, match="'helper'"):
        ended = await run(lonely, storage=storage, delete_on_success=drop)
    assert (ended.output, ended.agent_name, turns(lonely)) == ("done", "helper", [])
    assert await segments(storage) == [RUN_ID]


async def test_agents_may_hand_over_in_circles(storage):
    """Two agents name each other by a function, and pass a run on and back; also on resume."""

    def circle():
        model = ScriptedModel(
            [call("1", "transfer_to_pong")], [call("2", "transfer_to_ping")], "done"
        )
        ping = Agent(name="ping", model=model, handoffs=lambda: [pong])
        pong = Agent(name="pong", model=model, handoffs=lambda: [ping])
        return ping, model

    ping, model = circle()
    with pytest.raises(LimitExceeded):
        await run(ping, storage=storage, limits=RunLimits(max_turns=1))
    assert (await stored(storage)).head.agent_name == "pong"
    ping, model = circle()
    ended = await run(ping, storage=storage)
    assert [one.agent_name for one in model.requests] == ["pong", "ping"]
    assert (ended.output, ended.agent_name) == ("done", "ping")


async def test_the_targets_tools_are_offered_after_a_handoff():
    """Each agent's model is offered its own tools."""
    clerk, helper = pair([[TO_HELPER]], ["?", "done"])
    await run(clerk)
    assert [one.name for one in helper.model.requests[0].tools] == ["work", "ask"]
    assert [one.name for one in clerk.model.requests[0].tools][-1] == "transfer_to_helper"


async def test_the_last_agents_output_type_counts(storage):
    """The output is that of the agent that answered, also on a replay."""
    helper = scripted("?", "[1, 2]", name="helper", output_type=list[int])
    clerk = scripted([TO_HELPER], handoffs=[helper])
    assert (await run(clerk, storage=storage)).output == [1, 2]
    assert (await run(clerk, storage=storage)).output == [1, 2]
