"""Messages that are steered into a conversation: when they join it, and that none is lost."""

import subprocess
import sys
from pathlib import Path

import pytest

from builders import model, user
from durably import NotSerializable, Storage, ToolResultEntry, Unavailable
from durably_runner import (
    Agent,
    Conversation,
    LimitExceeded,
    ModelAnswered,
    RetryableModelError,
    RunCompleted,
    RunLimits,
    Steered,
    ThreadSaved,
    ToolContext,
    ToolFinished,
    ToolStarted,
    TurnStarted,
    tool,
)
from review_faults import EXIT, FailsAtWrite
from review_job import THREAD_ID, TOOLS, Notes, agent_of, call, texts, thread_of

pytest_plugins = ["redis_fixtures", "s3_fixtures", "review_places"]

ON_EVERY_BACKEND = True

WORKER = Path(__file__).parent / "support" / "review_steering_worker.py"
SAVED = (ThreadSaved, "running")


class Heard(list):
    """The events of a conversation; those of a thread with their status."""

    def __call__(self, event):
        is_saved = type(event) is ThreadSaved
        self.append((ThreadSaved, event.status) if is_saved else type(event))


class Busy:
    """A model that cannot be asked the first time, and then repeats what it was told last."""

    def __init__(self):
        self.requests = []

    async def respond(self, request):
        self.requests.append(request)
        if len(self.requests) == 1:
            raise RetryableModelError("busy")
        return f"heard {texts(request.entries)[-1]}"


class Told:
    """What a tool is given to speak to the conversation it is called by."""

    def to(self, conversation):
        self.steer = conversation.steer
        return conversation


def busy():
    made = Busy()
    return Agent(name="clerk", model=made), made


