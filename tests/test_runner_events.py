"""What a run tells while it goes on, and in which order."""

import asyncio
from contextlib import aclosing

import pytest

from builders import call, result, user
from durably_runner import (
    CheckpointOptions,
    HandedOver,
    LimitExceeded,
    ModelAnswered,
    RunCompleted,
    RunInterrupted,
    RunLimits,
    Runner,
    RunStarted,
    ToolFinished,
    ToolStarted,
    TurnStarted,
    tool,
)
from runner_scenes import RUN_ID, calls, plant, run, scripted, segments, stored, turns


def stream(agent, storage, **options):
    checkpoint = CheckpointOptions(storage.checkpointer, RUN_ID)
    return Runner.stream(agent, "new", checkpoint=checkpoint, **options)


def told(event):
    """Return an event in few words."""
    return {
        RunStarted: lambda: ("started", event.agent_name, event.is_resumed),
        TurnStarted: lambda: ("turn", event.turn, event.agent_name),
        ModelAnswered: lambda: ("answered", event.turn),
        ToolStarted: lambda: ("calls", event.call.call_id),
        ToolFinished: lambda: ("called", event.call.call_id),
        HandedOver: lambda: ("handed over", event.from_agent, event.to_agent),
        RunCompleted: lambda: (event.result.status, event.result.output),
        RunInterrupted: lambda: (event.result.status, event.result.output),
    }[type(event)]()


async def heard(agent, storage, **options):
    return [told(event) async for event in stream(agent, storage, **options)]


async def test_the_events_of_a_run(storage):
    """A run starts, each turn is asked and answered, each call begins and ends, and it ends."""
    assert await heard(scripted(calls("a"), "done"), storage) == [
        ("started", "clerk", False),
        ("turn", 1, "clerk"),
        ("answered", 1),
        ("calls", "a"),
        ("called", "a"),
        ("turn", 2, "clerk"),
        ("answered", 2),
        ("completed", "done"),
    ]


async def test_the_events_of_a_resume(storage):
    """A resumed run starts with the calls that were left open; their turn is not begun again."""
    await plant(storage, "running", [user("old"), *calls("a", "b"), result("a")])
    assert await heard(scripted("?", "done"), storage) == [
        ("started", "clerk", True),
        ("calls", "b"),
        ("called", "b"),
        ("turn", 2, "clerk"),
        ("answered", 2),
        ("completed", "done"),
    ]


async def test_the_events_of_a_handoff(storage):
    """A handoff comes after the turn that asked for it, and before the target's first."""
    helper = scripted("?", "done", name="helper")
    clerk = scripted([call("t", "transfer_to_helper")], handoffs=[helper])
    assert await heard(clerk, storage) == [
        ("started", "clerk", False),
        ("turn", 1, "clerk"),
        ("answered", 1),
        ("called", "t"),
        ("handed over", "clerk", "helper"),
        ("turn", 2, "helper"),
        ("answered", 2),
        ("completed", "done"),
    ]


async def test_the_events_of_a_handoff_that_was_pending(storage):
    """A resume that completes a handoff says so first."""
    entries = [user("old"), call("t", "transfer_to_helper"), result("t")]
    await plant(storage, "running", entries, pending_handoff="helper")
    clerk = scripted(handoffs=[scripted("?", "done", name="helper")])
    events = await heard(clerk, storage)
    expected = [("started", "clerk", True), ("handed over", "clerk", "helper")]
    assert events[:3] == [*expected, ("turn", 2, "helper")]


async def test_a_run_that_comes_to_wait_ends_with_that(storage):
    """RunInterrupted is the last event, after the result of the call that asked."""
    events = await heard(scripted(calls("a", name="ask")), storage, deps=[])
    assert events[-3:] == [("calls", "a"), ("called", "a"), ("interrupted", None)]


async def test_a_run_that_waits_tells_that_alone(storage):
    """Issued again, a run that waits gives RunInterrupted and nothing else."""
    await plant(storage, "waiting")
    assert await heard(scripted(), storage) == [("interrupted", None)]


@pytest.mark.parametrize("kind", [ModelAnswered, ToolFinished, RunCompleted])
async def test_what_is_told_is_stored(storage, kind):
    """An event that says something was saved comes after it was."""
    seen = []
    agent = scripted(calls("a"), "done")
    async with aclosing(stream(agent, storage, session=storage.sessions, session_id="s")) as events:
        async for event in events:
            if isinstance(event, kind):
                kept = await stored(storage)
                if kind is ModelAnswered:
                    assert set(map(str, event.answer.entries)) <= set(map(str, kept.entries))
                elif kind is ToolFinished:
                    assert event.result in kept.entries
                else:
                    assert kept.head.status == "completed"
                    assert await segments(storage) == [RUN_ID]
                seen.append(event)
    assert seen


async def test_parallel_calls_begin_before_any_ends(storage):
    """All calls of a turn begin together; a result is told as it lands."""
    events = await heard(scripted(calls("a", "b"), "done"), storage)
    assert events[3:5] == [("calls", "a"), ("calls", "b")]
    assert sorted(events[5:7]) == [("called", "a"), ("called", "b")]


async def test_an_exception_ends_the_stream_after_the_events_before_it(storage):
    """What happened is told, then the error is raised."""
    events = stream(scripted(calls("a")), storage, limits=RunLimits(max_turns=1))
    seen = [told(await anext(events)) for _ in range(5)]
    with pytest.raises(LimitExceeded):
        await anext(events)
    assert seen[-1] == ("called", "a")


async def test_closing_a_stream_cancels_the_run(storage):
    """Whoever stops listening stops the run, which is stored as interrupted by then."""
    ended = []

    @tool
    async def hang() -> str:
        """Hang."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("hang")
        return ""

    agent = scripted(calls("a", name="hang"), "done", tools=[hang])
    async with aclosing(stream(agent, storage)) as events:
        async for event in events:
            if isinstance(event, ToolStarted):
                await asyncio.sleep(0)
                break
    assert ended == ["hang"]
    assert (await stored(storage)).head.status == "interrupted"
    assert turns(agent) == [1]


async def test_a_cancelled_listener_cancels_the_run(storage):
    """Cancelling the task that listens cancels the run, and is raised there."""
    begun = asyncio.Event()

    @tool
    async def hang() -> str:
        """Hang."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    agent = scripted(calls("a", name="hang"), tools=[hang])
    task = asyncio.ensure_future(heard(agent, storage))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await stored(storage)).head.status == "interrupted"


async def test_a_stream_ends_as_the_run_would(storage):
    """The result of the last event is what run returns."""
    events = [one async for one in stream(scripted(calls("a"), "done"), storage)]
    again = await run(scripted(), storage=storage, session=False)
    for name in ("run_id", "status", "agent_name", "entries", "usage", "turns", "output"):
        assert getattr(events[-1].result, name) == getattr(again, name)
