"""Snapshots of a thread: each whole, in the order of their appends, the latest the last."""

import asyncio
import itertools

import msgspec
import pytest

from builders import call, dump, result, said, snapshot, user
from disturbed import Interposing, Yielding
from durably import (
    CheckpointNotFound,
    InterruptReason,
    InvalidLimit,
    NotSerializable,
    StateSnapshot,
    Storage,
)
from places import FakeClock
from tables import identical

FULL = StateSnapshot(
    version=3,
    status="interrupted",
    messages=[user("q"), call("c"), result("c", raw={"n": 2**70})],
    turn=4,
    usage={"input": 1.0},
    interrupt=InterruptReason(
        call_id="c", tool_name="t", arguments_digest="d", reason="ask", data=[None]
    ),
    pending_handoff="writer",
    extra={"a": {}, "b": []},
)


async def _listed(saver, thread_id="t", **options):
    return [(one.seq, one.snapshot) for one in await saver.list(thread_id, **options)]


async def test_every_field_comes_back(handles):
    """A snapshot with every field set comes back identical, alone and after others."""
    first, second = (storage.checkpoint_saver() for storage in handles)
    assert all(getattr(FULL, name) for name in FULL.__struct_fields__)
    later = msgspec.structs.replace(FULL, messages=[*FULL.messages, user("next")], turn=5)
    for one in (FULL, later, FULL, StateSnapshot(), FULL):
        seq = await first.append("t", one)
        for found in (await second.latest("t"), await first.get("t", seq)):
            assert (found.thread_id, found.seq) == ("t", seq)
            assert identical(found.snapshot, one)


async def test_a_thread_without_snapshots(place):
    """A thread nobody saved has no latest, an empty list and no seq, and nothing is written."""
    async with place.open() as storage:
        before, saver = dump(place), storage.checkpoint_saver()
        assert await saver.latest("t") is None
        assert await saver.list("t") == []
        with pytest.raises(CheckpointNotFound) as caught:
            await saver.get("t", 1)
        assert (caught.value.thread_id, caught.value.seq) == ("t", 1)
        assert await saver.delete("t") is False
        assert dump(place) == before


@pytest.mark.parametrize("step", [0.0, -3600.0, 1.0])
async def test_the_latest_is_the_last_appended(place, step):
    """Whatever the clock says, seqs rise with the appends and the latest is the last of them."""
    clock = FakeClock()
    async with place.open(clock=clock) as first, place.open(clock=clock) as second:
        savers = [first.checkpoint_saver(), second.checkpoint_saver()]
        seqs = []
        for number in range(12):
            seqs.append(await savers[number % 2].append("t", snapshot(f"{number}")))
            found = await savers[0].latest("t")
            assert (found.snapshot, found.seq) == (snapshot(f"{number}"), seqs[-1])
            assert found.stored_at == clock.now
            clock.now += step
        assert all(one < other for one, other in itertools.pairwise(seqs))
        listed = await _listed(savers[1])
        assert listed == [(seq, snapshot(f"{n}")) for n, seq in reversed([*enumerate(seqs)])]


async def test_threads_are_apart(storage):
    """Saves of one thread appear in no other."""
    saver = storage.checkpoint_saver()
    for number in range(6):
        await saver.append(f"t{number % 3}", snapshot(f"{number}"))
    for number in range(3):
        found = [one for _, one in await _listed(saver, f"t{number}")]
        assert found == [snapshot(f"{number + 3}"), snapshot(f"{number}")]


