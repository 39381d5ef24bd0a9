"""Several workers, one queue of run_ids, and workers that are killed: every job is done.

    python examples/multi_worker.py [URL]

starts workers, kills some of them with SIGKILL, and starts others, until every run is completed.
The queue is the checkpointer itself: a run leaves it once it is in its session. A worker takes a
run that nobody saved for a moment; of two that take one run, the second to save gets
RevisionConflict and looks for another.
"""

import asyncio
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import durably
from durably import RunHead, ToolCallEntry
from durably_runner import Agent, CheckpointOptions, Runner, ScriptedModel, tool

JOBS = [f"job-{number:02}" for number in range(12)]
STEPS = 5
IDLE = 0.5
"""Seconds without a save after which a run's worker is taken for dead."""


@tool
async def step(number: int) -> int:
    """Do a bit of work."""
    await asyncio.sleep(0.1)
    return number * number


def worker_agent() -> Agent:
    """Return an agent that calls its tool a few times and then says that it is done."""
    calls = [
        ToolCallEntry(call_id=f"{n}", name="step", arguments=f'{{"number": {n}}}')
        for n in range(STEPS)
    ]
    return Agent(name="worker", model=ScriptedModel(*calls, "done"), tools=[step])


async def queue(storage: durably.Storage, *, idle_for: float | None = None) -> list[str]:
    """Return the runs that are not done, or those of them that nobody works at."""
    page = await storage.checkpointer.runs(idle_for=idle_for, limit=1000)
    return [run.run_id for run in page.items]


async def work(url: str) -> None:
    """Take run after run until none is left."""
    async with durably.open(url) as storage:
        while await queue(storage):
            waiting = await queue(storage, idle_for=IDLE)
            if not waiting:
                await asyncio.sleep(IDLE / 5)
                continue
            run_id = random.choice(waiting)
            checkpoint = CheckpointOptions(
                storage.checkpointer, run_id, if_run_exists="resume_only", delete_on_success=True
            )
            try:
                await Runner.run(
                    worker_agent(),
                    [],
                    session=storage.sessions,
                    session_id=run_id,
                    checkpoint=checkpoint,
                )
            except (durably.RevisionConflict, durably.RunNotFound):
                continue  # another worker has it, or had it


async def put(url: str) -> None:
    """Put the jobs into the queue: runs that nobody has begun."""
    async with durably.open(url) as storage:
        for run_id in JOBS:
            said = [durably.InputEntry(role="user", content=f"Do {run_id}.")]
            head = RunHead(agent_name="worker", status="interrupted")
            await storage.checkpointer.append(run_id, said, head, expected_revision=0)


async def show(url: str) -> bool:
    """Print how far the jobs are, and return whether all are done."""
    async with durably.open(url) as storage:
        left = await queue(storage)
        in_sessions = [len(await storage.sessions.segments(run_id)) for run_id in JOBS]
        print(len(left), "in the queue,", sum(in_sessions), "done")
        return not left


def drive(url: str) -> None:
    """Start three workers again and again, and kill each once in a while."""
    asyncio.run(put(url))
    killed = 0
    while not asyncio.run(show(url)):
        workers = [subprocess.Popen([sys.executable, __file__, "--work", url]) for _ in range(3)]
        for worker in workers:
            try:
                worker.wait(timeout=random.uniform(0.6, 1.5))
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
                killed += 1
    print(killed, "workers were killed on the way")


def main() -> None:
    """Work, if told so; else drive workers on the URL, or on a file that goes afterwards."""
    if sys.argv[1:2] == ["--work"]:
        asyncio.run(work(sys.argv[2]))
    elif len(sys.argv) > 1:
        drive(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            drive(f"sqlite:///{Path(folder) / 'queue.db'}")


if __name__ == "__main__":
    main()
