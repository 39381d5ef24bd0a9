"""What was created, used and deleted leaves nothing: seen past the library, by others' tools."""

import contextlib
import sqlite3
import subprocess
from urllib.parse import quote

import pytest

import durably
from builders import call, result, said, snapshot
from cli_runs import url
from durably import RunHead
from exports import lines
from redis_servers import HOST, namespace, program

pytest_plugins = ["redis_fixtures", "s3_fixtures"]

SECRET = "hunter2"  # noqa: S105 - content that must not stay


class File:
    """An SQLite file, by sqlite3 alone."""

    def __init__(self, path):
        self._path = path
        self.url = url(path)

    def dump(self):
        with contextlib.closing(sqlite3.connect(self._path)) as connection:
            return sorted(connection.iterdump())


VALUES = {
    "string": ("GET",),
    "hash": ("HGETALL",),
    "list": ("LRANGE", "0", "-1"),
    "set": ("SMEMBERS",),
    "zset": ("ZRANGE", "0", "-1", "WITHSCORES"),
}


class Keys:
    """A Redis database, by redis-cli alone."""

    def __init__(self, server):
        self._port = server.port
        self.url = f"{server.url}?namespace={quote(namespace())}"

    def _ask(self, *command):
        told = subprocess.run(
            [program("redis-cli"), "-h", HOST, "-p", str(self._port), *command],
            capture_output=True,
            check=True,
            timeout=60,
        )
        return told.stdout.splitlines()

    def dump(self):
        found = {}
        for name in self._ask("--raw", "KEYS", "*"):
            (kind,) = self._ask("--raw", "TYPE", name)
            command, *rest = VALUES[kind.decode()]
            value = self._ask("--no-raw", command, name, *rest)
            words = sorted(line.split(b") ", 1)[-1] for line in value)  # a hash has no order
            found[name] = kind, self._ask("--raw", "PTTL", name)[0], words
        return found


class Objects:
    """Objects below a prefix, by boto3 alone."""

    def __init__(self, moto):
        self._moto = moto
        self._bucket = moto.bucket()
        self.url = f"s3://{self._bucket}/x?endpoint_url={moto.endpoint}"

    def dump(self):
        return self._moto.dump(self._bucket)


@pytest.fixture(
    params=["sqlite", "redis", pytest.param("s3", marks=pytest.mark.xdist_group("moto"))]
)
def site(request, tmp_path):
    """A storage on each backend, and what shows it without the library."""
    if request.param == "sqlite":
        return File(tmp_path / "a.db")
    if request.param == "redis":
        return Keys(request.getfixturevalue("own_server")())
    moto = request.getfixturevalue("moto")
    request.getfixturevalue("aws")(moto.environment)
    return Objects(moto)


async def _keep(storage):
    """Store what is to stay: something of each kind, of ids that begin alike."""
    await storage.catalog.create("s1", metadata={"stays": True})
    entries = [*said("a"), call("c"), result("c", "x" * 900)]
    for run_id in ("kept", "kept too"):
        await storage.sessions.append("s1", entries, run_id=run_id)
    await storage.sessions.trim_tool_results("s1", archive=storage.archive)
    await storage.checkpointer.append("kept", entries, RunHead())
    await storage.checkpoint_saver().append("t1", snapshot("a"))


async def _use(storage):
    """Do to a session, its runs and a thread whatever can be done."""
    await storage.catalog.create("s", metadata={"k": SECRET})
    for number in range(40):
        entries = [*said(SECRET), call(SECRET), result(SECRET, SECRET * 200)]
        await storage.sessions.append("s", entries, run_id=f"r{number}", meta={"k": SECRET})
        await storage.checkpointer.append(f"r{number}", entries, RunHead(output=SECRET))
        await storage.checkpoint_saver(max_checkpoints_per_thread=5).append("t", snapshot(SECRET))
    async for _ in storage.sessions.pages("s", types="messages"):
        pass
    await storage.catalog.touch("s", metadata={"k": SECRET, "n": 2})
    await storage.sessions.trim_tool_results("s", archive=storage.archive)
    await storage.rewind("s", keep_entries=61)
    await storage.checkpointer.append("left", said(SECRET), RunHead())
    await storage.finish("left", "s")
    await storage.fork("s", "fork")
    await storage.fork("t", "u", kind="thread")


async def _delete(storage):
    assert await storage.catalog.delete("s", checkpoints=True)
    assert await storage.checkpoint_saver().delete("t")


async def _clear(storage):
    await storage.sessions.clear("fork")
    await storage.catalog.delete("fork")
    assert await storage.checkpoint_saver().delete("u")


async def _prune(storage):
    """Prune all but what was changed last, which is what is to stay."""
    assert (await storage.prune("session", keep_last=1)).ids == ("fork", "s")
    assert (await storage.prune("thread", keep_last=1)).ids == ("t", "u")
    assert len((await storage.prune("run", keep_last=1)).ids) == 21


def _shows(dump):
    """Whether what was said is in a dump, as text or in hexadecimal digits."""
    text = str(dump)
    return SECRET in text or SECRET.encode().hex().upper() in text


@pytest.mark.parametrize("remove", [[_delete, _clear], [_prune]], ids=["deleted", "pruned"])
async def test_dumps_are_as_before(site, remove):
    """Sessions, runs, threads and archives that were made, used and removed leave no byte."""
    async with (
        durably.open(site.url, clock=lambda: 2e9) as later,
        durably.open(site.url) as storage,
        durably.open(site.url) as other,
    ):
        await _keep(later)
        found, before = await lines(storage), site.dump()
        await _use(storage)
        assert _shows(site.dump())
        for act in remove:
            await act(other)
        left = site.dump()
        assert left == before
        assert not _shows(left)
        assert await lines(storage) == found
