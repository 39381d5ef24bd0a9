"""A run that is issued again: what is done again, what is not, and what it is seeded with."""

import asyncio

import pytest

from builders import call, dump, model, raw, result, user
from durably import RevisionConflict, ToolResultEntry
from durably.testing import contents
from durably_runner import LimitExceeded, ModelTurn, RunLimits, Runner, ToolContext, tool
from runner_scenes import (
    RUN_ID,
    SESSION_ID,
    calls,
    plant,
    run,
    scripted,
    segments,
    stored,
    turns,
)


def results(entries):
    return [(one.call_id, one.output) for one in entries if isinstance(one, ToolResultEntry)]


async def test_open_calls_are_executed_in_the_turn_that_asked(storage):
    """Calls without a result run before the model is asked again, in the turn they belong to."""
    seen = []

    @tool
    def look(context: ToolContext) -> str:
        """Look."""
        seen.append((context.call_id, context.turn))
        return "seen"

    opened = [user("old"), *calls("a", "b", name="look")]
    await plant(storage, "running", opened, turns=4)
    agent = scripted(*["?"] * 4, "done", tools=[look])
    ended = await run(agent, storage=storage)
    assert sorted(seen) == [("a", 4), ("b", 4)]
    assert turns(agent) == [5]
    assert sorted(results(agent.model.requests[0].entries)) == [("a", "seen"), ("b", "seen")]
    assert ended.turns == 5


async def test_stored_results_are_never_computed_again(storage):
    """Of a turn that was cut off only the calls without a result run."""
    entries = [user("old"), *calls("a", "b", "c"), result("b", "kept")]
    await plant(storage, "interrupted", entries)
    did = []
    ended = await run(scripted("?", "done"), storage=storage, deps=did)
    assert sorted(did) == ["a", "c"]
    assert results(ended.entries)[0] == ("b", "kept")


async def test_repeated_ids_are_paired_by_occurrence(storage):
    """The n-th result of an id answers its n-th call; what is left runs, in order, one by one."""
    running = []

    @tool
    async def look(context: ToolContext) -> str:
        """Look, alone."""
        running.append(context.occurrence)
        await asyncio.sleep(0)
        assert running == [context.occurrence]
        running.clear()
        return f"{context.occurrence}"

    again = calls("a", "a", "a", name="look")
    entries = [user("old"), *calls("a", name="look"), result("a", "0"), *again, result("a", "1")]
    await plant(storage, "running", entries, turns=2)
    ended = await run(scripted("?", "?", "done", tools=[look]), storage=storage)
    assert [output for _, output in results(ended.entries)] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("given", ["other", [], [user("more"), user("still more")]])
async def test_new_input_is_ignored(storage, given):
    """A run that exists drops the new input, whatever it is; that includes no input."""
    await plant(storage, "running")
    agent = scripted("?", "done")
    ended = await run(agent, given, storage=storage, if_run_exists="resume_only")
    assert ended.entries[:2] == [user("old"), call("a", "work")]
    assert len(ended.entries) == 4
    assert list(agent.model.requests[0].entries) == ended.entries[:3]


async def test_a_key_is_the_same_in_the_next_process(storage):
    """A call that is executed again has the idempotency key it had."""
    keys = []

    @tool
    async def look(context: ToolContext) -> str:
        """Look, and be cut off the first time."""
        keys.append(context.idempotency_key)
        if len(keys) == 1:
            task.cancel()
            await asyncio.sleep(10)
        return ""

    agent = scripted([call("a", "look")], "done", tools=[look])
    task = asyncio.ensure_future(run(agent, storage=storage))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await run(agent, storage=storage)).output == "done"
    assert len(keys) == 2
    assert len(set(keys)) == 1


@pytest.mark.parametrize("status", ["running", "interrupted", "failed"])
async def test_a_run_that_was_answered_does_not_ask_again(storage, status):
    """A crash between the last answer and the completion costs no model call."""
    entries = [user("old"), call("a", "work"), result("a"), model("the "), model("answer")]
    await plant(storage, status, entries, turns=2, usage={"requests": 2})
    agent = scripted()
    ended = await run(agent, storage=storage)
    assert (turns(agent), ended.output, ended.status) == ([], "the answer", "completed")
    assert (ended.is_replay, ended.usage.requests) == (False, 2)
    assert await segments(storage) == [RUN_ID]


async def test_the_session_comes_before_the_run(storage):
    """The transcript is what the session holds, then the run's own entries, also on resume."""
    earlier = [user("before"), model("yes")]
    await storage.sessions.append(SESSION_ID, earlier, run_id="earlier")
    first = scripted(calls("a"))
    with pytest.raises(LimitExceeded):
        await run(first, storage=storage, limits=RunLimits(max_turns=1))
    assert list(first.model.requests[0].entries) == [*earlier, user("new")]
    second = scripted("?", "done")
    ended = await run(second, storage=storage)
    assert list(second.model.requests[0].entries) == [*earlier, *ended.entries[:3]]
    assert ended.entries[0] == user("new")
    assert await storage.sessions.load(SESSION_ID) == [*earlier, *ended.entries]


