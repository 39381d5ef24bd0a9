"""S3: callers may be cancelled, and storages closed, at any time; nothing is half done."""

import asyncio
import itertools

import pytest

from durably import RevisionConflict, StorageClosed
from durably.logstore import Applied, Batch, LogId, Range, Rewrite
from s3_crashes import (
    KEYS,
    LAYOUT,
    LOG,
    OPERATIONS,
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
from s3_memory import Shelf

TIP = KEYS.tip(LOG)
MOST_TURNS = 400


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    small(monkeypatch)


async def cancelled(call, turns):
    """Cancel a call after so many turns of the loop; return what came of it, whether in time."""
    task = asyncio.ensure_future(call)
    for _ in range(turns):
        await asyncio.sleep(0)
    in_time = not task.done()
    task.cancel()
    [outcome] = await asyncio.gather(task, return_exceptions=True)
    return outcome, in_time


@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_cancelled_change_is_all_or_nothing(name, record_property):
    """Wherever it is cancelled, a change is whole or not there, and its repetition makes it whole.

    The same handle goes on afterwards, at once.
    """
    counted = 0
    states = set()
    for length, is_warm in itertools.product((0, 8, 20), (False, True)):
        full, change = await filled(length), OPERATIONS[name](length)
        before = await view(full)
        twin = full.copy()
        answer, after = await send(open_on(twin)[0], change), await view(twin)
        for turns in range(MOST_TURNS):
            shelf = full.copy()
            store, _ = open_on(shelf)
            if is_warm:
                await warm(store, length)
            outcome, in_time = await cancelled(send(store, change), turns)
            if not in_time:
                assert outcome == answer
                break
            assert isinstance(outcome, asyncio.CancelledError)
            now = await view(shelf)
            assert now in (before, after)
            states.add(now == after)
            async with asyncio.timeout(10):
                assert await send(store, change) in (answer, again(answer))
                assert await store.read(LOG) == after
                await store.aclose()
            await tidy(shelf)
            counted += 1
        assert turns < MOST_TURNS - 1
    assert False in states
    assert counted >= 20
    record_property("counted", counted)


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.read(LOG),
        lambda store: store.read(LOG, Range(limit=2)),
        lambda store: store.list("run", with_state=True),
        lambda store: store.maintain(),
        lambda store: store.describe(),
    ],
    ids=["read", "read some", "list", "maintain", "describe"],
)
async def test_what_only_looks_may_be_cancelled_anywhere(call, record_property):
    """A cancelled reading, listing or collection changes no log, and the handle goes on."""
    full = await filled(20)
    expected = await view(full)
    for turns in range(MOST_TURNS):
        shelf = full.copy()
        shelf.objects[KEYS.chunk(LOG, "0" * 32)] = (b"garbage", "etag", 0.0)
        store, _ = open_on(shelf)
        outcome, in_time = await cancelled(call(store), turns)
        if not in_time:
            assert not isinstance(outcome, BaseException)
            break
        assert isinstance(outcome, asyncio.CancelledError)
        async with asyncio.timeout(10):
            assert await store.read(LOG) == expected
            await call(store)
        assert named_objects(shelf) <= set(shelf.objects)
    assert 2 <= turns < MOST_TURNS - 1
    record_property("counted", turns)


async def test_a_first_change_may_be_cancelled_anywhere(record_property):
    """A first append that is cancelled while the server is tried leaves a prefix to go on in."""
    states = set()
    for turns in range(MOST_TURNS):
        shelf = Shelf()
        store, _ = open_on(shelf)
        _, in_time = await cancelled(store.append(LOG, batches(1)[0]), turns)
        if not in_time:
            break
        states.add(LAYOUT in shelf.objects)
        async with asyncio.timeout(10):
            assert (await store.append(LOG, batches(1)[0])).seq == 1
            assert (await store.append(LOG, batches(2)[1])).seq == 2
        await store.aclose()
        await tidy(shelf)
    assert states == {False, True}
    assert 20 < turns < MOST_TURNS - 1
    record_property("counted", turns)


async def test_a_cancelled_first_opener_holds_up_nobody():
    """Others that wait for the same look at the layout take it over when it is cancelled."""
    for turns in range(40):
        store, _ = open_on(Shelf())
        first = asyncio.ensure_future(store.append(LOG, batches(1)[0]))
        second = asyncio.ensure_future(store.append(LOG, batches(2)[1]))
        for _ in range(turns):
            await asyncio.sleep(0)
        first.cancel()
        async with asyncio.timeout(10):
            await asyncio.gather(first, return_exceptions=True)
            assert isinstance(await second, Applied)