def _dies(url):
    """Run the worker, and return its exit code and what it told."""
    command = [sys.executable, str(WORKER), url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


async def latest(storage):
    return (await storage.checkpoint_saver().latest(THREAD_ID)).snapshot


@pytest.mark.parametrize("start", [False, True])
async def test_steered_messages_are_saved_before_the_model_is_asked(anywhere, start):
    """Steered, then saved, then asked: with save_on_turn_start and without."""
    heard = Heard()
    agent, asked = agent_of("Hello.")
    async with anywhere.open() as storage:
        thread = thread_of(storage, save_on_turn_start=start)
        conversation = Conversation(agent, thread=thread, listen=heard)
        conversation.steer("and this")
        await conversation.run("hello")
    last = [(ThreadSaved, "finished"), RunCompleted]
    assert heard == [Steered, SAVED, TurnStarted, ModelAnswered, *last]
    assert texts(asked.requests[0].entries) == ["hello", "and this"]


async def test_without_steering_nothing_is_saved_before_the_model_is_asked(storage):
    """The save before a turn is for what was steered, or for who wants it."""
    heard = Heard()
    conversation = Conversation(agent_of("Hello.")[0], thread=thread_of(storage), listen=heard)
    await conversation.run("hello")
    assert heard == [TurnStarted, ModelAnswered, (ThreadSaved, "finished"), RunCompleted]


async def test_turns_after_a_steered_one_are_saved_as_ever(storage):
    """What was steered is saved before its own turn, and nothing more before the next ones."""
    heard = Heard()
    agent, _ = agent_of([call("a", "work")], [call("b", "work")], "Done.")
    conversation = Conversation(agent, thread=thread_of(storage), listen=heard, deps=Notes())
    conversation.steer("and this")
    await conversation.run("hello")
    turn = [TurnStarted, ModelAnswered, ToolStarted, ToolFinished, SAVED]
    last = [TurnStarted, ModelAnswered, (ThreadSaved, "finished"), RunCompleted]
    assert heard == [Steered, SAVED, *turn, *turn, *last]


async def test_steered_messages_are_saved_where_no_turn_end_is(storage):
    """A thread that saves at no end of a turn has what was steered all the same."""
    thread = thread_of(storage, save_on_turn_end=False)
    conversation = Conversation(agent_of("Hello.")[0], thread=thread)
    conversation.steer("and this")
    await conversation.run("hello")
    snapshot = await latest(storage)
    assert (snapshot.status, texts(snapshot.messages)) == ("running", ["hello", "and this"])


async def test_a_process_that_dies_while_the_model_is_asked(outside):
    """Its steered messages are in the thread, and the restored conversation goes on with them."""
    code, told = _dies(outside.url)
    assert code == EXIT, told
    agent, asked = agent_of("Hello.")
    async with outside.open() as storage:
        conversation = Conversation(agent, thread=thread_of(storage))
        found = await conversation.restore_latest_checkpoint(THREAD_ID)
        assert (found.snapshot.status, asked.requests) == ("running", [])
        result = await conversation.continue_()
    assert result.output == "Hello."
    assert texts(asked.requests[0].entries) == ["hello", "first", "second"]


async def test_a_model_that_fails_loses_no_steered_message(storage):
    """It is in the thread for others, and in the conversation once."""
    agent, _ = busy()
    conversation = Conversation(agent, thread=thread_of(storage))
    conversation.steer("and this")
    with pytest.raises(RetryableModelError):
        await conversation.run("hello")
    assert texts((await latest(storage)).messages) == ["hello", "and this"]
    other, asked = agent_of("Hello.")
    restored = Conversation(other, thread=thread_of(storage))
    await restored.restore_latest_checkpoint(THREAD_ID)
    await restored.continue_()
    assert texts(asked.requests[0].entries) == ["hello", "and this"]
    result = await conversation.continue_()
    assert result.output == "heard and this"
    assert texts(conversation.state.messages) == ["hello", "and this"]


@pytest.mark.parametrize("done", [False, True])
async def test_a_snapshot_that_fails_is_made_up_for_before_the_model_is_asked(place, done):
    """If what was steered could not be saved, it is saved first when the conversation goes on."""
    heard = Heard()
    store = FailsAtWrite(place.log_store(), "thread", 1, done=done)
    async with Storage(store) as storage:
        agent, asked = agent_of("Hello.")
        conversation = Conversation(agent, thread=thread_of(storage), listen=heard)
        conversation.steer("and this")
        with pytest.raises(Unavailable):
            await conversation.run("hello")
        assert asked.requests == []
        assert texts(conversation.state.messages) == ["hello", "and this"]
        heard.clear()
        await conversation.continue_()
    assert heard[:2] == [SAVED, TurnStarted]
    assert texts(asked.requests[0].entries) == ["hello", "and this"]


async def test_a_turn_takes_all_messages_by_default():
    """Whatever waits joins the next turn together, in order, as one event."""
    heard = []
    agent, asked = agent_of("One.", "Two.")
    conversation = Conversation(agent, listen=heard.append)
    for text in "abc":
        conversation.steer(text)
    await conversation.run("hello")
    assert [texts(one.entries) for one in heard if type(one) is Steered] == [["a", "b", "c"]]
    assert len(asked.requests) == 1


async def test_a_turn_takes_one_message_where_asked(storage):
    """With steer_all=False each turn takes one, and the run goes on until none waits."""
    agent, asked = agent_of("One.", "Two.", "Three.")
    conversation = Conversation(agent, thread=thread_of(storage), steer_all=False)
    for text in "abc":
        conversation.steer(text)
    result = await conversation.run("hello")
    heard = [texts(one.entries) for one in asked.requests]
    assert heard == [["hello", "a"], ["hello", "a", "b"], ["hello", "a", "b", "c"]]
    assert (result.output, result.turns) == ("Three.", 3)


async def test_equal_messages_are_all_heard():
    """Saying the same twice is saying it twice."""
    for steer_all, turns in ((True, 1), (False, 2)):
        agent, asked = agent_of("One.", "Two.")
        conversation = Conversation(agent, steer_all=steer_all)
        conversation.steer("go")
        conversation.steer("go")
        await conversation.run("hello")
        assert texts(asked.requests[-1].entries) == ["hello", "go", "go"]
        assert len(asked.requests) == turns


async def test_a_message_steered_by_a_tool_joins_the_next_turn(storage):
    """It comes after the results of the turn under way, and is saved before the next."""
    heard = Heard()

    @tool
    async def listen(context: ToolContext) -> str:
        """Let somebody speak meanwhile."""
        context.deps.steer("hurry")
        return "listened"

    agent, asked = agent_of([call("a", "listen")], "Done.", tools=[listen])
    told = Told()
    conversation = told.to(Conversation(agent, thread=thread_of(storage), listen=heard, deps=told))
    await conversation.run("hello")
    turn = [TurnStarted, ModelAnswered, ToolStarted, ToolFinished, SAVED]
    assert heard[:7] == [*turn, Steered, SAVED]
    assert asked.requests[1].entries[-1] == user("hurry")


async def test_a_message_steered_during_the_last_answer_is_answered():
    """A run is not over while something waits to be heard."""
    answers = iter(["Goodbye.", "Still here."])

    def speaks(request):
        if request.turn == 1:
            conversation.steer("wait")
        return next(answers)

    conversation = Conversation(Agent(name="clerk", model=speaks))
    result = await conversation.run("hello")
    assert (result.output, result.turns) == ("Still here.", 2)
    assert conversation.state.messages[1:3] == [model("Goodbye."), user("wait")]


async def test_what_is_steered_after_a_run_waits_for_the_next():
    """A conversation that is finished goes on with it by continue_, or hears it with the next."""
    agent, asked = agent_of("One.", "Two.", "Three.")
    conversation = Conversation(agent)
    await conversation.run("hello")
    conversation.steer("more")
    assert texts(conversation.state.messages) == ["hello"]
    await conversation.continue_()
    conversation.steer("and more")
    await conversation.run("bye")
    assert sorted(texts(asked.requests[2].entries)) == sorted(["hello", "more", "and more", "bye"])


async def test_a_turn_that_never_came_keeps_its_message():
    """What waits when a run ends with an error before its turn is heard by the next."""

    @tool
    async def listen(context: ToolContext) -> str:
        """Let somebody speak meanwhile, and fail the run."""
        context.deps.steer("hurry")
        return "listened"

    agent, asked = agent_of([call("a", "listen")], "Done.", tools=[listen])
    told, limits = Told(), RunLimits(max_turns=1)
    conversation = told.to(Conversation(agent, steer_all=False, limits=limits, deps=told))
    conversation.steer("first")
    with pytest.raises(LimitExceeded):
        await conversation.run("hello")
    await conversation.continue_()
    assert texts(asked.requests[-1].entries) == ["hello", "first", "hurry"]


async def test_entries_are_steered_as_they_are():
    """Several entries are one message; text is what a user said."""
    agent, asked = agent_of("One.", "Two.")
    conversation = Conversation(agent, steer_all=False)
    conversation.steer([user("a"), model("b")])
    conversation.steer(user("c"))
    await conversation.run("hello")
    assert asked.requests[0].entries == [user("hello"), user("a"), model("b")]
    assert asked.requests[1].entries[-1] == user("c")


async def test_what_cannot_be_stored_does_not_wait():
    """A message that is no JSON is refused at once, and stands in the way of no other."""
    agent, asked = agent_of("Hello.")
    conversation = Conversation(agent)
    with pytest.raises(NotSerializable):
        conversation.steer([user("a"), ToolResultEntry(call_id="c", output="", raw={1, 2})])
    conversation.steer("b")
    await conversation.run("hello")
    assert texts(asked.requests[0].entries) == ["hello", "b"]


async def test_what_is_steered_outlives_a_restore(storage):
    """Messages that wait are the host's: they join whatever conversation is restored meanwhile."""
    agent, _ = agent_of("One.")
    await Conversation(agent, thread=thread_of(storage)).run("hello")
    again, asked = agent_of("", "Two.")
    conversation = Conversation(again, thread=thread_of(storage))
    conversation.steer("go on")
    await conversation.restore_latest_checkpoint(THREAD_ID)
    await conversation.continue_()
    assert texts(asked.requests[0].entries) == ["hello", "go on"]


async def test_a_resumed_conversation_hears_what_was_steered_after_the_decision():
    """Steered before resume, a message comes after what the person decided."""
    agent, asked = agent_of([call("c1", "pay", amount=5)], "I leave it.", tools=TOOLS)
    conversation = Conversation(agent, deps=Notes())
    await conversation.run("pay 5 to bob")
    conversation.steer("without any payment")
    await conversation.resume()
    assert texts(asked.requests[-1].entries) == ["pay 5 to bob", "without any payment"]
