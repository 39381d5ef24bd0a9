"""Copies and forks: lossless over every backend, resumable, and never a mixture of two logs."""

import asyncio
import contextlib
import gc
import signal
import subprocess
import time
from itertools import pairwise

import pytest

import durably
from builders import dump, records, result, said, shape, snapshot
from cli_runs import COMMAND, ENVIRONMENT, objects, run, url
from disturbed import Interposing, Wrapper
from durably import (
    Copied,
    CopyConflict,
    CorruptRecord,
    InvalidFilter,
    InvalidLimit,
    RunHead,
    Storage,
    Unavailable,
)
from durably.logstore import LogId
from exports import STRANGE, digest, fill, lines, plant_strange
from faults import FailsAt
from logs import raw, tables
from places import FakeClock, Place
from recorded import sources

pytest_plugins = ["redis_fixtures", "s3_fixtures"]

KINDS = ("session", "run", "thread", "archive")


@pytest.fixture
async def target(tmp_path):
    """A storage of another backend than the first."""
    async with Place("sqlite", tmp_path / "target").open() as storage:
        yield storage


@pytest.fixture(autouse=True)
def _folder(tmp_path):
    (tmp_path / "target").mkdir()


@pytest.fixture
def stops(tmp_path, server, moto, aws, keep):
    """A storage on each backend, and another one in the end."""
    aws(moto.environment)
    bucket = f"s3://{moto.bucket()}/x?endpoint_url={moto.endpoint}"
    places = ["memory://", url(tmp_path / "first.db"), bucket, url(tmp_path / "last.db")]
    memory, sqlite, s3, last = [keep(durably.open(one)) for one in places]
    return [memory, sqlite, keep(Storage(server.store())), s3, last]


@pytest.mark.xdist_group("moto")
@pytest.mark.parametrize("conversations", sources())
async def test_conversations_travel_over_every_backend(conversations, stops):
    """From memory to SQLite, Redis, S3 and SQLite the export stays the same, byte for byte."""
    await fill(stops[0], conversations)
    first = await lines(stops[0])
    for here, there in pairwise(stops):
        copied = await here.copy_to(there)
        assert copied.known == 0
        assert await lines(there) == first
        assert await here.copy_to(there) == Copied(logs=copied.logs, known=copied.records)


@pytest.mark.parametrize("conversations", sources())
async def test_conversations_travel_in_an_export(conversations, target):
    """What is imported of an export has the same export, byte for byte."""
    async with durably.open("memory://") as source:
        await fill(source, conversations)
        first = await lines(source)
    await target.import_lines(first)
    assert await lines(target) == first


async def test_what_nobody_understands_keeps_its_bytes(place, tmp_path, target):
    """Unknown fields and types, and data that is no JSON, come over byte for byte."""
    await plant_strange(place)
    async with place.open() as source:
        await source.copy_to(target)
    for number, data in enumerate(STRANGE.values()):
        for kind in KINDS:
            log = LogId(kind=kind, id=f"strange {number}")
            stored = await target.log_store.read(log)
            assert [one.data for one in stored.records] == [data]
            assert stored.state.head == (data if kind in {"session", "run"} and data else None)


async def test_copying_again_changes_nothing(place, storage, tmp_path):
    """The second time every record is known, and not a byte of the target changes."""
    other = Place(place.backend, tmp_path / "target")
    await fill(storage)
    async with other.open() as target:
        first = await storage.copy_to(target)
        before = dump(other)
        again = await storage.copy_to(target)
        assert (first.known, again.records) == (0, 0)
        assert (first.logs, first.records) == (again.logs, again.known)
        assert dump(other) == before


async def test_times_are_kept(place, target):
    """Creation and last change in the catalog, of runs, and of each snapshot come over."""
    clock = FakeClock()
    async with place.open(clock=clock) as source:
        await source.catalog.create("s", metadata={"a": 1})
        await source.checkpointer.append("r", [], RunHead())
        for number in range(3):
            clock.now += 10
            await source.sessions.append("s", said(f"{number}"))
            await source.checkpointer.append("r", said(f"{number}"), RunHead(turns=number))
            await source.checkpoint_saver().append("t", snapshot(f"{number}"))
        clock.now -= 5
        await source.catalog.touch("s", metadata={"a": 2})
        await source.copy_to(target)
        assert await target.catalog.get("s") == await source.catalog.get("s")
        assert (await target.checkpointer.load("r")).head == (
            await source.checkpointer.load("r")
        ).head
        assert await target.checkpoint_saver().list("t") == await source.checkpoint_saver().list(
            "t"
        )


