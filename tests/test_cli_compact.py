"""``durably compact``: the space of what was deleted is given back, and nothing is lost."""

import json

import pytest

import durably
from builders import said
from cli_runs import run, url
from logs import raw

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
