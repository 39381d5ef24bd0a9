"""The checkpointer: entries and head together, each once, by whoever owns the run."""

import asyncio
import itertools

import msgspec
import pytest

from builders import call, dump, model, result, said, user
from disturbed import Yielding
from durably import (
    InterruptReason,
    InvalidLimit,
    RevisionConflict,
    RunHead,
    Storage,
)
from places import FakeClock

FULL = RunHead(
    agent_name="planner",
    usage={"input": 2**63, "cost": 0.1, "none": None, "list": []},
    turns=7,
    status="interrupted",
    output={"answer": [1, 1.0, None, {}]},
    error="why \ud800",
    interrupt=InterruptReason(
        call_id="c", tool_name="t", arguments_digest="d", reason="ask", data={"a": []}
    ),
    last_input_tokens=0,
    context_state=[],
    pending_handoff="writer",
    started_at=12.5,
)


def _timeless(head):
    return msgspec.structs.replace(head, started_at=None, updated_at=None)


async def test_load_gives_all_batches_and_the_last_head(handles):
    """A run is its batches in order, with the head and the revision of the last save."""
    first, second = handles
    await first.checkpointer.append("r", said("a", "b"), RunHead(turns=1))
    await second.checkpointer.append("r", said("c"), RunHead(turns=2))
    saved = await first.checkpointer.append("r", said("d"), RunHead(turns=3))
    run = await second.checkpointer.load("r")
    assert (run.run_id, run.entries) == ("r", said("a", "b", "c", "d"))
    assert (run.head.turns, run.revision) == (3, saved)


async def test_a_missing_run_is_none(place):
    """A run nobody saved is None, and looking for it writes nothing."""
    async with place.open() as storage:
        before = dump(place)
        assert await storage.checkpointer.load("r") is None
        assert await storage.checkpointer.delete("r") is False
        assert (await storage.checkpointer.claim("r")).snapshot is None
        assert (await storage.checkpointer.runs()).items == ()
        assert dump(place) == before


async def test_without_entries_the_head_alone_is_set(handles):
    """entries=[] refreshes the head and adds nothing; it also starts a run."""
    first, second = handles
    await first.checkpointer.append("r", [], RunHead(turns=1))
    assert (await second.checkpointer.load("r")).entries == []
    await first.checkpointer.append("r", said("a"), RunHead(turns=2))
    before = await second.checkpointer.load("r")
    saved = await first.checkpointer.append("r", [], RunHead(status="completed"))
    run = await second.checkpointer.load("r")
    assert (run.entries, run.head.turns, run.head.status) == (said("a"), 0, "completed")
    assert run.revision == saved != before.revision


async def test_every_field_of_a_head_comes_back(handles):
    """A head with every field set comes back equal, in a load and in a listing."""
    first, second = handles
    assert all(getattr(FULL, name) for name in FULL.__struct_fields__ if name not in _MAY_BE_EMPTY)
    await first.checkpointer.append("r", [], FULL)
    run = await second.checkpointer.load("r")
    row = (await second.checkpointer.runs()).items[0]
    expected = msgspec.structs.replace(FULL, updated_at=run.head.updated_at)
    assert run.head == row.head == expected


_MAY_BE_EMPTY = ("updated_at", "last_input_tokens", "context_state")


@pytest.mark.parametrize("value", [None, {}, [], "", 0, False])
async def test_empty_values_of_a_head_stay_apart(handles, value):
    """None, {}, [], "", 0 and False stay apart in output, context_state and interrupt.data."""
    first, second = handles
    reason = InterruptReason(call_id="", tool_name="", arguments_digest="", reason="", data=value)
    await first.checkpointer.append(
        "r", [], RunHead(output=value, context_state=value, interrupt=reason)
    )
    head = (await second.checkpointer.load("r")).head
    for found in (head.output, head.context_state, head.interrupt.data):
        assert (type(found), found) == (type(value), value)


async def test_texts_of_a_head_may_be_none_or_empty(storage):
    """None and "" stay apart in error and pending_handoff, None and 0 in last_input_tokens."""
    await storage.checkpointer.append(
        "r", [], RunHead(error="", pending_handoff="", last_input_tokens=0)
    )
    head = (await storage.checkpointer.load("r")).head
    assert (head.error, head.pending_handoff, head.last_input_tokens) == ("", "", 0)
    await storage.checkpointer.append("r", [], RunHead())
    head = (await storage.checkpointer.load("r")).head
    assert (head.error, head.pending_handoff, head.last_input_tokens) == (None, None, None)


async def test_a_field_left_out_of_the_next_head_is_gone(storage):
    """A head replaces the one before it as a whole; only the start of the run is kept."""
    await storage.checkpointer.append("r", [], FULL)
    await storage.checkpointer.append("r", [], RunHead())
    assert _timeless((await storage.checkpointer.load("r")).head) == RunHead()