async def test_before_and_limit(storage):
    """A list holds the newest of those below ``before``, exclusive, newest first."""
    saver = storage.checkpoint_saver()
    seqs = [await saver.append("t", snapshot(*map(str, range(n)))) for n in range(10)]
    newest = seqs[::-1]
    assert [seq for seq, _ in await _listed(saver)] == newest
    for limit in (1, 3, 9, 10, 11, 1000):
        assert [seq for seq, _ in await _listed(saver, limit=limit)] == newest[:limit]
        found = await _listed(saver, before=seqs[6], limit=limit)
        assert [seq for seq, _ in found] == newest[4:][:limit]
        assert all(len(one.messages) == seqs.index(seq) for seq, one in found)
    assert await _listed(saver, before=seqs[0]) == []
    assert await _listed(saver, before=1) == []
    assert [seq for seq, _ in await _listed(saver, before=seqs[-1] + 1)] == newest
    assert [seq for seq, _ in await _listed(saver, before=2**70)] == newest


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "1"])
async def test_numbers_out_of_range_are_refused(storage, value):
    """A seq, a before, a limit and a bound are integers of at least 1."""
    saver = storage.checkpoint_saver()
    await saver.append("t", snapshot("a"))
    for act in (
        lambda: saver.get("t", value),
        lambda: saver.list("t", before=value),
        lambda: saver.list("t", limit=value),
    ):
        with pytest.raises(InvalidLimit):
            await act()
    with pytest.raises(InvalidLimit):
        await saver.list("t", limit=1001)
    with pytest.raises(InvalidLimit):
        storage.checkpoint_saver(max_checkpoints_per_thread=value)


async def test_a_seq_that_is_not_there(storage):
    """A seq nobody was given is CheckpointNotFound, however large."""
    saver = storage.checkpoint_saver()
    seq = await saver.append("t", snapshot("a"))
    for missing in (seq + 1, 2**32, 2**63, 2**70):
        with pytest.raises(CheckpointNotFound):
            await saver.get("t", missing)


HISTORIES = {
    "growing": [["a"], ["a", "b"], ["a", "b", "c"]],
    "shrinking from the end": [["a", "b", "c"], ["a", "b"], ["a"], []],
    "compacted": [["a", "b", "c", "d"], ["summary", "d"], ["summary", "d", "e"]],
    "first message rewritten": [["a", "b", "c"], ["A", "b", "c"], ["A", "b", "c", "d"]],
    "last message rewritten": [["a", "b"], ["a", "B"], ["a", "B", "c"]],
    "the same again": [["a", "b"]] * 4,
    "empty in between": [[], ["a"], [], ["a"], []],
    "back to an earlier state": [["a"], ["a", "b"], ["a"], ["a", "c"], ["a", "b"]],
    "rotated": [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]],
    "repeated messages": [["a"], ["a", "a"], ["a", "a", "a"], ["a"]],
}


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("size", [1, 400])
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES.keys())
async def test_a_reader_never_notices_what_is_shared(handles, history, size, warm):
    """However messages change between saves, every snapshot reads as it was saved."""
    first, second = handles
    saver = first.checkpoint_saver()
    expected = []
    for turn, texts in enumerate(history * 2):
        one = snapshot(*(text * size for text in texts), turn=turn)
        writer = saver if warm else handles[turn % 2].checkpoint_saver()
        expected.append((await writer.append("t", one), one))
    reader = second.checkpoint_saver()
    assert await _listed(reader) == expected[::-1]
    assert [await _listed(reader, before=seq + 1, limit=1) for seq, _ in expected] == [
        [pair] for pair in expected
    ]
    assert [(await reader.get("t", seq)).snapshot for seq, _ in expected] == [
        one for _, one in expected
    ]


async def test_equal_values_of_different_types_are_not_shared(storage):
    """A message that differs from the one before in a value's type alone is stored anew."""
    saver = storage.checkpoint_saver()
    values = [1, 1.0, True, 0.0, -0.0, False, [], {}, None, "1"]
    made = [StateSnapshot(messages=[result("c", raw=value), user("x")]) for value in values]
    for one in made:
        await saver.append("t", one)
    found = [one.snapshot for one in await saver.list("t")]
    assert identical(found, made[::-1])


async def test_many_snapshots(handles):
    """1,100 snapshots are all there, in numeric order, and their pages join."""
    first, second = (storage.checkpoint_saver() for storage in handles)
    messages, seqs = [], []
    for number in range(1100):
        messages = [*messages, user(f"{number}")] if number % 300 else []
        seqs.append(await first.append("t", StateSnapshot(messages=messages, turn=number)))
    assert seqs == sorted(set(seqs))
    walked, before = [], None
    while page := await second.list("t", before=before, limit=170):
        walked += [(one.seq, one.snapshot.turn, len(one.snapshot.messages)) for one in page]
        before = page[-1].seq
    assert walked == [(seqs[n], n, n % 300) for n in reversed(range(1100))]
    assert (await second.get("t", seqs[9])).snapshot.messages == said(*map(str, range(1, 10)))
    assert len(await second.list("t", limit=1000)) == 1000


