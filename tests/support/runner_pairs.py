"""A run with calls left open, and two processes that are to resume it at the same time."""

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from builders import call, user
from durably import RunHead
from durably_runner import Agent, ScriptedModel
from runner_job import work

WORKER = Path(__file__).parent / "runner_pair_worker.py"
OPEN = [call(name, "work") for name in ("a", "b", "c")]
ANSWER = "done"
NAMES = ("first", "second")


def agent():
    """Return the agent both workers run, and its model."""
    model = ScriptedModel("?", ANSWER)
    return Agent(name="clerk", model=model, tools=[work]), model


async def leave_open(storage, run_id):
    """Store a run as a crash left it: the model has called, and no tool has answered."""
    head = RunHead(agent_name="clerk", turns=1)
    await storage.checkpointer.append(run_id, [user("old"), *OPEN], head)


class Worker:
    """A process; ``tell`` writes a line to it, ``hear`` reads what it says."""

    def __init__(self, process) -> None:
        self._process = process

    def tell(self, word) -> None:
        self._process.stdin.write(f"{word}\n".encode())

    async def hear(self):
        line = await asyncio.wait_for(self._process.stdout.readline(), 60)
        assert line, "the worker died, see its traceback"
        return json.loads(line)


@asynccontextmanager
async def _worker(url, name, ledger, environment):
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(WORKER),
        url,
        name,
        str(ledger),
        stdin=pipe,
        stdout=pipe,
        env={**os.environ, **environment},
    )
    try:
        worker = Worker(process)
        assert await worker.hear() == "ready"
        yield worker
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), 10) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def two_workers(url, folder, environment):
    """Give both, and the paths of their ledgers."""
    ledgers = [folder / f"ledger of the {name}" for name in NAMES]
    async with AsyncExitStack() as stack:
        workers = [
            await stack.enter_async_context(_worker(url, name, ledger, environment))
            for name, ledger in zip(NAMES, ledgers, strict=True)
        ]
        yield workers, ledgers
