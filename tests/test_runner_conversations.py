"""Conversations: what each method does from wherever one stands, and what a restore brings back."""

import asyncio
import contextlib
import inspect
import re

import msgspec
import pytest

from builders import model, said, snapshot, user
from durably import (
    CheckpointNotFound,
    CustomEntry,
    InterruptReason,
    MigrationError,
    Migrators,
    NotSerializable,
    RunNotFound,
    SchemaTooNew,
    SessionNotFound,
    StateNotFound,
    StateSnapshot,
    ToolResultEntry,
    pending_tool_calls,
)
from durably.logstore import Batch, LogId, NewRecord
from durably_runner import (
    Agent,
    AgentNotAttached,
    AgentNotFound,
    Conversation,
    ConversationState,
    Decision,
    DecisionRefused,
    Engine,
    EngineSession,
    InvalidAgent,
    InvalidOptions,
    LimitExceeded,
    ModelTurn,
    RetryableModelError,
    RunLimits,
    ThreadOptions,
    ToolContext,
    tool,
)
from durably_runner._decisions import KIND
from review_job import (
    THREAD_ID,
    TOOLS,
    Notes,
    agent_of,
    call,
    paid,
    paying,
    results,
    texts,
    thread_of,
)

pytest_plugins = ["redis_fixtures"]

ON_EVERY_BACKEND = True

STATUSES = ["idle", "running", "finished", "error", "interrupted"]
REFUSED = "refused"


class Moody:
    """A model that does what it is told: fail once, hang until released, ask, or answer."""

    def __init__(self):
        self.asked = 0
        self.has_failed = False
        self.is_asked = asyncio.Event()
        self.is_released = asyncio.Event()

    async def respond(self, request):
        self.asked += 1
        last = request.entries[-1]
        if last == user("fail") and not self.has_failed:
            self.has_failed = True
            raise RetryableModelError("busy")
        if last == user("hang"):
            self.is_asked.set()
            await self.is_released.wait()
        if last == user("ask"):
            return [call("c1", "pay", amount=5)]
        return "Answered."


TO_REACH = {"running": "hang", "finished": "hello", "error": "fail", "interrupted": "ask"}
STORED = snapshot("stored", status="finished", turn=7, usage={"requests": 7})


class Stage:
    """A conversation brought to a status, and everything that can be done with it."""

    def __init__(self, storage):
        self.model, self.notes = Moody(), Notes()
        self.saver, self.states = storage.checkpoint_saver(), storage.states
        self.conversation = Conversation(
            Agent(name="clerk", model=self.model, tools=TOOLS),
            thread=ThreadOptions(self.saver, THREAD_ID),
            states=self.states,
            deps=self.notes,
        )
        self._task = None

    @property
    def status(self):
        return self.conversation.state.status

    async def reach(self, status):
        await self.saver.append("stored", STORED)
        await self.states.save("stored", STORED)
        if status == "running":
            self._task = asyncio.ensure_future(self.conversation.run("hang"))
            await self.model.is_asked.wait()
        elif status != "idle":
            with contextlib.suppress(RetryableModelError):
                await self.conversation.run(TO_REACH[status])
        assert self.status == status

    async def leave(self):
        """Let a run that was under way end, and return its result."""
        if self._task is not None:
            self.model.is_released.set()
            return await self._task
        return None

    def decision(self, **altered):
        asked = self.conversation.interrupted
        if asked is None:
            asked = InterruptReason(call_id="c", tool_name="t", arguments_digest="d", reason="")
        decision = Decision.on(asked, approved=True, decided_by="ann")
        return msgspec.structs.replace(decision, **altered)

    async def do(self, name):
        conversation = self.conversation
        await {
            "run": lambda: conversation.run("hello"),
            "continue_": conversation.continue_,
            "resume": conversation.resume,
            "resume decided": lambda: conversation.resume(self.decision()),
            "resume wrongly decided": lambda: conversation.resume(self.decision(call_id="x")),
            "steer": lambda: asyncio.to_thread(conversation.steer, "and this"),
            "steer, continue_": self._steer_and_continue,
            "restore": lambda: conversation.restore_latest_checkpoint("stored"),
            "load_state": lambda: conversation.load_state("stored"),
            "save_checkpoint": conversation.save_checkpoint,
            "save_state": lambda: conversation.save_state("saved"),
        }[name]()

    async def _steer_and_continue(self):
        self.conversation.steer("and this")
        await self.conversation.continue_()


