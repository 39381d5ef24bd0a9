"""Pruning: what goes by age and by count, and that it may be stopped anywhere."""

import math

import pytest

from builders import result, said
from disturbed import Wrapper
from durably import InvalidFilter, InvalidLimit, RunHead, StateSnapshot, Storage
from durably.logstore import Batch, LogId
from durably.retention import GOING
from faults import Meddling, failures
from places import FakeClock

START = 1_700_000_000.0
NAMES = ("a", "b", "c", "d", "e")
KINDS = ("session", "run", "thread")


@pytest.fixture
def clock():
    return FakeClock(START)


@pytest.fixture
async def storages(place, clock):
    """Two handles with one clock."""
    async with place.open(clock=clock) as first, place.open(clock=clock) as second:
        yield first, second


async def make(storage, kind, name):
    match kind:
        case "session":
            await storage.sessions.append(name, said("x"))
        case "run":
            await storage.checkpointer.append(name, said("x"), RunHead())
        case _:
            await storage.checkpoint_saver().append(name, StateSnapshot(messages=said("x")))


async def fill(storage, clock, kind="session"):
    """Make e, d, c, b and a, ten seconds apart, so that a is the youngest; 40 s pass in all."""
    clock.now = START
    for name in reversed(NAMES):
        await make(storage, kind, name)
        clock.now += 10
    clock.now -= 10


async def left(storage, kind="session"):
    return tuple(info.id for info in (await storage.log_store.list(kind)).items)


CASES = [
    ({"older_than": 0}, "abcde"),
    ({"older_than": 5}, "bcde"),
    ({"older_than": 10}, "bcde"),
    ({"older_than": 10.5}, "cde"),
    ({"older_than": 40}, "e"),
    ({"older_than": 40.001}, ""),
    ({"keep_last": 0}, "abcde"),
    ({"keep_last": 1}, "bcde"),
    ({"keep_last": 4}, "e"),
    ({"keep_last": 5}, ""),
    ({"keep_last": 10**20}, ""),
    ({"keep_last": 2, "older_than": 5}, "cde"),
    ({"keep_last": 1, "older_than": 25}, "de"),
    ({"keep_last": 0, "older_than": 15}, "cde"),
]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_old_or_surplus_goes(storages, clock, kind):
    """By age, by count and by both: what neither keeps goes; an age of exactly older_than is old.

    A dry run says the same ids first, and removes nothing.
    """
    first, second = storages
    for options, gone in CASES:
        await fill(first, clock, kind)
        told = []
        would = await second.prune(kind, **options, dry_run=True, progress=told.append)
        assert await left(first, kind) == NAMES
        did = await second.prune(kind, **options, progress=told.append)
        assert would == did
        assert (did.ids, did.examined) == (tuple(gone), 5), options
        assert told == [*gone, *gone]
        assert await left(first, kind) == tuple(name for name in NAMES if name not in gone)
        await first.prune(kind, keep_last=0)


@pytest.mark.parametrize("kind", KINDS)
async def test_other_kinds_and_namespaces_stay(storages, clock, kind):
    """Pruning one kind removes nothing of another, and nothing elsewhere."""
    first, second = storages
    for one in KINDS:
        await fill(first, clock, one)
    scoped = first.scoped("tenant")
    await make(scoped, kind, "a")
    assert len((await second.prune(kind, keep_last=0)).ids) == 5
    assert [len(await left(first, one)) for one in KINDS] == [
        0 if one == kind else 5 for one in KINDS
    ]
    assert await left(scoped, kind) == ("a",)


async def test_a_use_makes_young(storages, clock):
    """Appending to a session, or touching it, counts as a change; merely reading does not."""
    first, second = storages
    await fill(first, clock)
    await first.catalog.create("d")
    clock.now += 100
    await first.sessions.append("e", [])
    await first.catalog.touch("d")
    await first.sessions.load("c")
    assert (await second.prune("session", older_than=50)).ids == ("a", "b", "c")


async def test_of_equal_age_the_count_still_holds(storages, clock):
    """Of sessions changed at one moment exactly keep_last stay, the same in a dry run."""
    first, second = storages
    for name in NAMES:
        await make(first, "session", name)
    would = await second.prune("session", keep_last=2, dry_run=True)
    assert await second.prune("session", keep_last=2) == would
    assert len(await left(first)) == 2


async def test_pruning_nothing_is_nothing(storage):
    """An empty storage is pruned of nothing."""
    pruned = await storage.prune("session", keep_last=0)
    assert (pruned.ids, pruned.examined) == ((), 0)


async def test_more_than_a_page_is_pruned(storages, monkeypatch):
    """What goes is found and removed over any number of pages, while they get fewer."""
    first, second = storages
    monkeypatch.setattr("durably._paging.MAX_LIST_LIMIT", 10)
    for number in range(35):
        await first.log_store.append(
            LogId(kind="run", id=f"{number:02}"), Batch(head=b"{}", at=START + number * 11 % 35)
        )
    pruned = await second.prune("run", keep_last=3)
    kept = tuple(sorted(f"{number:02}" for number in range(35) if number * 11 % 35 >= 32))
    assert (len(pruned.ids), pruned.examined) == (32, 35)
    assert pruned.ids == tuple(sorted(pruned.ids))
    assert await left(first, "run") == kept


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_changed_meanwhile_stays(place, storages, clock, kind):
    """What another changes between the look at it and its removal is kept, and not told."""
    first, _ = storages
    await fill(first, clock, kind)

    async def meddle(log):
        if log.id == "c":
            await make(first, kind, "c")

    told = []
    async with Storage(Meddling(place.log_store(), meddle), clock=clock) as meddled:
        pruned = await meddled.prune(kind, keep_last=0, progress=told.append)
    assert (pruned.ids, pruned.examined) == (("a", "b", "d", "e"), 5)
    assert told == ["a", "b", "d", "e"]
    assert await left(first, kind) == ("c",)


