"""One of the processes that torture a file: appends in tasks, or rewinds and trims until told.

Arguments: the URL; then "append", a name, how many tasks, segments of each, sessions; or "cut",
a seed, sessions. Says "ready", begins when a line comes, and logs what it was answered, a JSON
value a line. Cutting ends when stdin does.
"""

import asyncio
import json
import random
import sys
import time

import durably
from durably import InputEntry, ToolCallEntry, ToolResultEntry

KEEP_CHARS = 50


def session(number):
    return f"session {number}"


def content(run_id):
    """Return the entries of a run, which its id alone decides."""
    dice = random.Random(run_id)  # noqa: S311 - reproducible, no secret
    entries = [InputEntry(role="user", content=f"asked in {run_id}")]
    for number in range(dice.choice([0, 1, 1, 2])):
        call_id = f"{run_id} call {number}"
        output = f"found by {call_id} " * dice.choice([1, 20, 300])
        entries.append(ToolCallEntry(call_id=call_id, name="search", arguments="{}"))
        entries.append(ToolResultEntry(call_id=call_id, output=output))
    return entries


def _log(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def _append_all(storage, task, segments, sessions):
    for number in range(segments):
        run_id = f"{task} {number:04}"
        where = session((number * 7 + hash_of(task)) % sessions)
        start = time.perf_counter()
        try:
            await storage.sessions.append(where, content(run_id), run_id=run_id)
        except durably.DurablyError as error:
            _log(["failed", where, run_id, repr(error)])
        else:
            _log(["stored", where, run_id, time.perf_counter() - start])


def hash_of(task):
    return sum(task.encode())


async def _cut(storage, dice, sessions):
    where = session(dice.randrange(sessions))
    count = len(await storage.sessions.load(where))
    keep = max(0, count - dice.randrange(1, 9))
    done = await storage.sessions.rewind(where, keep_entries=keep)
    _log(["rewound", where, done.removed_entries, done.removed_run_ids, done.truncated_run_id])
    where = session(dice.randrange(sessions))
    trimmed = await storage.sessions.trim_tool_results(where, keep_chars=KEEP_CHARS)
    _log(["trimmed", where, trimmed])


async def main(url, role, *arguments):
    async with durably.open(url) as storage:
        _log("ready")
        await asyncio.to_thread(sys.stdin.readline)
        if role == "append":
            name, *numbers = arguments
            tasks, segments, sessions = map(int, numbers)
            names = [f"{name}{number}" for number in range(tasks)]
            await asyncio.gather(*(_append_all(storage, one, segments, sessions) for one in names))
            return
        dice = random.Random(arguments[0])  # noqa: S311 - reproducible, no secret
        told = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
        while not told.done():
            await _cut(storage, dice, int(arguments[1]))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
