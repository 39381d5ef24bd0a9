"""``examples/recover.py``: sweepers that run at once finish each abandoned run exactly once."""

import asyncio
import runpy
import subprocess
import sys
import time
from pathlib import Path

import pytest

import durably
from builders import call, result, said
from cli_runs import url
from durably import RunHead

EXAMPLE = Path(__file__).parent.parent / "examples" / "recover.py"
ABANDONED = [f"run-{number:02}" for number in range(30)]


@pytest.fixture
async def path(tmp_path):
    """A file with runs that were abandoned an hour ago, one that is alive, and one that ended."""
    path = tmp_path / "agent.db"
    async with durably.open(url(path), clock=lambda: time.time() - 3600) as storage:
        save = storage.checkpointer.append
        for run_id in ABANDONED:
            head = RunHead(context_state={"session_id": f"session of {run_id}"})
            await save(run_id, [*said("a"), call("c1"), result("c1"), call("c2")], head)
        await save("nobody's", said("a"), RunHead())
        await save("ended", said("a"), RunHead(status="completed"))
    async with durably.open(url(path)) as storage:
        await storage.checkpointer.append("alive", said("a"), RunHead(context_state=head.output))
    return path


async def _check(path):
    """Each abandoned run is a segment of its session, once, and no other run is gone."""
    async with durably.open(url(path)) as storage:
        left = [one.run_id for one in (await storage.checkpointer.runs()).items]
        assert left == ["alive", "ended", "nobody's"]
        for run_id in ABANDONED:
            (segment,) = await storage.sessions.segments(f"session of {run_id}")
            assert segment.run_id == run_id
            assert segment.entries == [*said("a"), call("c1"), result("c1")]


async def test_two_processes_at_once(path):
    """Two processes sweep together: every run is finished by one of them, and neither complains."""
    command = [sys.executable, "-W", "error", str(EXAMPLE), url(path), "60"]
    sweepers = [
        await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(2)
    ]
    told = await asyncio.gather(*(one.communicate() for one in sweepers))
    assert [one.returncode for one in sweepers] == [0, 0]
    assert [complaints for _, complaints in told] == [b"", b""]
    finished = b"".join(said_ for said_, _ in told).decode().splitlines()
    assert sorted(finished) == [f"finished {run_id}" for run_id in ABANDONED]
    await _check(path)


async def test_many_sweepers_interleaved(path, capsys):
    """Eight sweepers in one loop, which meet at every run, finish each of them exactly once."""
    sweep = runpy.run_path(str(EXAMPLE))["sweep"]
    await asyncio.gather(*(sweep(url(path), 60.0) for _ in range(8)))
    finished = capsys.readouterr().out.splitlines()
    assert sorted(finished) == [f"finished {run_id}" for run_id in ABANDONED]
    await _check(path)
