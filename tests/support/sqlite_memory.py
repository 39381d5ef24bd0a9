"""Write a log of large records, read it page by page, and say how much memory that took.

Arguments: the file, how many records of 1 MB, how many a page. Answers the bytes read and by how
many bytes the most this process ever held grew by reading.
"""

import asyncio
import json
import resource
import sys

from durably.logstore import Range
from durably_sqlite import SQLiteLogStore
from logs import LOG, unkeyed


def _peak():
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


async def main(path, count, page):
    store = SQLiteLogStore(path, synchronous="normal")
    for number in range(count):
        await store.append(LOG, unkeyed(b"%06d" % number * (1_000_000 // 6)))
    before, found, after = _peak(), 0, 0
    while True:
        stored = await store.read(LOG, Range(after=after, limit=page))
        if not stored.records:
            break
        found += sum(len(one.data) for one in stored.records)
        after = stored.records[-1].seq
    grown = _peak() - before
    await store.aclose()
    sys.stdout.write(json.dumps([found, grown]))


path, *numbers = sys.argv[1:]
asyncio.run(main(path, *map(int, numbers)))
