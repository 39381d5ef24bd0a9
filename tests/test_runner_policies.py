"""What happens to a run that exists, or does not, by ``if_run_exists`` and ``resume_from``."""

import asyncio

import pytest

import durably
from builders import dump, model, user
from durably import InvalidId, RevisionConflict, RunNotFound, Storage
from durably_runner import CheckpointOptions, InvalidOptions, RunExists, Runner
from faults import Meddling
from runner_scenes import (
    REASON,
    RUN_ID,
    SESSION_ID,
    calls,
    plant,
    run,
    scripted,
    segments,
    stored,
    turns,
)

STATES = ["nothing", "running", "interrupted", "failed", "completed", "waiting"]
UNFINISHED = {"running", "interrupted", "failed"}


def expected(policy, state):
    """Return what the table says."""
    if state == "nothing":
        return "refuses" if policy == "resume_only" else "starts"
    if policy in {"restart", "fail"}:
        return {"restart": "starts", "fail": "refuses"}[policy]
    return {"completed": "replays", "waiting": "waits"}.get(state, "continues")


def clerk():
    return scripted(calls("a"), "done")


@pytest.mark.parametrize("session", [True, False], ids=["session", "no session"])
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("policy", ["resume", "restart", "fail", "resume_only"])
async def test_the_table_of_policies(place, storage, policy, state, session):
    """Each policy does in each state what its table says, with a session and without."""
    await plant(storage, state)
    before = dump(place)
    agent, did = clerk(), []
    outcome = expected(policy, state)
    act = run(agent, storage=storage, session=session, deps=did, if_run_exists=policy)
    if outcome == "refuses":
        with pytest.raises(RunNotFound if state == "nothing" else RunExists):
            await act
        assert dump(place) == before
        assert (turns(agent), did) == ([], [])
        return
    result = await act
    told = {
        "starts": ("completed", "done", "new", [1, 2], ["a"], False),
        "continues": ("completed", "done", "old", [2], ["a"], False),
        "replays": ("completed", "stored", "old", [], [], True),
        "waits": ("interrupted", None, "old", [], [], False),
    }[outcome]
    said = (result.status, result.output, result.entries[0].content)
    assert (*said, turns(agent), did, result.is_replay) == told
    assert result.interrupt == (REASON if outcome == "waits" else None)
    run_is_kept = session and outcome != "waits"
    assert await segments(storage) == ([RUN_ID] if run_is_kept else [])
    assert (await stored(storage)).entries == result.entries


async def test_a_restart_begins_a_life_of_its_own(handles):
    """A worker of the run that was discarded cannot write into the new one."""
    first, second = handles
    claim = first.checkpointer.hold(RUN_ID, await plant(first, "running"))
    await run(clerk(), storage=second, if_run_exists="restart")
    kept = await stored(second)
    with pytest.raises(RevisionConflict):
        await claim.append([user("late")], kept.head)
    assert await stored(second) == kept


async def test_a_restart_discards_only_what_it_has_seen(place):
    """A run that somebody goes on with meanwhile is not discarded: the restart is refused."""
    async with place.open() as other:
        await plant(other, "running")

        async def meddle(_):
            await other.checkpointer.append(RUN_ID, [user("more")], (await stored(other)).head)

        async with Storage(Meddling(place.log_store(), meddle)) as storage:
            agent = clerk()
            with pytest.raises(RevisionConflict):
                await run(agent, storage=storage, if_run_exists="restart")
        assert turns(agent) == []
        assert (await stored(other)).entries[-1] == user("more")


async def _held_by_the_session(storage):
    """Complete a run whose checkpoint then goes."""
    return await run(clerk(), storage=storage, delete_on_success=True)


@pytest.mark.parametrize("policy", ["resume", "resume_only"])
async def test_a_run_that_only_its_session_holds_is_replayed(place, storage, policy):
    """A run whose checkpoint went on success is replayed whole from the session."""
    completed = await _held_by_the_session(storage)
    assert await stored(storage) is None
    before, agent = dump(place), clerk()
    replayed = await run(agent, "other", storage=storage, if_run_exists=policy)
    assert turns(agent) == []
    assert replayed.is_replay
    for name in ("status", "agent_name", "entries", "usage", "turns", "output"):
        assert getattr(replayed, name) == getattr(completed, name)
    assert dump(place) == before


