"""Saves that fail, are cut off, or lose their answer: what goes on from them is as it was."""

import asyncio
import itertools

import pytest

from builders import call
from durably import Storage, ToolResultEntry, Unavailable
from places import Place
from runner_judging import clerk, judge
from runner_scenes import Cancels, Dies, Slow, calls, run, scripted, stored, turns


async def test_a_store_that_is_gone_from_any_call_on(place):
    """A store gone from call n on, for each n, is a crash: issued again the run ends the same."""
    await _fail_everywhere(place, done=False, for_ever=True)


async def test_a_store_that_fails_at_any_call(place):
    """A store that refuses call n, for each n: the error is raised, and the run can be resumed."""
    await _fail_everywhere(place, done=False, for_ever=False)


async def _fail_everywhere(place, **how):
    for number in itertools.count(1):
        namespace, did = f"n{number}", []
        store = Dies(place.log_store(namespace=namespace), number, **how)
        async with Storage(store) as broken, Storage(place.log_store(namespace=namespace)) as good:
            try:
                await run(clerk(), storage=broken, deps=did)
            except Unavailable:
                before = await stored(good)
                statuses = {"completed"} if number == 11 else {"running", "interrupted"}
                assert before is None or before.head.status in statuses
            await judge(good, did)
        if not store.has_died:
            break
    assert number == 12  # two reads and a claim, three answers, three results, two to complete


async def test_a_run_cancelled_at_any_step_of_the_loop(tmp_path, record_property):
    """Cancelled after k steps of the event loop, for each k, the run is one that can be resumed."""
    place, is_over, steps = Place("memory", tmp_path), False, -1
    while not is_over:
        steps += 1
        namespace, did = f"n{steps}", []
        slow = Storage(Slow(place.log_store(namespace=namespace)))
        async with slow, Storage(place.log_store(namespace=namespace)) as good:
            task = asyncio.ensure_future(run(clerk(), storage=slow, deps=did))
            for _ in range(steps):
                await asyncio.sleep(0)
            is_over = task.done()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled() != is_over
            before = await stored(good)
            assert before is None or before.head.status in STATUSES
            await judge(good, did)
    assert steps > 30
    record_property("counted", f"cancelled after each of {steps} steps of the event loop")


STATUSES = {"running", "interrupted", "completed"}


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
async def test_a_run_cancelled_at_any_call_of_the_store(place, done):
    """Cancelled as call n of the store begins, or was answered, the run is one to be resumed."""
    for number in itertools.count(1):
        namespace, did = f"n{number}", []
        store = Cancels(place.log_store(namespace=namespace), number, done=done)
        async with Storage(store) as broken, Storage(place.log_store(namespace=namespace)) as good:
            store.task = asyncio.ensure_future(run(clerk(), storage=broken, deps=did))
            try:
                await store.task
            except asyncio.CancelledError:
                before = await stored(good)
                assert before is None or before.head.status in STATUSES
            await judge(good, did)
        if store.seen < number:
            break
    assert number >= 11


@pytest.fixture(params=["lost", "refused", "cancelled"])
def failing(request, place):
    """A way to run an agent whose n-th call of the store fails, in each way it can."""

    async def fail(agent, number, **options):
        if request.param == "cancelled":
            store = Cancels(place.log_store(), number, done=True)
        else:
            store = Dies(place.log_store(), number, done=request.param == "lost", for_ever=False)
        async with Storage(store) as storage:
            task = asyncio.ensure_future(run(agent, storage=storage, session=False, **options))
            store.task = task
            await asyncio.wait([task])
            error = asyncio.CancelledError() if task.cancelled() else task.exception()
        assert isinstance(error, asyncio.CancelledError | Unavailable)

    return fail


async def test_a_question_to_a_person_outlives_a_failed_save(failing, storage):
    """A run whose request for a person was stored waits for one, however the save ended."""
    did = []
    agent = scripted(calls("a", name="ask"), "done")
    await failing(agent, 4, deps=did)  # read, claim, answer, result
    kept = await stored(storage)
    assert isinstance(kept.entries[-1], ToolResultEntry)
    assert kept.head.interrupt is not None
    ended = await run(agent, storage=storage, session=False, deps=did)
    assert (ended.status, ended.interrupt.call_id) == ("interrupted", "a")
    assert (did, turns(agent)) == (["a"], [1])


async def test_a_handoff_outlives_a_failed_save(failing, storage):
    """A handoff that was stored is applied, however the save ended."""
    helper = scripted("?", "done", name="helper")
    agent = scripted([call("t", "transfer_to_helper")], "not you", handoffs=[helper])
    await failing(agent, 4)
    ended = await run(agent, storage=storage, session=False)
    assert (ended.output, ended.agent_name, turns(agent)) == ("done", "helper", [1])


async def test_a_turn_outlives_a_failed_save(failing, storage):
    """A model answer that was stored counts as a turn, with its usage and its context state."""
    agent = clerk()
    await failing(agent, 3)
    kept = await stored(storage)
    assert len(kept.entries) == 3
    assert (kept.head.turns, kept.head.usage["requests"]) == (1, 1)
    agent = clerk()
    await run(agent, storage=storage, session=False, deps=[])
    assert turns(agent) == [2, 3]
