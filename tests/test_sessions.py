"""Sessions: runs in the order of their appends, each whole, each once."""

import asyncio
import random

import pytest

from builders import assert_unlocked, call, dump, model, result, said, shape, user
from disturbed import Recorder, Yielding
from durably import InvalidLimit, NotSerializable, RevisionConflict, Storage
from places import FakeClock


def _scrambled(count):
    names = [f"run-{number}" for number in range(count)]
    random.Random(7).shuffle(names)  # noqa: S311 - a seeded order
    return names


@pytest.mark.parametrize("step", [0.0, -1.0, -86_400.0, 1.0])
async def test_runs_come_back_in_append_order_whatever_the_clock_says(place, step):
    """60 scrambled runs come back in append order under a frozen and a backward clock."""
    clock = FakeClock()
    names = _scrambled(60)
    async with place.open(clock=clock) as first, place.open(clock=clock) as second:
        for number, name in enumerate(names):
            writer = (first, second)[number % 2]
            await writer.sessions.append("s", said(f"{number}"), run_id=name)
            clock.now += step
        segments = await second.sessions.segments("s")
        assert [one.run_id for one in segments] == names
        assert await first.sessions.load("s") == said(*map(str, range(60)))


async def test_a_run_comes_back_with_its_id_entries_and_meta(handles):
    """Segments carry run_id, entries and meta as they were appended."""
    first, second = handles
    entries = [user("q"), call("c"), result("c"), model("a")]
    meta = {"timing": {"started_at": 1.5}, "none": None, "list": []}
    assert await first.sessions.append("s", entries, run_id="r", meta=meta) == "r"
    (segment,) = await second.sessions.segments("s")
    assert (segment.run_id, segment.entries, segment.meta) == ("r", entries, meta)


async def test_a_run_without_meta_has_none(storage):
    """A run appended without meta has None."""
    await storage.sessions.append("s", said("a"))
    assert (await storage.sessions.segments("s"))[0].meta is None


async def test_load_is_the_concatenation_of_segments(storage):
    """Load gives the entries of all segments, one after the other."""
    for number in range(5):
        await storage.sessions.append("s", said(*(f"{number}.{n}" for n in range(number))))
    segments = await storage.sessions.segments("s")
    assert await storage.sessions.load("s") == [e for one in segments for e in one.entries]
    assert [len(one.entries) for one in segments] == [0, 1, 2, 3, 4]


async def test_a_missing_session_is_empty(place):
    """A session nobody wrote is empty, at revision 0, and looking at it writes nothing."""
    async with place.open() as storage:
        before = dump(place)
        assert await storage.sessions.load("s") == []
        assert await storage.sessions.segments("s") == []
        assert await storage.sessions.revision("s") == 0
        await storage.sessions.clear("s")
        assert await storage.sessions.trim_tool_results("s") == 0
        assert dump(place) == before


async def test_empty_runs_keep_their_place(handles):
    """A run without entries is kept where it was appended, with its meta."""
    first, second = handles
    for run_id, entries in (("a", []), ("b", said("x")), ("c", []), ("d", said("y")), ("e", [])):
        await first.sessions.append("s", entries, run_id=run_id, meta={"of": run_id})
    found = await second.sessions.segments("s")
    assert [(one.run_id, len(one.entries)) for one in found] == [
        *(("a", 0), ("b", 1), ("c", 0), ("d", 1), ("e", 0)),
    ]
    assert [one.meta["of"] for one in found] == list("abcde")


async def test_the_first_write_of_a_run_wins(handles):
    """Appending a run_id again returns it and changes nothing, whatever the call carries."""
    first, second = handles
    await first.sessions.append("s", said("first"), run_id="r", meta={"n": 1})
    await first.sessions.append("s", said("between"), run_id="r2")
    revision = await first.sessions.revision("s")
    for handle in handles:
        assert await handle.sessions.append("s", said("x", "y"), run_id="r", meta={"n": 2}) == "r"
        assert await handle.sessions.append("s", [], run_id="r") == "r"
    assert await second.sessions.load("s") == said("first", "between")
    assert (await second.sessions.segments("s"))[0].meta == {"n": 1}
    assert await second.sessions.revision("s") == revision


async def test_an_empty_first_write_wins_too(storage):
    """A run first appended without entries stays empty."""
    await storage.sessions.append("s", [], run_id="r")
    await storage.sessions.append("s", said("late"), run_id="r", meta={"late": True})
    assert await shape(storage.sessions, "s") == [("r", 0)]
    assert (await storage.sessions.segments("s"))[0].meta is None


