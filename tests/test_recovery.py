"""Rewinding with checkpoints and finishing abandoned runs, in an order no crash can harm."""

import pytest

from builders import call, model, plant, records, result, said, shape, user
from disturbed import Small
from durably import (
    CorruptRecord,
    InvalidId,
    InvalidLimit,
    RecordTooLarge,
    RevisionConflict,
    Rewound,
    RunHead,
    RunNotFound,
    Segment,
    Storage,
)
from faults import Overtaken, failures
from logs import closing_all
from places import FakeClock

RUNS = ("r1", "r2", "r3", "r4")


async def fill(storage):
    """Make a session of four runs of two entries, each with a checkpoint, and another run."""
    for run_id in RUNS:
        await storage.sessions.append("s", said(f"{run_id} a", f"{run_id} b"), run_id=run_id)
    for run_id in (*RUNS, "elsewhere"):
        await storage.checkpointer.append(run_id, said("x"), RunHead())


async def checkpoints(storage):
    return [run.run_id for run in (await storage.checkpointer.runs()).items]


@pytest.mark.parametrize(
    ("keep", "gone", "truncated"),
    [
        (0, RUNS, None),
        (1, RUNS[1:], "r1"),
        (2, RUNS[1:], None),
        (5, RUNS[3:], "r3"),
        (6, RUNS[3:], None),
        (7, (), "r4"),
        (8, (), None),
        (99, (), None),
    ],
)
async def test_a_rewind_takes_the_checkpoints_of_removed_runs(handles, keep, gone, truncated):
    """Checkpoints of removed runs go; that of a run cut short, and all others, stay."""
    first, second = handles
    await fill(first)
    done = await second.rewind("s", keep_entries=keep)
    assert done == Rewound(
        removed_entries=max(0, 8 - keep), removed_run_ids=tuple(gone), truncated_run_id=truncated
    )
    assert await checkpoints(first) == sorted({*RUNS, "elsewhere"} - set(gone))
    assert (
        await first.sessions.load("s")
        == [user(f"{run_id} {which}") for run_id in RUNS for which in "ab"][:keep]
    )


async def test_a_run_cut_down_to_nothing_loses_its_checkpoint(storage):
    """A run that goes since only a call without result is kept of it takes its checkpoint along."""
    await storage.sessions.append("s", said("a"), run_id="r1")
    await storage.sessions.append("s", [call("c"), result("c")], run_id="r2")
    for run_id in ("r1", "r2"):
        await storage.checkpointer.append(run_id, said("x"), RunHead())
    done = await storage.rewind("s", keep_entries=2)
    assert done.removed_run_ids == ("r2",)
    assert await checkpoints(storage) == ["r1"]


async def test_a_rewind_of_nothing_is_nothing(storage):
    """Rewinding a session that does not exist removes nothing."""
    await fill(storage)
    assert await storage.rewind("absent", keep_entries=0) == Rewound()
    assert len(await checkpoints(storage)) == 5


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"keep_entries": -1}, InvalidLimit),
        ({"keep_entries": True}, InvalidLimit),
        ({"keep_entries": 0, "expected_revision": -1}, InvalidLimit),
        ({"keep_entries": 0, "expected_revision": 5}, RevisionConflict),
    ],
)
async def test_a_refused_rewind_takes_no_checkpoint(storage, options, error):
    """A rewind with wrong arguments or an old revision leaves session and checkpoints alone."""
    await fill(storage)
    with pytest.raises(error):
        await storage.rewind("s", **options)
    assert len(await checkpoints(storage)) == 5
    assert len(await storage.sessions.load("s")) == 8


async def test_a_rewind_of_a_broken_run_takes_no_checkpoint(place):
    """Where the run to be cut short cannot be read, no checkpoint goes."""
    async with place.open() as storage:
        await plant(place, "session", "s", b"\xff", key="r1", entry_count=2)
        await storage.sessions.append("s", said("a"), run_id="r2")
        await storage.checkpointer.append("r2", said("x"), RunHead())
        with pytest.raises(CorruptRecord):
            await storage.rewind("s", keep_entries=1)
        assert await checkpoints(storage) == ["r2"]


