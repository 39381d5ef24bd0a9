"""Snapshots of a thread: when they are saved, and what is in them."""

import pytest

from builders import model, said, snapshot, user
from durably import InvalidId, RunHead, Storage, Unavailable, pending_tool_calls
from durably_runner import (
    Agent,
    CheckpointOptions,
    HandedOver,
    InvalidOutput,
    ModelAnswered,
    ModelTurn,
    RetryableModelError,
    RunCompleted,
    Runner,
    RunStarted,
    ThreadOptions,
    ThreadSaved,
    ToolFinished,
    ToolStarted,
    TurnStarted,
)
from review_faults import FailsAtWrite
from review_job import (
    RUN_ID,
    THREAD_ID,
    TOOLS,
    Notes,
    agent_of,
    call,
    issue,
    paying,
    thread_of,
)

pytest_plugins = ["redis_fixtures", "s3_fixtures", "review_places"]

ON_EVERY_BACKEND = True

TURN = [TurnStarted, ModelAnswered]
TOOL = [ToolStarted, ToolFinished]


def three_turns():
    return agent_of([call("a", "work")], [call("b", "work")], "Done.")


def turn(entry, came, went, **more):
    return ModelTurn(entries=[entry], input_tokens=came, output_tokens=went, **more)


async def events_of(storage, agent, thread, **more):
    """Run an agent, and return what it told; ThreadSaved as its status."""
    stream = Runner.stream(agent, "go", thread=thread, deps=Notes(), **more)
    events = [event async for event in stream]
    return [one.status if type(one) is ThreadSaved else type(one) for one in events]


async def saved(storage, thread_id=THREAD_ID):
    """Return a thread's snapshots, the oldest first."""
    found = await storage.checkpoint_saver().list(thread_id)
    return [one.snapshot for one in reversed(found)]


async def test_by_default_a_snapshot_is_saved_at_the_end_of_each_turn(anywhere):
    """One a turn, after every call has its result; the last one says that it is finished."""
    agent, _ = three_turns()
    async with anywhere.open() as storage:
        events = await events_of(storage, agent, thread_of(storage))
    turn = [*TURN, *TOOL, "running"]
    assert events == [RunStarted, *turn, *turn, *TURN, "finished", RunCompleted]
    async with anywhere.open() as storage:
        snapshots = await saved(storage)
    assert [one.status for one in snapshots] == ["running", "running", "finished"]
    assert [one.turn for one in snapshots] == [1, 2, 3]
    assert [len(one.messages) for one in snapshots] == [3, 5, 6]
    assert [pending_tool_calls(one.messages) for one in snapshots] == [[], [], []]


@pytest.mark.parametrize(
    ("start", "end", "turn", "last"),
    [
        (True, True, ["running", *TURN, *TOOL, "running"], ["running", *TURN, "finished"]),
        (True, False, ["running", *TURN, *TOOL], ["running", *TURN]),
        (False, True, [*TURN, *TOOL, "running"], [*TURN, "finished"]),
        (False, False, [*TURN, *TOOL], TURN),
    ],
)
async def test_when_snapshots_are_saved(storage, start, end, turn, last):
    """At the start before the model is asked, at the end after the last result, as asked for."""
    agent, _ = three_turns()
    thread = thread_of(storage, save_on_turn_start=start, save_on_turn_end=end)
    events = await events_of(storage, agent, thread)
    assert events == [RunStarted, *turn, *turn, *last, RunCompleted]
    count = events.count("running") + events.count("finished")
    assert len(await saved(storage)) == count == 3 * (start + end)


async def test_a_snapshot_at_the_start_of_a_turn_holds_what_the_model_is_asked(storage):
    """It has the very transcript that the model then gets, and the turns before it."""
    agent, asked = three_turns()
    thread = thread_of(storage, save_on_turn_start=True, save_on_turn_end=False)
    await events_of(storage, agent, thread)
    snapshots = await saved(storage)
    assert [one.messages for one in snapshots] == [one.entries for one in asked.requests]
    assert [(one.status, one.turn) for one in snapshots] == [("running", n) for n in (0, 1, 2)]


