"""S3: answers that never come, requests that come late or twice, and rivals: all done once."""

import itertools

import pytest

from durably import MemoryLogStore, Unavailable
from durably.logstore import Batch
from durably_s3._bucket import Lost
from s3_crashes import (
    KEYS,
    LOG,
    OPERATIONS,
    At,
    again,
    batches,
    filled,
    named_objects,
    open_on,
    record,
    send,
    small,
    tidy,
    view,
    warm,
)
from s3_memory import Shelf, nothing, unsure

LENGTHS = (0, 3, 8, 20)
TIP = KEYS.tip(LOG)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    small(monkeypatch)


def lost(_request):
    raise Lost


async def _undisturbed(full, change):
    shelf = full.copy()
    store, _ = open_on(shelf)
    return await send(store, change), await view(shelf)


async def _disturbed(full, change, where, at, *, length, is_warm, **settings):
    """Carry out a change with one request disturbed; return what it was told and the shelf."""
    shelf = full.copy()
    store, bucket = open_on(shelf, **settings)
    if is_warm:
        await warm(store, length)
    setattr(bucket, where, at)
    try:
        return await send(store, change), shelf
    except Unavailable as error:
        return error, shelf
    finally:
        await store.aclose()


async def _arrived(shelf):
    """Let everything arrive that is under way."""
    store, _ = open_on(shelf)
    while shelf.late:
        await store.read(LOG)


class AtPut(At):
    """Delays the n-th PUT."""

    def __init__(self, number, turns):
        super().__init__(number, lambda _: turns)


class AtTip:
    """Delays the first PUT of the tip."""

    def __init__(self, turns):
        self._turns = turns
        self.is_reached = False

    def __call__(self, request):
        if request.key != TIP or self.is_reached:
            return None
        self.is_reached = True
        return self._turns


class EveryPut:
    """True for every n-th PUT."""

    def __init__(self, number):
        self._number = number
        self._count = 0

    def __call__(self, _request):
        self._count += 1
        return self._count % self._number == 0


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("name", OPERATIONS)
async def test_each_request_may_lose_its_answer(name, where, record_property):
    """Whichever request is not answered, carried out or not, the answer and the log are right."""
    counted = 0
    for length, is_warm in itertools.product(LENGTHS, (False, True)):
        full, change = await filled(length), OPERATIONS[name](length)
        expected = await _undisturbed(full, change)
        for number in itertools.count():
            at = At(number, unsure)
            answer, shelf = await _disturbed(
                full, change, where, at, length=length, is_warm=is_warm
            )
            if not at.is_reached:
                break
            assert (answer, await view(shelf)) == expected
            await tidy(shelf)
            assert await view(shelf) == expected[1]
            counted += 1
    assert counted >= 10
    record_property("counted", counted)


@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_put_may_come_late(name, record_property):
    """A PUT that arrives 0 to 5 requests after its answer was missed is carried out once."""
    counted = 0
    for length, is_warm in ((0, False), (3, False), (8, True), (20, False)):
        full, change = await filled(length), OPERATIONS[name](length)
        expected = await _undisturbed(full, change)
        for number, turns in itertools.product(range(20), range(6)):
            at = AtPut(number, turns)
            answer, shelf = await _disturbed(
                full, change, "delay", at, length=length, is_warm=is_warm
            )
            if not at.is_reached:
                break
            await _arrived(shelf)
            assert (answer, await view(shelf)) == expected
            await tidy(shelf)
            assert await view(shelf) == expected[1]
            counted += 1
    assert counted >= 18
    record_property("counted", counted)


@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_put_may_come_after_the_caller_gave_up(name, record_property):
    """A caller that gives up is told so; what comes then counts once with its repetition."""
    counted = 0
    for length, turns in itertools.product(LENGTHS, range(6)):
        full, change = await filled(length), OPERATIONS[name](length)
        answer, after = await _undisturbed(full, change)
        states = (await view(full), after)
        for number in range(20):
            at = AtPut(number, turns)
            told, shelf = await _disturbed(
                full, change, "delay", at, length=length, is_warm=False, timeout=1e-9
            )
            if not at.is_reached:
                break
            assert isinstance(told, Unavailable) or told == answer
            store, _ = open_on(shelf)
            assert await store.read(LOG) in states
            assert await send(store, change) in (answer, again(answer))
            await _arrived(shelf)
            assert await view(shelf) == after
            await tidy(shelf)
            counted += 1
    assert counted >= 18
    record_property("counted", counted)


@pytest.mark.parametrize("turns", range(1, 9))
@pytest.mark.parametrize("length", LENGTHS)
async def test_a_late_put_and_the_changes_of_others(length, turns):
    """What comes late after others changed the log is not there, or there once, and harms none."""
    shelf = await filled(length)
    first, bucket = open_on(shelf, timeout=1e-9)
    await first.read(LOG)
    late = Batch(records=(record("late", 400),), key="late", at=1.0)
    at = AtTip(turns)
    bucket.delay = at
    with pytest.raises(Unavailable):
        await first.append(LOG, late)
    assert at.is_reached
    second, _ = open_on(shelf)
    for number in range(4):
        await second.append(LOG, Batch(records=(record(f"o{number}"),), key=f"o{number}", at=2.0))
    applied = await second.append(LOG, late)
    await _arrived(shelf)
    now = await view(shelf)
    keys = [one.key for one in now.records]
    assert sorted(keys) == sorted({*keys})
    assert len(keys) == now.state.record_count == length + 5
    assert now.records[-1].key == "late:0" or applied.duplicate
    await tidy(shelf)
    assert await view(shelf) == now


