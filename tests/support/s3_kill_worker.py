"""Fork a child for each line of stdin, that appends to one log and says so until it is killed.

Only a process that has imported everything is worth a kill, and importing takes a second.
"""

import asyncio
import os
import random
import sys

import durably
import durably_s3._boto  # noqa: F401 - so that the children need not
from durably.logstore import Batch, NewRecord
from logs import LOG

SIZE = 20_000
"""Bytes: every fourth append seals, and every 32nd merges."""


def content(key: str) -> bytes:
    """Return bytes that no compression makes smaller, for any key others."""
    return random.Random(key).randbytes(SIZE)  # noqa: S311 - reproducible, no secret


async def append(url: str, worker: str) -> None:
    async with durably.open(url) as storage:
        step = 0
        while True:
            key = f"{worker} {step}"
            record = NewRecord(key=key, data=content(key))
            await storage.log_store.append(LOG, Batch(records=(record,)))
            os.write(1, b"ack %d\n" % step)
            step += 1


def main(url: str) -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os.write(1, b"%d\n" % os.getpid())
            asyncio.run(append(url, line.strip()))
        _, status = os.waitpid(child, 0)
        os.write(1, b"died of %d\n" % os.WTERMSIG(status))


if __name__ == "__main__":
    main(sys.argv[1])
