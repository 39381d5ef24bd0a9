"""The five rules of a rewind, its one atomic step, and what it leaves alone."""

import json

import pytest

from builders import call, dump, model, plant, records, result, said, shape, user
from durably import CorruptRecord, InvalidLimit, RevisionConflict, Rewound

SIZES = "a2 b0 c3 d0"
"""Runs in order, each with its number of entries."""

RULES = {
    # name: (runs before, keep_entries, runs after, removed entries, removed runs, cut short)
    "0 deletes every run": (SIZES, 0, "", 5, "a b c d", None),
    "0 deletes runs that are all empty": ("a0 b0", 0, "", 0, "a b", None),
    "0 of a session that is not there": ("", 0, "", 0, "", None),
    "the end is a no-op": (SIZES, 5, SIZES, 0, "", None),
    "past the end is a no-op": (SIZES, 6, SIZES, 0, "", None),
    "far past the end is a no-op": (SIZES, 2**70, SIZES, 0, "", None),
    "the end of an empty run only": ("a0", 1, "a0", 0, "", None),
    "a session that is not there": ("", 3, "", 0, "", None),
    "at the end of a run": (SIZES, 2, "a2", 3, "b c d", None),
    "at the end of a run, an empty one before": ("a0 b1 c1", 1, "a0 b1", 1, "c", None),
    "at the end of a middle run": ("a1 b1 c1 d1", 2, "a1 b1", 2, "c d", None),
    "inside the first run": (SIZES, 1, "a1", 4, "b c d", "a"),
    "inside a later run, an empty one before": (SIZES, 3, "a2 b0 c1", 2, "d", "c"),
    "inside a later run, near its end": (SIZES, 4, "a2 b0 c2", 1, "d", "c"),
    "inside the last run": ("a1 b3", 2, "a1 b1", 2, "", "b"),
    "inside the only run": ("a3", 2, "a2", 1, "", "a"),
    "leading empty runs stay": ("a0 b0 c2", 1, "a0 b0 c1", 1, "", "c"),
    "empty runs after the cut go": ("a2 b0 c0", 1, "a1", 1, "b c", "a"),
    "empty runs between full ones": ("a1 b0 c0 d1", 1, "a1", 1, "b c d", None),
}


def _runs(text):
    return [(word[0], int(word[1:])) for word in text.split()]


async def _fill(storage, text, session_id="s"):
    for run_id, size in _runs(text):
        entries = said(*(f"{run_id}{n}" for n in range(size)))
        await storage.sessions.append(session_id, entries, run_id=run_id, meta={"of": run_id})


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
async def test_rules(handles, rule):
    """A rewind keeps, cuts and removes what the rules say, and says what it removed."""
    before, keep, after, removed, gone, short = rule
    first, second = handles
    await _fill(first, before)
    flat = await first.sessions.load("s")
    done = await first.sessions.rewind("s", keep_entries=keep)
    assert done == Rewound(
        removed_entries=removed, removed_run_ids=tuple(gone.split()), truncated_run_id=short
    )
    assert await shape(second.sessions, "s") == _runs(after)
    assert await second.sessions.load("s") == flat[: len(flat) - removed]
    for segment in await second.sessions.segments("s"):
        assert segment.meta == (None if segment.run_id == short else {"of": segment.run_id})


DANGLING = {
    # name: (entries of the run, kept of them, entries after)
    "a call without its result goes": (
        [user("q"), call("1"), result("1"), model("a")],
        2,
        [user("q")],
    ),
    "a call with its result stays": (
        [user("q"), call("1"), result("1"), model("a")],
        3,
        [user("q"), call("1"), result("1")],
    ),
    "of parallel calls only the unanswered go": (
        [call("1"), call("2"), result("2"), result("1")],
        3,
        [call("2"), result("2")],
    ),
    "of two calls of one id the second goes": (
        [call("1", "first"), call("1", "second"), result("1"), result("1")],
        3,
        [call("1", "first"), result("1")],
    ),
    "an id used again after its result": (
        [call("1"), result("1"), call("1"), result("1")],
        3,
        [call("1"), result("1")],
    ),
    "what follows a removed call stays": (
        [call("1"), model("wait"), result("1")],
        2,
        [model("wait")],
    ),
    "a result without a call stays": (
        [result("1"), user("q"), user("r")],
        2,
        [result("1"), user("q")],
    ),
    "a call after its result stays dangling": (
        [result("1"), call("1"), user("q")],
        2,
        [result("1")],
    ),
}


