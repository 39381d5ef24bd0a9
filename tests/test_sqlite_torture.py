"""SQLite tortured: cancelled everywhere, raced by processes, locked out; and whole all the same."""

import asyncio
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import durably
from builders import call, model, result, user
from durably import (
    RunHead,
    StateSnapshot,
    Storage,
    StorageBusy,
    ToolResultEntry,
)
from durably.logstore import Applied, Batch, LogId, NewRecord, Rewrite
from durably_sqlite import SQLiteLogStore, _connection
from logs import LOG, batch, closing_all, keys, raw, tables, write_lock_is_free
from places import FakeClock
from sqlite_cancelling import MOMENTS, CancelledAt, outcome
from sqlite_groups import assert_sound
from sqlite_torture import KEEP_CHARS, content, session

SUPPORT = Path(__file__).parent / "support"
SAID = [user("hello"), model("hi")]
LONG = [user("find"), call("c1"), result("c1", "found " * 100), call("c2"), result("c2", "x" * 900)]
SCRATCH = LogId(kind="scratch", id="a log")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "storage.db"


@pytest.fixture
async def keep():
    async with closing_all() as keep:
        yield keep


async def _fill(storage):
    for run_id in ("r1", "r2", "r3"):
        await storage.sessions.append("s", LONG, run_id=run_id, meta={"of": run_id})
    await storage.checkpointer.append("a run", LONG, RunHead())
    for count in (2, 3, 5):
        await storage.checkpoint_saver().append("a thread", StateSnapshot(messages=LONG[:count]))
    await storage.log_store.append(SCRATCH, batch("a", "b", "c", "d", head=b"head"))


async def _rewrite(storage):
    now = await storage.log_store.read(SCRATCH)
    change = Rewrite(
        expected_revision=now.state.revision,
        drop=frozenset({2}),
        replace={3: NewRecord(data=b"new")},
        head=b"new",
    )
    return await storage.log_store.rewrite(SCRATCH, change)


async def _claim_and_save(storage):
    claim = await storage.checkpointer.claim("a run")
    await claim.append(SAID, RunHead(turns=7))


CALLS = {
    "append": lambda storage: storage.sessions.append("s", SAID, run_id="new"),
    "append to a new session": lambda storage: storage.sessions.append("t", LONG, run_id="new"),
    "append without a run": lambda storage: storage.sessions.append("s", LONG),
    "segments": lambda storage: storage.sessions.segments("s"),
    "load": lambda storage: storage.sessions.load("s"),
    "revision": lambda storage: storage.sessions.revision("s"),
    "rewind": lambda storage: storage.sessions.rewind("s", keep_entries=7),
    "rewind all": lambda storage: storage.sessions.rewind("s", keep_entries=0),
    "trim": lambda storage: storage.sessions.trim_tool_results("s", keep_chars=9),
    "clear": lambda storage: storage.sessions.clear("s"),
    "save": lambda storage: storage.checkpointer.append("a run", SAID, RunHead(turns=2)),
    "save a head": lambda storage: storage.checkpointer.append("a run", [], RunHead(turns=2)),
    "save a new run": lambda storage: storage.checkpointer.append("another", LONG, RunHead()),
    "load a run": lambda storage: storage.checkpointer.load("a run"),
    "delete a run": lambda storage: storage.checkpointer.delete("a run"),
    "list runs": lambda storage: storage.checkpointer.runs(),
    "claim": lambda storage: storage.checkpointer.claim("a run"),
    "claim and save": _claim_and_save,
    "save a snapshot": lambda storage: storage.checkpoint_saver().append(
        "a thread", StateSnapshot(messages=LONG, turn=9)
    ),
    "save within a bound": lambda storage: storage.checkpoint_saver(
        max_checkpoints_per_thread=2
    ).append("a thread", StateSnapshot(messages=LONG, turn=9)),
    "the latest snapshot": lambda storage: storage.checkpoint_saver().latest("a thread"),
    "a snapshot": lambda storage: storage.checkpoint_saver().get("a thread", 1),
    "list snapshots": lambda storage: storage.checkpoint_saver().list("a thread"),
    "delete a thread": lambda storage: storage.checkpoint_saver().delete("a thread"),
    "append with eviction": lambda storage: storage.log_store.append(
        SCRATCH, batch("e", "f", head=b"new", keep_last=3)
    ),
    "rewrite": _rewrite,
    "delete": lambda storage: storage.log_store.delete(SCRATCH),
    "list": lambda storage: storage.log_store.list("scratch", with_state=True),
    "maintain": lambda storage: storage.log_store.maintain(),
    "describe": lambda storage: storage.log_store.describe(),
    "ping": lambda storage: storage.ping(),
    "another namespace": lambda storage: storage.scoped("other").sessions.append(
        "s", SAID, run_id="new"
    ),
}
IN_TWO_STEPS = {"claim and save", "another namespace"}
"""These make two changes, one after the other: the first alone may be there."""


