"""The engine: sessions are what its catalog has, and behave as the agent attached to them."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

import durably
from builders import model, said, user
from durably import (
    CursorForeign,
    InputEntry,
    InvalidId,
    InvalidLimit,
    RunNotFound,
    SessionExists,
    SessionNotFound,
    Storage,
    StorageClosed,
    Unavailable,
)
from durably.logstore import LogId
from durably.testing import contents
from durably_runner import (
    Agent,
    AgentNotAttached,
    Decision,
    DecisionRefused,
    DirectoryInUse,
    Engine,
    InvalidAgent,
    InvalidOptions,
    RetryableModelError,
)
from durably_runner._decisions import KIND
from review_faults import FailsAtWrite
from review_job import Notes, agent_of, call, paid, paying, texts

pytest_plugins = ["redis_fixtures", "s3_fixtures", "review_places"]

ON_EVERY_BACKEND = True

WORKER = Path(__file__).parent / "support" / "review_engine_worker.py"


async def ids(storage, **more):
    """Return the sessions of a catalog."""
    return [one.session_id for one in (await storage.catalog.list(**more)).items]


async def everything(storage):
    """Return all that a storage holds."""
    return [line async for line in storage.export()]


def heard(page):
    return texts(item.entry for item in page.items)


async def test_a_created_handle_leaves_nothing(anywhere):
    """Not before its first async operation: no session, no record, nothing at all."""
    async with anywhere.open() as storage:
        before = await everything(storage)
        engine = Engine(storage)
        sessions = [engine.create(agent_of()[0]) for _ in range(3)]
        assert len({one.session_id for one in sessions}) == 3
        assert await everything(storage) == before
        assert await ids(storage, uncatalogued=True) == []
        for one in sessions:
            log = LogId(kind="session", id=one.session_id)
            assert await storage.log_store.read(log) is None
            with pytest.raises(SessionNotFound):
                await engine.resume(one.session_id)


async def test_a_created_handle_writes_no_byte(place):
    """The storage is the same below every contract, too."""
    async with place.open() as storage:
        await storage.catalog.create("another")
        before = await contents(storage.log_store)
        Engine(storage).create(agent_of()[0])
        await asyncio.sleep(0)
        assert await contents(storage.log_store) == before


async def _first_page(session):
    return [page async for page in session.pages()]


FIRST = {
    "send": lambda session: session.send("hello"),
    "history": lambda session: session.history(),
    "pages": _first_page,
}


@pytest.mark.parametrize("operation", FIRST)
async def test_the_first_async_operation_makes_it_a_session(anywhere, operation):
    """Whichever comes first puts it into the catalog, once, for every engine on the storage."""
    async with anywhere.open() as storage, anywhere.open() as other:
        engine = Engine(storage)
        session = engine.create(agent_of("Hello.")[0])
        await FIRST[operation](session)
        assert await ids(storage) == [session.session_id]
        assert (await engine.resume(session.session_id)).session_id == session.session_id
        again = Engine(other)
        await again.attach(session.session_id, agent_of()[0])
        resumed = await again.resume(session.session_id)
        entries = [item.entry for item in (await resumed.history()).items]
        assert entries == ([user("hello"), model("Hello.")] if operation == "send" else [])


async def test_resuming_a_run_is_an_async_operation_too(storage):
    """A new handle that looks for a run finds none, and is a session from then on."""
    session = Engine(storage).create(agent_of()[0])
    with pytest.raises(RunNotFound):
        await session.resume("nope")
    assert await ids(storage) == [session.session_id]


async def test_an_operation_that_fails_leaves_a_session_that_can_go_on(storage):
    """A model that fails at first is asked again by the same handle; there is one session."""
    answers = iter([RetryableModelError("busy"), "Hello."])

    def moody(_):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    session = Engine(storage).create(Agent(name="clerk", model=moody))
    with pytest.raises(RetryableModelError):
        await session.send("hello", idempotency_key="r")
    assert await ids(storage) == [session.session_id]
    assert (await session.send("hello", idempotency_key="r")).output == "Hello."
    assert await ids(storage) == [session.session_id]


@pytest.mark.parametrize("done", [False, True])
async def test_a_catalog_that_cannot_be_written_is_written_next_time(place, done):
    """Whether or not the entry was made when the answer was lost, the next operation goes on."""
    async with Storage(FailsAtWrite(place.log_store(), "session", 1, done=done)) as storage:
        session = Engine(storage).create(agent_of("Hello.")[0])
        with pytest.raises(Unavailable):
            await session.send("hello")
        assert (await session.send("hello")).output == "Hello."
        assert await ids(storage) == [session.session_id]


async def test_operations_at_once_make_one_session(storage):
    """Several first operations at once agree on one entry in the catalog."""
    session = Engine(storage).create(agent_of("Hello.")[0])
    attempts = (session.history(), session.send("hello"), session.history())
    _, result, _ = await asyncio.gather(*attempts)
    assert result.output == "Hello."
    assert await ids(storage) == [session.session_id]


async def test_an_unknown_id_is_no_session(storage):
    """It can be neither resumed nor attached to, and that makes none."""
    engine = Engine(storage)
    agent, _ = agent_of()
    for attempt in (engine.resume("nope"), engine.attach("nope", agent), engine.resume("nope")):
        with pytest.raises(SessionNotFound):
            await attempt
    assert await ids(storage, uncatalogued=True) == []


async def test_stray_records_make_no_session(anywhere):
    """Runs appended to an id that the catalog lacks can be neither resumed nor attached to."""
    async with anywhere.open() as storage:
        await storage.sessions.append("stray", said("hello"), run_id="r")
        engine = Engine(storage)
        for _ in range(2):
            with pytest.raises(SessionNotFound):
                await engine.attach("stray", agent_of()[0])
            with pytest.raises(SessionNotFound):
                await engine.resume("stray")
        assert await ids(storage) == []
        assert len(await storage.sessions.segments("stray")) == 1


async def test_a_session_that_was_deleted_is_none_any_more(storage):
    """Resume and attach ask the catalog every time, not what the engine remembers."""
    engine = Engine(storage)
    session = engine.create(agent_of("Hello.")[0])
    await session.send("hello")
    await storage.catalog.delete(session.session_id)
    with pytest.raises(SessionNotFound):
        await engine.resume(session.session_id)
    with pytest.raises(SessionNotFound):
        await engine.attach(session.session_id, agent_of()[0])


async def test_a_session_needs_an_agent_in_this_engine(storage):
    """Behaviour is never stored: another engine has none until one is attached."""
    session = Engine(storage).create(agent_of("Hello.")[0])
    await session.send("hello")
    engine = Engine(storage)
    with pytest.raises(AgentNotAttached) as refused:
        await engine.resume(session.session_id)
    assert refused.value.session_id == session.session_id
    assert "attach" in refused.value.hint
    await engine.attach(session.session_id, agent_of("Hello again.")[0])
    resumed = await engine.resume(session.session_id)
    assert (await resumed.send("hello")).output == "Hello again."


async def test_behaviour_comes_from_the_agent_that_is_attached(storage):
    """An agent attached in place of another one answers next, whoever answered before."""
    engine = Engine(storage)
    session = engine.create(agent_of("I am the first.", name="first")[0])
    await session.send("hello")
    second, asked = agent_of("I am the second.", name="second", instructions="Be second.")
    await engine.attach(session.session_id, second)
    result = await (await engine.resume(session.session_id)).send("and you?")
    assert (result.output, result.agent_name) == ("I am the second.", "second")
    (request,) = asked.requests
    assert (request.instructions, request.agent_name) == ("Be second.", "second")
    assert request.entries == [user("hello"), model("I am the first."), user("and you?")]


async def test_agents_that_cannot_work_are_refused():
    """An engine refuses them where they are given, not with the first message."""
    broken = Agent(name="clerk", model=agent_of()[1], handoffs=[agent_of(name="clerk")[0]])
    async with Engine() as engine:
        with pytest.raises(InvalidAgent):
            engine.create(broken)
        session = engine.create(agent_of("Hello.")[0])
        await session.history()
        with pytest.raises(InvalidAgent):
            await engine.attach(session.session_id, broken)
        resumed = await engine.resume(session.session_id)
        assert (await resumed.send("hello")).output == "Hello."


async def test_an_engine_is_volatile_by_default(tmp_path, monkeypatch):
    """Sessions last as long as the engine; another one has others, and no file is written."""
    monkeypatch.chdir(tmp_path)
    async with Engine() as first, Engine() as second:
        session = first.create(agent_of("Hello.", "Again.")[0])
        await session.send("hello")
        resumed = await first.resume(session.session_id)
        assert heard(await resumed.history()) == ["hello"]
        with pytest.raises(SessionNotFound):
            await second.resume(session.session_id)
    with pytest.raises(StorageClosed):
        await session.history()
    assert list(tmp_path.iterdir()) == []


async def test_a_storage_that_was_given_stays_open(storage):
    """Closing an engine leaves it to its owner, and another engine goes on with it."""
    async with Engine(storage) as engine:
        assert engine.storage is storage
        session = engine.create(agent_of("Hello.")[0])
        await session.send("hello")
    assert await ids(storage) == [session.session_id]
    async with Engine(storage) as engine:
        await engine.attach(session.session_id, agent_of()[0])
        resumed = await engine.resume(session.session_id)
        assert heard(await resumed.history()) == ["hello"]


async def test_a_message_sent_again_is_answered_once(storage):
    """With a key a send may be repeated: the first answer comes back, nothing is asked."""
    engine = Engine(storage)
    agent, asked = agent_of("Hello.")
    session = engine.create(agent)
    first = await session.send("hello", idempotency_key="r")
    again = await session.send("something else", idempotency_key="r")
    assert (first.output, again.output, again.is_replay) == ("Hello.", "Hello.", True)
    assert len(asked.requests) == 1
    assert heard(await session.history()) == ["hello"]
    assert await storage.checkpointer.load(first.run_id) is None


async def test_a_session_waits_for_a_person(anywhere):
    """A run that asks is resumed with a decision by another engine, and then joins the session."""
    notes = Notes()
    async with anywhere.open() as storage:
        session = Engine(storage).create(paying()[0])
        waits = await session.send("pay 5 to bob", deps=notes)
        assert (waits.status, heard(await session.history())) == ("interrupted", [])
    async with anywhere.open() as storage:
        engine = Engine(storage)
        agent, asked = paying()
        await engine.attach(session.session_id, agent)
        resumed = await engine.resume(session.session_id)
        again = await resumed.resume(waits.run_id, deps=notes)
        assert (again.interrupt, asked.requests, notes) == (waits.interrupt, [], [])
        decision = Decision.on(again.interrupt, approved=True, decided_by="ann")
        with pytest.raises(DecisionRefused):
            await resumed.resume(waits.run_id, _about_another(decision), deps=notes)
        done = await resumed.resume(waits.run_id, decision, deps=notes)
        assert (done.output, len(paid(notes))) == ("Done.", 1)
        assert heard(await resumed.history())[0] == "pay 5 to bob"
        once_more = await resumed.resume(waits.run_id, decision, deps=notes)
        assert (once_more.is_replay, len(paid(notes))) == (True, 1)


def _about_another(decision):
    return Decision(
        call_id="another",
        tool_name=decision.tool_name,
        arguments_digest=decision.arguments_digest,
        approved=True,
        decided_by="ann",
        decided_at=1.0,
    )


async def test_a_forged_decision_is_not_sent(storage):
    """What is sent is said, and decides nothing."""
    session = Engine(storage).create(paying()[0])
    with pytest.raises(InvalidOptions):
        await session.send(durably.CustomEntry(kind=KIND, data={}))
    assert await storage.sessions.segments(session.session_id) == []


async def test_history_is_read_in_pages(storage):
    """Pages are bounded, oldest first, and a cursor is of its session alone."""
    engine = Engine(storage)
    session = engine.create(agent_of("One.")[0])
    for number in range(3):
        await session.send(f"message {number}")
    page = await session.history(limit=4)
    assert [item.entry for item in page.items[:2]] == [user("message 0"), model("One.")]
    rest = await session.history(limit=4, after=page.next_cursor)
    assert (heard(page), heard(rest)) == (["message 0", "message 1"], ["message 2"])
    assert rest.next_cursor is None
    walked = [page async for page in session.pages(limit=2)]
    assert [heard(one) for one in walked] == [[f"message {n}"] for n in range(3)]
    with pytest.raises(InvalidLimit):
        await session.history(limit=257)
    other = engine.create(agent_of()[0])
    with pytest.raises(CursorForeign):
        await other.history(after=page.next_cursor)


async def test_history_shows_messages_unless_all_is_asked_for(storage):
    """Tool calls and results are left out by default, and there with types=None."""
    session = Engine(storage).create(agent_of([call("a", "work")], "Done.")[0])
    await session.send("hello", deps=Notes())
    assert len((await session.history()).items) == 2
    assert len((await session.history(types=None)).items) == 4
    assert [len(page.items) async for page in session.pages(types=None)] == [4]


def _worker(directory, *words):
    command = [sys.executable, str(WORKER), str(directory), *words]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **pipes)


def _told(directory, *words):
    with _worker(directory, *words) as process:
        told, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return json.loads(told)


def test_a_local_engine_is_durable_across_processes(tmp_path):
    """What one process said, the next one reads: from the directory and the id alone."""
    directory = tmp_path / "made%41?#" / "for it"
    said = _told(directory, "say")
    assert _told(directory, "look", said["session"]) == {"heard": ["one"]}


async def test_an_id_that_the_local_catalog_lacks(tmp_path):
    """A session of another directory cannot be attached to, and is not made."""
    async with Engine.local(tmp_path / "a") as first, Engine.local(tmp_path / "b") as second:
        session = first.create(agent_of("Hello.")[0])
        await session.send("hello")
        with pytest.raises(SessionNotFound):
            await second.attach(session.session_id, agent_of()[0])
        assert await ids(second.storage, uncatalogued=True) == []


async def test_two_engines_of_one_process_cannot_share_a_directory(tmp_path):
    """The second is refused however the directory is named, and the first goes on."""
    (tmp_path / "link").symlink_to(tmp_path / "d")
    async with Engine.local(tmp_path / "d") as engine:
        for name in ("d", "link", "d/../d"):
            with pytest.raises(DirectoryInUse) as refused:
                Engine.local(tmp_path / name)
            assert refused.value.hint
        session = engine.create(agent_of("Hello.")[0])
        assert (await session.send("hello")).output == "Hello."
    async with Engine.local(tmp_path / "d") as engine:
        assert await ids(engine.storage) == [session.session_id]


async def test_a_closed_engine_gives_its_directory_free_once(tmp_path):
    """Closing it twice does not take the lock from the one that has it by then."""
    first = Engine.local(tmp_path)
    await first.aclose()
    async with Engine.local(tmp_path):
        await first.aclose()
        with pytest.raises(DirectoryInUse):
            Engine.local(tmp_path)


async def test_a_local_engine_that_cannot_open_holds_no_lock(tmp_path, monkeypatch):
    """If there is no backend the directory is free for an engine that has one."""

    def missing(_):
        raise durably.BackendNotInstalled("there is none")

    with monkeypatch.context() as patch:
        patch.setattr(durably, "open", missing)
        with pytest.raises(durably.BackendNotInstalled):
            Engine.local(tmp_path)
    async with Engine.local(tmp_path):
        pass


def test_two_processes_cannot_share_a_directory(tmp_path):
    """The second gets a clear error, and goes on with the sessions when the first was killed."""
    with _worker(tmp_path, "hold") as holder:
        held = json.loads(holder.stdout.readline())
        refused = _told(tmp_path, "look", held["session"])
        assert refused["in use"] == str(tmp_path)
        assert "another engine uses the directory" in refused["said"]
        assert "one process at a time" in refused["hint"]
        with pytest.raises(DirectoryInUse):
            Engine.local(tmp_path)
        holder.kill()
        assert holder.wait(60) == -9
    assert _told(tmp_path, "look", held["session"]) == {"heard": ["one"]}


def test_a_process_that_ends_gives_its_directory_free(tmp_path):
    """A holder that leaves in good order is followed by another one at once."""
    with _worker(tmp_path, "hold") as holder:
        held = json.loads(holder.stdout.readline())
        holder.communicate(timeout=60)
    assert holder.returncode == 0
    assert _told(tmp_path, "look", held["session"]) == {"heard": ["one"]}


async def test_sends_of_one_session_come_one_after_another(storage):
    """Messages sent at once, through two handles, each see those before them."""

    async def count(request):
        await asyncio.sleep(0)
        return f"{sum(isinstance(entry, InputEntry) for entry in request.entries)}"

    engine = Engine(storage)
    agent = Agent(name="clerk", model=count)
    first = engine.create(agent)
    await first.send("0")
    second = await engine.resume(first.session_id)
    sent = [handle.send(str(n)) for n, handle in enumerate([first, second, first], 1)]
    told = await asyncio.gather(*sent)
    assert sorted(one.output for one in told) == ["2", "3", "4"]


async def test_one_message_sent_twice_at_once_is_one_run(storage):
    """Of two calls with one key, one runs and the other is answered by it."""
    agent, asked = agent_of("Hello.")
    session = Engine(storage).create(agent)
    told = await asyncio.gather(*(session.send("hi", idempotency_key="k") for _ in range(2)))
    assert [one.output for one in told] == ["Hello.", "Hello."]
    assert sorted(one.is_replay for one in told) == [False, True]
    assert len(asked.requests) == 1


async def test_a_session_may_have_an_id_of_its_own(storage):
    """An id may be given; one that is in the catalog, or in this engine, is refused."""
    agent, _ = agent_of("Hello.")
    engine = Engine(storage)
    assert (await engine.create(agent, "mine").send("hi")).session_id == "mine"
    assert [one.session_id for one in (await storage.catalog.list()).items] == ["mine"]
    with pytest.raises(SessionExists):
        engine.create(agent, "mine")
    late = Engine(storage).create(agent, "mine")
    for _ in range(2):
        with pytest.raises(SessionExists):
            await late.send("hi")
    with pytest.raises(InvalidId):
        engine.create(agent, "")


def test_a_file_is_no_directory(tmp_path):
    """An engine in a file's place is refused in words."""
    (tmp_path / "file").touch()
    with pytest.raises(InvalidOptions, match="cannot be a directory"):
        Engine.local(tmp_path / "file")