async def test_a_reopened_storage_remembers_run_ids(place):
    """The first write wins through a handle opened later as well."""
    async with place.open() as storage:
        await storage.sessions.append("s", said("first"), run_id="r")
    async with place.open() as storage:
        await storage.sessions.append("s", said("second"), run_id="r")
        assert await storage.sessions.load("s") == said("first")


async def test_run_ids_are_scoped_by_session(storage):
    """The same run_id in two sessions is two runs."""
    await storage.sessions.append("s", said("one"), run_id="r")
    await storage.sessions.append("t", said("two"), run_id="r")
    assert await storage.sessions.load("s") == said("one")
    assert await storage.sessions.load("t") == said("two")


async def test_an_omitted_run_id_is_fresh(handles):
    """Appends without a run_id get 300 different ones, from two handles."""
    given = [await handles[n % 2].sessions.append("s", said(f"{n}")) for n in range(300)]
    assert len(set(given)) == 300
    assert [one.run_id for one in await handles[1].sessions.segments("s")] == given


async def test_concurrent_appends_of_one_run_give_one_whole_segment(place):
    """Of 20 concurrent appends of one run_id through 4 handles exactly one is stored, whole."""
    stores = [Storage(Yielding(place.log_store(), seed)) for seed in range(4)]
    for number in range(10):
        calls = (
            stores[n % 4].sessions.append(
                f"s{number}", said(*[f"{n}"] * 5), run_id="r", meta={"n": n}
            )
            for n in range(20)
        )
        assert await asyncio.gather(*calls) == ["r"] * 20
        (segment,) = await stores[0].sessions.segments(f"s{number}")
        assert segment.entries == said(*[f"{segment.meta['n']}"] * 5)
    for store in stores:
        await store.aclose()


async def test_concurrent_appends_of_many_runs_lose_none(place):
    """100 concurrent appends of 50 runs through 4 handles give 50 whole segments."""
    stores = [Storage(Yielding(place.log_store(), seed)) for seed in range(4)]
    await asyncio.gather(
        *(
            stores[n % 4].sessions.append("s", said(*[f"{n % 50}"] * 3), run_id=f"{n % 50}")
            for n in range(100)
        )
    )
    segments = await stores[0].sessions.segments("s")
    assert sorted(one.run_id for one in segments) == sorted(map(str, range(50)))
    assert all(one.entries == said(*[one.run_id] * 3) for one in segments)
    for store in stores:
        await store.aclose()


async def test_an_append_depends_on_no_earlier_load(handles):
    """A handle that loaded earlier appends without erasing what came in between."""
    first, second = handles
    await first.sessions.append("s", said("0"), run_id="r0")
    await first.sessions.load("s")
    await second.sessions.append("s", said("2"), run_id="r2")
    await first.sessions.append("s", said("1"), run_id="r1")
    assert await shape(second.sessions, "s") == [("r0", 1), ("r2", 1), ("r1", 1)]


async def test_clear_leaves_no_residue(place):
    """After a clear the raw storage is as if the session had never been, and run ids are free."""
    async with place.open() as first, place.open() as second:
        await first.sessions.append("other", said("kept"))
        before = dump(place)
        for number in range(5):
            entries = [user("q"), call("c"), result("c", "x" * 900)]
            await first.sessions.append("s", entries, run_id=f"r{number}", meta={"n": number})
        await second.sessions.trim_tool_results("s")
        await second.sessions.rewind("s", keep_entries=7)
        await second.sessions.clear("s")
        assert dump(place) == before
        assert await first.sessions.load("s") == []
        assert await first.sessions.revision("s") == 0
        await first.sessions.append("s", said("new"), run_id="r0")
        assert await shape(second.sessions, "s") == [("r0", 1)]


async def test_good_unserialisable_good(place):
    """An append that cannot be stored leaves no trace, no lock, and the handle usable."""
    async with place.open() as first, place.open() as second:
        await first.sessions.append("s", said("one"), run_id="r1")
        before = dump(place)
        with pytest.raises(NotSerializable):
            await first.sessions.append("s", [user("ok"), object()], run_id="r2")
        with pytest.raises(NotSerializable):
            await first.sessions.append("s", said("ok"), run_id="r2", meta={"x": {1}})
        assert dump(place) == before
        assert_unlocked(place)
        await second.sessions.append("s", said("three"), run_id="r3")
        await first.sessions.append("s", said("two"), run_id="r2")
        assert await shape(first.sessions, "s") == [("r1", 1), ("r3", 1), ("r2", 1)]