#                           idle       running    finished   error       interrupted
TABLE = {
    "run":                    ["finished", REFUSED,   "finished", "finished", REFUSED],
    "continue_":              [REFUSED,    REFUSED,   REFUSED,    "finished", REFUSED],
    "resume":                 [REFUSED,    REFUSED,   REFUSED,    REFUSED,    "finished"],
    "resume decided":         [REFUSED,    REFUSED,   REFUSED,    REFUSED,    "finished"],
    "resume wrongly decided": [REFUSED,    REFUSED,   REFUSED,    REFUSED,    REFUSED],
    "steer":                  ["idle",     "running", "finished", "error",    "interrupted"],
    "steer, continue_":       ["finished", REFUSED,   "finished", "finished", REFUSED],
    "restore":                ["finished", REFUSED,   "finished", "finished", "finished"],
    "load_state":             ["finished", REFUSED,   "finished", "finished", "finished"],
    "save_checkpoint":        ["idle",     "running", "finished", "error",    "interrupted"],
    "save_state":             ["idle",     "running", "finished", "error",    "interrupted"],
}  # fmt: skip
ASKS = {"run", "continue_", "resume", "resume decided", "steer, continue_"}
CASES = [
    (status, name, expected)
    for name, row in TABLE.items()
    for status, expected in zip(STATUSES, row, strict=True)
]


@pytest.mark.parametrize(("status", "name", "expected"), CASES)
async def test_every_method_from_every_status(storage, status, name, expected):
    """Each goes where the table says, or is refused and changes nothing; only five ask a model."""
    stage = Stage(storage)
    await stage.reach(status)
    before, asked = stage.conversation.state, stage.model.asked
    if expected == REFUSED:
        error = DecisionRefused if (status, name[:8]) == ("interrupted", "resume w") else None
        with pytest.raises(error or ConversationState):
            await stage.do(name)
        assert stage.conversation.state == before
        assert stage.model.asked == asked
    else:
        await stage.do(name)
        assert stage.status == expected
        assert stage.model.asked == asked + (name in ASKS)
    assert stage.notes == []
    result = await stage.leave()
    if result is not None:
        assert (result.output, stage.status) == ("Answered.", "finished")
        assert stage.model.asked == 1 + (name.startswith("steer"))


@pytest.mark.parametrize("status", STATUSES)
async def test_what_is_saved_from_every_status_is_restored(storage, status):
    """A snapshot of a thread or a state store brings the conversation back as it was."""
    stage = Stage(storage)
    await stage.reach(status)
    conversation = stage.conversation
    seq = await conversation.save_checkpoint()
    await conversation.save_state("saved")
    state = conversation.state
    others = [Stage(storage) for _ in range(2)]
    found = await others[0].conversation.restore_latest_checkpoint(THREAD_ID)
    loaded = await others[1].conversation.load_state("saved")
    assert (found.seq, found.snapshot, loaded) == (seq, state, state)
    for other in others:
        assert other.conversation.state == state
        assert other.conversation.interrupted == conversation.interrupted
        assert (other.model.asked, other.notes) == (0, [])
    await stage.leave()