def _content(path):
    """Return what a file holds, but for random keys and revisions."""
    with raw(path) as connection:
        logs = connection.execute(
            "SELECT namespace, kind, id, next_seq, record_count, entry_count, head FROM"
            " durably_logs ORDER BY namespace, kind, id"
        ).fetchall()
        records = connection.execute(
            "SELECT namespace, kind, id, place & 4294967295, durably_records.entry_count, data"
            " FROM durably_records JOIN durably_logs ON log = number"
            " ORDER BY namespace, kind, id, place"
        ).fetchall()
    return logs, records


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A closed storage with something in every contract, to be copied."""
    path = tmp_path_factory.mktemp("template") / "storage.db"

    async def fill():
        async with durably.open(f"sqlite:///{path}", clock=FakeClock()) as storage:
            await _fill(storage)

    asyncio.run(fill())
    return path


@asynccontextmanager
async def _copied(template, folder, name):
    """Open a copy of a storage, and give both what it holds and its log store."""
    path = shutil.copy(template, folder / f"{name}.db")
    store = SQLiteLogStore(path, synchronous="normal")
    async with Storage(store, clock=FakeClock()) as storage:
        yield storage, store
    assert_sound(path)


async def _whole(template, folder, operation):
    """Return what a storage holds after an operation that nobody disturbed."""
    async with _copied(template, folder, "whole") as (storage, _):
        await operation(storage)
    return _content(folder / "whole.db")


async def _assert_usable(storage, path):
    """Fail unless nothing is locked and everything goes on."""
    await storage.ping()
    assert write_lock_is_free(path)
    assert await storage.sessions.append("next", SAID, run_id="next") == "next"
    assert await storage.sessions.load("next") == SAID


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", CALLS)
async def test_a_call_cancelled_at_any_await_is_whole_or_absent(tmp_path, template, name, moment):
    """Cancelled at each await in turn, a call leaves all of its change or nothing, and no lock."""
    operation = CALLS[name]
    before, after = _content(template), await _whole(template, tmp_path, operation)
    number = 0
    is_reached = True
    while is_reached:
        path = tmp_path / f"{number}.db"
        async with _copied(template, tmp_path, number) as (storage, store):
            cancelled = CancelledAt(operation(storage), number, moment, store)
            found = await outcome(cancelled)
            is_reached = cancelled.is_reached
            assert isinstance(found, asyncio.CancelledError) == is_reached, found
            await storage.ping()
            left = _content(path)
            assert left in (before, after) or (is_reached and name in IN_TWO_STEPS)
            if number == 0 and moment == MOMENTS[1] and name not in IN_TWO_STEPS:
                assert left == after or name in READ_FIRST
            await _assert_usable(storage, path)
        number += 1
    assert left == after
    assert number > 1


READ_FIRST = {"clear", "rewind", "rewind all", "trim", "rewrite", "claim", "save a snapshot",
              "save within a bound", "save", "save a head"}  # fmt: skip
"""These read before they write, so that the first await changes nothing."""


@pytest.mark.parametrize("name", CALLS)
async def test_a_first_call_cancelled_at_any_await_is_whole_or_absent(tmp_path, template, name):
    """The same while the call still opens the storage, whose next call then opens it."""
    operation = CALLS[name]
    before, after = _content(template), await _whole(template, tmp_path, operation)
    number = 0
    is_reached = True
    while is_reached:
        path = Path(shutil.copy(template, tmp_path / f"{number}.db"))
        store = SQLiteLogStore(path, synchronous="normal")
        storage = Storage(store, clock=FakeClock())
        cancelled = CancelledAt(operation(storage), number, "meanwhile", store)
        found = await outcome(cancelled)
        is_reached = cancelled.is_reached
        assert isinstance(found, asyncio.CancelledError) == is_reached, found
        await storage.ping()
        left = _content(path)
        assert left in (before, after) or (is_reached and name in IN_TWO_STEPS)
        await _assert_usable(storage, path)
        await storage.aclose()
        assert_sound(path)
        number += 1
    assert left == after
    assert number > 1


@pytest.mark.parametrize("cancelled", range(3))
async def test_a_first_call_that_is_cancelled_leaves_the_others_answered(tmp_path, cancelled):
    """Of three calls that wait for a storage to open, those that are not cancelled succeed."""
    for turns in range(1, 8):
        path = tmp_path / f"{turns}.db"
        store = SQLiteLogStore(path)
        tasks = [asyncio.ensure_future(store.append(LOG, batch(name))) for name in "abc"]
        for _ in range(turns):
            await asyncio.sleep(0)
        is_cancelled = tasks[cancelled].cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        wanted = [Applied] * 3
        if is_cancelled:
            wanted[cancelled] = asyncio.CancelledError
        assert [type(one) for one in found] == wanted
        assert {"abc"[n] for n in range(3) if wanted[n] is Applied} <= set(await keys(store))
        await store.aclose()
        assert_sound(path)


async def test_a_thousand_cancelled_calls(file, keep):
    """Of 1,000 calls cancelled in groups of five each is whole or absent, and 250 are answered."""
    store = keep(SQLiteLogStore(file, synchronous="normal"))
    await store.append(LOG, batch("first"))
    answered = {}
    for number in range(250):
        names = [f"{number} {who}" for who in range(5)]
        tasks = [
            asyncio.ensure_future(store.append(LOG, batch(f"{name} a", f"{name} b")))
            for name in names
        ]
        for _ in range(number % 7):
            await asyncio.sleep(0)
        spared = number % 5
        for who, task in enumerate(tasks):
            if who != spared:
                task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert type(found[spared]) is Applied
        answered |= {
            f"{name} b": one.seq
            for name, one in zip(names, found, strict=True)
            if type(one) is Applied
        }
    assert write_lock_is_free(file)
    stored = {one.key: one.seq for one in (await store.read(LOG)).records}
    assert answered.items() <= stored.items()
    assert sum(key.endswith(" a") for key in stored) == sum(key.endswith(" b") for key in stored)
    assert all(stored[f"{key[:-1]}a"] == seq - 1 for key, seq in answered.items())
    assert 250 <= len(answered) < 1250
    assert_sound(file)


async def _process(url, *arguments):
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(SUPPORT / "sqlite_torture.py"),
        url,
        *map(str, arguments),
        stdin=pipe,
        stdout=pipe,
        limit=1 << 24,
    )
    assert await process.stdout.readline() == b'"ready"\n'
    return process


async def _log(process, *, go=b""):
    """Return what a process logged until its end, which closing its stdin brings about."""
    output, _ = await asyncio.wait_for(process.communicate(go), 120)
    assert process.returncode == 0
    return [json.loads(line) for line in output.splitlines()]


async def _torture(url, appenders, cutters=()):
    """Run processes at once, and return what those that append and those that cut logged."""
    processes = await asyncio.gather(
        *(_process(url, "append", *one) for one in appenders),
        *(_process(url, "cut", *one) for one in cutters),
    )
    try:
        writing, cutting = processes[: len(appenders)], processes[len(appenders) :]
        for one in cutting:
            one.stdin.write(b"go\n")
        logs = await asyncio.gather(*(_log(one, go=b"go\n") for one in writing))
        return logs, await asyncio.gather(*(_log(one) for one in cutting))
    finally:
        for one in processes:
            if one.returncode is None:
                one.kill()
                await one.wait()


def _times(logs):
    """Describe how long appends took, for a person who reads a failure."""
    times = sorted(row[3] for log in logs for row in log if row[0] == "stored")
    return f"append p50 {statistics.median(times) * 1000:.1f} ms, max {times[-1] * 1000:.0f} ms"


async def test_the_model_explains_what_five_hundred_appends_and_many_cuts_left(file):
    """Two processes of 4 tasks append, a third rewinds and trims: what is left is what they say.

    Every acknowledged run is in the session or was removed by one acknowledged rewind, nothing
    is there twice, each task's runs keep their order, and the entries add up.
    """
    url = f"sqlite:///{file}"
    logs, [cuts] = await _torture(url, [("a", 4, 63, 20), ("b", 4, 62, 20)], [(1, 20)])
    rows = [row for log in logs for row in log]
    assert [row for row in rows if row[0] != "stored"] == [], _times(logs)
    assert len(rows) == 500
    rewinds = [row for row in cuts if row[0] == "rewound" and row[2]]
    trims = [row for row in cuts if row[0] == "trimmed" and row[2]]
    assert len(rewinds) > 5, _times(logs)
    async with durably.open(url) as storage:
        for number in range(20):
            where = session(number)
            _explain(
                await storage.sessions.segments(where),
                stored={row[2] for row in rows if row[1] == where},
                rewinds=[row[2:] for row in rewinds if row[1] == where],
                trimmed=sum(row[2] for row in trims if row[1] == where),
            )
    assert_sound(file)


def _explain(segments, *, stored, rewinds, trimmed):
    """Fail unless a session is what acknowledged appends, rewinds and trims make of it."""
    left = [one.run_id for one in segments]
    removed = [run_id for _, runs, _ in rewinds for run_id in runs]
    assert sorted(left + removed) == sorted(stored)
    truncated = {run_id for _, _, run_id in rewinds}
    for task in {run_id.split()[0] for run_id in left}:
        mine = [run_id for run_id in left if run_id.startswith(f"{task} ")]
        assert mine == sorted(mine)
    sent = sum(len(content(run_id)) for run_id in stored)
    assert sum(len(one.entries) for one in segments) == sent - sum(count for count, _, _ in rewinds)
    short = 0
    for one in segments:
        wanted = content(one.run_id)
        assert len(one.entries) == len(wanted) or one.run_id in truncated
        for found, original in zip(one.entries, wanted, strict=False):
            if found != original:
                assert type(found) is ToolResultEntry
                assert found.output.startswith(original.output[:KEEP_CHARS])
                assert found.trimmed_chars == len(original.output) - KEEP_CHARS
                short += 1
    assert short <= trimmed


async def test_nobody_is_locked_out_by_four_processes_that_never_pause(file):
    """Four processes that append as fast as they can all are served, with the default time-out."""
    logs, _ = await _torture(f"sqlite:///{file}", [(name, 1, 150, 4) for name in "abcd"])
    failed = [row for log in logs for row in log if row[0] != "stored"]
    assert failed == [], _times(logs)
    assert [len(log) for log in logs] == [150] * 4, _times(logs)
    assert_sound(file)


def test_eight_processes_can_open_a_missing_file_together(tmp_path):
    """Twenty times, eight processes whose first operation meets a missing file all succeed."""
    paths = [tmp_path / f"{number}.db" for number in range(20)]
    done = subprocess.run(
        [sys.executable, str(SUPPORT / "sqlite_crowd.py"), "now", "8", *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    rounds = [json.loads(line) for line in done.stdout.splitlines()]
    assert [sorted(seq for _, seq in one) for one in rounds] == [list(range(1, 9))] * 20, rounds
    for path in paths:
        assert [row[:2] for row in tables(path)["durably_schema"]] == [(1, "logs")]
        assert_sound(path)


def test_making_the_file_drops_no_lock_of_another_connection(file, monkeypatch):
    """Whoever opens the file in the moment of its creation keeps the lock it takes."""
    close = os.close
    others = []

    def close_later(descriptor):
        if not others:
            others.append(sqlite3.connect(file, isolation_level=None))
            others[0].execute("CREATE TABLE notes (x)")
            others[0].execute("BEGIN IMMEDIATE")
        close(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "close", close_later)
        _connection._create_private(str(file), str(file))
    write = (
        "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('DELETE FROM notes')"
    )
    done = subprocess.run(
        [sys.executable, "-c", write, str(file)], capture_output=True, text=True, check=False
    )
    others[0].close()
    assert "database is locked" in done.stderr


@pytest.mark.parametrize("mode", ["wal", "delete"])
async def test_everyone_waits_for_a_lock_that_is_released(file, keep, mode):
    """Appends of three handles that meet a held lock all succeed once it is gone."""
    stores = [keep(SQLiteLogStore(file, journal_mode=mode)) for _ in range(3)]
    for number, store in enumerate(stores):
        await store.append(LOG, batch(f"first {number}"))
    with raw(file) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        waiting = [
            asyncio.ensure_future(store.append(LOG, batch(f"{number} {turn}")))
            for turn in range(5)
            for number, store in enumerate(stores)
        ]
        done, _ = await asyncio.wait(waiting, timeout=0.2)
        assert not done
        connection.execute("COMMIT")
    answers = await asyncio.gather(*waiting)
    assert sorted(one.seq for one in answers) == list(range(4, 19))
    assert_sound(file)


@pytest.mark.parametrize("name", ["maintain", "describe", "list", "load"])
async def test_what_is_no_change_waits_for_an_exclusive_lock_too(tmp_path, keep, name):
    """Outside of WAL mode a reader, too, waits for a writer that commits, and then succeeds."""
    path = tmp_path / "storage.db"
    store = keep(SQLiteLogStore(path, journal_mode="delete"))
    storage = keep(Storage(store))
    await _fill(storage)
    with raw(path) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        waiting = asyncio.ensure_future(CALLS[name](storage))
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        connection.execute("COMMIT")
    assert not done
    await waiting


async def test_a_lock_that_stays_is_storage_busy_to_every_change(file, keep):
    """Every change that waited for its whole time-out is StorageBusy, and has written nothing."""
    store = keep(SQLiteLogStore(file, busy_timeout=0.05))
    storage = keep(Storage(store, clock=FakeClock()))
    await _fill(storage)
    before = tables(file)
    with raw(file) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for name in ("append", "append to a new session", "rewind", "trim", "clear", "save",
                     "claim", "delete a run", "save a snapshot", "delete a thread"):  # fmt: skip
            with pytest.raises(StorageBusy) as caught:
                await CALLS[name](storage)
            assert caught.value.hint
        assert await storage.sessions.load("s") == LONG * 3
        connection.execute("ROLLBACK")
    assert tables(file) == before
    for name in ("append", "rewind", "save", "save a snapshot", "delete a thread"):
        await CALLS[name](storage)
    assert_sound(file)


async def test_no_time_to_wait_is_storage_busy_at_once_and_else_nothing(file, keep):
    """With busy_timeout=0 an append beside a held lock is refused, and one without it stored."""
    store = keep(SQLiteLogStore(file, busy_timeout=0))
    await store.append(LOG, batch("a"))
    with raw(file) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageBusy):
            await store.append(LOG, batch("b"))
        connection.execute("ROLLBACK")
    await store.append(LOG, Batch(head=b"h"))
    assert await keys(store) == ["a"]
