"""Forks of a later version that open copies of a file, the n-th killed before its n-th statement.

Arguments: the file to copy, and the folder of the copies 0.db, 1.db and so on. Ends with the
first fork that survives, and says its number.
"""

import asyncio
import itertools
import os
import shutil
import signal
import sys
from pathlib import Path

from durably_sqlite import SQLiteLogStore, _groups
from logs import LOG
from sqlite_steps import upgrade


async def _open(path):
    store = SQLiteLogStore(path, backup="before-migration")
    await store.read(LOG)
    await store.aclose()


def _kill_before(number):
    """Let every connection of ours end the process before its statement of this number."""
    left = itertools.count(number, -1)

    def count(statement):
        if next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    make = _groups.Connection.__init__

    def traced(self, *args, **options):
        make(self, *args, **options)
        self.set_trace_callback(count)

    _groups.Connection.__init__ = traced


def _survives(path, number):
    child = os.fork()
    if child == 0:
        _kill_before(number)
        asyncio.run(_open(path))
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


template, folder = sys.argv[1:]
upgrade(setattr)
for number in itertools.count():
    path = shutil.copy(template, Path(folder) / f"{number}.db")
    if _survives(path, number):
        sys.stdout.write(f"{number}\n")
        break