#                    idle       running     finished   error       interrupted
RESTORED = {
    "run":            ["finished", "finished", "finished", "finished", REFUSED],
    "continue_":      [REFUSED,    "finished", REFUSED,    "finished", REFUSED],
    "resume":         [REFUSED,    REFUSED,    REFUSED,    REFUSED,    "finished"],
    "resume decided": [REFUSED,    REFUSED,    REFUSED,    REFUSED,    "finished"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("status", "name", "expected"),
    [
        (status, name, expected)
        for name, row in RESTORED.items()
        for status, expected in zip(STATUSES, row, strict=True)
    ],
)
async def test_the_next_entry_point_after_a_restore(storage, status, name, expected):
    """What may come next depends on the restored status alone, as if it had never been stored."""
    first, stage = Stage(storage), Stage(storage)
    await first.reach(status)
    await first.conversation.save_checkpoint()
    stage.model.has_failed = first.model.has_failed
    stage.model.is_released.set()
    await stage.conversation.restore_latest_checkpoint(THREAD_ID)
    if expected == REFUSED:
        with pytest.raises(ConversationState):
            await stage.do(name)
        assert (stage.status, stage.model.asked) == (status, 0)
    else:
        await stage.do(name)
        assert (stage.status, stage.model.asked) == (expected, 1)
    await first.leave()


async def test_resume_without_an_interrupt_says_what_to_do():
    """The error has a remedy, and so has that of what a conversation that waits cannot do."""
    conversation = Conversation(paying()[0], deps=Notes())
    with pytest.raises(ConversationState, match="waits for nobody") as refused:
        await conversation.resume()
    assert "run(input)" in refused.value.hint
    await conversation.run("pay 5 to bob")
    for attempt in (conversation.run("x"), conversation.continue_()):
        with pytest.raises(ConversationState, match="waits for a person") as refused:
            await attempt
        assert "resume()" in refused.value.hint


async def test_a_decided_conversation_pays_once(storage):
    """Resumed with a decision the tool acts; the conversation goes on as any other."""
    agent, _ = agent_of(
        [call("c1", "pay", amount=5)], [call("c2", "pay", amount=5)], "Done.", "Bye."
    )
    notes = Notes()
    conversation = Conversation(agent, thread=thread_of(storage), deps=notes)
    waits = await conversation.run("pay 5 to bob")
    assert (waits.status, waits.interrupt) == ("interrupted", conversation.interrupted)
    decision = Decision.on(conversation.interrupted, approved=True, decided_by="ann")
    result = await conversation.resume(decision)
    assert (result.output, len(paid(notes)), conversation.interrupted) == ("Done.", 1, None)
    with pytest.raises(ConversationState):
        await conversation.resume(decision)
    assert (await conversation.run("thanks")).output == "Bye."
    assert len(paid(notes)) == 1


async def test_what_is_not_there_changes_nothing(storage):
    """A thread or key without a snapshot is an error, and the conversation stays as it is."""
    agent, asked = agent_of("Hello.")
    conversation = Conversation(agent, thread=thread_of(storage), states=storage.states)
    await conversation.run("hello")
    before = conversation.state
    with pytest.raises(CheckpointNotFound):
        await conversation.restore_latest_checkpoint("nowhere")
    with pytest.raises(StateNotFound):
        await conversation.load_state("nowhere")
    assert (conversation.state, len(asked.requests)) == (before, 1)


async def test_without_a_thread_or_a_state_store():
    """Each method that needs one says that there is none."""
    conversation = Conversation(agent_of("Hello.")[0])
    await conversation.run("hello")
    attempts = (conversation.save_checkpoint(), conversation.restore_latest_checkpoint("t"))
    for attempt in attempts:
        with pytest.raises(InvalidOptions, match="no thread"):
            await attempt
    for attempt in (conversation.save_state("k"), conversation.load_state("k")):
        with pytest.raises(InvalidOptions, match="no state store"):
            await attempt


def turn(*entries):
    return ModelTurn(entries=list(entries), input_tokens=10, output_tokens=1)


async def test_turns_and_usage_add_up(storage):
    """Across runs and restores; each result has the entries of its own call alone."""
    script = [turn(call("a", "work")), turn(model("One.")), turn(model("Two."))]
    agent, _ = agent_of(*script)
    notes, thread = Notes(), thread_of(storage)
    first = Conversation(agent, thread=thread, deps=notes)
    one = await first.run("first")
    assert (one.turns, one.usage.as_json()) == (
        2,
        {"input_tokens": 20, "output_tokens": 2, "requests": 2},
    )
    again, asked = agent_of(*script)
    second = Conversation(again, thread=thread, deps=notes)
    await second.restore_latest_checkpoint(THREAD_ID)
    two = await second.run("second")
    assert (two.turns, two.usage.as_json()) == (
        3,
        {"input_tokens": 30, "output_tokens": 3, "requests": 3},
    )
    assert two.entries == [user("second"), model("Two.")]
    assert [request.turn for request in asked.requests] == [3]
    assert second.state.messages == [*one.entries, *two.entries]
    assert second.state.usage == two.usage.as_json()


async def test_a_limit_counts_the_model_calls_of_each_run_alone():
    """Ten runs of one turn are within a limit of one; a run of two is not."""
    agent, _ = agent_of(*["Hello."] * 10, [call("a", "work")], "Done.")
    conversation = Conversation(agent, limits=RunLimits(max_turns=1), deps=Notes())
    for number in range(10):
        assert (await conversation.run("hello")).turns == number + 1
    with pytest.raises(LimitExceeded):
        await conversation.run("work")
    assert conversation.state.status == "error"
    assert (await conversation.continue_()).output == "Done."


@pytest.mark.parametrize("entry", ["run", "continue_"])
async def test_calls_left_open_are_executed_before_anything_else(storage, entry):
    """After a cancellation the results come first, then what is said, then the model is asked."""
    begun = asyncio.Event()

    @tool
    async def hang(context: ToolContext) -> str:
        """Hang the first time."""
        context.deps.note("called", context.idempotency_key)
        if len(context.deps) == 1:
            begun.set()
            await asyncio.Event().wait()
        return "hung"

    agent, asked = agent_of([call("a", "hang"), call("b", "work")], "Done.", tools=[*TOOLS, hang])
    notes = Notes()
    conversation = Conversation(agent, thread=thread_of(storage), deps=notes)
    task = asyncio.ensure_future(conversation.run("hello"))
    await begun.wait()
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert conversation.state.status == "error"
    assert [one.call_id for one in pending_tool_calls(conversation.state.messages)] == ["a"]
    if entry == "run":
        result = await conversation.run("and this")
    else:
        result = await conversation.continue_()
    assert result.output == "Done."
    heard = asked.requests[-1].entries
    spoken = [user("and this")] if entry == "run" else []
    assert heard[3:] == [
        ToolResultEntry(call_id="b", output="did b"),
        ToolResultEntry(call_id="a", output="hung"),
        *spoken,
    ]
    keys = [words[1] for words in notes if words[0] == "called"]
    assert len(keys) == 2
    assert len(set(keys)) == 1
    assert notes.count(("begun", "b")) == 1


async def test_an_error_leaves_the_conversation_to_go_on():
    """What was said before a model's error is asked again by continue_, and is there for run."""
    for entry in ("continue_", "run"):
        moody = Moody()
        conversation = Conversation(Agent(name="clerk", model=moody))
        with pytest.raises(RetryableModelError):
            await conversation.run("fail")
        assert texts(conversation.state.messages) == ["fail"]
        more = [] if entry == "continue_" else ["more"]
        result = await getattr(conversation, entry)(*more)
        assert (result.output, conversation.state.status) == ("Answered.", "finished")
        assert texts(conversation.state.messages) == ["fail", *more]


async def test_a_time_out_leaves_the_conversation_to_go_on():
    """A run that took too long is an error, and continue_ goes on with it."""
    moody = Moody()
    agent = Agent(name="clerk", model=moody)
    conversation = Conversation(agent, limits=RunLimits(timeout=0.05))
    with pytest.raises(TimeoutError):
        await conversation.run("hang")
    assert conversation.state.status == "error"
    moody.is_released.set()
    assert (await conversation.continue_()).output == "Answered."


async def test_what_cannot_be_stored_is_refused_before_anything_is_changed():
    """An input that is no JSON, or a decision's time, leaves the conversation as it was."""
    unstorable = ToolResultEntry(call_id="c", output="", raw={1, 2})
    conversation = Conversation(paying()[0], deps=Notes())
    before = conversation.state
    with pytest.raises(NotSerializable):
        await conversation.run([unstorable])
    assert conversation.state == before
    await conversation.run("pay 5 to bob")
    before = conversation.state
    made = Decision.on(conversation.interrupted, approved=True, decided_by="ann")
    decision = msgspec.structs.replace(made, decided_at=float("nan"))
    with pytest.raises(NotSerializable):
        await conversation.resume(decision)
    assert conversation.state == before
    assert conversation.interrupted is not None


async def test_an_input_that_ends_with_a_models_words_is_asked_about(storage):
    """Whatever is said, the model is asked: words put into its mouth it goes on from."""
    agent, asked = agent_of("One.", "Two.", "Three.")
    conversation = Conversation(agent, thread=thread_of(storage))
    await conversation.run("hello")
    for answer in ("Two.", "Three."):
        given = [user("go on"), model("I was saying: ")]
        assert (await conversation.run(given)).output == f"I was saying: {answer}"
        assert asked.requests[-1].entries[-2:] == given


async def test_a_handoff_survives_a_restore(storage):
    """The restored conversation is with the agent that had taken over."""
    script = ("", "I am the other.", "Still me.")
    target, _ = agent_of(*script, name="other")
    agent, _ = agent_of([call("t", "transfer_to_other")], handoffs=[target])
    await Conversation(agent, thread=thread_of(storage)).run("hello")
    target, heard = agent_of(*script, name="other")
    agent, asked = agent_of(handoffs=[target])
    conversation = Conversation(agent, thread=thread_of(storage))
    await conversation.restore_latest_checkpoint(THREAD_ID)
    result = await conversation.run("and now?")
    assert (result.output, result.agent_name) == ("Still me.", "other")
    assert (asked.requests, len(heard.requests)) == ([], 1)


async def test_a_handoff_that_was_not_applied_survives_a_restore(storage):
    """One that fired in the turn that asked a person is completed after the decision."""
    target, _ = agent_of(name="other")
    batch = [call("t", "transfer_to_other"), call("b", "ask")]
    agent, _ = agent_of(batch, handoffs=[target])
    await Conversation(agent, thread=thread_of(storage), deps=Notes()).run("hello")
    target, heard = agent_of("", "I am the other.", name="other")
    agent, asked = agent_of(handoffs=[target])
    conversation = Conversation(agent, thread=thread_of(storage))
    await conversation.restore_latest_checkpoint(THREAD_ID)
    assert conversation.state.pending_handoff == "other"
    result = await conversation.resume()
    assert (result.output, result.agent_name) == ("I am the other.", "other")
    assert (asked.requests, len(heard.requests)) == ([], 1)
    assert conversation.state.pending_handoff is None


async def test_an_agent_that_is_gone_fails_what_comes_next(storage):
    """A restored conversation with an agent that nobody knows any more cannot go on."""
    target, _ = agent_of("", "I am the other.", name="other")
    agent, _ = agent_of([call("t", "transfer_to_other")], handoffs=[target])
    await Conversation(agent, thread=thread_of(storage)).run("hello")
    agent, asked = agent_of("Hello.")
    conversation = Conversation(agent, thread=thread_of(storage))
    await conversation.restore_latest_checkpoint(THREAD_ID)
    with pytest.raises(AgentNotFound):
        await conversation.run("and now?")
    assert asked.requests == []


async def test_what_a_snapshot_has_no_field_for_survives(storage):
    """Context state comes back to the model; what the application put into extra stays."""
    asked = []

    def carries(request):
        asked.append(request)
        return ModelTurn(entries=[model("Hello.")], context_state={"seen": len(asked)})

    agent = Agent(name="clerk", model=carries)
    await storage.states.save("k", StateSnapshot(extra={"mine": [1, 2]}))
    first = Conversation(agent, states=storage.states)
    await first.load_state("k")
    await first.run("hello")
    await first.save_state("k")
    second = Conversation(agent, states=storage.states)
    await second.load_state("k")
    await second.run("hello")
    assert [request.context_state for request in asked] == [None, {"seen": 1}]
    assert second.state.extra["mine"] == [1, 2]


async def test_deps_are_given_again(storage):
    """A restored conversation's tools get what its own host gave, never what another one had."""
    script = ([call("a", "work")], "One.", [call("b", "work")], "Two.")
    first, second = Notes(), Notes()
    await Conversation(agent_of(*script)[0], thread=thread_of(storage), deps=first).run("hello")
    conversation = Conversation(agent_of(*script)[0], thread=thread_of(storage), deps=second)
    await conversation.restore_latest_checkpoint(THREAD_ID)
    await conversation.run("again")
    assert (first, second) == (
        [("begun", "a"), ("finished", "a")],
        [("begun", "b"), ("finished", "b")],
    )


class Gone(BaseException):
    """What no tool's result is made of."""


async def test_an_open_call_keeps_its_key_wherever_it_was_saved(storage):
    """A call that is executed again after a restore has the idempotency key it had before."""

    @tool
    async def charge(context: ToolContext) -> str:
        """Charge, and fail to say so the first time."""
        context.deps.note(context.idempotency_key)
        if len(context.deps) == 1:
            raise Gone
        return "charged"

    notes = Notes()

    def conversation(**more):
        agent, _ = agent_of([call("a", "charge")], "Done.", tools=[charge])
        return Conversation(agent, states=storage.states, deps=notes, **more)

    for kept in ({}, {"thread": thread_of(storage)}):
        notes.clear()
        first = conversation(**kept)
        with pytest.raises(Gone):
            await first.run("hello")
        await first.save_state("some key")
        second = conversation(**kept)
        await second.load_state("some key")
        await second.save_state("another key")
        third = conversation(**kept)
        await third.load_state("another key")
        await second.continue_()
        await third.continue_()
        assert len(notes) == 3
        assert len(set(notes)) == 1


def renamed(state):
    """Version 2 calls the user's name by another name."""
    state["extra"]["user_name"] = state["extra"].pop("user")
    return state


def greeted(state):
    """Version 3 begins with a greeting."""
    state["messages"].insert(0, {"type": "input", "role": "system", "content": "Be kind."})
    return state


MIGRATORS = Migrators(version=3, steps={1: renamed, 2: greeted})
OLD = snapshot("hello", status="finished", turn=1, extra={"user": "ann"})


async def test_an_old_snapshot_is_brought_up_to_date_when_it_is_restored(storage):
    """Each step is applied in order; the conversation goes on, and saves the new version."""
    await storage.checkpoint_saver().append(THREAD_ID, OLD)
    await storage.states.save("k", OLD)
    for restore in ("restore_latest_checkpoint", "load_state"):
        agent, asked = agent_of("", "Hello.")
        conversation = Conversation(
            agent, thread=thread_of(storage), states=storage.states, migrators=MIGRATORS
        )
        await getattr(conversation, restore)(THREAD_ID if "check" in restore else "k")
        state = conversation.state
        assert (state.version, state.extra["user_name"], state.status) == (3, "ann", "finished")
        assert (texts(state.messages), asked.requests) == (["Be kind.", "hello"], [])
        await conversation.run("again")
        assert texts(asked.requests[0].entries) == ["Be kind.", "hello", "again"]
        latest = await storage.checkpoint_saver().latest(THREAD_ID)
        assert (latest.snapshot.version, latest.snapshot.extra["user_name"]) == (3, "ann")
        await storage.checkpoint_saver().append(THREAD_ID, OLD)


async def test_restoring_does_not_change_what_is_stored(storage):
    """The old snapshot stays as it is until something is saved."""
    await storage.states.save("k", OLD)
    conversation = Conversation(agent_of()[0], states=storage.states, migrators=MIGRATORS)
    await conversation.load_state("k")
    assert await storage.states.load("k") == OLD
    await conversation.save_state("k")
    assert (await storage.states.load("k")).version == 3


async def test_a_snapshot_as_it_was_stored_without_a_version(place):
    """A store with the migrators tells one without a version from version 1."""
    data = (
        b'{"messages":[{"type":"input","role":"user","content":"hello"}],'
        b'"snapshot":{"status":"finished","turn":2,"usage":{"requests":2},"from":"long ago"}}'
    )
    store = place.log_store()
    await store.append(LogId(kind="state", id="k"), Batch(records=(NewRecord(data=data),)))
    await store.aclose()

    def named(state):
        state["extra"] = {"user": state.pop("from")}
        return state

    migrators = Migrators(version=3, steps={0: named, **MIGRATORS.steps})
    agent, asked = agent_of("", "", "Hello.")
    async with place.open() as storage:
        states = storage.state_store(migrators=migrators)
        conversation = Conversation(agent, states=states, migrators=migrators)
        await conversation.load_state("k")
        state = conversation.state
        assert (state.version, state.extra["user_name"]) == (3, "long ago")
        result = await conversation.run("again")
    assert (result.turns, result.usage.requests) == (3, 3)
    assert texts(asked.requests[0].entries) == ["Be kind.", "hello", "again"]


@pytest.mark.parametrize(
    ("migrators", "stored", "error"),
    [
        (Migrators(version=2, steps={1: renamed}), snapshot(version=3), SchemaTooNew),
        (Migrators(version=3, steps={2: greeted}), OLD, MigrationError),
        (Migrators(version=2, steps={1: lambda _: {}["no"]}), OLD, MigrationError),
        (Migrators(version=2, steps={1: lambda _: {"messages": "none"}}), OLD, MigrationError),
        (
            Migrators(version=2, steps={1: lambda _: {"messages": [{"type": "?"}]}}),
            OLD,
            MigrationError,
        ),
    ],
    ids=["later version", "no step", "step fails", "no messages", "unknown message"],
)
async def test_a_snapshot_that_cannot_be_brought_up_to_date(storage, migrators, stored, error):
    """The restore is refused, and the conversation stays as it is."""
    thread = thread_of(storage)
    await thread.saver.append(THREAD_ID, stored)
    await storage.states.save("k", stored)
    agent, _ = agent_of("Hello.")
    conversation = Conversation(
        agent, thread=thread_of(storage), states=storage.states, migrators=migrators
    )
    before = conversation.state
    with pytest.raises(error):
        await conversation.restore_latest_checkpoint(THREAD_ID)
    with pytest.raises(error):
        await conversation.load_state("k")
    assert conversation.state == before


async def test_a_restore_from_another_thread_goes_on_in_its_own(storage):
    """What was restored from one thread is saved to the conversation's own; the other stays."""
    await storage.checkpoint_saver().append("other", snapshot("hello", status="finished"))
    agent, _ = agent_of("Hello.")
    conversation = Conversation(agent, thread=thread_of(storage))
    await conversation.restore_latest_checkpoint("other")
    await conversation.run("again")
    saver = storage.checkpoint_saver()
    assert len(await saver.list("other")) == 1
    latest = await saver.latest(THREAD_ID)
    assert texts(latest.snapshot.messages) == ["hello", "again"]


async def test_a_restore_that_is_overtaken_by_a_run_changes_nothing(storage):
    """If a run begins while a snapshot is read, the snapshot is dropped, and the run is whole."""
    stage = Stage(storage)
    await stage.saver.append("stored", STORED)

    class Slow:
        async def latest(self, thread_id):
            found = await stage.saver.latest(thread_id)
            task.append(asyncio.ensure_future(conversation.run("hang")))
            await stage.model.is_asked.wait()
            return found

    task = []
    thread = ThreadOptions(Slow(), "stored", save_on_turn_end=False)
    conversation = Conversation(Agent(name="clerk", model=stage.model), thread=thread)
    with pytest.raises(ConversationState):
        await conversation.restore_latest_checkpoint("stored")
    stage.model.is_released.set()
    result = await task[0]
    assert result.entries == [*said("hang"), model("Answered.")]
    assert conversation.state.messages == result.entries


async def test_one_call_runs_at_a_time():
    """Of calls made at once the first runs, and each other is refused."""
    moody = Moody()
    conversation = Conversation(Agent(name="clerk", model=moody))
    attempts = [conversation.run(text) for text in ("hang", "b", "c")]
    together = asyncio.gather(*attempts, return_exceptions=True)
    await moody.is_asked.wait()
    moody.is_released.set()
    first, *others = await together
    assert first.output == "Answered."
    assert [type(one) for one in others] == [ConversationState] * 2
    assert texts(conversation.state.messages) == ["hang"]


async def test_results_of_an_interrupted_batch_are_in_the_snapshot(storage):
    """A restored conversation has what ran and what did not, as it was recorded."""
    agent, _ = agent_of([call("a", "work"), call("b", "ask"), call("c", "work")])
    await Conversation(agent, thread=thread_of(storage), deps=Notes()).run("hello")
    conversation = Conversation(agent, thread=thread_of(storage))
    await conversation.restore_latest_checkpoint(THREAD_ID)
    got = {call_id: is_error for call_id, _, is_error in results(conversation.state.messages)}
    assert got == {"a": False, "b": False, "c": True}
    assert conversation.state.interrupt.data["of"] == "b"


class Scene(Stage):
    """A stage with conversations that lack something, and an engine on the same storage."""

    def __init__(self, storage):
        super().__init__(storage)
        self.engine = Engine(storage)
        self.plain = Conversation(agent_of()[0])
        self.migrating = Conversation(
            agent_of()[0],
            thread=ThreadOptions(self.saver, THREAD_ID),
            states=self.states,
            migrators=Migrators(version=3),
        )

    async def migrated(self, name, version):
        await self.saver.append("stored", snapshot(version=version))
        await self.states.save("stored", snapshot(version=version))
        await getattr(self.migrating, name)("stored")

    async def busy(self, name):
        await self.reach("running")
        try:
            await self.do(name)
        finally:
            await self.leave()

    async def wrongly_resumed(self):
        await self.reach("interrupted")
        await self.do("resume wrongly decided")

    async def session(self):
        made = self.engine.create(agent_of()[0])
        await made.history()
        return made

    async def of_another_engine(self):
        session = await self.session()
        await Engine(self.engine.storage).resume(session.session_id)

    async def wrongly_attached(self):
        session = await self.session()
        await self.engine.attach(session.session_id, BROKEN)

    async def nothing_resumed(self):
        await (await self.session()).resume("nope")

    async def deleted(self, verb):
        session = await self.session()
        await self.engine.storage.catalog.delete(session.session_id)
        await getattr(session, verb)("hello")

    async def wrongly_decided(self):
        session = self.engine.create(paying()[0])
        result = await session.send("pay 5 to bob", deps=Notes())
        decision = Decision.on(result.interrupt, approved=True, decided_by="ann")
        await session.resume(result.run_id, msgspec.structs.replace(decision, call_id="x"))


BROKEN = Agent(name="clerk", model=str, handoffs=[Agent(name="clerk", model=str)])
RESTORE = "restore_latest_checkpoint"
FORGED = CustomEntry(kind=KIND, data={})
NO_JSON = [ToolResultEntry(call_id="c", output="", raw={1, 2})]


def at_once(function):
    """Return a provocation of what is no coroutine."""

    async def provoke(scene):
        function(scene)

    return provoke


ERRORS = {
    ("Conversation", InvalidAgent): at_once(lambda _: Conversation(BROKEN)),
    ("Conversation.steer", InvalidOptions): at_once(lambda s: s.conversation.steer(FORGED)),
    ("Conversation.steer", NotSerializable): at_once(lambda s: s.conversation.steer(NO_JSON)),
    ("Conversation.run", ConversationState): lambda s: s.busy("run"),
    ("Conversation.run", InvalidOptions): lambda s: s.conversation.run(FORGED),
    ("Conversation.run", NotSerializable): lambda s: s.conversation.run(NO_JSON),
    ("Conversation.continue_", ConversationState): lambda s: s.do("continue_"),
    ("Conversation.resume", ConversationState): lambda s: s.do("resume"),
    ("Conversation.resume", DecisionRefused): lambda s: s.wrongly_resumed(),
    ("Conversation.save_checkpoint", InvalidOptions): lambda s: s.plain.save_checkpoint(),
    (f"Conversation.{RESTORE}", CheckpointNotFound): lambda s: s.do("restore"),
    (f"Conversation.{RESTORE}", SchemaTooNew): lambda s: s.migrated(RESTORE, 4),
    (f"Conversation.{RESTORE}", MigrationError): lambda s: s.migrated(RESTORE, 1),
    (f"Conversation.{RESTORE}", ConversationState): lambda s: s.busy("restore"),
    (f"Conversation.{RESTORE}", InvalidOptions): lambda s: getattr(s.plain, RESTORE)("t"),
    ("Conversation.save_state", InvalidOptions): lambda s: s.plain.save_state("k"),
    ("Conversation.load_state", StateNotFound): lambda s: s.do("load_state"),
    ("Conversation.load_state", SchemaTooNew): lambda s: s.migrated("load_state", 4),
    ("Conversation.load_state", MigrationError): lambda s: s.migrated("load_state", 1),
    ("Conversation.load_state", ConversationState): lambda s: s.busy("load_state"),
    ("Conversation.load_state", InvalidOptions): lambda s: s.plain.load_state("k"),
    ("Engine.create", InvalidAgent): at_once(lambda s: s.engine.create(BROKEN)),
    ("Engine.attach", SessionNotFound): lambda s: s.engine.attach("nope", agent_of()[0]),
    ("Engine.attach", InvalidAgent): lambda s: s.wrongly_attached(),
    ("Engine.resume", SessionNotFound): lambda s: s.engine.resume("nope"),
    ("Engine.resume", AgentNotAttached): lambda s: s.of_another_engine(),
    ("EngineSession.resume", RunNotFound): lambda s: s.nothing_resumed(),
    ("EngineSession.resume", SessionNotFound): lambda s: s.deleted("resume"),
    ("EngineSession.send", SessionNotFound): lambda s: s.deleted("send"),
    ("EngineSession.resume", DecisionRefused): lambda s: s.wrongly_decided(),
}
ELSEWHERE = {
    ("Engine.create", "InvalidId"),
    ("Engine.create", "SessionExists"),
    ("Engine.local", "BackendNotInstalled"),
    ("Engine.local", "DirectoryInUse"),
    ("Engine.local", "InvalidOptions"),
    ("EngineSession.send", "SessionExists"),
}
"""What the engine's own tests provoke."""


def documented():
    """Return (name, error) for each line of each Raises: section."""
    for made in (Conversation, Engine, EngineSession):
        names = [name for name in vars(made) if not name.startswith("_")]
        members = [(f"{made.__name__}.{name}", getattr(made, name)) for name in names]
        for name, thing in [(made.__name__, made), *members]:
            _, _, section = (inspect.getdoc(thing) or "").partition("Raises:")
            for error in re.findall(r"^ {4}(\w+):", section, re.MULTILINE):
                yield name, error


def test_every_documented_error_is_provoked():
    """Each line of a Raises: section has a provocation, and none is left over."""
    provoked = {(name, error.__name__) for name, error in ERRORS}
    assert provoked | ELSEWHERE == set(documented())


@pytest.mark.parametrize(("name", "error"), ERRORS, ids=lambda one: getattr(one, "__name__", one))
async def test_documented_errors_are_raised(storage, name, error):
    """The call raises exactly the class its docstring names."""
    with pytest.raises(error) as caught:
        await ERRORS[name, error](Scene(storage))
    assert type(caught.value) is error
