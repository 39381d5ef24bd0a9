"""What a storage lost is named; a shorter history never looks like a whole one."""

import pytest

from builders import said, user
from disturbed import LosesRecords
from durably import CorruptRecord, RunHead, StateSnapshot, Storage
from logs import closing_all, raw
from places import Place


@pytest.fixture
async def losing(place):
    """A function that gives a storage which loses the last record of every log of a kind."""
    async with closing_all() as keep, place.open() as storage:
        for run_id in ("r1", "r2"):
            await storage.sessions.append("x", said("a", "b"), run_id=run_id)
            await storage.checkpointer.append("x", said("a"), RunHead())
        yield lambda kind: keep(Storage(LosesRecords(place.log_store(), kind)))


@pytest.mark.parametrize(
    "act",
    [
        lambda s: s.sessions.load("x"),
        lambda s: s.sessions.segments("x"),
        lambda s: s.sessions.rewind("x", keep_entries=1),
        lambda s: s.sessions.trim_tool_results("x", keep_runs=0),
    ],
)
async def test_a_session_that_lost_a_run_is_corrupt(losing, act):
    """A session of which a run is missing is refused, and not read, cut or trimmed as a whole."""
    with pytest.raises(CorruptRecord, match="1 records, its state says 2"):
        await act(losing("session"))


@pytest.mark.parametrize(
    "act", [lambda s: s.checkpointer.load("x"), lambda s: s.checkpointer.claim("x")]
)
async def test_a_run_that_lost_a_batch_is_corrupt(losing, act):
    """A run of which a batch is missing is refused, and not resumed from less."""
    with pytest.raises(CorruptRecord):
        await act(losing("run"))


SPOILED = [
    "UPDATE durably_logs SET changes = x'ff'",
    "UPDATE durably_logs SET changes = 5",
    "UPDATE durably_logs SET revision = 'hunter2'",
    "UPDATE durably_logs SET next_seq = -1",
    "UPDATE durably_logs SET head = 7.5",
    "UPDATE durably_records SET data = 5",
    "UPDATE durably_records SET data = 'hunter2'",
    "UPDATE durably_records SET revision = 'hunter2'",
    "UPDATE durably_records SET entry_count = -5",
    "UPDATE durably_records SET stored_at = 'hunter2'",
    "UPDATE durably_records SET key = CAST(x'68756e74657232ff' AS TEXT)",
]


@pytest.mark.parametrize("statement", SPOILED)
async def test_a_spoiled_column_is_corrupt(tmp_path, statement):
    """A column that holds what was never written is a CorruptRecord that repeats none of it."""
    place = Place("sqlite", tmp_path)
    async with place.open() as storage:
        saver = storage.checkpoint_saver()
        await storage.sessions.append("x", said("a", "b"), run_id="r1")
        await storage.checkpointer.append("x", said("a"), RunHead())
        await saver.append("x", StateSnapshot(messages=[user("a")]))
        with raw(place.file) as connection:
            connection.execute(f"{statement} WHERE true")
        for act in (
            lambda: storage.sessions.load("x"),
            lambda: storage.checkpointer.load("x"),
            lambda: saver.latest("x"),
        ):
            with pytest.raises(CorruptRecord) as caught:
                await act()
            assert "hunter2" not in str(caught.value)
