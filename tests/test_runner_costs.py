"""What a run costs in calls of the store, counted."""

import pytest

from builders import call, user
from disturbed import Recorder
from durably import Storage
from durably_runner import tool
from runner_scenes import SESSION_ID, Tape, calls, plant, run, scripted

TURNS = 6


@tool
async def look() -> str:
    """Look."""
    return "seen"


@pytest.fixture
def tape(place):
    """Everything that is asked of one store."""
    return Tape(place.log_store())


@pytest.fixture
async def taped(tape):
    """A storage on it."""
    async with Storage(tape) as storage:
        yield storage


def seen_by(tape):
    """Return a tool that notes what was asked of the store before it ran."""
    seen = []

    @tool(name="work")
    async def noting() -> str:
        """Note it."""
        seen.append(list(tape.calls))
        return ""

    return noting, seen


async def test_a_resumed_run_costs_one_load_and_one_append_before_its_first_tool(tape, taped):
    """Taking a run over is one read and one append, whatever its length."""
    entries = [user("old")] * 50 + calls("a", "b")
    await plant(taped, "running", entries)
    tape.calls.clear()
    work, seen = seen_by(tape)
    await run(scripted("?", "done", tools=[work]), storage=taped, session=False)
    assert seen[0] == ["read run", "append run"]


async def test_a_session_adds_one_read(tape, taped):
    """With a session it is read once, before the claim, and appended to once, at the end."""
    await plant(taped, "running")
    await taped.sessions.append(SESSION_ID, [user("x")] * 9, run_id="earlier")
    tape.calls.clear()
    work, seen = seen_by(tape)
    await run(scripted("?", "done", tools=[work]), storage=taped)
    assert seen[0] == ["read run", "read session", "append run"]
    assert sorted(tape.calls[3:]) == ["append run"] * 3 + ["append session"]


async def test_a_turn_costs_one_append_per_answer_and_per_result_and_nothing_else(
    tape, taped, record_property
):
    """Beside its start and its end, a run makes one append for each answer and each result."""
    script = [calls(f"a{turn}", f"b{turn}", name="look") for turn in range(TURNS)]
    agent = scripted(*script, "done", tools=[look])
    await run(agent, storage=taped, session=False)
    answers, results = TURNS + 1, 2 * TURNS
    assert tape.calls == ["read run", *["append run"] * (1 + answers + results + 1)]
    record_property("counted", f"{answers} answers and {results} results: {len(tape.calls)} calls")


async def test_a_handoff_costs_nothing_beside_its_result(tape, taped):
    """The switch is stored with the result, and with the target's first answer."""
    clerk = scripted(
        [call("t", "transfer_to_helper")], handoffs=[scripted("?", "done", name="helper")]
    )
    await run(clerk, storage=taped, session=False)
    assert tape.calls == ["read run", *["append run"] * 5]


async def test_a_run_that_waits_costs_what_it_ran(tape, taped):
    """Asking for a person is stored with the result of the call; issued again it costs a read."""
    agent = scripted(calls("a", name="ask"))
    await run(agent, storage=taped, session=False, deps=[])
    assert tape.calls == ["read run", *["append run"] * 3]
    tape.calls.clear()
    await run(agent, storage=taped, session=False, deps=[])
    assert tape.calls == ["read run"]


async def test_a_replay_costs_one_read(tape, taped):
    """A replay appends nothing to the run, and asks for nothing else."""
    await run(scripted("done"), storage=taped, session=False)
    tape.calls.clear()
    await run(scripted(), storage=taped, session=False)
    assert tape.calls == ["read run"]


async def test_what_a_turn_stores_does_not_grow_with_the_run(place):
    """The bytes of a run's saves grow with what was said, not with its square."""
    written = []
    for count in (10, 20, 40):
        recorder = Recorder(place.log_store(namespace=f"n{count}"))
        async with Storage(recorder) as storage:
            script = [calls(f"c{turn:03}", name="look") for turn in range(count)]
            await run(scripted(*script, "done", tools=[look]), storage=storage, session=False)
        written.append(recorder.written)
    ten, twenty, forty = written
    assert (forty - twenty) == pytest.approx(2 * (twenty - ten), rel=0.05)
