"""A process that dies by SIGKILL between two calls of its store, while it changes a tree or state.

What is there then is what was before or what was to be, and the change repeated completes it.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest

from durably import _forks
from redis_servers import namespace
from tree_changes import BATCH_RECORDS, CHANGES, change, opened, prepared, shown

pytest_plugins = ["redis_fixtures", "s3_fixtures"]

WORKER = Path(__file__).parent / "support" / "tree_kill_worker.py"
EVERY_ON_REDIS, EVERY_ON_S3 = 5, 13
"""Every 5th case is tried on Redis, every 13th on S3, on SQLite each."""


@contextmanager
def _worker(url, environment):
    """Give a function that hands a case to a worker and returns how its process ended."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    variables = {**os.environ, **environment}
    with subprocess.Popen([sys.executable, str(WORKER), url], env=variables, **pipes) as process:

        def issue(**case):
            process.stdin.write(json.dumps(case) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            assert line, "the worker died, see its traceback"
            return int(line)

        yield issue
        process.stdin.close()


class _Undisturbed(NamedTuple):
    """What a reader sees before and after a change, and how many calls of a store it takes."""

    before: object
    after: object
    calls: int


async def _undisturbed(stored, name):
    """Make a change in memory: every backend is to show the same, by as many calls."""
    area = f"memory://{quote(namespace())}"
    async with opened(area) as storage:
        await storage.import_lines(stored)
        before, _ = await shown(storage)
        calls = await change(opened(area), name)
        after, halves = await shown(storage)
    assert halves == 0
    assert before != after
    return _Undisturbed(before, after, calls)


async def _killed(storage, area, issue, name, expected, **when):
    """Kill in a change of what is in a namespace, judge what is left, and make it again."""
    case = {"area": area, "name": name}
    assert issue(**case, **when) == -signal.SIGKILL
    handle = storage.scoped(area)
    seen, halves = await shown(handle)
    assert seen in (expected.before, expected.after)
    assert issue(**case, is_first=False) == 0
    await change(storage.scoped(area), name, is_first=False)
    assert await shown(handle) == (expected.after, 0)
    return Counter({"kills": 1, "before": seen == expected.before, "halves": halves})


async def _kill_everywhere(url, record_property, *, every=1, environment=None):
    """Kill at each chosen call of each change, and count what was found."""
    counts, at, stored = Counter(), 0, await prepared()
    with _worker(url, environment or {}) as issue:
        async with opened(url) as storage:
            for name in CHANGES:
                expected = await _undisturbed(stored, name)
                found = Counter(calls=expected.calls)
                for number, is_done in product(range(1, expected.calls + 1), (False, True)):
                    at += 1
                    if at % every:
                        continue
                    area = f"{namespace()} {name} {number}"
                    await storage.scoped(area).import_lines(stored)
                    when = {"number": number, "is_done": is_done}
                    found += await _killed(storage, area, issue, name, expected, **when)
                assert every > 1 or 0 < found["before"] < found["kills"], name
                counts += found
    record_property(
        "counted",
        f"{len(CHANGES)} changes of {counts['calls']} store calls, {counts['kills']} kills (every "
        f"{every}): {counts['before']} left what was, {counts['halves']} of them with half a fork "
        f"that none can read, {counts['kills'] - counts['before']} what was to be",
    )
    assert counts["kills"] == at // every
    return counts


@pytest.fixture(autouse=True)
def _several_batches(monkeypatch):
    monkeypatch.setattr(_forks, "BATCH_RECORDS", BATCH_RECORDS)


async def test_killed_at_any_call_on_sqlite(tmp_path, record_property):
    """Killed before or after any call of SQLite, each change is there or not, and repeatable."""
    url = f"sqlite:///{quote(str(tmp_path / 'storage.db'))}?synchronous=normal"
    counts = await _kill_everywhere(url, record_property)
    assert counts["halves"] >= 8


@pytest.mark.xdist_group("redis")
async def test_killed_at_a_call_on_redis(server, record_property):
    """Killed before or after a call of Redis, every 5th tried, it is the same."""
    await _kill_everywhere(server.url, record_property, every=EVERY_ON_REDIS)


@pytest.mark.xdist_group("moto-1")
async def test_killed_at_a_call_on_s3(site, record_property):
    """Killed before or after a call of S3, every 13th tried, it is the same."""
    await _kill_everywhere(
        site.url(),
        record_property,
        every=EVERY_ON_S3,
        environment=site.server.environment,
    )