async def test_the_start_of_a_turn_comes_after_a_handoff(storage):
    """A snapshot before the target's first turn says who is asked, and has no handoff left open."""
    target, _ = agent_of("", "Hello.", name="other")
    agent, _ = agent_of([call("t", "transfer_to_other")], handoffs=[target])
    thread = thread_of(storage, save_on_turn_start=True)
    events = await events_of(storage, agent, thread)
    assert events[5:9] == [HandedOver, "running", "running", TurnStarted]
    snapshots = await saved(storage)
    names = [one.extra["durably_runner"]["agent_name"] for one in snapshots]
    assert names == ["clerk", "other", "other", "other"]
    assert {one.pending_handoff for one in snapshots} == {None}


async def test_with_a_session_the_snapshot_holds_the_whole_transcript(anywhere):
    """What the session held comes first in every snapshot, whatever run it is from."""
    agent, _ = agent_of([call("a", "work")], "Done.")
    async with anywhere.open() as storage:
        await storage.sessions.append("s", [user("one"), model("two")], run_id="earlier")
        where = {"session": storage.sessions, "session_id": "s"}
        await events_of(storage, agent, thread_of(storage), **where)
        again, _ = agent_of("Hello.")
        await events_of(storage, again, thread_of(storage), **where)
        whole = await storage.sessions.load("s")
        snapshots = await saved(storage)
    assert [one.messages for one in snapshots] == [whole[:5], whole[:6], whole]
    assert [one.turn for one in snapshots] == [1, 2, 1]


async def test_a_snapshot_has_usage_and_context_state(storage):
    """What a run used and what its model carries are saved with each snapshot."""
    turns = [
        ModelTurn(entries=[call("a", "work")], input_tokens=3, output_tokens=1, context_state=[1]),
        ModelTurn(
            entries=[model("Done.")], input_tokens=5, output_tokens=2, context_state={"k": 2}
        ),
    ]
    await events_of(storage, agent_of(*turns)[0], thread_of(storage))
    first, last = await saved(storage)
    assert first.usage == {"input_tokens": 3, "output_tokens": 1, "requests": 1}
    assert last.usage == {"input_tokens": 8, "output_tokens": 3, "requests": 2}
    assert first.extra["durably_runner"]["context_state"] == [1]
    assert last.extra["durably_runner"]["context_state"] == {"k": 2}


async def test_a_bound_on_the_saver_bounds_the_thread(anywhere):
    """Only the newest snapshots can be read, and the newest is whole."""
    agent, _ = agent_of(*[[call(f"a{n}", "work")] for n in range(6)], "Done.")
    async with anywhere.open() as storage:
        thread = thread_of(storage, bound=2)
        result = await Runner.run(agent, "go", thread=thread, deps=Notes())
        found = await thread.saver.list(THREAD_ID)
    assert [one.seq for one in found] == [7, 6]
    assert [one.snapshot.status for one in found] == ["finished", "running"]
    assert found[0].snapshot.messages == result.entries


async def test_two_threads_of_one_saver_are_apart(storage):
    """Each run's snapshots are in its own thread."""
    for name in "ab":
        agent, _ = agent_of(f"I am {name}.")
        await events_of(storage, agent, thread_of(storage, thread_id=name))
    for name in "ab":
        (only,) = await saved(storage, name)
        assert only.messages == [*said("go"), model(f"I am {name}.")]


async def test_a_run_that_fails_leaves_the_last_turns_snapshot(storage):
    """An error adds no snapshot: the thread shows the last turn that was whole."""

    def failing(request):
        if request.turn == 1:
            return [call("a", "work")]
        raise RetryableModelError("busy")

    agent = Agent(name="clerk", model=failing, tools=TOOLS)
    with pytest.raises(RetryableModelError):
        await Runner.run(agent, "go", thread=thread_of(storage), deps=Notes())
    (only,) = await saved(storage)
    assert (only.status, only.turn, len(only.messages)) == ("running", 1, 3)


