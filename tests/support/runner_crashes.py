"""Runs that are crashed at a call of their store, issued again until completed, and judged."""

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import durably
from redis_servers import namespace
from runner_job import ANSWER, CALLS, RUN_ID, SESSION_ID, TURNS, USAGE, read_ledger

WORKER = Path(__file__).parent / "runner_crash_worker.py"
MODES = {"before": 9, "after": 9, "answer lost": 2}
"""How a store call fails, and what the process then exits with."""

ENTRIES = 2 + 2 * sum(map(len, TURNS))


def folder_in_memory():
    """Return a folder in memory, where there is one: processes die here, no machine does."""
    quick = "/dev/shm"  # noqa: S108 - the folder in it has a name of its own
    return TemporaryDirectory(dir=quick if Path(quick).is_dir() else None)


@contextmanager
def _worker(url, environment):
    """Give a function that hands a case to a worker and returns the exit codes it took."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    variables = {**os.environ, **environment}
    with subprocess.Popen([sys.executable, str(WORKER), url], env=variables, **pipes) as process:

        def issue(**case):
            process.stdin.write(json.dumps(case) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            assert line, "the worker died, see its traceback"
            return json.loads(line)

        yield issue
        process.stdin.close()


def _judge_ledger(path):
    """Judge what the tools wrote down, and return how often a call ran again."""
    begun, finished, stored, since = Counter(), Counter(), set(), set()
    for word, *told in read_ledger(path):
        if word == "attempt":
            stored, since = set(told[1:]), set()
        elif word == "begun":
            assert told[0] not in stored, f"{told[0]} ran again although its result was stored"
            assert told[0] not in since, f"{told[0]} ran twice in one process"
            since.add(told[0])
            begun[told[0]] += 1
        elif word == "finished":
            finished[told[0]] += 1
        elif word == "replay":
            assert told == ["0", json.dumps(ANSWER)]
        elif word == "answer":
            assert json.loads(told[0]) == [ANSWER, "specialist", USAGE, len(TURNS) + 1]
    assert sorted(begun) == sorted(finished) == sorted(CALLS)
    assert max(begun.values()) <= 2
    return sum(begun.values()) - len(CALLS)


async def _judge_storage(url, *, drop):
    """Judge what is stored in the end: the run once in its session, whole, with its handoff."""
    async with durably.open(url) as storage:
        segments = await storage.sessions.segments(SESSION_ID)
        run = await storage.checkpointer.load(RUN_ID)
    assert [segment.run_id for segment in segments] == ["earlier", RUN_ID]
    entries = segments[1].entries
    assert len(entries) == ENTRIES
    assert durably.pending_tool_calls(entries) == []
    assert (entries[0].content, entries[-1].content) == ("Do it.", ANSWER)
    if drop:
        assert run is None
        return
    assert run.entries == entries
    assert (run.head.status, run.head.agent_name) == ("completed", "specialist")
    assert (run.head.output, run.head.usage) == (ANSWER, USAGE)
    assert run.head.turns == len(TURNS) + 1


async def crash_everywhere(url, mode, drop, record_property, *, every=1, environment=None):
    """Fail at each chosen call in turn, each in a namespace of its own, and judge each case."""
    again = 0
    with folder_in_memory() as folder, _worker(url("warm"), environment or {}) as issue:

        async def one(number):
            ledger = Path(folder) / f"ledger {number}"
            case = {"url": url(f"case{number}"), "ledger": str(ledger), "mode": mode}
            codes = issue(**case, drop=drop, number=number)
            assert codes == ([0] if number == 0 else [MODES[mode], 0])
            await _judge_storage(case["url"], drop=drop)
            return _judge_ledger(ledger), read_ledger(ledger)

        repeated, lines = await one(0)
        assert repeated == 0
        count = next(int(told[0]) for word, *told in lines if word == "calls")
        numbers = range(1, count + 1)[::every]
        for number in numbers:
            again += (await one(number))[0]
    record_property(
        "counted",
        f"{count} store calls, failed {mode} at {len(numbers)} of them (every {every}), "
        f"{again} calls of tools ran again, {'dropped' if drop else 'kept'} on success",
    )
    assert count > len(CALLS) + len(TURNS)


EVERY_ON_REDIS, EVERY_ON_S3 = 7, 13
"""Every 7th call fails on Redis, every 13th on S3, on SQLite each."""


async def on_sqlite(mode, drop, record_property):
    """Fail at every call of an SQLite store."""
    with folder_in_memory() as folder:
        file = quote(str(Path(folder) / "storage.db"))
        await crash_everywhere(
            lambda case: f"sqlite:///{file}?namespace={case}", mode, drop, record_property
        )


async def on_redis(server, mode, drop, record_property):
    """Fail at a sample of the calls of a Redis store."""
    area = namespace()
    await crash_everywhere(
        lambda case: f"{server.url}?namespace={quote(f'{area} {case}')}",
        mode,
        drop,
        record_property,
        every=EVERY_ON_REDIS,
    )


async def on_s3(site, mode, drop, record_property):
    """Fail at a sample of the calls of an S3 store."""
    await crash_everywhere(
        lambda case: site.url(namespace=case),
        mode,
        drop,
        record_property,
        every=EVERY_ON_S3,
        environment=site.server.environment,
    )
