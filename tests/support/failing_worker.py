"""Fail to open a storage in many loops, each of which ends at once; only the last line speaks."""

import asyncio
import contextlib
import sys

import durably


async def refused(folder: str) -> None:
    async with durably.open(f"sqlite:///{folder}/missing/storage.db"):
        pass


for _ in range(200):
    with contextlib.suppress(durably.Unavailable):
        asyncio.run(refused(sys.argv[1]))
sys.stdout.write("200 loops\n")