async def test_what_is_new_is_moved_alone(storage, target):
    """A log that has grown gets its new records, and its new head."""
    await fill(storage)
    await storage.copy_to(target)
    await storage.sessions.append("plain", said("new"))
    await storage.checkpointer.append("headless", said("new"), RunHead(status="completed"))
    await storage.catalog.touch("empty", metadata={"now": True})
    moved = []
    done = await storage.copy_to(target, progress=lambda log, count: moved.append((log, count)))
    assert done.records == 2
    assert sorted(log.id for log, count in moved if count) == ["headless", "plain"]
    assert len(moved) == done.logs
    assert await lines(target) == await lines(storage)


async def test_another_log_of_the_id_is_a_conflict(handles, target):
    """Other content under the same id, even of the same runs, stays as it is, and is named."""
    storage, _ = handles
    for kind_of in (storage, target):
        await kind_of.sessions.append("s", said(f"{id(kind_of)}"), run_id="r")
    before = await lines(target)
    with pytest.raises(CopyConflict) as caught:
        await storage.copy_to(target)
    assert caught.value.log == LogId(kind="session", id="s")
    assert await lines(target) == before
    with pytest.raises(CopyConflict):
        await target.import_lines(await lines(storage))
    assert await lines(target) == before


async def test_a_rewound_source_is_a_conflict_with_its_copy(storage, target):
    """What was undone in the source is not undone in the target, and not mixed with what is new."""
    for number in range(3):
        await storage.sessions.append("s", said("a", "b"), run_id=f"r{number}")
    await storage.copy_to(target)
    await storage.sessions.rewind("s", keep_entries=3)
    before = await lines(target)
    with pytest.raises(CopyConflict):
        await storage.copy_to(target)
    assert await lines(target) == before


async def test_a_target_that_went_on_stays_as_it_is(storage, target):
    """New runs and later heads in the target are neither undone nor an error."""
    await fill(storage)
    await storage.copy_to(target)
    await target.sessions.append("plain", said("went on"))
    await target.catalog.touch("empty", metadata={"went": "on"})
    await target.checkpointer.append("headless", [], RunHead(status="completed"))
    before = await lines(target)
    done = await storage.copy_to(target)
    assert (done.records, await lines(target)) == (0, before)
    await target.import_lines(await lines(storage))
    assert await lines(target) == before


async def test_a_target_that_went_on_by_a_clock_behind_stays(storage, tmp_path):
    """More records in the target are what tells, whatever its clock says."""
    await storage.checkpointer.append("r", said("a"), RunHead(turns=1))
    place = Place("sqlite", tmp_path / "target")
    async with place.open(clock=FakeClock(5.0)) as target:
        await storage.copy_to(target)
        await target.checkpointer.append("r", said("b"), RunHead(turns=2))
        await storage.copy_to(target)
        assert (await target.checkpointer.load("r")).head.turns == 2


async def test_a_thread_that_evicts_can_be_copied_again(storage, target):
    """What the source evicted since stays in the target, and what is new comes after it."""
    saver = storage.checkpoint_saver(max_checkpoints_per_thread=3)
    for turn in range(12):
        await saver.append("t", snapshot(*"abcdefghijkl"[: turn + 1], turn=turn))
        if turn == 6:
            await storage.copy_to(target)
        if turn == 7:
            await target.import_lines(await lines(storage))
        if turn > 7:
            await storage.copy_to(target)
    kept = await target.checkpoint_saver().list("t")
    assert len(kept) > 3
    assert [one.snapshot for one in kept[:3]] == [one.snapshot for one in await saver.list("t")]
    assert [one.snapshot.turn for one in kept] == [*range(11, 11 - len(kept), -1)]