@pytest.mark.parametrize("number", [1, 2, 3, 5])
@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_library_may_repeat_what_was_carried_out(name, number):
    """A PUT that meets its own first attempt is a success, and no repetition of anything."""
    for length, is_warm in itertools.product(LENGTHS, (False, True)):
        full, change = await filled(length), OPERATIONS[name](length)
        expected = await _undisturbed(full, change)
        answer, shelf = await _disturbed(
            full, change, "repeats", EveryPut(number), length=length, is_warm=is_warm
        )
        assert (answer, await view(shelf)) == expected
        await tidy(shelf)


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
async def test_a_library_that_repeats_is_as_good_as_one_that_does_not(number):
    """A whole history, from the first look at the server on, is answered as memory answers it."""
    shelf, memory = Shelf(), MemoryLogStore()
    store, bucket = open_on(shelf)
    bucket.repeats = EveryPut(number)
    for batch in batches(30):
        assert await store.append(LOG, batch) == await memory.append(LOG, batch)
    assert await view(shelf) == await memory.read(LOG)
    assert await store.delete(LOG)
    await tidy(shelf)


@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_copy_of_a_put_may_straggle(name):
    """A PUT that arrives once more, long after it was answered, changes nothing."""
    for length in LENGTHS[1:]:
        full, change = await filled(length), OPERATIONS[name](length)
        expected = await _undisturbed(full, change)
        for turns in range(8):
            answer, shelf = await _disturbed(
                full, change, "straggles", lambda _, turns=turns: turns, length=length, is_warm=True
            )
            await _arrived(shelf)
            assert (answer, await view(shelf)) == expected
            await tidy(shelf)


@pytest.mark.parametrize("where", ["delay", "straggles"])
@pytest.mark.parametrize("size", [60, 400])
async def test_a_creation_that_comes_after_a_deletion_is_whole(where, size):
    """Where a late PUT creates a log anew, it has all that was sent, whatever was withdrawn."""
    shelf = await filled(0)
    first, bucket = open_on(shelf)
    second, _ = open_on(shelf)
    setattr(bucket, where, AtTip(10_000))
    creation = Batch(records=(record("late", size),), key="late", at=1.0)

    other = await filled(3)

    def create_elsewhere(request):
        if request.what == "put" and request.key == TIP:
            shelf.objects |= other.objects
            bucket.before = nothing

    bucket.before = create_elsewhere
    applied = await first.append(LOG, creation)
    assert (applied.seq, applied.duplicate) == (4, False)
    assert await second.delete(LOG)
    [late] = shelf.late
    late[0] = 0
    await _arrived(shelf)
    now = await view(shelf)
    assert [one.key for one in now.records] == ["late:0"]
    named_objects(shelf)


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_conflict_with_an_unchanged_tip_is_tried_again(name, times):
    """A server that says that somebody was in the way, while nobody was, is asked again."""
    for length, is_warm in itertools.product(LENGTHS, (False, True)):
        full, change = await filled(length), OPERATIONS[name](length)
        expected = await _undisturbed(full, change)
        left = [times]

        def refuse(request, left=left):
            if request.what == "put" and request.key == TIP and left[0]:
                left[0] -= 1
                raise Lost

        assert expected == await _answer_and_view(
            full, change, "before", refuse, length=length, is_warm=is_warm
        )


async def _answer_and_view(*args, **options):
    answer, shelf = await _disturbed(*args, **options)
    return answer, await view(shelf)


@pytest.mark.parametrize("name", [name for name in OPERATIONS if not name.startswith("delete")])
@pytest.mark.parametrize("seconds", [20, 1e-9])
async def test_what_others_build_upon_is_no_repetition(name, seconds):
    """A change whose answer is lost is told as done by itself, though others changed more since.

    So it is where the time is over: who looks once more finds it.
    """
    full, change = await filled(8), OPERATIONS[name](8)
    answer, _ = await _undisturbed(full, change)
    after = full.copy()
    other, _ = open_on(after)
    await send(other, change)
    await other.append(LOG, Batch(records=(record("more", 400),), key="more", at=1.0))
    await other.aclose()
    shelf = full.copy()
    store, bucket = open_on(shelf, timeout=seconds)

    def build_upon_and_lose(request):
        if request.what == "put" and request.key == TIP:
            shelf.objects = dict(after.objects)
            bucket.after = nothing
            unsure(request)

    bucket.after = build_upon_and_lose
    assert await send(store, change) == answer
    assert await view(shelf) == await view(after)
    await tidy(shelf)
