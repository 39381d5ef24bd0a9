"""Copies from backend to backend, killed on their way: what is there is kept, the rest follows."""

import asyncio
import signal
import time
from asyncio.subprocess import PIPE
from urllib.parse import quote

import pytest

import durably
from cli_runs import COMMAND, ENVIRONMENT, objects, run_apart, url
from exports import digest, fill
from recorded import MADE_UP, sources
from redis_servers import namespace

pytest_plugins = ["redis_fixtures", "s3_fixtures"]

KINDS = ("session", "run", "thread", "archive")
LEAST = 400
"""Records, so that there is a way on which a copy can be killed."""


async def _count(storage):
    """Return how many records a storage has by now."""
    found = 0
    for kind in KINDS:
        after = ""
        while after is not None:
            page = await storage.log_store.list(kind, after=after, limit=1000, with_state=True)
            found += sum(one.state.record_count for one in page.items)
            after = page.next
    return found


async def _killed(here, there, total, *, at):
    """Copy, kill it with SIGKILL at a part of its way, and return how many records came over."""
    command = [COMMAND, "copy", here, there, "--parallel", "2"]
    async with durably.open(there) as looking:
        await looking.ping()
        child = await asyncio.create_subprocess_exec(*command, stdout=PIPE, env=ENVIRONMENT)
        deadline = time.monotonic() + 60
        while await _count(looking) < at * total:
            assert child.returncode is None, "it ended before it was killed"
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        child.send_signal(signal.SIGKILL)
        await child.communicate()
        assert child.returncode == -signal.SIGKILL
        return await _count(looking)


def _conversations():
    """Return all recorded conversations, or where there are none made-up ones, many times over."""
    recorded = [one for param in sources()[1:] for one in param.values[0]]
    many = [{**one, "id": f"{one['id']} {number}"} for one in MADE_UP for number in range(80)]
    return MADE_UP + recorded if recorded else many


@pytest.fixture
async def first(tmp_path):
    """A file with conversations that came from memory, what it has, and its digest."""
    path = tmp_path / "first.db"
    async with (
        durably.open("memory://") as memory,
        durably.open(url(path, synchronous="normal")) as storage,
    ):
        await fill(memory, _conversations())
        await memory.copy_to(storage)
        total = await _count(storage)
    assert total >= LEAST
    return url(path), total, await _digest(url(path), tmp_path / "first.jsonl")


async def _digest(here, file):
    """Return what a storage has: logs, records and a hash, by a script that knows no library."""
    told = await asyncio.to_thread(run_apart, "export", here, file)
    assert (told.returncode, told.stderr) == (0, "")
    return digest(file)


@pytest.fixture
def urls(tmp_path, server, moto, aws, monkeypatch):
    """URLs of an empty storage on each backend."""
    aws(moto.environment)
    for name, value in moto.environment.items():
        monkeypatch.setitem(ENVIRONMENT, name, value)
    return {
        "sqlite": url(tmp_path / "target.db"),
        "redis": f"{server.url}?namespace={quote(namespace())}",
        "s3": f"s3://{moto.bucket()}/x?endpoint_url={moto.endpoint}",
    }


@pytest.mark.xdist_group("moto")
async def test_killed_on_every_backend_it_is_completed(first, urls, tmp_path, record_property):
    """SQLite to Redis, to S3, to SQLite, killed five times: the rest follows, the end is equal."""
    here, total, wanted = first
    reached = []
    for backend, parts in (("redis", (0.2, 0.6)), ("s3", (0.3,)), ("sqlite", (0.2, 0.6))):
        there, before = urls[backend], 0
        for at in parts:
            reached.append(await _killed(here, there, total, at=at))
            assert before < reached[-1]
            assert 0.1 * total <= reached[-1] <= 0.9 * total
            before = reached[-1]
        told = await asyncio.to_thread(run_apart, "copy", here, there, "--json")
        assert (told.returncode, told.stderr) == (0, "")
        (done,) = objects(told)
        assert 0 < done["records"] <= total - before
        assert done["records"] + done["known"] == total
        assert await _digest(there, tmp_path / f"{backend}.jsonl") == wanted
        here = there
    assert len(reached) == 5
    record_property("counted", f"{total} records, killed at {reached}")