@pytest.mark.parametrize(("entries", "keep", "left"), DANGLING.values(), ids=DANGLING.keys())
async def test_calls_left_without_a_result_go(handles, entries, keep, left):
    """A run cut short loses the calls that have no result in what is left of it."""
    first, second = handles
    await first.sessions.append("s", said("before"), run_id="r0")
    await first.sessions.append("s", entries, run_id="r1", meta={"n": 1})
    done = await first.sessions.rewind("s", keep_entries=1 + keep)
    (_, segment) = await second.sessions.segments("s")
    assert (segment.run_id, segment.entries, segment.meta) == ("r1", left, None)
    assert done == Rewound(removed_entries=len(entries) - len(left), truncated_run_id="r1")


@pytest.mark.parametrize("calls", [1, 2])
async def test_a_run_cut_down_to_nothing_goes(handles, calls):
    """A run of which only calls without results would be left is removed, its run_id free."""
    first, second = handles
    await first.sessions.append("s", said("x"), run_id="a")
    await first.sessions.append("s", [], run_id="b")
    entries = [call("1"), call("2"), result("1"), result("2")]
    await first.sessions.append("s", entries, run_id="c")
    await first.sessions.append("s", said("y"), run_id="d")
    done = await first.sessions.rewind("s", keep_entries=1 + calls)
    assert done == Rewound(removed_entries=5, removed_run_ids=("c", "d"))
    assert await shape(second.sessions, "s") == [("a", 1), ("b", 0)]
    await second.sessions.append("s", said("again"), run_id="c")
    assert await shape(first.sessions, "s") == [("a", 1), ("b", 0), ("c", 1)]


async def test_the_first_run_cut_down_to_nothing_empties_the_session(storage):
    """A session whose only kept entry is a call without its result ends up empty."""
    await storage.sessions.append("s", [call("1"), result("1")], run_id="a")
    done = await storage.sessions.rewind("s", keep_entries=1)
    assert done == Rewound(removed_entries=2, removed_run_ids=("a",))
    assert await storage.sessions.segments("s") == []


async def test_a_run_the_cut_does_not_land_in_keeps_its_dangling_calls(handles):
    """A dangling call in a run that ends at the cut, or before it, is not touched."""
    first, second = handles
    await first.sessions.append("s", [call("1"), user("a")], run_id="a", meta={"n": 1})
    await first.sessions.append("s", [user("b"), call("2")], run_id="b", meta={"n": 2})
    await first.sessions.append("s", said("c"), run_id="c")
    await first.sessions.rewind("s", keep_entries=4)
    assert await shape(second.sessions, "s") == [("a", 2), ("b", 2)]
    assert [one.meta for one in await second.sessions.segments("s")] == [{"n": 1}, {"n": 2}]


async def test_calls_are_not_paired_across_runs(storage):
    """A result in another run does not keep a call that the cut left without one."""
    await storage.sessions.append("s", [result("1"), user("a")], run_id="a")
    await storage.sessions.append("s", [user("b"), call("1"), result("1")], run_id="b")
    await storage.sessions.rewind("s", keep_entries=4)
    assert await storage.sessions.load("s") == [result("1"), user("a"), user("b")]


async def test_run_ids_of_removed_runs_are_free_and_of_kept_ones_taken(handles):
    """After a rewind a removed run_id may be used again; a kept or truncated one is taken."""
    first, second = handles
    await _fill(first, "a1 b2 c1")
    await first.sessions.rewind("s", keep_entries=2)
    for run_id in ("a", "b", "c"):
        await second.sessions.append("s", said("new"), run_id=run_id)
    assert await shape(first.sessions, "s") == [("a", 1), ("b", 1), ("c", 1)]
    assert await first.sessions.load("s") == said("a0", "b0", "new")


async def test_appends_after_a_rewind_come_last(handles):
    """What is appended after a rewind follows what was kept, in order."""
    first, second = handles
    await _fill(first, "a1 b1 c1")
    await first.sessions.rewind("s", keep_entries=0)
    await _fill(second, "z1 a1")
    await first.sessions.rewind("s", keep_entries=1)
    await _fill(second, "b1")
    assert await shape(first.sessions, "s") == [("z", 1), ("b", 1)]


async def test_a_rewind_survives_reopening(place):
    """A handle opened later sees what the rewind left."""
    async with place.open() as storage:
        await _fill(storage, SIZES)
        await storage.sessions.rewind("s", keep_entries=3)
    async with place.open() as storage:
        assert await shape(storage.sessions, "s") == _runs("a2 b0 c1")