async def test_a_rewind_at_the_expected_revision_is_done(storage):
    """The revision a caller saw lets the rewind through as long as it holds."""
    await fill(storage)
    revision = await storage.sessions.revision("s")
    done = await storage.rewind("s", keep_entries=2, expected_revision=revision)
    assert done.removed_run_ids == RUNS[1:]
    with pytest.raises(RevisionConflict):
        await storage.rewind("s", keep_entries=0, expected_revision=revision)


async def test_an_overtaken_rewind_is_tried_again(place):
    """A rewind between whose looking and cutting others came is done in the end, and says what."""
    async with closing_all() as keep:
        storage = keep(Storage(Overtaken(place.log_store(), 3)))
        await fill(storage)
        done = await storage.rewind("s", keep_entries=6)
        assert done == Rewound(removed_entries=2, removed_run_ids=("r4",))
        assert await checkpoints(storage) == ["elsewhere", "r1", "r2", "r3"]


async def test_an_interrupted_rewind_leaves_no_checkpoint_of_what_is_gone(place):
    """Whatever step fails, no checkpoint outlives its run's segment; a second rewind ends it."""
    seen = set()
    async for storage in failures(place, fill, lambda s: s.rewind("s", keep_entries=4)):
        runs = [run_id for run_id, _ in await shape(storage.sessions, "s")]
        left = await checkpoints(storage)
        seen.add((len(runs), len(left)))
        assert {"elsewhere", "r1", "r2"} <= set(left) <= {"elsewhere", *runs}
        await storage.rewind("s", keep_entries=4)
        assert await shape(storage.sessions, "s") == [("r1", 2), ("r2", 2)]
        assert await checkpoints(storage) == ["elsewhere", "r1", "r2"]
    assert seen == {(4, 5), (4, 4), (4, 3), (2, 3)}


ENTRIES = [user("go"), call("a"), call("b"), result("a"), model("so far"), call("c")]
KEPT = [user("go"), call("a"), result("a"), model("so far")]
NOW = 1_700_000_000.0


async def begin(storage):
    """Leave a run with open calls behind, and a session with an earlier run."""
    await storage.sessions.append("s", said("before"), run_id="earlier")
    await storage.checkpointer.append("r", ENTRIES[:3], RunHead(started_at=NOW - 60))
    await storage.checkpointer.append("r", ENTRIES[3:], RunHead(started_at=NOW - 60, turns=2))


async def test_finishing_makes_a_segment_of_a_run(place):
    """A finished run is the session's last segment, without open calls; its checkpoint is gone."""
    clock = FakeClock(NOW)
    async with place.open(clock=clock) as first, place.open(clock=clock) as second:
        await begin(first)
        assert await second.finish("r", "s") is True
        timing = {"started_at": NOW - 60, "finished_at": NOW}
        assert (await first.sessions.segments("s"))[1:] == [
            Segment(run_id="r", entries=KEPT, meta={"timing": timing})
        ]
        assert await checkpoints(first) == []


async def test_finishing_again_changes_nothing(handles):
    """A second finish finds the run in its session and says that there was no checkpoint."""
    first, second = handles
    await begin(first)
    await first.finish("r", "s")
    revision = await first.sessions.revision("s")
    assert await second.finish("r", "s") is False
    assert await first.sessions.revision("s") == revision


async def test_a_segment_that_is_there_already_stays(storage):
    """Where the session has the run, its segment is kept as it is, and the checkpoint goes."""
    await begin(storage)
    await storage.sessions.append("s", said("the", "whole", "run"), run_id="r", meta={"n": 1})
    assert await storage.finish("r", "s") is True
    assert (await storage.sessions.segments("s"))[1].meta == {"n": 1}
    assert await storage.sessions.load("s") == said("before", "the", "whole", "run")
    assert await checkpoints(storage) == []


