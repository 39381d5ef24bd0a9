"""What exceptions leave behind: a status, a run that can be issued again, and the first error."""

import asyncio
import logging

import pytest

from builders import call
from durably import (
    NotSerializable,
    RevisionConflict,
    Storage,
    ToolResultEntry,
    Unavailable,
    pending_tool_calls,
)
from durably_runner import (
    LimitExceeded,
    RetryableModelError,
    RunLimits,
    tool,
)
from runner_scenes import (
    RUN_ID,
    Dies,
    Tape,
    calls,
    plant,
    run,
    scripted,
    segments,
    stored,
    turns,
)

INTERRUPTED = [
    asyncio.CancelledError(),
    KeyboardInterrupt("Ctrl-C"),
    TimeoutError("the model was slow"),
    ConnectionError("reset"),
    ConnectionResetError("reset"),
    RetryableModelError("429"),
    Unavailable("another store is gone"),
    LimitExceeded("r", "budget", 3),
]
FAILED = [ValueError("no"), RuntimeError(""), KeyError("k"), IndexError("x"), OSError("disk")]


def raising(error):
    """Return an agent whose model calls a tool once, and then raises."""

    def respond(request):
        if request.turn == 1:
            return call("a", "work")
        raise error

    agent = scripted()
    return type(agent)(name="clerk", model=respond, tools=agent.tools)


@pytest.mark.parametrize(
    ("error", "status"),
    [(error, "interrupted") for error in INTERRUPTED] + [(error, "failed") for error in FAILED],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_a_status_is_made_from_the_exception(storage, error, status):
    """The exception is raised as it is, and the run has the status and the words of it."""
    if isinstance(error, KeyboardInterrupt):
        error = asyncio.CancelledError("told to stop")
    with pytest.raises(type(error)) as caught:
        await run(raising(error), storage=storage)
    assert caught.value is error
    kept = await stored(storage)
    told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    assert (kept.head.status, kept.head.error) == (status, told)
    assert (kept.head.turns, len(kept.entries)) == (1, 3)
    assert await segments(storage) == []
    agent = scripted("?", "done")
    ended = await run(agent, storage=storage)
    assert (ended.output, turns(agent)) == ("done", [2])
    assert (await stored(storage)).head.error is None


async def test_a_run_is_running_while_it_runs(storage):
    """The claim says running, so that a crash leaves that."""
    seen = []

    @tool
    async def look() -> str:
        """Look at the run."""
        seen.append((await stored(storage)).head)
        return ""

    await plant(storage, "failed")
    await run(scripted("?", calls("b", name="look"), "done", tools=[look]), storage=storage)
    assert (seen[0].status, seen[0].error) == ("running", None)


async def test_a_time_out_interrupts(storage):
    """limits.timeout ends the run with TimeoutError, wherever it is, and can be gone on from."""

    @tool
    async def hang() -> str:
        """Hang."""
        await asyncio.Event().wait()
        return ""

    agent = scripted(calls("a", name="hang"), tools=[hang])
    with pytest.raises(TimeoutError):
        await run(agent, storage=storage, limits=RunLimits(timeout=0.05))
    kept = await stored(storage)
    assert (kept.head.status, kept.head.error) == ("interrupted", "TimeoutError")
    assert [one.call_id for one in pending_tool_calls(kept.entries)] == ["a"]


async def test_a_limit_interrupts(storage):
    """max_turns ends the run with LimitExceeded before the model is asked."""
    agent = scripted(calls("a"), calls("b"), "done")
    with pytest.raises(LimitExceeded, match="max_turns=2"):
        await run(agent, storage=storage, limits=RunLimits(max_turns=2))
    assert turns(agent) == [1, 2]
    kept = await stored(storage)
    assert (kept.head.status, kept.head.turns) == ("interrupted", 2)


async def test_an_entry_that_cannot_be_stored_fails_the_run(storage):
    """A model answer that is no JSON is refused before a byte of it is stored."""
    answer = ToolResultEntry(call_id="a", output="", raw={1})
    with pytest.raises(NotSerializable):
        await run(scripted([answer]), storage=storage)
    kept = await stored(storage)
    assert (kept.head.status, len(kept.entries)) == ("failed", 1)


async def test_the_same_is_refused_where_nothing_is_stored():
    """Without a checkpoint a run refuses what it could not store with one."""
    with pytest.raises(NotSerializable):
        await run(scripted([ToolResultEntry(call_id="a", output="", raw={1})]))


async def test_a_failed_terminal_save_is_logged_and_hides_nothing(place, caplog):
    """If the status cannot be saved either, that is logged, with the id and without content."""
    store = Dies(place.log_store(), 6)  # read, claim, answer, result: the status is the next
    async with Storage(store) as storage:
        with pytest.raises(ValueError, match="the first error"), caplog.at_level(logging.ERROR):
            await run(raising(ValueError("the first error")), "secret words", storage=storage)
    assert store.has_died
    (record,) = [one for one in caplog.records if one.name == "durably_runner"]
    assert RUN_ID in record.getMessage()
    assert "failed" in record.getMessage()
    assert "secret words" not in caplog.text
    async with place.open() as healthy:
        assert (await stored(healthy)).head.status == "running"


async def test_a_failed_save_ends_the_run(place):
    """When a save fails nothing further runs: no tool of an answer that is not stored."""
    store = Dies(place.log_store(), 4, for_ever=False)  # read, read, claim, answer
    agent, did = scripted(calls("a"), "done"), []
    async with Storage(store) as storage:
        with pytest.raises(Unavailable):
            await run(agent, storage=storage, deps=did)
    assert (did, turns(agent)) == ([], [1])


async def test_a_terminal_save_is_shielded(place):
    """Further cancellations do not keep the status from being saved."""
    saving = asyncio.Event()

    class Dawdling(Tape):
        async def _step(self, name, log, operation):
            if (
                self.calls[3:] and log.kind == "run"
            ):  # read, read, claim, answer: the status is next
                saving.set()
                await asyncio.sleep(0.05)
            return await super()._step(name, log, operation)

    @tool
    async def hang() -> str:
        """Hang."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    begun = asyncio.Event()
    agent = scripted(calls("a", name="hang"), tools=[hang])
    async with Storage(Dawdling(place.log_store())) as storage, place.open() as healthy:
        task = asyncio.ensure_future(run(agent, storage=storage))
        await begun.wait()
        task.cancel()
        await saving.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.005)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await stored(healthy)).head.status == "interrupted"


async def test_a_worker_that_was_overtaken_saves_no_status(handles, caplog):
    """A RevisionConflict leaves the run to whoever has it, and tries nothing further."""
    first, second = handles

    async def respond(_):
        run_now = await stored(second)
        await second.checkpointer.append(RUN_ID, [], run_now.head.replace(agent_name="another"))
        return "done"

    agent = type(scripted())(name="clerk", model=respond)
    with pytest.raises(RevisionConflict):
        await run(agent, storage=first)
    kept = (await stored(second)).head
    assert (kept.agent_name, kept.status) == ("another", "running")
    assert [one for one in caplog.records if one.name == "durably_runner"] == []


async def test_a_long_error_is_stored_with_the_status(storage):
    """An exception with more words than a head may have leaves its status all the same."""

    def respond(_):
        raise ValueError("x" * 100_000)

    with pytest.raises(ValueError, match="xxx"):
        await run(type(scripted())(name="clerk", model=respond), storage=storage)
    kept = (await stored(storage)).head
    assert kept.status == "failed"
    assert kept.error.startswith("ValueError: xxx")