async def test_concurrent_appends_lose_none(place):
    """Of 60 concurrent appends through 4 handles none is lost and all seqs are different."""
    stores = [Storage(Yielding(place.log_store(), seed)) for seed in range(4)]
    savers = [store.checkpoint_saver() for store in stores]
    made = [snapshot("shared" * 50, f"{number}", turn=number) for number in range(60)]
    seqs = await asyncio.gather(*(savers[n % 4].append("t", one) for n, one in enumerate(made)))
    assert len(set(seqs)) == 60
    listed = await _listed(savers[0])
    assert listed == sorted(zip(seqs, made, strict=True), reverse=True, key=lambda pair: pair[0])
    for store in stores:
        await store.aclose()


async def test_deleting_a_thread_leaves_nothing(place):
    """A deleted thread leaves no residue, also to the handle that remembers writing it."""
    async with place.open() as first, place.open() as second:
        saver, other = first.checkpoint_saver(), second.checkpoint_saver()
        await saver.append("other", snapshot("kept"))
        before = dump(place)
        for number in range(5):
            await saver.append("t", snapshot(*map(str, range(number))))
        assert await other.delete("t") is True
        assert dump(place) == before
        assert await saver.latest("t") is None
        assert await other.delete("t") is False
        seq = await saver.append("t", snapshot("0", "1", "new"))
        assert await _listed(other) == [(seq, snapshot("0", "1", "new"))]


async def _life(saver, letter, saves):
    for number in range(1, saves + 1):
        await saver.append("t", snapshot(letter * 400, *(f"{letter}{n}" for n in range(number))))


@pytest.mark.parametrize("operation", ["latest", "get", "list"])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_thread_recreated_under_a_reader_is_never_mixed(place, operation, number):
    """A reader overtaken by delete and re-creation sees one life of the thread, never both."""
    store = Interposing(place.log_store())
    async with Storage(store) as first, place.open() as second:
        reader, writer = first.checkpoint_saver(), second.checkpoint_saver()
        await _life(writer, "a", 4)

        async def recreate():
            await writer.delete("t")
            await _life(writer, "b", 5)

        store.interpose("read", number, recreate)
        if operation == "latest":
            found = [await reader.latest("t")]
        elif operation == "get":
            found = [await reader.get("t", 4)]
        else:
            found = list(await reader.list("t", limit=2))
        for one in found:
            letters = {message.content[0] for message in one.snapshot.messages}
            assert len(letters) == 1
            assert len(one.snapshot.messages) == 1 + one.seq


async def test_a_snapshot_that_cannot_be_stored_changes_nothing(place):
    """A refused snapshot leaves the thread as it was, and the same saver goes on."""
    async with place.open() as storage:
        saver = storage.checkpoint_saver()
        await saver.append("t", snapshot("a"))
        before = dump(place)
        with pytest.raises(NotSerializable) as caught:
            await saver.append("t", StateSnapshot(messages=[user("a"), result("c", raw={1})]))
        assert caught.value.path == "snapshot.messages[1].raw"
        assert dump(place) == before
        await saver.append("t", snapshot("a", "b"))
        assert [one for _, one in await _listed(saver)] == [snapshot("a", "b"), snapshot("a")]


async def test_changing_a_list_of_messages_between_saves(storage):
    """A saver compares with what it stored, not with a list the caller changed since."""
    saver = storage.checkpoint_saver()
    messages = said("a", "b", "c")
    await saver.append("t", StateSnapshot(messages=messages))
    messages[0] = user("A")
    messages.append(user("d"))
    await saver.append("t", StateSnapshot(messages=messages))
    found = [one.messages for _, one in await _listed(saver)]
    assert found == [said("A", "b", "c", "d"), said("a", "b", "c")]
