"""Opening, closing and cancelling SQLite storages: nothing half done, nothing left behind."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import durably
from durably import InputEntry, StorageClosed
from durably.logstore import Applied, Range, Rewrite
from durably_sqlite import SQLiteLogStore
from logs import LOG, batch, closing_all, keys, raw, unkeyed, write_lock_is_free

SAID = [InputEntry(role="user", content="hello")]
WORKER = Path(__file__).parent / "support" / "closing_worker.py"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "storage.db"


@pytest.fixture
async def keep():
    async with closing_all() as keep:
        yield keep


async def _cancelled(awaitable, steps):
    """Cancel a call after so many turns of the loop, and return what came of it."""
    task = asyncio.ensure_future(awaitable)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    [outcome] = await asyncio.gather(task, return_exceptions=True)
    return outcome


async def test_a_cancelled_append_is_all_or_nothing(file, keep):
    """Of 300 appends cancelled at any point each is stored whole or not at all, unlocked."""
    store = keep(SQLiteLogStore(file, synchronous="normal"))
    await store.append(LOG, unkeyed(b"first", b"first", head=b"first"))
    stored = 0
    for number in range(300):
        data = b"%d" % number
        await _cancelled(store.append(LOG, unkeyed(data, data, head=data)), number % 6)
        found = [one.data for one in (await store.read(LOG, Range(after=2 * stored + 2))).records]
        assert found in ([], [data, data])
        stored += bool(found)
        assert write_lock_is_free(file)
    assert 0 < stored < 300
    now = await store.read(LOG)
    assert now.state.record_count == len(now.records) == 2 * stored + 2
    assert now.state.head == now.records[-1].data


@pytest.mark.parametrize("steps", range(12))
async def test_a_cancelled_first_operation_leaves_nothing_behind(file, steps):
    """A store whose opening was cancelled at any point opens with the next call, and closes."""
    store = SQLiteLogStore(file)
    await _cancelled(store.append(LOG, batch("a")), steps)
    assert (await store.append(LOG, batch("b"))).seq in (1, 2)
    assert set(await keys(store)) in ({"b"}, {"a", "b"})
    assert write_lock_is_free(file)
    await store.aclose()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and "connection_worker" in thread.name:
            await asyncio.to_thread(thread.join, 5)
    assert "connection_worker" not in " ".join(one.name for one in threading.enumerate())


async def test_a_cancelled_wait_for_a_lock_writes_nothing_afterwards_by_halves(file, keep):
    """An append cancelled while another holds the lock is whole or absent once that is gone."""
    store = keep(SQLiteLogStore(file))
    await store.append(LOG, batch("a"))
    with raw(file) as connection:
        connection.execute("BEGIN IMMEDIATE")
        await _cancelled(store.append(LOG, unkeyed(b"x", b"y", key="late")), 5)
        connection.execute("COMMIT")
    assert await keys(store) in (["a"], ["a", "late:0", "late:1"])
    assert write_lock_is_free(file)


def test_a_loop_that_ends_before_its_cancelled_append_does_not_hang_the_next(file):
    """A storage whose loop ended on a cancelled append is refused in the next, and closes there."""
    done = subprocess.run(
        [sys.executable, str(WORKER.with_name("loops_worker.py")), str(file)],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("refused, closed\n", 0), done.stderr


def test_an_open_that_fails_leaves_no_thread_that_outlives_its_loop(tmp_path):
    """Loops that end right after a refused open print nothing from a thread."""
    done = subprocess.run(
        [sys.executable, str(WORKER.with_name("failing_worker.py")), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("200 loops\n", "")


def test_a_store_belongs_to_the_loop_it_was_first_used_in(file):
    """A store made outside any loop works in the first, is refused in a second, closes there."""
    store = SQLiteLogStore(file)
    assert asyncio.run(store.append(LOG, batch("a"))).seq == 1
    with pytest.raises(durably.WrongLoop):
        asyncio.run(store.append(LOG, batch("b")))
    asyncio.run(store.aclose())


async def test_an_append_in_flight_when_the_store_closes_is_whole_or_refused(file):
    """Appends that race a close are acknowledged and stored, or StorageClosed and not."""
    for steps in range(6):
        store = SQLiteLogStore(file)
        await store.read(LOG)
        sent = [batch(f"{steps} {number}") for number in range(20)]
        tasks = [asyncio.create_task(store.append(LOG, one)) for one in sent]
        for _ in range(steps):
            await asyncio.sleep(0)
        late = asyncio.create_task(store.append(LOG, batch(f"{steps} late")))
        await store.aclose()
        outcomes = await asyncio.gather(*tasks, late, return_exceptions=True)
        assert {type(one) for one in outcomes} <= {Applied, StorageClosed}
        reader = SQLiteLogStore(file)
        found = [key for key in await keys(reader) if key.startswith(f"{steps} ")]
        await reader.aclose()
        names = [one.record_keys[0] for one in sent] + [f"{steps} late"]
        pairs = zip(names, outcomes, strict=True)
        assert found == [name for name, outcome in pairs if type(outcome) is Applied]


async def test_closing_while_opening_ends_in_one_or_the_other(file):
    """A close that meets the first operation of a store leaves no thread and no half layout."""
    for steps in range(6):
        store = SQLiteLogStore(file)
        first = asyncio.create_task(store.append(LOG, batch(f"{steps}")))
        for _ in range(steps):
            await asyncio.sleep(0)
        await store.aclose()
        [outcome] = await asyncio.gather(first, return_exceptions=True)
        assert type(outcome) in (Applied, StorageClosed)
        assert store._engine._database is None


async def test_close_twice_and_nothing_works_after_it(place):
    """After a close, which may be repeated, every operation of a log store is StorageClosed."""
    store = place.log_store()
    await store.append(LOG, batch("a"))
    await store.aclose()
    await store.aclose()
    for operation in (
        lambda: store.append(LOG, batch("b")),
        lambda: store.read(LOG),
        lambda: store.rewrite(LOG, Rewrite(expected_revision=1)),
        lambda: store.delete(LOG),
        lambda: store.list("session"),
    ):
        with pytest.raises(StorageClosed):
            await operation()


@pytest.mark.parametrize("how", ["closed", "never used", "cancelled", "raises"])
def test_a_process_ends_when_its_storage_is_closed(file, how):
    """A process that closed its storage, however, ends within 10 s with no thread left."""
    done = subprocess.run(
        [sys.executable, str(WORKER), f"sqlite:///{file}", how],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    assert done.stdout == "0 threads left\n"
    assert (done.returncode, done.stderr) == (
        (1, "left by an error\n") if how == "raises" else (0, "")
    )


async def test_opening_what_cannot_be_opened_leaves_no_thread(file):
    """A refused open leaves no thread of its own to keep the process alive."""
    file.write_bytes(b"no database " * 500)
    for url in (f"sqlite:///{file}", f"sqlite:///{file.parent}/missing/x.db"):
        with pytest.raises(durably.DurablyError):
            async with durably.open(url):
                pass
    left = [one for one in threading.enumerate() if "connection_worker" in one.name]
    for thread in left:
        await asyncio.to_thread(thread.join, 5)
    assert not any(thread.is_alive() for thread in left)


GLOBAL = """
import asyncio, sys, durably
storage = durably.open(sys.argv[1])

async def main():
    await storage.sessions.append("s", [durably.InputEntry(role="user", content="hello")])
    if sys.argv[2] == "raises":
        raise KeyboardInterrupt

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["ends", "raises"])
def test_a_process_ends_although_its_storage_is_open_and_in_use(file, how):
    """A storage that a module still holds when the interpreter ends keeps no process alive."""
    command = [sys.executable, "-c", GLOBAL, f"sqlite:///{file}", how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode == 0) == (how == "ends")
    assert ("KeyboardInterrupt" in done.stderr) == (how == "raises")
