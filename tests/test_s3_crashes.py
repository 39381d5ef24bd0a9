"""S3: a process may end before and after any request, and every change is whole or not there."""

import asyncio
import itertools

import pytest

from durably import MemoryLogStore
from durably_s3 import _tip
from s3_crashes import (
    FIRST_REVISION,
    KEYS,
    LENGTHS,
    LOG,
    OPERATIONS,
    At,
    again,
    batches,
    filled,
    named_objects,
    open_on,
    send,
    small,
    tidy,
    view,
    warm,
)
from s3_memory import Crash, Shelf


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    small(monkeypatch)


def crash(_request):
    raise Crash


def _report(loop, context):
    if not isinstance(context.get("exception"), Crash):
        loop.default_exception_handler(context)


async def _undisturbed(shelf, change):
    twin = shelf.copy()
    store, _ = open_on(twin)
    answer = await send(store, change)
    return answer, await view(twin)


async def _crashed(shelf, change, *, length, is_warm, side, number):
    """Crash at a request; whether there was so many."""
    asyncio.get_running_loop().set_exception_handler(_report)
    store, bucket = open_on(shelf)
    if is_warm:
        await warm(store, length)
    at = At(number, crash)
    setattr(bucket, side, at)
    try:
        await send(store, change)
    except Crash:
        assert at.is_reached
    await store.aclose()  # what is obsolete is removed after the answer
    return at.is_reached


async def _check(shelf, change, *, before, answer, after):
    """Look at what a crash left, repeat the change, and collect the garbage."""
    now = await view(shelf)
    assert now in (before, after)
    names = named_objects(shelf)
    assert names <= set(shelf.objects)
    store, _ = open_on(shelf)
    assert await send(store, change) == (answer if now == before else again(answer))
    assert await view(shelf) == after
    await tidy(shelf)
    assert await view(shelf) == after


@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_crash_at_any_request_leaves_all_or_nothing(name, record_property):
    """A fresh handle sees the state before or the one after, and a repetition makes it that."""
    counted = 0
    left = set()
    for length in LENGTHS:
        full = await filled(length)
        change = OPERATIONS[name](length)
        before = await view(full)
        answer, after = await _undisturbed(full, change)
        expected = {"before": before, "answer": answer, "after": after}
        for is_warm, side in itertools.product((False, True), ("before", "after")):
            for number in itertools.count():
                shelf = full.copy()
                if not await _crashed(
                    shelf, change, length=length, is_warm=is_warm, side=side, number=number
                ):
                    break
                left.add(await view(shelf) == after)
                await _check(shelf, change, **expected)
                counted += 1
    assert left == {False, True}
    assert counted >= 40
    record_property("counted", counted)


@pytest.mark.parametrize("name", OPERATIONS)
async def test_undisturbed_it_is_as_on_memory(name):
    """What an operation answers and leaves is what memory answers and keeps, at every length."""
    for length in LENGTHS:
        memory = MemoryLogStore()
        for batch in batches(length):
            await memory.append(LOG, batch)
        change = OPERATIONS[name](length)
        answer, after = await _undisturbed(await filled(length), change)
        assert (await send(memory, change), await memory.read(LOG)) == (answer, after)


async def test_the_lengths_go_through_sealing_and_merging():
    """The logs have a tail alone or chunks of two levels; the next record makes one of a third."""
    levels = {}
    for length in (*LENGTHS, 27):
        shelf = await filled(length)
        tips = [data for key, data in shelf.dump().items() if key == KEYS.tip(LOG)]
        levels[length] = [[one.level for one in _tip.read(data).chunks] for data in tips]
    assert levels == {
        0: [],
        1: [[]],
        3: [[0]],
        7: [[0, 0]],
        8: [[0, 0]],
        9: [[1]],
        20: [[1, 1]],
        26: [[1, 1, 0, 0]],
        27: [[2]],
    }


async def test_a_crash_while_the_layout_is_marked_is_nothing(record_property):
    """A first append that ends at any request leaves a prefix that the next one can use."""
    counted = 0
    change = OPERATIONS["append"](0)
    for side in ("before", "after"):
        for number in itertools.count():
            shelf = Shelf()
            if not await _crashed(shelf, change, length=0, is_warm=False, side=side, number=number):
                break
            store, _ = open_on(shelf)
            applied = await store.append(LOG, change)
            assert (applied.revision, applied.seq) == (FIRST_REVISION + 1, 1)
            await tidy(shelf)
            counted += 1
    assert counted >= 30
    record_property("counted", counted)