@pytest.mark.parametrize("policy", ["restart", "fail"])
async def test_a_run_that_only_its_session_holds_is_not_replaced(place, storage, policy):
    """Restart and fail refuse a run that a session holds: a stored segment is never rewritten."""
    await _held_by_the_session(storage)
    before, agent = dump(place), clerk()
    with pytest.raises(RunExists, match="session 's' has run 'r'") as caught:
        await run(agent, storage=storage, if_run_exists=policy)
    assert caught.value.run_id == RUN_ID
    assert (turns(agent), dump(place)) == ([], before)


async def test_a_refused_restart_discards_nothing(place, storage):
    """A restart that the session refuses leaves the checkpoint as it is."""
    await run(clerk(), storage=storage)
    before, agent = dump(place), clerk()
    with pytest.raises(RunExists):
        await run(agent, storage=storage, if_run_exists="restart")
    assert (turns(agent), dump(place)) == ([], before)


async def test_a_run_that_somebody_recorded_is_replayed_with_its_last_text(storage):
    """A segment that the runner did not write is a completed run whose output is its last text."""
    await storage.sessions.append(SESSION_ID, [user("q"), model("half")], run_id=RUN_ID)
    agent = clerk()
    replayed = await run(agent, storage=storage)
    assert (replayed.output, replayed.is_replay, turns(agent)) == ("half", True, [])


async def test_one_id_is_one_run_whatever_its_session(storage):
    """Two runs that share an id are one run to the checkpointer: the second replays the first."""
    first = await run(clerk(), "one", storage=storage, session_id="s1")
    agent = clerk()
    second = await run(agent, "two", storage=storage, session_id="s2")
    assert turns(agent) == []
    assert (second.output, second.entries) == (first.output, first.entries)
    assert await segments(storage, "s2") == [RUN_ID]


async def test_memory_is_no_crash_recovery():
    """A storage in memory ends with its process: a fresh one knows nothing of the run."""
    for _ in range(2):
        async with durably.open("memory://") as storage:
            agent = clerk()
            ended = await run(agent, storage=storage)
            assert (turns(agent), ended.is_replay) == ([1, 2], False)


async def test_a_snapshot_of_the_callers_is_resumed_without_a_checkpointer(storage):
    """resume_from alone continues a run; nothing of it is stored but in the session."""
    snapshot = await plant(storage, "running")
    await storage.checkpointer.delete(RUN_ID)
    agent, did = clerk(), []
    options = CheckpointOptions(None, RUN_ID, resume_from=snapshot)
    result = await Runner.run(
        agent,
        [],
        checkpoint=options,
        session=storage.sessions,
        session_id=SESSION_ID,
        deps=did,
    )
    assert (result.output, turns(agent), did) == ("done", [2], ["a"])
    assert result.usage.requests == 2
    assert await stored(storage) is None
    assert (await storage.sessions.load(SESSION_ID)) == result.entries


@pytest.mark.parametrize("policy", ["resume", "resume_only"])
@pytest.mark.parametrize("state", ["running", "completed", "waiting"])
async def test_a_snapshot_that_the_checkpointer_has_is_resumed(storage, state, policy):
    """resume_from at the stored revision is the same as none."""
    snapshot = await plant(storage, state)
    agent = clerk()
    result = await run(agent, storage=storage, resume_from=snapshot, if_run_exists=policy)
    assert turns(agent) == ([2] if state == "running" else [])
    assert result.is_replay == (state == "completed")
    assert result.entries[0] == user("old")


@pytest.mark.parametrize("policy", ["resume", "resume_only"])
async def test_a_snapshot_that_is_new_to_the_checkpointer_is_stored(storage, policy):
    """resume_from of a run that the checkpointer does not know is stored there, whole."""
    snapshot = await plant(storage, "running", usage={"requests": 4})
    await storage.checkpointer.delete(RUN_ID)
    agent = clerk()
    result = await run(agent, storage=storage, resume_from=snapshot, if_run_exists=policy)
    kept = await stored(storage)
    assert turns(agent) == [2]
    assert kept.entries == result.entries
    assert kept.entries[:2] == snapshot.entries
    assert kept.head.started_at == snapshot.head.started_at
    assert kept.head.usage["requests"] == 5