async def test_a_fresh_run_is_seeded_with_the_context_state_of_the_last_one(storage):
    """What a model carried is given to the session's next run, and kept until it changes it."""
    await run(scripted(ModelTurn(entries=[model("1")], context_state={"n": 1})), storage=storage)
    agent = scripted(calls("a"), ModelTurn(entries=calls("b"), context_state={"n": 2}), "done")
    await run(agent, storage=storage, run_id="r2")
    assert [one.context_state for one in agent.model.requests] == [{"n": 1}, {"n": 1}, {"n": 2}]
    last = scripted("done")
    await run(last, storage=storage, run_id="r3")
    assert last.model.requests[0].context_state == {"n": 2}


async def test_only_the_last_segment_seeds(storage):
    """A later run that carried nothing is the last word."""
    await run(scripted(ModelTurn(entries=[model("1")], context_state={"n": 1})), storage=storage)
    await storage.sessions.append(SESSION_ID, [user("by hand")])
    agent = scripted("done")
    await run(agent, storage=storage, run_id="r2")
    assert agent.model.requests[0].context_state is None


async def test_a_checkpoints_context_state_wins(storage):
    """On resume the run's own state is given, whatever the session carried since."""
    await plant(storage, "running", context_state={"own": True})
    meta = {"context_state": {"own": False}}
    await storage.sessions.append(SESSION_ID, [user("x")], run_id="earlier", meta=meta)
    agent = scripted("?", "done")
    await run(agent, storage=storage)
    assert agent.model.requests[0].context_state == {"own": True}


@pytest.mark.parametrize("drop", [False, True])
async def test_timing_is_from_the_first_start(storage, drop):
    """A resumed run's segment says when the run was begun first, and when it ended."""
    await plant(storage, "interrupted", started_at=1_000.5)
    before = (await stored(storage)).head
    await run(scripted("?", "done"), storage=storage, delete_on_success=drop)
    (segment,) = await storage.sessions.segments(SESSION_ID)
    assert segment.meta["timing"]["started_at"] == 1_000.5
    assert segment.meta["timing"]["finished_at"] >= before.updated_at


async def test_a_fresh_run_is_timed(storage):
    """started_at and finished_at are epoch seconds, and the head has the first of them."""
    await run(scripted(calls("a"), "done"), storage=storage)
    (segment,) = await storage.sessions.segments(SESSION_ID)
    timing = segment.meta["timing"]
    assert 0 <= timing["finished_at"] - timing["started_at"] < 60
    assert (await stored(storage)).head.started_at == timing["started_at"]


async def test_segments_without_timing_are_fine(storage):
    """A session that others wrote, without meta, is read like any other."""
    await storage.sessions.append(SESSION_ID, [user("x")], run_id="by hand")
    ended = await run(scripted("done"), storage=storage)
    assert ended.output == "done"


async def test_instructions_are_rendered_anew(storage):
    """What instructions say is made for every model call from this call's deps; never stored."""
    await plant(storage, "running")

    async def instructions(deps):
        return f"secret number {len(deps)}"

    agent = scripted("?", calls("b"), "done", instructions=instructions)
    await run(agent, storage=storage, deps=[])
    said = [one.instructions for one in agent.model.requests]
    assert said == ["secret number 1", "secret number 2"]
    assert "secret" not in repr(await stored(storage))
    assert "secret" not in repr(await storage.sessions.segments(SESSION_ID))


async def test_deps_are_those_of_the_call(place, storage):
    """Deps are whatever this call gives, need not be storable, and leave no trace in the store."""

    class Deps:
        def __repr__(self):
            return "a secret of the application"

    seen = []

    @tool
    def look(context: ToolContext) -> str:
        """Look."""
        seen.append(context.deps)
        return "seen it"

    await plant(storage, "running", [user("old"), call("a", "look")])
    deps = Deps()
    await run(scripted("?", "done", tools=[look]), storage=storage, deps=deps)
    assert seen == [deps]
    async with raw(place) as store:
        kept = b"".join((await contents(store)).values())
    assert b"seen it" in kept
    assert b"secret" not in kept


async def test_claim_first(handles):
    """Of two workers that resume one run one goes on; the other ran nothing, and is told."""
    first, second = handles
    await plant(first, "running", [user("old"), *calls("a", "b")])
    gate, did = asyncio.Barrier(2), ([], [])
    agents = [scripted("?", "done") for _ in range(2)]
    acts = [
        run(agent, storage=Held(storage, gate), session=False, deps=deps)
        for agent, storage, deps in zip(agents, (first, second), did, strict=True)
    ]
    ended = await asyncio.gather(*acts, return_exceptions=True)
    lost = [place for place, one in enumerate(ended) if isinstance(one, RevisionConflict)]
    assert len(lost) == 1
    assert (did[lost[0]], turns(agents[lost[0]])) == ([], [])
    assert sorted(did[1 - lost[0]]) == ["a", "b"]
    assert ended[1 - lost[0]].output == "done"
    assert (await stored(first)).head.status == "completed"


