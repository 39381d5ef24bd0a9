"""Open, append, close as told, and say which threads are left; then the process must end."""

import asyncio
import sys
import threading

import durably
from durably import InputEntry


async def main(url: str, how: str) -> None:
    storage = durably.open(url)
    if how == "never used":
        return
    await storage.sessions.append("s", [InputEntry(role="user", content="hello")])
    if how == "cancelled":
        closing = asyncio.create_task(storage.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
    if how == "raises":
        async with storage:
            sys.exit("left by an error")
    await storage.aclose()


try:
    asyncio.run(main(*sys.argv[1:]))
finally:
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join(5)
    sys.stdout.write(f"{threading.active_count() - 1} threads left\n")