async def test_a_completed_snapshot_that_is_new_to_the_checkpointer_is_replayed(storage):
    """resume_from of a completed run calls nothing, and gives it to the session."""
    snapshot = await plant(storage, "completed")
    await storage.checkpointer.delete(RUN_ID)
    agent = clerk()
    result = await run(agent, storage=storage, resume_from=snapshot, delete_on_success=True)
    assert (result.output, result.is_replay, turns(agent)) == ("stored", True, [])
    assert await segments(storage) == [RUN_ID]


async def test_a_stale_snapshot_is_refused(place, storage):
    """resume_from at another revision than the stored one is a RevisionConflict."""
    snapshot = await plant(storage, "running")
    await storage.checkpointer.append(RUN_ID, [], snapshot.head)
    before, agent = dump(place), clerk()
    with pytest.raises(RevisionConflict) as caught:
        await run(agent, storage=storage, resume_from=snapshot)
    assert caught.value.expected == snapshot.revision
    assert (turns(agent), dump(place)) == ([], before)


async def test_of_two_that_bring_one_snapshot_one_goes_on(handles):
    """A snapshot that is new to the checkpointer is taken over by exactly one of two workers."""
    first, second = handles
    snapshot = await plant(first, "running")
    await first.checkpointer.delete(RUN_ID)
    agents = [clerk(), clerk()]
    acts = [
        run(agent, storage=storage, resume_from=snapshot)
        for agent, storage in zip(agents, (first, second), strict=True)
    ]
    done = await asyncio.gather(*acts, return_exceptions=True)
    failed = [one for one in done if isinstance(one, BaseException)]
    asked = [turns(agent) for agent in agents]
    if failed:
        assert [type(one) for one in failed] == [RevisionConflict]
        assert sorted(asked) == [[], [2]]
    else:
        assert sorted(asked) == [[], [2]]
        assert sorted(one.is_replay for one in done) == [False, True]


class TestOptions:
    """Options that contradict each other are refused as they are made."""

    async def test_a_snapshot_of_another_run(self, storage):
        """resume_from must be a snapshot of the run_id."""
        snapshot = await plant(storage, "running", run_id="other")
        with pytest.raises(InvalidOptions, match="of run 'other', not of 'r'"):
            CheckpointOptions(storage.checkpointer, RUN_ID, resume_from=snapshot)

    @pytest.mark.parametrize("policy", ["restart", "fail"])
    async def test_a_snapshot_that_is_not_to_be_resumed(self, storage, policy):
        """resume_from goes with the policies that resume."""
        snapshot = await plant(storage, "running")
        with pytest.raises(InvalidOptions, match="contradicts"):
            CheckpointOptions(
                storage.checkpointer, RUN_ID, resume_from=snapshot, if_run_exists=policy
            )

    def test_neither_a_checkpointer_nor_a_snapshot(self):
        """There must be a checkpointer or a snapshot."""
        with pytest.raises(InvalidOptions, match="neither"):
            CheckpointOptions(None, RUN_ID)

    async def test_an_unknown_policy(self, storage):
        """if_run_exists is one of four words, and the error names them."""
        with pytest.raises(InvalidOptions, match="'replace'") as caught:
            CheckpointOptions(storage.checkpointer, RUN_ID, "replace")
        assert "resume, restart, fail, resume_only" in caught.value.hint

    async def test_an_illegal_id(self, storage):
        """run_id is legal as an id of a run."""
        with pytest.raises(InvalidId):
            CheckpointOptions(storage.checkpointer, "a\x00b")

    async def test_dropping_without_a_session(self, storage):
        """delete_on_success without a session would lose the run, so it is refused."""
        with pytest.raises(InvalidOptions, match="would lose the run"):
            await run(clerk(), storage=storage, session=False, delete_on_success=True)
        assert await stored(storage) is None

    async def test_half_a_session(self, storage):
        """A session and its id go together."""
        for half in ({"session": storage.sessions}, {"session_id": "s"}):
            with pytest.raises(InvalidOptions, match="go together"):
                await Runner.run(clerk(), "new", **half)