async def test_a_run_without_entries_is_finished_empty(storage):
    """A run that only has a head, or only open calls, becomes an empty segment."""
    await storage.checkpointer.append("r1", [], RunHead())
    await storage.checkpointer.append("r2", [call("a")], RunHead())
    for run_id in ("r1", "r2"):
        assert await storage.finish(run_id, "s") is True
    assert await shape(storage.sessions, "s") == [("r1", 0), ("r2", 0)]


@pytest.mark.parametrize("name", ["s", "other"])
async def test_a_run_that_is_nowhere_is_not_found(storage, name):
    """A run without a checkpoint that the session does not have either is RunNotFound."""
    await storage.sessions.append("s", said("a"), run_id="another")
    with pytest.raises(RunNotFound) as caught:
        await storage.finish("r", name)
    assert caught.value.run_id == "r"


async def test_a_run_is_finished_into_one_session(storage):
    """A run that went into one session is not found for another."""
    await begin(storage)
    await storage.finish("r", "s")
    with pytest.raises(RunNotFound):
        await storage.finish("r", "other")
    assert await storage.sessions.load("other") == []


async def test_illegal_ids_are_refused_before_anything(storage):
    """Neither id is taken if no backend may store it, and nothing is claimed."""
    await begin(storage)
    revision = (await storage.checkpointer.load("r")).revision
    for ids in (("r", ""), ("", "s"), ("r", "\x00"), ("\ud800", "s")):
        with pytest.raises(InvalidId):
            await storage.finish(*ids)
    assert (await storage.checkpointer.load("r")).revision == revision


async def test_finishing_fences_the_old_worker(handles):
    """The worker that held the run can neither save nor delete it after a finish."""
    first, second = handles
    await begin(first)
    worker = await first.checkpointer.claim("r")
    await second.finish("r", "s")
    with pytest.raises(RevisionConflict):
        await worker.append(said("late"), RunHead())
    assert await first.checkpointer.load("r") is None
    assert await first.sessions.load("s") == [*said("before"), *KEPT]


async def test_the_old_worker_is_fenced_before_the_segment(place):
    """Whichever step of finishing failed, once a segment is there the old worker cannot save."""
    workers = []

    async def prepare(storage):
        await begin(storage)
        workers.append(await storage.checkpointer.claim("r"))

    fenced = 0
    async for storage in failures(place, prepare, lambda s: s.finish("r", "s")):
        if len(await shape(storage.sessions, "s")) == 2:
            fenced += 1
            with pytest.raises(RevisionConflict):
                await workers[-1].append(said("late"), RunHead())
    assert fenced >= 2


async def test_an_interrupted_finish_is_completed_by_another(place):
    """Whatever step fails, the run is in its checkpoint or its session; a second finish ends it."""
    seen = set()
    async for storage in failures(place, begin, lambda s: s.finish("r", "s")):
        segments = (await storage.sessions.segments("s"))[1:]
        there = await checkpoints(storage)
        seen.add((len(segments), len(there)))
        if there:
            assert (await storage.checkpointer.load("r")).entries == ENTRIES
        assert await storage.finish("r", "s") is bool(there)
        assert [one.entries for one in (await storage.sessions.segments("s"))[1:]] == [KEPT]
        assert await checkpoints(storage) == []
    assert seen == {(0, 1), (1, 1), (1, 0)}


async def test_a_run_too_large_for_one_segment_keeps_its_checkpoint(place):
    """A run whose batches are too large together is RecordTooLarge, and can still be resumed."""
    async with closing_all() as keep:
        storage = keep(Storage(Small(place.log_store(), record_bytes=4_000, head_bytes=1_000)))
        for _ in range(2):
            await storage.checkpointer.append("r", said("x" * 3_000), RunHead())
        with pytest.raises(RecordTooLarge):
            await storage.finish("r", "s")
        assert len((await storage.checkpointer.load("r")).entries) == 2
        assert await records(place, "session", "s") == ()