class Looking(Wrapper):
    """Lets others in: runs ``meddle()`` before the second listing of logs."""

    def __init__(self, store, meddle):
        super().__init__(store)
        self._meddle = meddle
        self._listings = 0

    async def list(self, kind, **options):
        self._listings += 1
        if self._listings == 2:
            await self._meddle()
        return await super().list(kind, **options)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_used_once_the_newest_are_known_stays(place, storages, clock, kind):
    """What is changed, or new, after the newest were counted is among the newest, and kept."""
    first, _ = storages
    await fill(first, clock, kind)

    async def meddle():
        clock.now += 10
        await make(first, kind, "e")
        await make(first, kind, "new")

    async with Storage(Looking(place.log_store(), meddle), clock=clock) as meddled:
        assert (await meddled.prune(kind, keep_last=2)).ids == ("c", "d")
    assert await left(first, kind) == ("a", "b", "e", "new")


async def archived(storage, name):
    await storage.sessions.append(name, [result("c", "x" * 900)])
    await storage.sessions.trim_tool_results(name, keep_runs=0, archive=storage.archive)


async def test_archives_go_with_pruned_sessions_alone(storages, clock):
    """The archives of pruned sessions go, all others stay, those of sessions elsewhere too."""
    first, second = storages
    for name in NAMES:
        await archived(first, name)
        clock.now += 10
    await first.archive.store("of another storage", [("c", b"{}")])
    await second.prune("session", keep_last=2, dry_run=True)
    await second.prune("run", keep_last=0)
    assert await left(first, "archive") == (*NAMES, "of another storage")
    assert (await second.prune("session", keep_last=2)).ids == ("a", "b", "c")
    assert await left(first, "archive") == ("d", "e", "of another storage")
    assert await first.archive.recall("d", "c") == [result("c", "x" * 900)]


async def test_an_archive_that_is_used_again_stays(place, storages):
    """A session created anew while the archives of those gone are swept keeps its outputs."""
    first, _ = storages
    await archived(first, "s")
    await first.log_store.append(LogId(kind="archive", id="s"), Batch(head=GOING))
    await first.log_store.delete(LogId(kind="session", id="s"))

    async def meddle(log):
        if log.kind == "archive":
            await first.sessions.append("s", [result("new", "y" * 900)])
            await first.sessions.trim_tool_results("s", keep_runs=0, archive=first.archive)

    async with Storage(Meddling(place.log_store(), meddle)) as meddled:
        await meddled.prune("session", older_than=1000)
    assert await first.archive.recall("s", "new") == [result("new", "y" * 900)]


async def test_pruning_can_be_stopped_and_run_again(place, clock):
    """Whatever step of a prune fails, running it again leaves what an undisturbed one leaves."""

    async def prepare(storage):
        clock.now = START
        for name in reversed(NAMES[:4]):
            await archived(storage, name)
            clock.now += 10

    stopped = set()
    async for storage in failures(
        place, prepare, lambda s: s.prune("session", keep_last=2), clock=clock
    ):
        stopped.add((len(await left(storage)), len(await left(storage, "archive"))))
        assert {"a", "b"} <= set(await left(storage))
        await storage.prune("session", keep_last=2)
        assert await left(storage) == ("a", "b")
        assert await left(storage, "archive") == ("a", "b")
        for name in ("a", "b"):
            assert await storage.archive.recall(name, "c") == [result("c", "x" * 900)]
    assert stopped == {(4, 4), (3, 4), (2, 4), (2, 3), (2, 2)}


async def test_a_progress_that_raises_stops_it(storages, clock):
    """An error in progress comes out, after what it was told of was removed."""
    first, second = storages
    await fill(first, clock)

    def refuse(name):
        if name == "b":
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await second.prune("session", keep_last=0, progress=refuse)
    assert await left(first) == ("c", "d", "e")


class Deaf(Wrapper):
    """Must not be asked for anything but the format."""

    async def read(self, log, *_):
        assert log.kind == "meta"

    async def list(self, kind, **_):
        raise AssertionError(kind)

    async def delete(self, log, **_):
        raise AssertionError(log)


async def test_a_kind_that_is_none_is_refused(place):
    """Only sessions, runs and threads are pruned; anything else is refused before a look."""
    async with Storage(Deaf(place.log_store())) as storage:
        for kind in ("sessions", "", "archive", "meta", None, 5, ["run"]):
            with pytest.raises(InvalidFilter, match="session or run or thread"):
                await storage.prune(kind, keep_last=0)


async def test_pruning_by_nothing_is_refused(place):
    """Without an age or a count nothing is removed: it is refused before a look."""
    async with Storage(Deaf(place.log_store())) as storage:
        with pytest.raises(InvalidFilter, match="older_than or keep_last"):
            await storage.prune("session")


WRONG = (
    *({"older_than": value} for value in (-1, -0.5, math.nan, math.inf, True, "5", 2**53)),
    *({"keep_last": value} for value in (-1, 1.0, True, "5", math.nan)),
    {"older_than": 5, "keep_last": -1},
    {"older_than": -5, "keep_last": 1},
)


async def test_ages_and_counts_that_are_none_are_refused(place):
    """Negative, infinite, boolean and textual ages and counts are refused before a look."""
    async with Storage(Deaf(place.log_store())) as storage:
        for options in WRONG:
            with pytest.raises(InvalidLimit):
                await storage.prune("session", **options)
