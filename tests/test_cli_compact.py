"""``durably compact`` and ``gc``: what was deleted gives back its space, and nothing is lost."""

import asyncio
import json
from importlib import metadata

import pytest

import durably
from builders import said
from cli_runs import run, url
from durably_s3._keys import Keys
from logs import LOG, raw

pytest_plugins = ["s3_fixtures"]

LONG = said(3000 * "x")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "agent.db"


async def _fill_and_clear(path):
    async with durably.open(url(path)) as storage:
        for _ in range(100):
            await storage.sessions.append("gone", LONG)
        await storage.sessions.append("kept", LONG, run_id="r")
        await storage.sessions.clear("gone")


async def test_the_file_shrinks_to_what_is_left(path):
    """After a deletion the file is many times smaller, has no free page and the same sessions."""
    await _fill_and_clear(path)
    before = path.stat().st_size
    done = run("compact", url(path), "--json")
    assert done.returncode == 0
    facts = json.loads(done.stdout)
    assert int(facts["before"]["free_pages"]) > 50
    assert facts["after"]["free_pages"] == "0"
    assert path.stat().st_size < before / 10
    async with durably.open(url(path)) as storage:
        assert [one.run_id for one in await storage.sessions.segments("kept")] == ["r"]
        assert await storage.sessions.load("kept") == LONG


async def test_a_file_with_tables_of_others_keeps_its_pages(path):
    """Rows of others that have no key of their own keep their numbers."""
    with raw(path) as connection:
        connection.executescript(
            "CREATE TABLE notes (x); INSERT INTO notes VALUES (1), (2), (3);"
            " DELETE FROM notes WHERE x < 3"
        )
    await _fill_and_clear(path)
    done = run("compact", url(path))
    assert done.returncode == 0
    assert "nothing" in done.stdout
    with raw(path) as connection:
        assert connection.execute("SELECT rowid, x FROM notes").fetchall() == [(3, 3)]


def test_a_backend_with_nothing_to_do(tmp_path):
    """Where there is nothing to tidy up it says so."""
    done = run("compact", "memory://")
    assert (done.returncode, done.stderr) == (0, "")
    assert "nothing" in done.stdout


def test_gc_is_another_name_of_compact():
    """Both names stand for one function, so that no option of one is missing in the other."""
    commands = metadata.entry_points(group="durably.commands")
    assert commands["gc"].value == commands["compact"].value
    assert commands["gc"].load() is commands["compact"].load()


@pytest.fixture
def bucket(moto, monkeypatch):
    """A client past the library, and the URL of a storage in a bucket of its own."""
    for name, value in moto.environment.items():
        monkeypatch.setenv(name, value)
    name = moto.bucket()
    return moto.client(), name, f"s3://{name}/agents?endpoint_url={moto.endpoint}"


def _objects(client, name):
    listed = client.list_objects_v2(Bucket=name).get("Contents", ())
    return {one["Key"] for one in listed}


def _garbage(client, name, namespace=""):
    """Leave what a crash leaves of a log that is gone: a chunk that no tip names."""
    key = Keys(root="agents/", namespace=namespace).chunk(LOG, 32 * "0")
    client.put_object(Bucket=name, Key=key, Body=b"left behind")
    return key


async def _say(place, namespace=""):
    async with durably.open(place) as storage:
        await storage.scoped(namespace).sessions.append("kept", LONG, run_id="r")


@pytest.mark.xdist_group("moto")
def test_gc_collects_the_garbage_of_a_namespace_in_s3(bucket):
    """What no tip names goes, once it is old enough, in the namespace of the URL alone."""
    client, name, place = bucket
    asyncio.run(_say(place))
    asyncio.run(_say(place, "other"))
    before = _objects(client, name)
    mine, others = _garbage(client, name), _garbage(client, name, "other")
    assert "nothing" in run("gc", place).stdout
    assert _objects(client, name) == before | {mine, others}
    told = run("gc", f"{place}&grace=0", "--json")
    facts = json.loads(told.stdout)
    assert facts["before"]["garbage"].startswith("0 collected")
    assert facts["after"]["garbage"].startswith("1 collected")
    assert _objects(client, name) == before | {others}
    assert run("gc", f"{place}&grace=0&namespace=other").returncode == 0
    assert _objects(client, name) == before


@pytest.mark.xdist_group("moto")
def test_gc_says_what_it_cannot_do(bucket):
    """A bucket that is not there is an error in words and exit code 1."""
    _, name, place = bucket
    told = run("gc", place.replace(name, "no-such-bucket"))
    assert told.returncode == 1
    complaint = "durably: s3://no-such-bucket/agents is in a bucket that does not exist"
    assert told.stderr.startswith(complaint)
