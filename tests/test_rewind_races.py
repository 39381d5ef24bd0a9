"""A rewind against others: it is ordered before or after each of them, or refused."""

import asyncio

import pytest

from builders import call, result, said, shape
from disturbed import Interposing, Yielding
from durably import RevisionConflict, Rewound, Storage, StorageBusy

ROUNDS = 200


@pytest.fixture
async def racers(place):
    """Two handles whose operations interleave, by a seed on every backend."""
    async with (
        Storage(Yielding(place.log_store(), 1)) as first,
        Storage(Yielding(place.log_store(), 2)) as second,
    ):
        yield first, second


async def test_a_racing_append_is_ordered_before_or_after(place, racers):
    """In 200 rounds every outcome is that of append, then rewind, or of rewind, then append.

    In memory the seeds decide who is first, and both come up; on SQLite its thread does.
    """
    first, second = racers
    append_first = Rewound(removed_entries=4, removed_run_ids=("r3",), truncated_run_id="r2")
    rewind_first = Rewound(removed_entries=1, truncated_run_id="r2")
    kept = said("a", "b", "c")
    seen = set()
    for number in range(ROUNDS):
        name = f"s{number}"
        await first.sessions.append(name, said("a", "b"), run_id="r1")
        await first.sessions.append(name, said("c", "d"), run_id="r2", meta={"n": 2})
        done, run_id = await asyncio.gather(
            first.sessions.rewind(name, keep_entries=3),
            second.sessions.append(name, said("x", "y", "z"), run_id="r3", meta={"n": 3}),
        )
        assert run_id == "r3"
        segments = await second.sessions.segments(name)
        found = [(one.run_id, one.entries, one.meta) for one in segments]
        cut = [("r1", kept[:2], None), ("r2", kept[2:], None)]
        if done == append_first:
            assert found == cut
        else:
            assert done == rewind_first
            assert found == [*cut, ("r3", said("x", "y", "z"), {"n": 3})]
        seen.add(done)
    assert place.backend != "memory" or seen == {append_first, rewind_first}


async def test_of_two_racing_rewinds_the_shorter_is_left(racers):
    """Two concurrent rewinds leave what the shorter keeps, and count every entry once."""
    first, second = racers
    for number in range(50):
        name = f"s{number}"
        for run_id in ("r1", "r2", "r3"):
            await first.sessions.append(name, said("a", "b"), run_id=run_id)
        done = await asyncio.gather(
            first.sessions.rewind(name, keep_entries=5),
            second.sessions.rewind(name, keep_entries=1),
        )
        assert await shape(second.sessions, name) == [("r1", 1)]
        assert sum(one.removed_entries for one in done) == 5


async def test_a_racing_trim_and_rewind_both_take_effect(racers):
    """A trim racing a rewind leaves the kept results trimmed and nothing of the tail."""
    first, second = racers
    for number in range(50):
        name = f"s{number}"
        await first.sessions.append(name, [call("1"), result("1", "x" * 900)], run_id="r1")
        await first.sessions.append(name, [call("2"), result("2", "y" * 900)], run_id="r2")
        _, trimmed = await asyncio.gather(
            first.sessions.rewind(name, keep_entries=2),
            second.sessions.trim_tool_results(name, keep_chars=10, keep_runs=0),
        )
        assert await shape(first.sessions, name) == [("r1", 2)]
        assert trimmed in (1, 2)
        assert (await first.sessions.load(name))[1].trimmed_chars == 890


@pytest.mark.parametrize("operation", ["read", "rewrite"])
async def test_a_rewind_without_a_token_starts_over(place, operation):
    """An append between a rewind's reading and its writing is subject to the cut."""
    store = Interposing(place.log_store())
    async with Storage(store) as first, place.open() as second:
        await first.sessions.append("s", said("a", "b"), run_id="r1")
        number = 2 if operation == "read" else 1
        store.interpose(
            operation, number, lambda: second.sessions.append("s", said("c", "d"), run_id="r2")
        )
        done = await first.sessions.rewind("s", keep_entries=1)
        assert done == Rewound(removed_entries=3, removed_run_ids=("r2",), truncated_run_id="r1")
        assert await shape(second.sessions, "s") == [("r1", 1)]


async def test_a_rewind_with_a_token_is_refused_when_overtaken(place):
    """With a token, an append between reading and writing is a conflict and nothing is cut."""
    store = Interposing(place.log_store())
    async with Storage(store) as first, place.open() as second:
        await first.sessions.append("s", said("a", "b"), run_id="r1")
        token = await first.sessions.revision("s")
        store.interpose("rewrite", 1, lambda: second.sessions.append("s", said("c"), run_id="r2"))
        with pytest.raises(RevisionConflict):
            await first.sessions.rewind("s", keep_entries=1, expected_revision=token)
        assert await shape(second.sessions, "s") == [("r1", 2), ("r2", 1)]


async def test_a_session_cleared_meanwhile_has_nothing_to_rewind(place):
    """A clear between a rewind's reading and its writing leaves the rewind nothing to do."""
    store = Interposing(place.log_store())
    async with Storage(store) as first, place.open() as second:
        await first.sessions.append("s", said("a", "b"), run_id="r1")
        store.interpose("rewrite", 1, lambda: second.sessions.clear("s"))
        assert await first.sessions.rewind("s", keep_entries=1) == Rewound()
        assert await first.sessions.segments("s") == []


@pytest.mark.parametrize("maintenance", ["rewind", "trim"])
async def test_an_endless_challenge_is_busy(place, maintenance, monkeypatch):
    """A rewind or trim that is overtaken every time gives up as StorageBusy and changes nothing."""
    monkeypatch.setattr("durably._retry.LONGEST_PAUSE", 0.0)
    store = Interposing(place.log_store())
    async with Storage(store) as first, place.open() as second:
        await first.sessions.append("s", [call("1"), result("1", "x" * 900)], run_id="r1")
        appended = 0

        async def challenge():
            nonlocal appended
            appended += 1
            await second.sessions.append("s", [], run_id=f"x{appended}")
            store.interpose("rewrite", 1, challenge)

        store.interpose("rewrite", 1, challenge)
        acts = {
            "rewind": lambda: first.sessions.rewind("s", keep_entries=1),
            "trim": lambda: first.sessions.trim_tool_results("s", keep_runs=0),
        }
        with pytest.raises(StorageBusy):
            await acts[maintenance]()
        assert appended >= 10
        assert len(await second.sessions.segments("s")) == 1 + appended
        assert (await second.sessions.load("s"))[1] == result("1", "x" * 900)
