"""Append under a limit of the file's size, which SQLite meets like a full disk, then without it.

Arguments: the file, the limit in bytes, the journal mode. Says the error and which records were
acknowledged.
"""

import asyncio
import json
import resource
import sys

from durably import DurablyError
from durably.logstore import Batch, NewRecord
from durably_sqlite import SQLiteLogStore
from logs import LOG


def _batch(number):
    parts = (NewRecord(key=f"{number} {part}", data=b"%d" % number * 2000) for part in range(3))
    return Batch(records=tuple(parts), head=b"%d" % number)


async def main(path, limit, mode):
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    store = SQLiteLogStore(path, journal_mode=mode)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), unlimited[1]))
    acknowledged, errors = [], []
    for number in range(200):
        try:
            await store.append(LOG, _batch(number))
            acknowledged.append(number)
        except DurablyError as error:
            errors.append([type(error).__name__, error.hint])
            if len(errors) == 3:
                break
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    await store.append(LOG, _batch(1000))
    await store.aclose()
    sys.stdout.write(json.dumps([errors, [*acknowledged, 1000]]))


asyncio.run(main(*sys.argv[1:]))
