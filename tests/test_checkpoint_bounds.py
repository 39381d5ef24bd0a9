"""Bounded threads, and what snapshots cost: only what changed, and only what is needed."""

import asyncio
import random

import pytest

from builders import model, records, snapshot, user
from disturbed import Recorder, Yielding
from durably import MemoryLogStore, StateSnapshot, Storage
from durably.codec import Codec

_codec = Codec(StateSnapshot)


def _size(one):
    return len(_codec.encode(one, "snapshot"))


def _next(messages, rng):
    """Grow a conversation mostly; sometimes compact it, cut it or rewrite its start."""
    what = rng.random()
    if what < 0.75 or not messages:
        return [*messages, user(f"{rng.random()}" * rng.randrange(1, 12))]
    if what < 0.85:
        return [user("summary"), *messages[-2:]]
    if what < 0.95:
        return messages[: rng.randrange(len(messages))]
    return [user(f"rewritten {rng.random()}"), *messages[1:]]


@pytest.mark.parametrize("bounds", [(1, 1), (3, 3), (2, 5), (1, 4), (3, None), (None, 7)])
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_writers_of_different_bounds_leave_what_is_visible_readable(handles, bounds, seed):
    """Whoever saved last, with whatever bound, warm or cold: what is visible is whole."""
    rng = random.Random(seed)  # noqa: S311 - a seeded history
    warm = [
        s.checkpoint_saver(max_checkpoints_per_thread=b)
        for s, b in zip(handles, bounds, strict=True)
    ]
    least = min(bound for bound in bounds if bound)
    saved, messages = [], []
    for turn in range(60):
        side = rng.randrange(2)
        cold = handles[side].checkpoint_saver(max_checkpoints_per_thread=bounds[side])
        messages = _next(messages, rng)
        one = StateSnapshot(messages=messages, turn=turn)
        saved.insert(0, (await rng.choice([warm[side], cold]).append("t", one), one))
        for reader, bound in zip(warm, bounds, strict=True):
            found = [(one.seq, one.snapshot) for one in await reader.list("t")]
            assert found == saved[: len(found)]
            assert len(found) >= min(least, len(saved))
            assert bound is None or len(found) <= bound
            for seq, one in found[:3] + found[-1:]:
                assert (await reader.get("t", seq)).snapshot == one
            assert (await reader.latest("t")).snapshot == saved[0][1]


async def test_concurrent_bounded_writers_lose_nothing_visible(place):
    """Concurrent bounded writers keep every seq different and the newest whole."""
    stores = [Storage(Yielding(place.log_store(), seed)) for seed in range(4)]
    savers = [s.checkpoint_saver(max_checkpoints_per_thread=5) for s in stores]
    made = [snapshot("shared" * 50, f"{number}", turn=number) for number in range(60)]
    seqs = await asyncio.gather(*(savers[n % 4].append("t", one) for n, one in enumerate(made)))
    assert len(set(seqs)) == 60
    newest = sorted(zip(seqs, made, strict=True), key=lambda pair: pair[0])[::-1][:5]
    assert [(one.seq, one.snapshot) for one in await savers[0].list("t")] == newest
    for store in stores:
        await store.aclose()


async def test_a_reader_of_a_bounded_thread_sees_whole_snapshots_only(place):
    """A reader beside a bounded writer always finds whole snapshots, newest first."""
    bound = {"max_checkpoints_per_thread": 3}
    async with (
        Storage(Yielding(place.log_store(), 1)) as first,
        Storage(Yielding(place.log_store(), 2)) as second,
    ):
        writer, reader = first.checkpoint_saver(**bound), second.checkpoint_saver(**bound)
        texts = [f"{n}" * 90 for n in range(120)]
        done = False

        async def write():
            nonlocal done
            for turn in range(120):
                kept = texts[max(0, turn - 7) : turn] if turn % 10 == 9 else texts[:turn]
                await writer.append("t", snapshot(*kept, turn=turn))
            done = True

        async def read():
            seen = set()
            while not done:
                found = [one.snapshot for one in await reader.list("t")]
                latest = await reader.latest("t")
                for one in (*found, *([latest.snapshot] if latest else [])):
                    start = max(0, one.turn - 7) if one.turn % 10 == 9 else 0
                    assert one == snapshot(*texts[start : one.turn], turn=one.turn)
                    seen.add(one.turn)
                turns = [one.turn for one in found]
                assert turns == sorted(turns, reverse=True)
            return seen

        _, seen = await asyncio.gather(write(), read())
    assert len(seen) > 5