async def test_a_source_rewound_while_it_is_copied_is_a_conflict(place, storage, target):
    """Between the index and the data the session is rewound: nothing half is copied as whole."""
    for number in range(3):
        await storage.sessions.append("s", said("a"), run_id=f"r{number}")
    reader = Interposing(place.log_store())
    reader.interpose("read", 3, lambda: storage.sessions.clear("s"))
    async with Storage(reader) as source:
        with pytest.raises(CopyConflict):
            await source.copy_to(target, kinds=["session"])
    assert await shape(target.sessions, "s") == []


class Intruded(Wrapper):
    """Lets somebody else write before each append to a session."""

    def __init__(self, storage):
        super().__init__(storage.log_store)
        self._theirs = storage

    async def append(self, log, batch):
        if log.kind == "session":
            await self._theirs.sessions.append(log.id, said("theirs"), run_id="theirs")
        return await super().append(log, batch)


async def test_somebody_who_writes_meanwhile_is_not_mixed_in(storage):
    """What another appends to the target while it is copied to makes a conflict of it."""
    await storage.sessions.append("s", said("mine"), run_id="mine")
    inner = durably.MemoryLogStore()
    async with Storage(inner) as theirs, contextlib.aclosing(Storage(Intruded(theirs))) as target:
        with pytest.raises(CopyConflict):
            await storage.copy_to(target)
        assert await shape(theirs.sessions, "s") == [("theirs", 1)]


async def test_a_run_that_begins_in_the_target_meanwhile_is_left_alone(storage):
    """A run of the same id that others begin there is a conflict, and stays as they saved it."""
    await storage.checkpointer.append("r", said("mine"), RunHead(turns=1))
    inner = durably.MemoryLogStore()
    store = Interposing(inner)
    async with Storage(inner) as theirs, contextlib.aclosing(Storage(store)) as target:
        await target.sessions.append("s", said("x"))
        begun = said("theirs"), RunHead(turns=2)
        store.interpose("append", 1, lambda: theirs.checkpointer.append("r", *begun))
        with pytest.raises(CopyConflict):
            await storage.copy_to(target)
        assert (await theirs.checkpointer.load("r")).head.turns == 2


async def test_a_run_that_goes_on_in_the_target_meanwhile_keeps_its_head(storage):
    """What a worker saves there just before its head is set is not undone."""
    await storage.checkpointer.append("r", said("a"), RunHead(turns=1))
    inner = durably.MemoryLogStore()
    store = Interposing(inner)
    async with Storage(inner) as theirs, contextlib.aclosing(Storage(store)) as target:
        await storage.copy_to(target)
        await storage.checkpointer.append("r", [], RunHead(turns=2))
        later = said("b"), RunHead(turns=3)
        store.interpose("append", 1, lambda: theirs.checkpointer.append("r", *later))
        assert await storage.copy_to(target) == Copied(logs=1, known=1)
        assert (await theirs.checkpointer.load("r")).head.turns == 3


async def test_two_copies_at_once_are_one(storage, target):
    """Both end well, and the target has everything once, in order."""
    await fill(storage)
    for number in range(150):
        await storage.sessions.append("long", said(f"{number}"))
    await asyncio.gather(*(storage.copy_to(target, parallel=3) for _ in range(3)))
    assert await lines(target) == await lines(storage)


async def test_a_run_is_readable_once_it_is_whole(storage):
    """Cut off after any operation a run is absent or refused, never shorter; then it is whole."""
    for number in range(4):
        await asyncio.sleep(0.001)
        await storage.checkpointer.append("r", said(f"{number}"), RunHead(turns=number + 1))
    whole = await storage.checkpointer.load("r")
    refused = 0
    for number in range(1, 30):
        failing = FailsAt(durably.MemoryLogStore(), number, done=True)
        async with Storage(failing.store) as healthy, contextlib.aclosing(Storage(failing)) as cut:
            try:
                await storage.copy_to(cut)
            except Unavailable:
                try:
                    found = await healthy.checkpointer.load("r")
                except CorruptRecord:
                    refused += 1
                else:
                    assert found is None or found.entries == whole.entries
                    assert found is None or found.head == whole.head
            await storage.copy_to(healthy)
            assert await lines(healthy) == await lines(storage)
        if not failing.has_failed:
            break
    assert refused >= 3