async def test_an_answer_that_is_refused_is_not_saved_as_finished(storage):
    """A run whose output is invalid failed: its thread does not say that it finished."""
    agent, _ = agent_of("no number", output_type=int)
    with pytest.raises(InvalidOutput):
        await Runner.run(agent, "go", thread=thread_of(storage))
    assert await saved(storage) == []


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_save_that_fails_ends_the_run_and_repeats_nothing(place, number, done):
    """Whichever snapshot cannot be saved, the run goes on from there when it is issued again."""
    notes = Notes()
    agent, asked = three_turns()
    async with Storage(FailsAtWrite(place.log_store(), "thread", number, done=done)) as storage:
        with pytest.raises(Unavailable):
            await issue(storage, agent, notes, thread=thread_of(storage))
        assert (await storage.checkpointer.load(RUN_ID)).head.status == "interrupted"
        result = await issue(storage, agent, notes, thread=thread_of(storage))
        latest = await thread_of(storage).saver.latest(THREAD_ID)
    assert [one.turn for one in asked.requests] == [1, 2, 3]
    assert notes == [(word, one) for one in "ab" for word in ("begun", "finished")]
    assert (latest.snapshot.status, latest.snapshot.messages) == ("finished", result.entries)


async def test_a_crash_between_the_last_snapshot_and_the_completion(place):
    """A thread that says finished and a run that does not agree once the run is issued again."""
    agent, asked = agent_of("Done.")
    store = FailsAtWrite(place.log_store(), "run", 3, for_ever=True)
    async with Storage(store) as storage:
        with pytest.raises(Unavailable):
            await issue(storage, agent, Notes(), thread=thread_of(storage))
    async with place.open() as storage:
        assert (await storage.checkpointer.load(RUN_ID)).head.status == "running"
        result = await issue(storage, agent, Notes(), thread=thread_of(storage))
        snapshots = await saved(storage)
    assert (result.output, len(asked.requests)) == ("Done.", 1)
    assert {one.status for one in snapshots} == {"finished"}
    assert all(one.messages == result.entries for one in snapshots)


async def test_a_replay_saves_no_snapshot(storage):
    """A run that is completed adds nothing to its thread when it is issued again."""
    agent, _ = agent_of("Done.")
    for _ in range(3):
        await issue(storage, agent, Notes(), thread=thread_of(storage))
    assert len(await saved(storage)) == 1


async def test_a_run_that_waits_is_saved_once_with_default_options(storage):
    """However often it is issued again, its thread gets no second snapshot of the same."""
    agent, _ = paying()
    for _ in range(4):
        await issue(storage, agent, Notes(), thread=thread_of(storage))
    assert [one.status for one in await saved(storage)] == ["interrupted"]


async def test_what_a_person_is_asked_is_saved_whatever_the_options(storage):
    """A run that waits is in its thread, once, also where no turn's end is saved."""
    agent, _ = paying()
    for _ in range(2):
        thread = thread_of(storage, save_on_turn_end=False)
        await issue(storage, agent, Notes(), thread=thread)
    assert [one.status for one in await saved(storage)] == ["interrupted"]


async def test_a_resumed_run_goes_on_in_the_thread_it_is_given(storage):
    """A run whose worker died is shown, from its next turn on, whole."""
    entries = [user("go"), call("a", "work")]
    head = RunHead(agent_name="clerk", turns=1)
    await storage.checkpointer.append(RUN_ID, entries, head)
    agent, _ = agent_of("", "Done.")
    options = {"checkpoint": CheckpointOptions(storage.checkpointer, RUN_ID)}
    events = await events_of(storage, agent, thread_of(storage), **options)
    assert events == [RunStarted, *TOOL, "running", *TURN, "finished", RunCompleted]
    first, _ = await saved(storage)
    assert first.messages[:2] == entries
    assert len(first.messages) == 3


async def test_a_thread_goes_on_from_what_is_in_it(storage):
    """Snapshots of a run are numbered after those that the thread had."""
    await storage.checkpoint_saver().append(THREAD_ID, snapshot("before"))
    agent, _ = agent_of("Done.")
    stream = Runner.stream(agent, "go", thread=thread_of(storage))
    assert [one.seq async for one in stream if type(one) is ThreadSaved] == [2]


def test_a_thread_needs_a_legal_id():
    """An id that no storage takes is refused where it is given."""
    with pytest.raises(InvalidId):
        ThreadOptions(None, "")
