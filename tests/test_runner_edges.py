"""What a run meets at its edges: odd results, late workers, other sessions, forks, past calls."""

import asyncio
import enum
import os

import pytest

from builders import call, model, user
from durably import (
    CustomEntry,
    NotSerializable,
    RunNotFound,
    Storage,
    ToolCallEntry,
    ToolResultEntry,
)
from durably_runner import (
    Agent,
    Conversation,
    Decision,
    DirectoryInUse,
    Engine,
    InvalidAgent,
    InvalidOptions,
    RunLimits,
    Runner,
    ToolContext,
    tool,
)
from runner_scenes import (
    SESSION_ID,
    Dies,
    calls,
    costly,
    plant,
    run,
    scripted,
    segments,
    stored,
    turns,
    work,
)


class Named(enum.StrEnum):
    """Text of a class of its own."""

    ONE = "one"


class Text(str):
    """Text as libraries return it that know where it came from."""

    __slots__ = ()

    def __str__(self):
        return "another text"


class Speechless(Exception):
    """An exception that cannot say what it is."""

    def __str__(self):
        raise RuntimeError("nor why")


@pytest.mark.parametrize(
    ("returned", "output"),
    [
        (Named.ONE, "one"),
        (Text("two"), "two"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ud83d", "\ud83d"),
    ],
    ids=["enum", "subclass", "halves that meet", "half"],
)
async def test_any_text_is_a_result(storage, returned, output):
    """Text of whatever class is the result, as text; halves of a character that meet are one."""

    @tool
    def say() -> str:
        """Say it."""
        return returned

    ended = await run(scripted([call("a", "say")], "done", tools=[say]), storage=storage)
    (result,) = [entry for entry in ended.entries if isinstance(entry, ToolResultEntry)]
    assert (result.output, type(result.output), result.is_error) == (output, str, False)


@pytest.mark.parametrize("error", [Speechless(), ValueError("\ud83d\ude00")])
async def test_what_an_exception_says_of_itself_ends_no_run(storage, error):
    """An exception without words, or with words that cannot be stored, is told all the same."""

    @tool
    def fail() -> str:
        """Fail."""
        raise error

    ended = await run(scripted([call("a", "fail")], "done", tools=[fail]), storage=storage)
    (result,) = [entry for entry in ended.entries if isinstance(entry, ToolResultEntry)]
    assert result.is_error
    assert result.output.startswith(type(error).__name__)


async def test_a_model_that_fails_without_words_leaves_its_status(storage):
    """The first error is raised, and the run is failed, whatever the error says of itself."""

    def respond(_):
        raise Speechless

    with pytest.raises(Speechless):
        await run(Agent(name="clerk", model=respond), storage=storage)
    assert (await stored(storage)).head.status == "failed"


async def test_a_restart_that_cannot_begin_discards_nothing(storage):
    """Input that is no JSON, or a decision, is refused while the stored run is still there."""
    before = await plant(storage, "running")
    options = {"storage": storage, "if_run_exists": "restart"}
    with pytest.raises(NotSerializable):
        await run(scripted("done"), CustomEntry(kind="x", data={1, 2}), **options)
    assert await stored(storage) == before


async def test_a_late_worker_runs_no_finished_run_again(place):
    """A worker that was overtaken by all of a run, deletion included, replays it."""
    did = []
    async with place.open() as fast, place.open() as slow:

        class Late(type(slow.sessions)):
            """Lets the other worker do all of it between its look at the session and its claim."""

            async def segments(self, session_id):
                found = await super().segments(session_id)
                if not did:
                    await run(
                        scripted(calls("a"), "first"),
                        storage=fast,
                        delete_on_success=True,
                        deps=did,
                    )
                return found

        slow._sessions = Late(slow.log_store)
        agent = scripted(calls("a"), "second")
        ended = await run(agent, storage=slow, delete_on_success=True, deps=did)
        assert (ended.output, ended.is_replay, did, turns(agent)) == ("first", True, ["a"], [])
        assert await segments(fast) == ["r"]
        assert await stored(fast) is None


async def test_sessions_of_an_engine_share_no_run():
    """The same key in two sessions is two runs; no session resumes the run of another."""
    async with Engine() as engine:
        one, other = (
            engine.create(Agent(name="n", model=lambda r: r.entries[-1].content)) for _ in range(2)
        )
        first = await one.send("my secret", idempotency_key="1")
        second = await other.send("hello", idempotency_key="1")
        assert (first.output, second.output) == ("my secret", "hello")
        with pytest.raises(RunNotFound):
            await other.resume(first.run_id)
        assert (await one.resume(first.run_id)).is_replay


async def test_an_error_of_a_session_names_the_run():
    """Whoever did not choose a key finds the run to be resumed in the error's notes."""
    answers = iter([ConnectionError("busy"), "Hello."])

    def moody(_):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with Engine() as engine:
        session = engine.create(Agent(name="n", model=moody))
        with pytest.raises(ConnectionError) as caught:
            await session.send("hi")
        (page,) = ([run.run_id for run in (await engine.storage.checkpointer.runs()).items],)
        assert page[0] in caught.value.__notes__[0]
        assert (await session.resume(page[0])).output == "Hello."


async def test_a_nested_run_is_counted_once(place):
    """A crash between a nested run's end and its saved result does not count it twice."""
    inner = scripted(costly(model("inner"), tokens=100), name="inner")

    def outer(storage):
        @tool
        async def delegate(context: ToolContext) -> str:
            """Run another agent."""
            ended = await run(
                inner, storage=storage, session=False, run_id="nested", parent_usage=context.usage
            )
            await asyncio.sleep(0.01)  # its sibling's result is saved meanwhile
            return ended.output

        batch = [call("d", "delegate"), call("w", "work")]
        return scripted(batch, "done", tools=[delegate, work])

    async with Storage(Dies(place.log_store(), 9)) as broken:
        with pytest.raises(ConnectionError):
            await run(outer(broken), storage=broken, session=False)
    async with place.open() as storage:
        assert (await stored(storage, "nested")).head.status == "completed"
        ended = await run(outer(storage), storage=storage, session=False)
        assert ended.usage.input_tokens == 100


async def test_a_key_is_of_one_call(storage):
    """After a restart the same id with other arguments has another key, the same call the same."""
    keys = []

    @tool
    def pay(context: ToolContext, to: str) -> str:
        """Pay."""
        keys.append(context.idempotency_key)
        return to

    for to in ("bob", "eve", "bob"):
        asking = [ToolCallEntry(call_id="0", name="pay", arguments=f'{{"to": "{to}"}}')]
        agent = scripted(asking, "done", tools=[pay])
        await run(agent, storage=storage, session=False, if_run_exists="restart")
    assert keys[0] == keys[2] != keys[1]


@pytest.mark.parametrize("state", ["running", "interrupted", "failed", "waiting"])
async def test_a_run_that_its_session_has_is_over(storage, state):
    """What was recorded as finished, its checkpoint left by a crash, is replayed and not run."""
    kept = await plant(storage, state)
    await storage.sessions.append(SESSION_ID, [*kept.entries, model("so far")], run_id="r")
    agent, did = scripted("never", "never"), []
    ended = await run(agent, storage=storage, deps=did)
    assert (ended.output, ended.is_replay, did, turns(agent)) == ("so far", True, [], [])
    assert await stored(storage) is None


async def test_a_call_left_open_in_the_past_is_not_shown(storage):
    """A session's earlier runs are shown to a model as it would accept them."""
    await storage.sessions.append(SESSION_ID, [user("old"), call("x", "work")], run_id="past")
    agent = scripted("done")
    await run(agent, storage=storage)
    assert agent.model.requests[0].entries == [user("old"), user("new")]


async def test_a_time_limit_holds_for_the_claim_too(place):
    """A store that does not answer the claim in time leaves no call waiting."""

    class Stuck(Dies):
        async def append(self, log, batch):
            if log.kind == "run":
                await asyncio.sleep(5)
            return await super().append(log, batch)

    async with Storage(Stuck(place.log_store(), 10**9)) as storage:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(20):
                await run(scripted("done"), storage=storage, limits=RunLimits(timeout=0.05))


async def test_an_answer_of_an_applications_own_entry_is_one(storage):
    """A last word that is the application's own entry is no reason to ask again."""
    await plant(storage, "running", [user("go"), CustomEntry(kind="mine")], turns=1)
    agent = scripted("never", "never")
    assert (await run(agent, storage=storage)).output == ""
    assert turns(agent) == []


def test_a_fork_neither_keeps_nor_frees_a_directory(tmp_path):
    """A forked child holds no lock of its parent's, and cannot free it."""
    engine = Engine.local(tmp_path)
    ready, wait = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ready[1], b".")
        os.read(wait[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    try:
        with pytest.raises(DirectoryInUse):
            Engine.local(tmp_path)
        asyncio.run(engine.aclose())
        asyncio.run(Engine.local(tmp_path).aclose())
    finally:
        os.write(wait[1], b".")
        os.waitpid(child, 0)


@pytest.mark.parametrize(
    "options",
    [{"model": "gpt"}, {"model": str, "tools": [print]}, {"model": str, "tools": work}],
    ids=["model", "function", "no list"],
)
def test_an_agent_of_the_wrong_parts_is_refused(options):
    """A model that cannot be asked, and a tool that is none, are refused in words, at once."""
    with pytest.raises(InvalidAgent, match="clerk"):
        Agent(name="clerk", **options)


def test_a_method_is_no_tool():
    """A method offers a model no ``self``, and an optional context is said to be wrong."""
    with pytest.raises(InvalidAgent, match="method"):

        class Some:
            @tool
            def method(self) -> str:
                """Do."""

    with pytest.raises(InvalidAgent, match="ToolContext itself"):

        @tool
        def optional(context: ToolContext | None = None) -> str:
            """Do."""


@pytest.mark.parametrize("given", [{"role": "user"}, [{"role": "user"}], 3, None])
async def test_an_input_that_is_no_entry_is_refused(given):
    """What is neither text nor entries is refused in words."""
    with pytest.raises(InvalidOptions, match="text, an entry"):
        await Runner.run(scripted("done"), given)


async def test_the_wrong_store_is_refused(storage):
    """A storage in place of its sessions, or of options, is named as what it is."""
    agent = scripted("done")
    with pytest.raises(InvalidOptions, match="session is Storage"):
        await Runner.run(agent, "hi", session=storage, session_id="s")
    with pytest.raises(InvalidOptions, match="checkpoint is LogCheckpointer"):
        await Runner.run(agent, "hi", checkpoint=storage.checkpointer)


async def test_a_model_may_answer_at_once():
    """A ``respond`` that is no coroutine is as good as one."""

    class Model:
        def respond(self, request):
            return f"turn {request.turn}"

    assert (await Runner.run(Agent(name="n", model=Model()), "hi")).output == "turn 1"


async def test_a_conversation_keeps_what_the_application_says_of_it(storage):
    """``extra`` is saved and restored with the conversation."""
    agent = scripted("done")
    talk = Conversation(agent, states=storage.states)
    talk.extra["ticket"] = 7
    await talk.run("hi")
    await talk.save_state("k")
    other = Conversation(agent, states=storage.states)
    await other.load_state("k")
    assert other.extra["ticket"] == 7


def test_nothing_asked_is_nothing_to_decide():
    """A decision about no interrupt is refused in words."""
    with pytest.raises(InvalidOptions, match="nothing to decide"):
        Decision.on(None, approved=True, decided_by="ann")