class Crowded(Wrapper):
    """Counts how many of its logs are read at once."""

    def __init__(self, store):
        super().__init__(store)
        self.now = {}
        self.most = 0

    async def read(self, log, span=durably.logstore.ALL):
        self.now[log] = self.now.get(log, 0) + 1
        self.most = max(self.most, len(self.now))
        await asyncio.sleep(0.001)
        found = await super().read(log, span)
        self.now[log] -= 1
        self.now = {one: count for one, count in self.now.items() if count}
        return found


@pytest.mark.parametrize("parallel", [1, 3, 8])
async def test_so_many_logs_at_once(target, parallel):
    """As many logs as asked for are copied at once, and never more."""
    crowded = Crowded(durably.MemoryLogStore())
    async with Storage(crowded) as source:
        for number in range(20):
            await source.sessions.append(f"s{number}", said("a"))
        crowded.most = 0
        await source.copy_to(target, parallel=parallel)
        assert crowded.most == parallel


async def test_a_cancelled_copy_leaves_no_task(target):
    """What was begun is stopped before the cancellation is answered; later it can be completed."""
    async with Storage(Crowded(durably.MemoryLogStore())) as source:
        for number in range(50):
            await source.sessions.append(f"s{number}", said("a"))
        before = asyncio.all_tasks()
        copying = asyncio.create_task(source.copy_to(target, parallel=5))
        await asyncio.sleep(0.02)
        copying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await copying
        assert asyncio.all_tasks() == before
        done = await source.copy_to(target)
        assert done.records + done.known == 50


class Together(Wrapper):
    """Lets nobody read a session before so many want to."""

    def __init__(self, store, count):
        super().__init__(store)
        self._barrier = asyncio.Barrier(count)

    async def read(self, log, span=durably.logstore.ALL):
        if log.kind == "session":
            await self._barrier.wait()
        return await super().read(log, span)


async def test_of_many_failures_one_is_raised_and_none_is_lost(storage):
    """Logs that fail together end the copy with one error, and nothing is said behind its back."""
    complaints = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    inner = durably.MemoryLogStore()
    async with Storage(inner) as theirs, contextlib.aclosing(Storage(Together(inner, 5))) as target:
        for number in range(5):
            await storage.sessions.append(f"s{number}", said("mine"), run_id="r")
            await theirs.sessions.append(f"s{number}", said("theirs"), run_id="r")
        with pytest.raises(CopyConflict):
            await storage.copy_to(target)
    gc.collect()
    await asyncio.sleep(0.01)
    assert complaints == []


async def test_wrong_choices_are_refused(storage, target):
    """Kinds that are not transferred, and a parallelism out of its range, are refused at once."""
    for kinds in (["meta"], ["sessions"], ["session", ""]):
        with pytest.raises(InvalidFilter):
            await storage.copy_to(target, kinds=kinds)
    for parallel in (0, -1, 257, True, 2.0):
        with pytest.raises(InvalidLimit):
            await storage.copy_to(target, parallel=parallel)


async def test_a_fork_goes_on_apart(handles):
    """A fork has the runs, the entry in the catalog and the archive; then each has its own."""
    first, second = handles
    await fill(first)
    await first.fork("plain", "fork")
    assert await second.sessions.segments("fork") == await first.sessions.segments("plain")
    assert await second.archive.recall("fork", "c") == await first.archive.recall("plain", "c")
    await first.sessions.append("fork", said("apart"))
    await first.archive.delete("plain")
    assert len(await second.sessions.segments("plain")) == 3
    assert len(await second.archive.recall("fork", "c")) == 2
    await first.fork("catalogued", "copy")
    assert (await second.catalog.get("copy")).metadata == {"user": "ada"}


async def test_a_run_and_a_thread_can_be_forked(storage):
    """They are what they were, under the new id."""
    await fill(storage)
    await storage.fork("headless", "other", kind="run")
    await storage.fork("t", "u", kind="thread")
    assert (await storage.checkpointer.load("other")).head == (
        await storage.checkpointer.load("headless")
    ).head
    saver = storage.checkpoint_saver()
    assert (await saver.latest("u")).snapshot == (await saver.latest("t")).snapshot


