"""The examples of the runner do what they say, each as a program of its own."""

import asyncio
import runpy
import subprocess
import sys
from pathlib import Path

import durably
from cli_runs import url

EXAMPLES = Path(__file__).parent.parent / "examples"


def told_by(name, *arguments, said=""):
    """Run an example, and return the lines it printed; any warning is an error."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    ended = subprocess.run(
        command, input=said, capture_output=True, text=True, timeout=100, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_a_refund_is_made_once():
    """The operation that a person approved in another process runs once, whoever asks again."""
    lines = told_by("human_review.py")
    assert sum(line.startswith("REFUND") for line in lines) == 1
    assert lines[-2:] == [
        "second process: Order A-17 is refunded.",
        "second process: nothing is asked",
    ]


async def test_a_declined_refund_is_not_made(tmp_path):
    """What the person declines does not run; the model is told by whom."""
    place = url(tmp_path / "agent.db")
    await runpy.run_path(str(EXAMPLES / "human_review.py"))["request"](place, "t")
    lines = await asyncio.to_thread(told_by, "human_review.py", place, "t", said="no\n")
    assert not any(line.startswith("REFUND") for line in lines)
    async with durably.open(place) as storage:
        saved = await storage.checkpoint_saver().latest("t")
    (declined,) = [one for one in saved.snapshot.messages if getattr(one, "is_error", False)]
    assert "ann declined this" in declined.output


async def test_killed_workers_lose_no_job(tmp_path):
    """Workers are killed, and every job ends up in its session once, with each of its results."""
    place = url(tmp_path / "queue.db")
    lines = await asyncio.to_thread(told_by, "multi_worker.py", place)
    assert lines[-2] == "0 in the queue, 12 done"
    assert int(lines[-1].split()[0]) > 0
    async with durably.open(place) as storage:
        for number in range(12):
            (segment,) = await storage.sessions.segments(f"job-{number:02}")
            results = [one for one in segment.entries if isinstance(one, durably.ToolResultEntry)]
            assert [one.raw for one in results] == [0, 1, 4, 9, 16]
