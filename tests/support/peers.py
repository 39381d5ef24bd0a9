"""Processes to talk to, each with a storage of its own on one file."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

WORKER = Path(__file__).parent / "peer_worker.py"


class Process:
    """A running worker; a call is a command to it and its answer."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def call(self, *command):
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        line = await self._process.stdout.readline()
        assert line, "the worker died, see its traceback"
        return json.loads(line)


@asynccontextmanager
async def _peer(url):
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(WORKER), url, stdin=pipe, stdout=pipe, limit=1 << 24
    )
    try:
        yield Process(process)
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), 10) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def peers(url, count=2):
    """Start so many processes, and see them end by themselves."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(_peer(url)) for _ in range(count)]
