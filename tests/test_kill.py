"""A writer that dies by SIGKILL: what it was told is stored stays, whole, and nothing else."""

import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import durably
from attempts import SESSION, STEPS, digest, entries, head, run_id

WORKER = Path(__file__).parent / "support" / "kill_worker.py"
KILLS = 30


def _killed(url, worker, dice):
    """Run a worker, kill it a moment after a seeded ack, and return all its acks, by kind."""
    at = dice.randrange(2 * STEPS * 3 // 4)
    command = [sys.executable, str(WORKER), url, str(worker)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        lines = [process.stdout.readline() for _ in range(at + 1)]
        time.sleep(dice.uniform(0, 0.004))
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    assert process.returncode in (-signal.SIGKILL, 0)
    acks = {b"session": -1, b"run": -1}
    for line in lines:
        word, kind, step = line.split()
        assert (word, int(step)) == (b"ack", acks[kind] + 1)
        acks[kind] = int(step)
    return acks


async def _stored(url, worker):
    """Return how many steps of a worker its session and its run hold, each checked to be whole."""
    async with durably.open(url) as storage:
        segments = await storage.sessions.segments(SESSION)
        mine = [one for one in segments if one.run_id.startswith(f"worker {worker} ")]
        for step, segment in enumerate(mine):
            assert segment.run_id == run_id(worker, step)
            assert digest(segment.entries) == digest(entries(worker, step))
        run = await storage.checkpointer.load(f"worker {worker}")
        steps = 0 if run is None else run.head.turns
        if run is not None:
            wanted = [entry for step in range(steps) for entry in entries(worker, step)]
            assert digest(run.entries) == digest(wanted)
            assert run.head.context_state == head(worker, steps - 1).context_state
        await storage.sessions.append("after", [], run_id=f"after worker {worker}")
        return len(mine), steps


async def test_acknowledged_is_stored_and_stored_was_attempted(tmp_path, record_property):
    """30 SIGKILLs over one file lose no acknowledged append and leave none that is not whole."""
    url = f"sqlite:///{tmp_path / 'storage.db'}"
    dice = random.Random(7)  # noqa: S311 - reproducible, no secret
    early = acknowledged = stored = 0
    for worker in range(KILLS):
        acks = _killed(url, worker, dice)
        found = await _stored(url, worker)
        for acked, steps in zip(acks.values(), found, strict=True):
            assert acked + 1 <= steps <= acked + 2
        assert found[1] <= found[0]
        early += acks[b"run"] < STEPS - 1
        acknowledged += sum(acks.values()) + 2
        stored += sum(found)
    assert early >= 25
    with closing(sqlite3.connect(tmp_path / "storage.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    async with durably.open(url) as storage:
        assert len(await storage.sessions.segments("after")) == KILLS
    record_property(
        "counted",
        f"{KILLS} kills, {early} before the last append: {acknowledged} acknowledged, "
        f"{stored} stored, {2 * KILLS * STEPS} attempted at most",
    )