async def test_a_fork_takes_no_place_that_is_taken(storage):
    """Where something else has the new id it stays; the same fork again is no conflict."""
    await storage.sessions.append("s", said("a"))
    await storage.sessions.append("other", said("b"))
    with pytest.raises(CopyConflict):
        await storage.fork("s", "other")
    assert await storage.sessions.load("other") == said("b")
    await storage.fork("s", "copy")
    assert await storage.fork("s", "copy") == Copied(logs=1, known=1)
    assert await storage.fork("nobody", "copy") == Copied()
    with pytest.raises(InvalidFilter):
        await storage.fork("s", "t", kind="meta")


async def test_a_large_log_comes_in_parts(storage, target, place):
    """More records than are read at once, and more bytes than a batch holds, come over in order."""
    for number in range(130):
        await storage.sessions.append("many", said(f"{number}"))
    for number in range(3):
        big = [result("c", f"{number}" * 3_000_000)]
        await storage.checkpointer.append("big", big, RunHead(turns=number))
    await storage.copy_to(target)
    assert [one.key for one in await records(place, "session", "many")] == [
        one.run_id for one in await target.sessions.segments("many")
    ]
    assert await lines(target) == await lines(storage)


def _moved(path):
    """Return how many records of what is copied a file has by now."""
    if not path.exists():
        return 0
    with raw(path) as connection:
        try:
            return connection.execute("SELECT count(*) FROM durably_records").fetchone()[0]
        except Exception:  # noqa: BLE001 - it is being created
            return 0


def _kill_midway(source, path, total, *, at):
    """Copy, and kill it with SIGKILL at a part of its way; return how far it came."""
    command = [COMMAND, "copy", url(source), url(path), "--parallel", "4"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=ENVIRONMENT) as child:
        deadline = time.monotonic() + 60
        while _moved(path) < at * total and time.monotonic() < deadline:
            time.sleep(0.001)
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    return _moved(path) / total


def test_after_a_kill_the_next_copy_completes_it(tmp_path):
    """Killed at five places of its way, a copy issued again moves the rest, and ends equal."""

    async def prepare():
        async with durably.open(url(tmp_path / "source.db", synchronous="normal")) as storage:
            await fill(storage)
            for number in range(45):
                for step in range(20):
                    text = f"{number} {step} " * 50
                    await storage.sessions.append(f"s{number}", said(text), run_id=f"r{step}")

    asyncio.run(prepare())
    assert run("export", url(tmp_path / "source.db"), tmp_path / "source.jsonl").returncode == 0
    logs, total, wanted = digest(tmp_path / "source.jsonl")
    for number, at in enumerate((0.12, 0.25, 0.4, 0.5, 0.65)):
        path = tmp_path / f"target{number}.db"
        reached = _kill_midway(tmp_path / "source.db", path, total, at=at)
        assert 0.1 <= reached <= 0.9
        told = run("copy", url(tmp_path / "source.db"), url(path), "--json")
        (done,) = objects(told)
        assert done["logs"] == logs
        assert done["records"] + done["known"] == total
        assert 0 < done["records"] < total
        assert run("export", url(path), tmp_path / f"{number}.jsonl").returncode == 0
        assert digest(tmp_path / f"{number}.jsonl") == (logs, total, wanted)
    assert tables(path)["durably_records"]


async def test_another_session_without_runs_is_a_conflict():
    """A session is not copied over one of its id that was created on its own and has no runs."""
    async with durably.open("memory://") as source, durably.open("memory://") as target:
        await source.catalog.create("s", metadata={"mine": True})
        await source.sessions.append("s", said("hi"))
        await target.catalog.create("s", metadata={"theirs": True})
        with pytest.raises(CopyConflict):
            await source.copy_to(target)
        assert (await target.catalog.get("s")).metadata == {"theirs": True}
        assert await target.sessions.load("s") == []


async def test_a_conflict_holds_up_no_other_log():
    """Where one session of the target is another one, all others are copied before that is said."""
    async with durably.open("memory://") as source, durably.open("memory://") as target:
        for name in "abcde":
            await source.sessions.append(name, said(name), run_id="r")
        await target.sessions.append("b", said("of its own"), run_id="other")
        with pytest.raises(CopyConflict) as caught:
            await source.copy_to(target, parallel=2)
        assert caught.value.log == LogId(kind="session", id="b")
        for name in "acde":
            assert await target.sessions.load(name) == said(name)
        assert await target.sessions.load("b") == said("of its own")
