"""``durably ls``: rows, pages, hostile ids."""

import asyncio

import pytest

import durably
from builders import said, snapshot
from cli_runs import objects, run, store, url
from durably import RunHead
from durably.commands import listing

HOSTILE = [
    "a\nb",
    "bell\x07",
    "bidi\u202egnp",
    "clear\x1b[2J",
    "csi\x9b31m",
    "del\x7f",
    "markup [red]x[/red] :smile:",
    "sep\u2028x",
    "zero\u200bwidth",
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.db"


async def test_rows_are_what_is_stored(path):
    """A row has a session's id, how many runs and entries, and when it was made and changed."""
    times = iter([1.5e9, 1.6e9, 1.6e9, 1.6e9])
    async with durably.open(url(path), clock=lambda: next(times, 1.7e9)) as storage:
        await storage.sessions.append("u1", said("a", "b"))
        await storage.sessions.append("u1", said("c"))
        states = (await storage.log_store.list("session", with_state=True)).items
    state = states[0].state
    (row,) = objects(await asyncio.to_thread(run, "ls", url(path), "--json"))
    assert row == {
        "kind": "session",
        "id": "u1",
        "runs": 2,
        "entries": 3,
        "created_at": state.created_at,
        "updated_at": state.updated_at,
    }
    assert row["created_at"] < row["updated_at"]
    told = await asyncio.to_thread(run, "ls", url(path))
    heading, line = told.stdout.splitlines()
    assert heading.split() == ["RUNS", "ENTRIES", "CREATED", "UPDATED", "ID"]
    assert line.split()[:2] == ["2", "3"]
    assert line.split()[-1] == "u1"
    assert "2020-09-13 12:26:40" in line


async def test_runs_and_threads_are_listed_too(path):
    """--kind chooses; the field of their records is named for what they are."""
    async with durably.open(url(path)) as storage:
        await storage.checkpointer.append("r1", said("a"), RunHead())
        await storage.checkpoint_saver().append("t1", snapshot("a"))
    (first,) = objects(await asyncio.to_thread(run, "ls", url(path), "--kind", "run", "--json"))
    (other,) = objects(await asyncio.to_thread(run, "ls", url(path), "--kind", "thread", "--json"))
    assert (first["kind"], first["id"], first["saves"], first["entries"]) == ("run", "r1", 1, 1)
    assert (other["kind"], other["id"], other["snapshots"]) == ("thread", "t1", 1)


@pytest.mark.parametrize("page", [1, 2, 3, 1000])
def test_every_session_is_listed_once_whatever_the_page(path, page, monkeypatch, capsys):
    """Rows come in the order of their ids, through pages of any size; a limit ends the walk."""
    ids = sorted((f"s{number}" for number in range(7)), key=str.encode)
    store(path, *((one, said("a")) for one in ids))
    monkeypatch.setattr(listing, "MAX_LIST_LIMIT", page)

    def listed(**options):
        words = {"kind": listing.Kind.SESSION, "prefix": "", "after": "", "limit": None}
        words |= options
        asyncio.run(listing._ls(url(path), **words, as_json=True))
        return [line.split('"')[7] for line in capsys.readouterr().out.splitlines()]

    assert listed() == ids
    assert listed(limit=4) == ids[:4]
    assert listed(after="s2", limit=3) == ids[3:6]
    assert listed(limit=99) == ids


def test_a_limit_counts_rows_of_the_prefix(path):
    """--prefix is plain text, and --limit counts what it leaves."""
    store(path, *((one, said("a")) for one in ("a%1", "a%2", "a%3", "ab", "b")))
    found = objects(run("ls", url(path), "--prefix", "a%", "--limit", 2, "--json"))
    assert [row["id"] for row in found] == ["a%1", "a%2"]
    assert len(objects(run("ls", url(path), "--prefix", "a", "--json"))) == 4


def test_no_limit_of_0():
    """A limit below 1 is wrong usage."""
    assert run("ls", "memory://", "--limit", 0).returncode == 2


def test_an_empty_storage_lists_nothing(path):
    """There is the heading, no row, and no error."""
    assert len(run("ls", url(path)).stdout.splitlines()) == 1
    assert run("ls", url(path), "--json").stdout == ""


def test_hostile_ids_are_harmless(path):
    """Each is one line of printable characters, and exact in JSON."""
    store(path, *((one, said("a")) for one in HOSTILE))
    told = run("ls", url(path))
    lines = told.stdout.splitlines()[1:]
    assert len(lines) == len(HOSTILE)
    assert all(line.isprintable() for line in lines)
    assert "clear\\x1b[2J" in told.stdout
    assert "markup [red]x[/red] :smile:" in told.stdout
    raw = run("ls", url(path), "--json")
    assert all(line.isprintable() and line.isascii() for line in raw.stdout.splitlines())
    assert {row["id"] for row in objects(raw)} == set(HOSTILE)


@pytest.mark.parametrize("seconds", [-(2**53) + 1, 2**53 - 1, 2**40])
async def test_a_clock_that_said_anything_is_no_error(path, seconds):
    """A time no calendar has is shown as its number."""
    async with durably.open(url(path), clock=lambda: seconds) as storage:
        await storage.sessions.append("u1", said("a"))
    told = await asyncio.to_thread(run, "ls", url(path))
    assert told.returncode == 0
    assert f"{seconds:.0f}" in told.stdout
