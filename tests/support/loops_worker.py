"""Cancel an append that waits for a lock, end its loop, and go on with the store in another one."""

import asyncio
import faulthandler
import sqlite3
import sys

from durably import WrongLoop
from durably.logstore import Batch, LogId
from durably_sqlite import SQLiteLogStore

LOG = LogId(kind="session", id="a log")


async def first(store: SQLiteLogStore, file: str) -> sqlite3.Connection:
    """Leave an append cancelled behind, and return the connection it waits for."""
    await store.append(LOG, Batch(head=b"1"))
    other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    asyncio.get_running_loop().call_later(1, other.execute, "COMMIT")
    waiting = asyncio.create_task(store.append(LOG, Batch(head=b"2")))
    await asyncio.wait([waiting], timeout=0.1)
    waiting.cancel()
    await asyncio.wait([waiting])
    return other


def main(file: str) -> None:
    faulthandler.dump_traceback_later(10, exit=True)
    store = SQLiteLogStore(file)
    other = asyncio.run(first(store, file))
    if other.in_transaction:
        other.execute("COMMIT")
    try:
        asyncio.run(store.append(LOG, Batch(head=b"3")))
    except WrongLoop:
        sys.stdout.write("refused, ")
    asyncio.run(store.aclose())
    other.close()
    sys.stdout.write("closed\n")


main(sys.argv[1])
