"""Make a change that ends by SIGKILL at a call of the store, or a whole one.

A case is a line of JSON on stdin, the exit code of its process a line on stdout. Each is a fork of
this process, which has imported everything and has nothing open.
"""

import asyncio
import gc
import importlib
import json
import os
import sys
import traceback

from durably import _forks
from tree_changes import BATCH_RECORDS, change, opened


async def make(url: str, area: str, **case) -> None:
    async with opened(url) as storage:
        await change(storage.scoped(area), **case)


def in_a_fork(url: str, case) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            asyncio.run(make(url, **case))
            code = 0
        except BaseException:  # noqa: BLE001 - the parent must not go on in a child
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


async def warm_up(url: str) -> None:
    """Find and import all that a child would have to."""
    if url.startswith("s3"):
        importlib.import_module("durably_s3._boto")
    async with opened(url):
        pass
    gc.freeze()


def main(url: str) -> None:
    _forks.BATCH_RECORDS = BATCH_RECORDS
    asyncio.run(warm_up(url))
    for line in sys.stdin:
        sys.stdout.write(f"{in_a_fork(url, json.loads(line))}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