async def test_who_waits_and_is_cancelled_takes_nothing_along():
    """Of changes that wait for one another a cancelled one goes; the others are carried out."""
    shelf = await filled(3)
    store, bucket = open_on(shelf)
    await store.read(LOG)
    bucket.log.clear()
    under_way = asyncio.ensure_future(
        store.append(LOG, Batch(records=(record("first"),), key="first", at=1.0))
    )
    await asyncio.sleep(0)
    waiting = [
        asyncio.ensure_future(store.append(LOG, Batch(records=(record(name),), key=name, at=1.0)))
        for name in "abcdef"
    ]
    await asyncio.sleep(0)
    for task in waiting[::2]:
        task.cancel()
    await asyncio.gather(under_way, *waiting, return_exceptions=True)
    assert [task.cancelled() for task in waiting] == [True, False] * 3
    keys = [one.key for one in (await view(shelf)).records[3:]]
    assert keys == ["first:0", "b:0", "d:0", "f:0"]
    assert sum(one.what == "put" and one.key == TIP for one in bucket.log) == 2


async def test_what_waits_shares_one_tip_in_the_order_of_its_coming():
    """Appends that come while one is under way take one PUT, and each gets its own answer."""
    shelf = await filled(3)
    store, bucket = open_on(shelf)
    await store.read(LOG)
    bucket.log.clear()
    revision = 1003
    changes = [
        Batch(records=(record("a"),), key="a", at=1.0),
        Batch(records=(record("b"),), key="b", at=1.0),
        Batch(records=(record("b"),), key="b", at=1.0),
        Batch(records=(record("c"),), key="c", at=1.0, expected_revision=1),
        Batch(records=(record("d"),), key="d", at=1.0, expected_revision=revision + 2),
        Rewrite(expected_revision=revision + 3, drop=frozenset({5}), key="e", at=1.0),
        Batch(records=(record("f"),), key="f", at=1.0),
    ]
    answers = await asyncio.gather(*(send(store, change) for change in changes))
    assert answers == [
        Applied(revision=revision + 1, seq=4),
        Applied(revision=revision + 2, seq=5),
        Applied(revision=revision + 2, seq=5, duplicate=True),
        ("conflict", 1, revision + 2),
        Applied(revision=revision + 3, seq=6),
        Applied(revision=revision + 4),
        Applied(revision=revision + 5, seq=7),
    ]
    await store.aclose()
    assert [one.key for one in (await view(shelf)).records[3:]] == ["a:0", "d:0", "f:0"]
    assert sum(one.what == "put" and one.key == TIP for one in bucket.log) <= 4


@pytest.mark.parametrize("name", OPERATIONS)
async def test_closing_waits_for_what_is_under_way(name, record_property):
    """Whenever a store is closed, what was sent is carried out whole, and later calls refused."""
    counted = 0
    for length in (0, 20):
        full, change = await filled(length), OPERATIONS[name](length)
        before = await view(full)
        twin = full.copy()
        answer, after = await send(open_on(twin)[0], change), await view(twin)
        for turns in range(MOST_TURNS):
            shelf = full.copy()
            store, bucket = open_on(shelf)
            task = asyncio.ensure_future(send(store, change))
            for _ in range(turns):
                await asyncio.sleep(0)
            is_over = task.done()
            async with asyncio.timeout(10):
                await store.aclose()
                requests = len(bucket.log)
                [outcome] = await asyncio.gather(task, return_exceptions=True)
            assert bucket.closed
            assert isinstance(outcome, StorageClosed) or outcome == answer
            now = await view(shelf)
            assert now == (before if isinstance(outcome, StorageClosed) else after)
            with pytest.raises(StorageClosed):
                await store.append(LOG, Batch(head=b"", at=1.0))
            if outcome == answer:
                assert len(bucket.log) == requests
            await tidy(shelf)
            counted += 1
            if is_over:
                break
        assert turns < MOST_TURNS - 1
    assert counted >= 10
    record_property("counted", counted)


async def test_a_cancelled_close_releases_the_bucket():
    """Who waits no longer for what is under way leaves no bucket open."""
    store, bucket = open_on(await filled(1))
    bucket.jitter = lambda: MOST_TURNS
    asked = asyncio.Event()
    bucket.before = lambda request: request.key == TIP and asked.set()
    sent = asyncio.ensure_future(send(store, OPERATIONS["append"](1)))
    await asked.wait()
    outcome, in_time = await cancelled(store.aclose(), 5)
    assert in_time
    assert isinstance(outcome, asyncio.CancelledError)
    assert bucket.closed
    sent.cancel()


async def test_closing_twice_does_nothing_more():
    """A second close returns, and a view of another namespace closes nothing."""
    store, bucket = open_on(await filled(1))
    view_ = store.scoped("other")
    await view_.aclose()
    assert not bucket.closed
    await store.aclose()
    await store.aclose()
    with pytest.raises(StorageClosed):
        await view_.read(LOG)


async def test_a_lane_is_forgotten_once_nothing_waits():
    """Logs that were changed leave nothing behind in a store, whatever came of the changes."""
    store, _ = open_on(Shelf())
    for number in range(5):
        log = LogId(kind="run", id=f"{number}")
        await asyncio.gather(*(store.append(log, batch) for batch in batches(3)))
        with pytest.raises(RevisionConflict):
            await store.append(log, Batch(head=b"", expected_revision=1))
        await cancelled(store.append(log, batches(4)[3]), 3)
        await store.delete(log)
    for _ in range(50):
        await asyncio.sleep(0)
    assert store._opened._lanes == {}