async def test_times_are_stamped_by_the_clock(place):
    """Every save stamps updated_at; started_at is the first save's time where left None."""
    clock = FakeClock(100.0)
    async with place.open(clock=clock) as storage:
        await storage.checkpointer.append("r", [], RunHead(updated_at=1.0))
        clock.now = 160.0
        await storage.checkpointer.append("r", said("a"), RunHead(updated_at=2.0))
        head = (await storage.checkpointer.load("r")).head
        assert (head.started_at, head.updated_at) == (100.0, 160.0)
        clock.now = 40.0
        await storage.checkpointer.append("r", [], RunHead(started_at=7.5))
        head = (await storage.checkpointer.load("r")).head
        assert (head.started_at, head.updated_at) == (7.5, 40.0)


async def test_dangling_calls_come_back_unrepaired(handles):
    """A tool call without its result, and a result without its call, come back as stored."""
    first, second = handles
    entries = [user("q"), call("1"), call("1"), result("1"), result("9"), call("2")]
    await first.checkpointer.append("r", entries, RunHead())
    assert (await second.checkpointer.load("r")).entries == entries


async def test_ten_saves_under_a_frozen_clock(place):
    """Tokens do not depend on time: 10 saves with the token of the last all succeed."""
    clock = FakeClock()
    async with place.open(clock=clock) as storage:
        token = 0
        for number in range(10):
            token = await storage.checkpointer.append(
                "r", said(f"{number}"), RunHead(), expected_revision=token
            )
            assert (await storage.checkpointer.load("r")).revision == token
        assert len((await storage.checkpointer.load("r")).entries) == 10


RETRIES = {"with entries": said("a"), "of the head alone": []}


@pytest.mark.parametrize("entries", RETRIES.values(), ids=RETRIES.keys())
@pytest.mark.parametrize("existing", [False, True])
async def test_a_retry_with_the_same_token_is_a_no_op(place, entries, existing):
    """The same save sent again with the same token changes nothing and returns its revision."""
    clock = FakeClock()
    async with place.open(clock=clock) as storage:
        runs, token = storage.checkpointer, 0
        if existing:
            token = await runs.append("r", said("before"), RunHead(), expected_revision=0)
        head = RunHead(turns=1, started_at=1.0)
        saved = await runs.append("r", entries, head, expected_revision=token)
        before = dump(place)
        clock.now += 5
        for again in (head, msgspec.structs.replace(head, started_at=2.0, updated_at=9.0)):
            assert await runs.append("r", entries, again, expected_revision=token) == saved
        assert dump(place) == before


@pytest.mark.parametrize("entries", RETRIES.values(), ids=RETRIES.keys())
@pytest.mark.parametrize("further", [1, 7])
async def test_a_retry_is_known_after_further_changes(place, entries, further):
    """A save is recognised while fewer than 8 further changes were made."""
    async with place.open() as first, place.open() as second:
        saved = await first.checkpointer.append("r", entries, RunHead(), expected_revision=0)
        for number in range(further):
            await second.checkpointer.append("r", said("x"), RunHead(turns=number))
        before = dump(place)
        again = await first.checkpointer.append("r", entries, RunHead(), expected_revision=0)
        assert again == saved
        assert dump(place) == before


@pytest.mark.parametrize("entries", RETRIES.values(), ids=RETRIES.keys())
async def test_a_late_retry_never_writes(place, entries):
    """A save sent again after 30 further changes is known or refused, and writes nothing."""
    async with place.open() as storage:
        runs = storage.checkpointer
        saved = await runs.append("r", entries, RunHead(), expected_revision=0)
        for number in range(30):
            await runs.append("r", said("x"), RunHead(turns=number))
        before = dump(place)
        try:
            again = await runs.append("r", entries, RunHead(), expected_revision=0)
        except RevisionConflict:
            again = saved
        assert again == saved
        assert dump(place) == before


OTHER_BATCHES = {
    "other entries": (said("b"), RunHead()),
    "more entries": (said("a", "a"), RunHead()),
    "no entries": ([], RunHead()),
    "another head": (said("a"), RunHead(turns=1)),
    "another status": (said("a"), RunHead(status="completed")),
    "a user's text as the model's": ([model("a")], RunHead()),
}


@pytest.mark.parametrize(("entries", "head"), OTHER_BATCHES.values(), ids=OTHER_BATCHES.keys())
@pytest.mark.parametrize("existing", [False, True])
async def test_another_batch_with_a_used_token_is_refused(place, entries, head, existing):
    """Anything else with a used token is a RevisionConflict, and none of it is stored."""
    async with place.open() as storage:
        runs, token = storage.checkpointer, 0
        if existing:
            token = await runs.append("r", said("before"), RunHead())
        saved = await runs.append("r", said("a"), RunHead(), expected_revision=token)
        before = dump(place)
        with pytest.raises(RevisionConflict) as caught:
            await runs.append("r", entries, head, expected_revision=token)
        assert (caught.value.expected, caught.value.actual) == (token, saved)
        assert dump(place) == before


