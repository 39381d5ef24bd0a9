"""Forks that all open one file at the same moment, for each file named; says what each was told.

Arguments: "now" or "later" (the made-up version), how many forks, the files.
"""

import asyncio
import json
import os
import sys

from durably_sqlite import SQLiteLogStore
from logs import LOG, batch
from sqlite_steps import upgrade


async def _open_and_append(path, name):
    store = SQLiteLogStore(path)
    answer = await store.append(LOG, batch(name))
    await store.aclose()
    return answer.seq


def _child(path, name, start, answers):
    os.read(start, 1)
    try:
        answer = asyncio.run(_open_and_append(path, name))
    except BaseException as error:  # noqa: BLE001 - said to the test
        answer = repr(error)
    os.write(answers, json.dumps([name, answer]).encode() + b"\n")
    os._exit(0)


def _crowd(path, count):
    start, go = os.pipe()
    results, answers = os.pipe()
    for number in range(count):
        if os.fork() == 0:
            _child(path, f"fork {number}", start, answers)
    os.write(go, b"." * count)
    for _ in range(count):
        os.wait()
    for one in (start, go, answers):
        os.close(one)
    with os.fdopen(results) as lines:
        return sorted(json.loads(line) for line in lines)


version, count, *paths = sys.argv[1:]
if version == "later":
    upgrade(setattr)
for path in paths:
    sys.stdout.write(json.dumps(_crowd(path, int(count))) + "\n")