class Held:
    """A storage whose checkpointer lets nobody go on from ``load`` before all have loaded."""

    def __init__(self, storage, gate):
        self._checkpointer = storage.checkpointer
        self._gate = gate

    @property
    def checkpointer(self):
        return self

    async def load(self, run_id):
        found = await self._checkpointer.load(run_id)
        await self._gate.wait()
        return found

    def hold(self, run_id, snapshot):
        return self._checkpointer.hold(run_id, snapshot)


async def test_of_two_that_start_one_run_one_does(handles):
    """Starting is a claim, too: of two workers that start one run_id one gets a conflict."""
    first, second = handles
    gate = asyncio.Barrier(2)
    agents = [scripted(calls("a"), "done") for _ in range(2)]
    acts = [
        run(agent, storage=Held(storage, gate), session=False)
        for agent, storage in zip(agents, (first, second), strict=True)
    ]
    ended = await asyncio.gather(*acts, return_exceptions=True)
    assert sorted(type(one).__name__ for one in ended) == ["RevisionConflict", "RunResult"]
    assert sorted(map(turns, agents)) == [[], [1, 2]]


async def test_a_worker_that_was_overtaken_stops_at_its_next_save(handles):
    """When another takes the run over, the first ends with a conflict and stores nothing more."""
    first, second = handles
    did = []

    @tool
    async def look(context: ToolContext) -> str:
        """Be overtaken in the midst of it."""
        did.append(context.call_id)
        if len(did) == 1:
            await run(scripted("?", "done by another", tools=[look]), storage=second)
        return ""

    early = scripted(calls("a", name="look"), "done", tools=[look])
    with pytest.raises(RevisionConflict):
        await run(early, storage=first)
    assert (turns(early), did) == ([1], ["a", "a"])
    kept = await stored(first)
    assert (kept.head.status, kept.head.output) == ("completed", "done by another")
    assert len(kept.entries) == 4


async def test_a_run_that_waits_is_handed_back(place, storage):
    """A run that waits for a person gives the same interrupt, calls nothing, changes nothing."""
    did = []
    agent = scripted([*calls("a", name="ask")], "done")
    first = await run(agent, storage=storage, deps=did)
    assert (first.status, first.output, did) == ("interrupted", None, ["a"])
    assert (first.interrupt.call_id, first.interrupt.reason) == ("a", "May I?")
    assert first.interrupt.data == {"amount": 3}
    assert (await stored(storage)).head.interrupt == first.interrupt
    assert await segments(storage) == []
    before = dump(place)
    second = await run(agent, "approved", storage=storage, deps=did)
    assert (second.interrupt, second.entries) == (first.interrupt, first.entries)
    assert (turns(agent), did, dump(place)) == ([1], ["a"], before)


async def test_an_interrupted_run_is_not_in_the_session(storage):
    """What is cut off lives in its checkpoint alone, until somebody finishes it."""
    with pytest.raises(LimitExceeded):
        await run(scripted(calls("a")), storage=storage, limits=RunLimits(max_turns=1))
    assert await segments(storage) == []
    assert len((await stored(storage)).entries) == 3


async def test_without_a_checkpoint_nothing_is_stored_but_the_session(place, storage):
    """A run without a checkpoint is appended to its session when it is completed, once."""
    agent = scripted(calls("a"), "done")
    first = await Runner.run(agent, "new", session=storage.sessions, session_id=SESSION_ID)
    second = await Runner.run(agent, "new", session=storage.sessions, session_id=SESSION_ID)
    assert first.run_id != second.run_id
    assert await segments(storage) == [first.run_id, second.run_id]
    assert (await storage.checkpointer.runs()).items == ()


async def test_a_limit_counts_across_resumes(storage):
    """max_turns is of the whole run: under the same limit it is not gone on with, and not asked."""
    for _ in range(2):
        agent = scripted(calls("a"), "done")
        with pytest.raises(LimitExceeded) as caught:
            await run(agent, storage=storage, limits=RunLimits(max_turns=1))
        assert (caught.value.name, caught.value.limit) == ("max_turns", 1)
    assert turns(agent) == []
    ended = await run(agent, storage=storage, limits=RunLimits(max_turns=2))
    assert (ended.output, turns(agent)) == ("done", [2])


async def test_an_input_that_ends_with_an_answer_is_no_answer(storage):
    """Only what a model said completes a run: a fresh run asks, whatever its input ends with."""
    agent = scripted("done")
    given = [user("Say A."), model("A")]
    ended = await run(agent, given, storage=storage)
    assert turns(agent) == [1]
    assert ended.output.endswith("done")
