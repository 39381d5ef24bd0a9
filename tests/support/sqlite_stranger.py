"""Read and append as a user who may not do everything; say what came of both.

Arguments: the file. Root becomes nobody first, since nothing is forbidden to root.
"""

import asyncio
import json
import os
import sys

from durably import DurablyError
from durably_sqlite import SQLiteLogStore
from logs import LOG, batch

NOBODY = 65534


async def _attempt(call):
    try:
        await call
    except DurablyError as error:
        return [type(error).__name__, error.hint]
    return "done"


async def main(path):
    store = SQLiteLogStore(path)
    outcomes = [await _attempt(store.read(LOG)), await _attempt(store.append(LOG, batch("theirs")))]
    await store.aclose()
    sys.stdout.write(json.dumps(outcomes))


if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
asyncio.run(main(sys.argv[1]))
