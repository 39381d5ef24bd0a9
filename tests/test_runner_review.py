"""A tool hands a run to a person: what is stored, what comes back, and what does not run."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import durably
from builders import model
from durably import InterruptReason, Storage, Unavailable
from durably_runner import (
    CheckpointOptions,
    Decision,
    Interrupt,
    ModelAnswered,
    RunInterrupted,
    RunLimits,
    Runner,
    RunStarted,
    ToolFinished,
    ToolStarted,
    TurnStarted,
    tool,
)
from durably_runner._decisions import digest_of
from review_faults import FailsAtWrite
from review_job import (
    RUN_ID,
    THREAD_ID,
    Notes,
    agent_of,
    call,
    issue,
    results,
    thread_of,
)
from runner_job import read_ledger

pytest_plugins = ["redis_fixtures", "s3_fixtures", "review_places"]

ON_EVERY_BACKEND = True

WORKER = Path(__file__).parent / "support" / "review_worker.py"
WAITS = "Not executed: it waits for a person. a question"
OTHER_WAITS = "Not executed: another call waits for a person."
BOTH_WAIT = "Not executed: it needs a person, and another call waits for one."


async def test_an_interrupt_is_stored_whole_and_gives_control_back(anywhere):
    """Reason, data and the bound call come back, and are in the head and in the snapshot."""
    notes, asking = Notes(), call("c1", "ask")
    agent, asked = agent_of([asking], "never asked for")
    async with anywhere.open() as storage:
        result = await issue(storage, agent, notes, thread=thread_of(storage))
    expected = InterruptReason(
        call_id="c1",
        tool_name="ask",
        arguments_digest=digest_of(asking, RUN_ID),
        reason="a question",
        data={"of": "c1", "more": [1, None, {"deep": "ü"}]},
    )
    assert (result.status, result.interrupt, result.output) == ("interrupted", expected, None)
    assert (len(asked.requests), notes) == (1, [("asked", "c1")])
    async with anywhere.open() as storage:
        run = await storage.checkpointer.load(RUN_ID)
        latest = await thread_of(storage).saver.latest(THREAD_ID)
    assert (run.head.status, run.head.interrupt, run.head.error) == ("interrupted", expected, None)
    assert (latest.snapshot.status, latest.snapshot.interrupt) == ("interrupted", expected)
    assert latest.snapshot.messages == run.entries == list(result.entries)


async def test_the_call_that_asks_gets_a_friendly_result(storage):
    """The model is told that the call was not executed and waits, and it is no error."""
    agent, _ = agent_of([call("c1", "ask")])
    result = await issue(storage, agent, Notes())
    assert results(result.entries) == [("c1", WAITS, False)]


async def test_an_interrupted_run_is_not_in_its_session(storage):
    """Nothing of a run that waits is appended to the session, however often it is issued."""
    agent, _ = agent_of([call("c1", "ask")])
    where = {"session": storage.sessions, "session_id": "s"}
    for _ in range(3):
        result = await issue(storage, agent, Notes(), **where)
        assert result.status == "interrupted"
    assert await storage.sessions.segments("s") == []


async def test_a_waiting_run_issued_ten_times_calls_nothing(anywhere):
    """Whoever issues it again gets the same interrupt: no model, no tool, no write to the run."""
    agent, _ = agent_of([call("c1", "ask")])
    async with anywhere.open() as storage:
        first = await issue(storage, agent, Notes())
        before = await storage.checkpointer.load(RUN_ID)
    for number in range(10):
        notes, (agent, asked) = Notes(), agent_of([call("c1", "ask")], "more")
        async with anywhere.open() as storage:
            again = await issue(storage, agent, notes, said=f"another input {number}")
            assert await storage.checkpointer.load(RUN_ID) == before
        assert (again.interrupt, again.entries) == (first.interrupt, first.entries)
        assert (again.status, asked.requests, notes) == ("interrupted", [], [])


async def test_a_stream_ends_with_the_interrupt():
    """RunInterrupted is the last event; for a run that waits already it is the only one."""
    agent, _ = agent_of([call("c1", "ask")])
    async with durably.open("memory://") as storage:
        options = {"checkpoint": CheckpointOptions(storage.checkpointer, RUN_ID)}
        kinds = []
        for _ in range(2):
            events = [one async for one in Runner.stream(agent, "x", deps=Notes(), **options)]
            kinds.append([type(one) for one in events])
    before = [RunStarted, TurnStarted, ModelAnswered, ToolStarted, ToolFinished]
    assert kinds == [[*before, RunInterrupted], [RunInterrupted]]
    assert events[-1].result.interrupt.call_id == "c1"


@pytest.mark.parametrize("limits", [RunLimits(max_turns=1), RunLimits(timeout=1e-9)])
async def test_limits_do_not_reach_a_run_that_waits(storage, limits):
    """A run that waits is handed back under whatever limits it is issued again."""
    agent, _ = agent_of([call("c1", "ask")])
    first = await issue(storage, agent, Notes())
    assert (await issue(storage, agent, Notes(), limits=limits)).interrupt == first.interrupt


async def test_calls_in_order_after_one_that_asks_are_not_executed(storage):
    """Calls of one id run one after another: those before the asking one are kept, none after."""
    batch = [call("c", "work"), call("c", "ask"), call("c", "work"), call("c", "pay", amount=1)]
    agent, _ = agent_of(batch)
    notes = Notes()
    result = await issue(storage, agent, notes)
    assert notes == [("begun", "c"), ("finished", "c"), ("asked", "c")]
    assert results(result.entries) == [
        ("c", "did c", False),
        ("c", WAITS, False),
        ("c", OTHER_WAITS, True),
        ("c", OTHER_WAITS, True),
    ]
    assert (await storage.checkpointer.load(RUN_ID)).entries == list(result.entries)


async def test_of_a_parallel_batch_what_ran_is_kept_and_the_rest_is_recorded(anywhere):
    """What had begun ends and is kept; what had not is recorded as not executed; none is open."""
    batch = [call("a", "work"), call("b", "ask"), call("c", "work"), call("d", "nobody")]
    agent, _ = agent_of(batch)
    notes = Notes()
    async with anywhere.open() as storage:
        result = await issue(storage, agent, notes)
        stored = (await storage.checkpointer.load(RUN_ID)).entries
    assert notes == [("begun", "a"), ("asked", "b"), ("finished", "a")]
    got = {call_id: (output, is_error) for call_id, output, is_error in results(result.entries)}
    assert got == {
        "a": ("did a", False),
        "b": (WAITS, False),
        "c": (OTHER_WAITS, True),
        "d": (OTHER_WAITS, True),
    }
    assert stored == list(result.entries)
    assert durably.pending_tool_calls(stored) == []


async def test_a_result_that_comes_after_the_interrupt_does_not_lose_it(storage):
    """The run waits for the call that asked, however long the others still took."""
    agent, _ = agent_of([call("b", "ask"), call("a", "work")], [call("a", "work")])
    slow, _ = agent_of([call("a", "work"), call("b", "ask")])
    for run_id, one in (("asks first", agent), ("asks last", slow)):
        result = await issue(storage, one, Notes(), run_id=run_id)
        head = (await storage.checkpointer.load(run_id)).head
        assert (head.interrupt, head.status) == (result.interrupt, "interrupted")
        assert head.interrupt.call_id == "b"


async def test_of_two_that_ask_at_once_the_first_is_waited_for(storage):
    """One interrupt is stored; the other call is recorded as not executed, and may ask again."""
    batch = [call("a", "ask_blocking"), call("b", "ask_blocking")]
    agent, _ = agent_of(batch, [call("c", "ask")])
    result = await issue(storage, agent, Notes())
    got = {call_id: (output, is_error) for call_id, output, is_error in results(result.entries)}
    waited_for = result.interrupt.call_id
    (other,) = {"a", "b"} - {waited_for}
    assert got[waited_for] == (WAITS, False)
    assert got[other][0] in {BOTH_WAIT, OTHER_WAITS}
    assert got[other][1]
    assert result.interrupt.data == {"of": waited_for}


async def test_two_that_have_both_begun_before_either_asks(storage):
    """A tool that asks while another one is waited for is told so, and its reason is not kept."""
    both = asyncio.Barrier(2)

    @tool
    async def meet(name: str) -> str:
        """Wait for the other one, then ask."""
        await both.wait()
        raise Interrupt(f"from {name}")

    agent, _ = agent_of([call(one, "meet", name=one) for one in "ab"], tools=[meet])
    result = await issue(storage, agent, Notes())
    waited_for = result.interrupt.call_id
    (other,) = {"a", "b"} - {waited_for}
    assert (other, BOTH_WAIT, True) in results(result.entries)
    assert result.interrupt.reason == f"from {waited_for}"


async def test_a_handoff_of_the_same_batch_is_kept(storage):
    """A handoff that fired before a call asked is stored, and completed after the decision."""
    target, heard = agent_of("", "I am the other.", name="other")
    batch = [call("t", "transfer_to_other"), call("b", "pay", amount=1)]
    agent, asked = agent_of(batch, handoffs=[target])
    result = await issue(storage, agent, Notes())
    head = (await storage.checkpointer.load(RUN_ID)).head
    assert (head.agent_name, head.pending_handoff) == ("clerk", "other")
    decision = Decision.on(result.interrupt, approved=True, decided_by="ann")
    done = await issue(storage, agent, Notes(), decision=decision)
    assert (done.output, done.agent_name) == ("I am the other.", "other")
    assert (len(asked.requests), len(heard.requests)) == (1, 1)


async def test_a_handoff_after_a_call_that_asked_does_not_fire(storage):
    """A handoff that had not fired when a person was asked is recorded as not executed."""
    target, _ = agent_of(name="other")
    batch = [call("b", "ask"), call("t", "transfer_to_other")]
    agent, _ = agent_of(batch, handoffs=[target])
    result = await issue(storage, agent, Notes())
    assert ("t", OTHER_WAITS, True) in results(result.entries)
    assert (await storage.checkpointer.load(RUN_ID)).head.pending_handoff is None


@pytest.mark.parametrize("done", [False, True])
async def test_a_crash_between_the_interrupt_and_its_snapshot_heals(place, done):
    """Issued again, a run that waits is shown by its thread, once, and nothing is called."""
    agent, _ = agent_of([call("c1", "ask")])
    async with Storage(FailsAtWrite(place.log_store(), "thread", 1, done=done)) as storage:
        with pytest.raises(Unavailable):
            await issue(storage, agent, Notes(), thread=thread_of(storage))
    async with place.open() as storage:
        thread, notes = thread_of(storage), Notes()
        assert (await thread.saver.latest(THREAD_ID) is not None) == done
        for _ in range(3):
            agent, asked = agent_of()
            result = await issue(storage, agent, notes, thread=thread)
            assert (asked.requests, notes) == ([], [])
            (only,) = await thread.saver.list(THREAD_ID)
            assert (only.snapshot.status, only.snapshot.interrupt) == (
                "interrupted",
                result.interrupt,
            )
            assert only.snapshot.messages == list(result.entries)


@pytest.mark.parametrize("before", ["work", "ask"])
async def test_a_thread_that_shows_an_earlier_turn_heals(place, before):
    """Whatever the thread showed last, another interrupt included, it shows what is asked now."""
    agent, _ = agent_of([call("c0", before)], [call("c1", "ask")])
    async with Storage(FailsAtWrite(place.log_store(), "thread", 2)) as storage:
        decision = None
        if before == "ask":
            first = await issue(storage, agent, Notes(), thread=thread_of(storage))
            decision = Decision.on(first.interrupt, approved=False, decided_by="ann")
        with pytest.raises(Unavailable):
            await issue(storage, agent, Notes(), thread=thread_of(storage), decision=decision)
    async with place.open() as storage:
        for _ in range(2):
            result = await issue(storage, agent, Notes(), thread=thread_of(storage))
            newest, _ = await thread_of(storage).saver.list(THREAD_ID)
            assert newest.snapshot.interrupt == result.interrupt
            assert result.interrupt.call_id == "c1"


async def test_a_healed_snapshot_holds_the_whole_transcript(storage):
    """What the session held before the run is in the snapshot that a repeated issue makes up."""
    await storage.sessions.append("s", [model("earlier")], run_id="earlier")
    agent, _ = agent_of([call("c1", "ask")])
    where = {"session": storage.sessions, "session_id": "s"}
    await issue(storage, agent, Notes(), **where)
    result = await issue(storage, agent, Notes(), thread=thread_of(storage), **where)
    latest = await thread_of(storage).saver.latest(THREAD_ID)
    assert latest.snapshot.messages == [model("earlier"), *result.entries]


@pytest.mark.parametrize("done", [False, True])
async def test_a_process_that_dies_as_it_saves_an_interrupt(place, done):
    """Where it was stored, the run waits; where not, the call is open and asks again."""
    agent, _ = agent_of([call("c1", "ask")])
    store = FailsAtWrite(place.log_store(), "run", 3, done=done, for_ever=True)
    async with Storage(store) as storage:
        with pytest.raises(Unavailable):
            await issue(storage, agent, Notes())
    async with place.open() as storage:
        run = await storage.checkpointer.load(RUN_ID)
        assert (run.head.interrupt is not None) == done
        assert len(durably.pending_tool_calls(run.entries)) == (not done)
        notes, (agent, asked) = Notes(), agent_of()
        result = await issue(storage, agent, notes)
        assert (result.interrupt.call_id, asked.requests) == ("c1", [])
        assert notes == ([] if done else [("asked", "c1")])


@pytest.mark.parametrize("done", [False, True])
async def test_a_lost_answer_does_not_lose_what_a_run_waits_for(place, done):
    """If saving an interrupt fails and the next save works, the run still waits for the person."""
    agent, _ = agent_of([call("c1", "ask")])
    store = FailsAtWrite(place.log_store(), "run", 3, done=done)
    async with Storage(store) as storage:
        with pytest.raises(Unavailable):
            await issue(storage, agent, Notes())
        notes, (agent, asked) = Notes(), agent_of([call("c1", "ask")], "Nobody was asked.")
        result = await issue(storage, agent, notes)
    assert (result.status, asked.requests, notes) == ("interrupted", [], [])
    assert result.interrupt.call_id == "c1"


@pytest.mark.parametrize("done", [False, True])
async def test_a_lost_answer_does_not_lose_a_handoff(place, done):
    """If saving a handoff fails and the next save works, the handoff is completed all the same."""
    target, heard = agent_of("", "I am the other.", name="other")
    agent, _ = agent_of([call("t", "transfer_to_other")], "I am still there.", handoffs=[target])
    store = FailsAtWrite(place.log_store(), "run", 3, done=done)
    async with Storage(store) as storage:
        with pytest.raises(Unavailable):
            await issue(storage, agent, Notes())
        result = await issue(storage, agent, Notes())
    assert (result.output, len(heard.requests)) == ("I am the other.", 1)


@pytest.mark.parametrize("done", [False, True])
async def test_a_lost_answer_does_not_lose_a_turn(place, done):
    """If saving a model's answer fails and the next save works, the turn counts all the same."""
    agent, asked = agent_of([call("a", "work")], "Done.")
    async with Storage(FailsAtWrite(place.log_store(), "run", 2, done=done)) as storage:
        with pytest.raises(Unavailable):
            await issue(storage, agent, Notes())
        result = await issue(storage, agent, Notes())
    assert [request.turn for request in asked.requests] == [1, 2]
    assert (result.turns, result.usage.requests, result.output) == (2, 2, "Done.")