async def test_many_small_entries(handles):
    """5,000 small entries in one run, and 1,234 more in others, come back whole and in order."""
    first, second = handles
    expected = said(*(f"{n}" for n in range(6234)))
    await first.sessions.append("s", expected[:5000])
    for start in range(5000, 6234, 100):
        await first.sessions.append("s", expected[start : start + 100])
    assert await second.sessions.load("s") == expected


async def test_entries_may_come_from_any_iterable(storage):
    """A tuple of entries is as good as a list."""
    await storage.sessions.append("s", tuple(said("a", "b")))
    assert await storage.sessions.load("s") == said("a", "b")


async def test_the_bytes_of_an_append_do_not_grow_with_the_session(place):
    """The 200th append writes as many bytes as the 2nd, in one operation of the log store."""
    recorder = Recorder(place.log_store())
    sizes = []
    async with Storage(recorder) as storage:
        for number in range(200):
            before = recorder.written
            recorder.calls.clear()
            await storage.sessions.append("s", said("same"), run_id=f"r{number:03}")
            sizes.append(recorder.written - before)
            if number:
                assert recorder.calls == [("append", "session")]
    assert set(sizes[1:]) == {sizes[1]}


async def test_stored_runs_do_not_change_when_others_arrive(place):
    """The raw bytes of a run are the same before and after later appends."""
    async with place.open() as storage:
        await storage.sessions.append("s", said("a"), run_id="r1", meta={"n": 1})
        before = await storage.sessions.segments("s")
        for number in range(20):
            await storage.sessions.append("s", said("b"), run_id=f"later{number}")
        assert (await storage.sessions.segments("s"))[:1] == before


async def test_every_change_moves_the_revision(handles):
    """Append, trim, rewind and clear each give another revision; what changes nothing does not."""
    first, second = handles
    seen = [await second.sessions.revision("s")]

    async def moved():
        seen.append(await second.sessions.revision("s"))
        return len(set(seen)) == len(seen)

    await first.sessions.append("s", [call("c"), result("c", "x" * 900)], run_id="r1")
    assert await moved()
    await first.sessions.append("s", said("b"), run_id="r2")
    assert await moved()
    await first.sessions.trim_tool_results("s", keep_chars=10)
    assert await moved()
    await first.sessions.rewind("s", keep_entries=2)
    assert await moved()
    for _ in range(2):
        await first.sessions.append("s", said("other"), run_id="r1")
        await first.sessions.trim_tool_results("s", keep_chars=10, keep_runs=0)
        await first.sessions.rewind("s", keep_entries=2)
        await first.sessions.load("s")
    assert await second.sessions.revision("s") == seen[-1]
    await first.sessions.clear("s")
    assert await second.sessions.revision("s") == 0
    await first.sessions.append("s", said("new life"), run_id="r1")
    assert await moved()


async def test_a_revision_of_an_earlier_life_fits_no_later_one(storage):
    """A token from before a clear is refused in the session's next life."""
    await storage.sessions.append("s", said("a", "b"), run_id="r")
    stale = await storage.sessions.revision("s")
    await storage.sessions.clear("s")
    await storage.sessions.append("s", said("a", "b"), run_id="r")
    with pytest.raises(RevisionConflict):
        await storage.sessions.rewind("s", keep_entries=1, expected_revision=stale)
    assert await shape(storage.sessions, "s") == [("r", 2)]


@pytest.mark.parametrize("count", [-1, True, 1.0, "1", None])
async def test_counts_are_integers_of_at_least_zero(place, count):
    """A negative, bool, float or text count is an InvalidLimit and changes nothing."""
    async with place.open() as storage:
        await storage.sessions.append("s", [call("c"), result("c", "x" * 900)])
        before, sessions = dump(place), storage.sessions
        for act in (
            lambda: sessions.rewind("s", keep_entries=count),
            lambda: sessions.trim_tool_results("s", keep_chars=count, keep_runs=0),
            lambda: sessions.trim_tool_results("s", keep_chars=1, keep_runs=count),
        ):
            with pytest.raises(InvalidLimit):
                await act()
        assert dump(place) == before
