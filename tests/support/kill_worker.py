"""Append to a session and to a run, step after step, and say so after each, until killed."""

import asyncio
import os
import sys

import durably
from attempts import SESSION, STEPS, entries, head, run_id


async def main(url: str, worker: int) -> None:
    async with durably.open(url) as storage:
        for step in range(STEPS):
            said = entries(worker, step)
            await storage.sessions.append(SESSION, said, run_id=run_id(worker, step))
            os.write(1, b"ack session %d\n" % step)
            await storage.checkpointer.append(f"worker {worker}", said, head(worker, step))
            os.write(1, b"ack run %d\n" % step)


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