@pytest.mark.parametrize("data", [{1, 2}, "x" * 100_000], ids=["no JSON", "too large"])
async def test_a_reason_that_cannot_be_stored_is_told_to_the_model(storage, data):
    """Data that is no JSON, or too large, asks nobody: the call gets an error, the run goes on."""

    @tool
    def vague() -> str:
        """Ask with what nobody can be shown."""
        raise Interrupt("a question", data)

    agent, _ = agent_of([call("c1", "vague")], "Sorry.", tools=[vague])
    result = await issue(storage, agent, Notes())
    assert (result.status, result.output, result.interrupt) == ("completed", "Sorry.", None)
    assert [is_error for _, _, is_error in results(result.entries)] == [True]


async def test_without_a_checkpoint_the_interrupt_comes_back_too():
    """A run that is stored nowhere still gives control back with what it waits for."""
    agent, asked = agent_of([call("c1", "ask")], "no")
    result = await Runner.run(agent, "x", deps=Notes())
    assert (result.status, result.interrupt.reason) == ("interrupted", "a question")
    assert len(asked.requests) == 1


def test_an_interrupt_is_an_exception_of_its_own():
    """Its text is the reason; a tool that catches errors of the storage lets it pass."""
    interrupt = Interrupt("why", {"a": 1})
    assert (str(interrupt), interrupt.reason, interrupt.data) == ("why", "why", {"a": 1})
    assert not isinstance(interrupt, durably.DurablyError)