async def test_rewinding_twice_to_one_place_changes_nothing_more(place):
    """The second of two equal rewinds is a no-op."""
    async with place.open() as storage:
        await _fill(storage, SIZES)
        await storage.sessions.rewind("s", keep_entries=3)
        before = dump(place)
        assert await storage.sessions.rewind("s", keep_entries=3) == Rewound()
        assert dump(place) == before


async def test_other_sessions_are_untouched(storage):
    """A rewind touches its own session alone."""
    for session_id in ("s", "s2", "S"):
        await _fill(storage, SIZES, session_id)
    await storage.sessions.rewind("s", keep_entries=0)
    for session_id in ("s2", "S"):
        assert await shape(storage.sessions, session_id) == _runs(SIZES)


async def test_what_this_version_does_not_know_keeps_its_bytes(place):
    """Entries of unknown types and unknown fields of what is kept come through byte for byte."""
    kept = (
        b'{"type":"hologram", "x":1.0E2,"y":"\xc3\xa9\\u00e9"}',
        b'{"type":"input","role":"user","content":"q","since":"v9","n":12345678901234567890.5}',
    )
    items = b",".join([*kept, b'{"type":"tool_call","call_id":"c","name":"n"}', b'{"type":"z"}'])
    data = b'{"entries":[' + items + b'],"meta":{"a":1},"vector":[1.50, 2e0]}'
    await plant(place, "session", "s", data, key="r1", entry_count=4)
    async with place.open() as storage:
        done = await storage.sessions.rewind("s", keep_entries=3)
    assert done == Rewound(removed_entries=2, truncated_run_id="r1")
    (record,) = await records(place, "session", "s")
    assert b",".join(kept) in record.data
    assert b'"vector":[1.50, 2e0]' in record.data
    assert json.loads(record.data).keys() == {"entries", "vector"}
    assert record.entry_count == 2


async def test_whole_runs_are_cut_without_being_read(place):
    """A rewind that removes a run, or keeps it whole, does not need to understand it."""
    for key in ("r1", "r2", "r3"):
        await plant(place, "session", "s", b"\xff not json", key=key, entry_count=2)
    async with place.open() as storage:
        done = await storage.sessions.rewind("s", keep_entries=2)
        assert done == Rewound(removed_entries=4, removed_run_ids=("r2", "r3"))
    assert [(one.key, one.data) for one in await records(place, "session", "s")] == [
        ("r1", b"\xff not json")
    ]


async def test_a_broken_run_cannot_be_cut_short(place):
    """To cut a broken run short is a CorruptRecord that names it, and changes nothing."""
    await plant(place, "session", "s", b"\xff not json", key="r1", entry_count=2)
    async with place.open() as storage:
        before = dump(place)
        with pytest.raises(CorruptRecord) as caught:
            await storage.sessions.rewind("s", keep_entries=1)
        assert (caught.value.record, caught.value.log.id) == ("r1", "s")
        assert dump(place) == before


async def test_a_rewind_at_the_expected_revision_is_done(handles):
    """With the current revision as token a rewind is done; 0 fits a session that is not there."""
    first, second = handles
    await _fill(first, SIZES)
    token = await second.sessions.revision("s")
    done = await first.sessions.rewind("s", keep_entries=2, expected_revision=token)
    assert done.removed_entries == 3
    assert await first.sessions.rewind("t", keep_entries=0, expected_revision=0) == Rewound()


@pytest.mark.parametrize("keep", [0, 1, 2, 5, 100])
async def test_a_rewind_at_another_revision_is_refused(place, keep):
    """With a stale token a rewind is a RevisionConflict and changes nothing, a no-op included."""
    async with place.open() as first, place.open() as second:
        await _fill(first, SIZES)
        stale = await first.sessions.revision("s")
        await second.sessions.append("s", said("x"), run_id="x")
        before = dump(place)
        with pytest.raises(RevisionConflict) as caught:
            await first.sessions.rewind("s", keep_entries=keep, expected_revision=stale)
        assert caught.value.expected == stale
        assert caught.value.actual == await second.sessions.revision("s")
        with pytest.raises(RevisionConflict):
            await first.sessions.rewind("t", keep_entries=keep, expected_revision=stale)
        assert dump(place) == before


@pytest.mark.parametrize("token", [-1, True, 1.0, "1"])
async def test_a_token_is_an_integer(storage, token):
    """A token that is no integer of at least 0 is an InvalidLimit."""
    await _fill(storage, SIZES)
    with pytest.raises(InvalidLimit):
        await storage.sessions.rewind("s", keep_entries=0, expected_revision=token)
    assert await shape(storage.sessions, "s") == _runs(SIZES)