async def test_of_two_handles_with_equal_first_batches_one_owns_the_run(handles):
    """Two handles that start one run with equal batches: one owns it, the other is refused."""
    for number in range(20):
        name = f"r{number}"
        starts = (
            handle.checkpointer.append(name, said("a"), RunHead(), expected_revision=0)
            for handle in handles
        )
        outcomes = await asyncio.gather(*starts, return_exceptions=True)
        refused = [one for one in outcomes if isinstance(one, RevisionConflict)]
        assert len(refused) == 1
        run = await handles[0].checkpointer.load(name)
        assert run.entries == said("a")
        assert run.revision in outcomes


async def test_without_a_token_each_call_is_a_new_append(storage):
    """The same save sent twice without a token is stored twice."""
    for _ in range(2):
        await storage.checkpointer.append("r", said("a"), RunHead())
    assert (await storage.checkpointer.load("r")).entries == said("a", "a")


async def test_a_token_of_an_earlier_life_is_refused(handles):
    """No token from before a delete fits the run's next life, to save or to delete."""
    first, second = handles
    tokens = [await first.checkpointer.append("r", said("a"), RunHead(), expected_revision=0)]
    for _ in range(5):
        tokens.append(
            await first.checkpointer.append("r", [], RunHead(), expected_revision=tokens[-1])
        )
    assert await second.checkpointer.delete("r") is True
    with pytest.raises(RevisionConflict):
        await first.checkpointer.append("r", said("late"), RunHead(), expected_revision=tokens[-1])
    assert await first.checkpointer.load("r") is None
    token = await second.checkpointer.append("r", said("new"), RunHead(), expected_revision=0)
    for stale in tokens:
        with pytest.raises(RevisionConflict):
            await first.checkpointer.append("r", said("late"), RunHead(), expected_revision=stale)
        with pytest.raises(RevisionConflict):
            await first.checkpointer.delete("r", expected_revision=stale)
    run = await second.checkpointer.load("r")
    assert (run.entries, run.revision) == (said("new"), token)


async def test_a_run_can_start_again_after_a_delete(storage):
    """After a delete the very first save, sent again, starts a new life without old entries."""
    runs = storage.checkpointer
    old = await runs.append("r", said("a"), RunHead(), expected_revision=0)
    await runs.delete("r")
    new = await runs.append("r", said("a"), RunHead(), expected_revision=0)
    assert new != old
    assert (await runs.load("r")).entries == said("a")


async def test_delete_leaves_no_residue(place):
    """A deleted run leaves nothing behind, and deleting it again says there was none."""
    async with place.open() as first, place.open() as second:
        await first.checkpointer.append("other", said("kept"), RunHead())
        before = dump(place)
        token = await first.checkpointer.append("r", said("a", "b"), FULL)
        assert await second.checkpointer.delete("r", expected_revision=token) is True
        assert dump(place) == before
        assert await second.checkpointer.delete("r", expected_revision=token) is False
        assert await first.checkpointer.delete("r") is False


async def test_a_delete_with_a_stale_token_is_refused(place):
    """A delete with a token that was overtaken, or with 0, is refused and deletes nothing."""
    async with place.open() as storage:
        stale = await storage.checkpointer.append("r", said("a"), RunHead())
        await storage.checkpointer.append("r", said("b"), RunHead())
        before = dump(place)
        for token in (stale, 0):
            with pytest.raises(RevisionConflict):
                await storage.checkpointer.delete("r", expected_revision=token)
        assert dump(place) == before


@pytest.mark.parametrize("token", [-1, True, 1.0, "1"])
async def test_a_token_is_an_integer(storage, token):
    """A token that is no integer of at least 0 is an InvalidLimit, and nothing changes."""
    await storage.checkpointer.append("r", said("a"), RunHead())
    with pytest.raises(InvalidLimit):
        await storage.checkpointer.append("r", said("b"), RunHead(), expected_revision=token)
    with pytest.raises(InvalidLimit):
        await storage.checkpointer.delete("r", expected_revision=token)
    assert (await storage.checkpointer.load("r")).entries == said("a")


async def test_a_reader_never_sees_a_head_without_its_entries(place):
    """While a writer saves 200 times, every load finds as many entries as the head counts."""
    async with (
        Storage(Yielding(place.log_store(), 3)) as writer,
        Storage(Yielding(place.log_store(), 4)) as reader,
    ):
        done = False

        async def write():
            nonlocal done
            for number in range(1, 201):
                await writer.checkpointer.append("r", said(f"{number}"), RunHead(turns=number))
            done = True

        async def read():
            seen = []
            while not done:
                run = await reader.checkpointer.load("r")
                if run is not None:
                    assert run.entries == said(*map(str, range(1, run.head.turns + 1)))
                    seen.append((run.head.turns, run.revision))
            return seen

        _, seen = await asyncio.gather(write(), read())
    assert len(set(seen)) > 5
    assert all(one <= other for one, other in itertools.pairwise(seen))