def _in_another_process(url, ledger, step):
    """Run the worker, and return what it tells."""
    command = [sys.executable, str(WORKER), url, str(ledger), step]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_another_process_decides(outside, tmp_path):
    """With the URL and an id alone: ten times nothing is called; decided, it is paid once."""
    ledger = tmp_path / "ledger"
    begun, waiting, decided = (
        _in_another_process(outside.url, ledger, step) for step in ("begin", "look", "decide")
    )
    assert len({os.getpid(), begun["pid"], waiting["pid"], decided["pid"]}) == 4
    for way in ("run", "thread"):
        interrupt = begun[way]["interrupt"]
        assert interrupt["data"] == {"amount": 5, "to": "bob"}
        assert begun[way] == {"status": "interrupted", "asked": 1, "interrupt": interrupt}
        assert waiting[way] == {"looks": [[interrupt, 0]] * 10}
        assert decided[way] == {"output": "Done.", "asked": 2}
        (only,) = read_ledger(Path(f"{ledger}-{way}"))
        assert only[:2] == ["paid", "5"]


async def test_a_request_raised_together_with_others_is_one(storage):
    """A tool whose tasks ask for a person, and fail, in a group hands the run to a person."""

    async def fail():
        raise ValueError("no")

    async def ask():
        raise Interrupt("a question", 7)

    @tool
    async def both() -> None:
        """Do two things at once."""
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            group.create_task(ask())

    @tool
    async def neither() -> None:
        """Fail twice at once."""
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    agent, _ = agent_of([call("n", "neither")], [call("b", "both")], tools=[both, neither])
    result = await issue(storage, agent, Notes())
    assert (result.interrupt.call_id, result.interrupt.data) == ("b", 7)
    assert [is_error for _, _, is_error in results(result.entries)] == [True, False]