async def _conversation(storage, turns, size, *, warm=True, bound=None, key="t"):
    saver = storage.checkpoint_saver(max_checkpoints_per_thread=bound)
    messages = []
    for turn in range(turns):
        messages += [user(f"q{turn} " * size), model(f"a{turn} " * size)]
        last = StateSnapshot(messages=messages, turn=turn, usage={"input": turn * 100})
        if not warm:
            saver = storage.checkpoint_saver(max_checkpoints_per_thread=bound)
        await saver.append(key, last)
    return last


@pytest.mark.parametrize("size", [1, 10, 60])
@pytest.mark.parametrize(("bound", "warm"), [(None, True), (None, False), (10, True)])
async def test_400_saves_write_less_than_6_times_the_final_state(size, bound, warm):
    """Saves of a conversation growing to 400 turns write less than 6 times its final state."""
    recorder = Recorder(MemoryLogStore())
    async with Storage(recorder) as storage:
        last = await _conversation(storage, 400, size, warm=warm, bound=bound)
        latest = await storage.checkpoint_saver().latest("t")
        assert latest.snapshot == last
    assert _size(last) < recorder.written < 6 * _size(last)


async def test_what_is_stored_grows_as_the_conversation(place):
    """On every backend 400 saves end in less than 6 times the final state, files and all."""
    recorder = Recorder(place.log_store())
    async with Storage(recorder) as storage:
        last = await _conversation(storage, 400, 30)
    assert _size(last) < recorder.written < 6 * _size(last)
    if place.backend == "sqlite":
        size = sum(one.stat().st_size for one in place.file.parent.glob("storage.db*"))
        assert _size(last) < size < 6 * _size(last) + 64 * 1024


@pytest.mark.parametrize(("bound", "warm"), [(1, True), (3, False), (10, True)])
async def test_a_bounded_thread_keeps_little_more_than_it_needs(place, bound, warm):
    """Of 200 saves a bounded thread keeps a small multiple of its final state, in few records."""
    async with place.open() as storage:
        last = await _conversation(storage, 200, 10, bound=bound, warm=warm)
    kept = await records(place, "thread", "t")
    assert sum(len(record.data) for record in kept) < 4 * _size(last)
    assert len(kept) < 150


async def test_nothing_is_kept_that_no_visible_snapshot_is_played_from(place):
    """The oldest record kept holds all of a snapshot, and no newer one would do as well."""
    async with place.open() as storage:
        saver = storage.checkpoint_saver(max_checkpoints_per_thread=3)
        rng, messages = random.Random(5), []  # noqa: S311 - a seeded history
        for turn in range(150):
            messages = _next(messages, rng)
            await saver.append("t", StateSnapshot(messages=messages, turn=turn))
            kept = [record.key.partition(":")[0] for record in await records(place, "thread", "t")]
            assert kept[0] == "base"
            assert "base" not in kept[1 : len(kept) - 2]


async def test_a_window_of_messages_keeps_a_bounded_number_of_records(place):
    """A bounded thread whose messages slide through a window does not grow for ever."""
    async with place.open() as storage:
        saver = storage.checkpoint_saver(max_checkpoints_per_thread=3)
        most = 0
        for turn in range(300):
            texts = [f"{n}" * 40 for n in range(max(0, turn - 9), turn + 1)]
            await saver.append("t", snapshot(*texts, turn=turn))
            most = max(most, len(await records(place, "thread", "t")))
    assert most <= 3 + 64


async def test_a_save_of_a_long_conversation_writes_a_short_record(place):
    """After a save of 1 MB, saving one more message writes little, warm and cold."""
    recorder = Recorder(place.log_store())
    async with Storage(recorder) as storage:
        texts = ["x" * 10_000] * 100
        saver = storage.checkpoint_saver()
        await saver.append("t", snapshot(*texts))
        for writer in (saver, storage.checkpoint_saver()):
            before = recorder.written
            texts.append("one more")
            await writer.append("t", snapshot(*texts))
            assert recorder.written - before < 500
        recorder.calls.clear()
        await writer.append("t", snapshot(*texts))
        assert recorder.calls == [("append", "thread")]
