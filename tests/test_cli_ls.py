"""``durably ls``: rows, pages, hostile ids."""

import asyncio
import time

import pytest

import durably
from builders import said, snapshot
from cli_runs import objects, run, store, url
from durably import RunHead
from durably.commands import listing
from durably.logstore import Batch, LogId, NewRecord
from durably.runs import RUN_STATUSES

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


async def save_runs(path, *runs):
    """Store runs, each an id, when it was saved in epoch seconds, and what its head says."""
    for id_, at, words in runs:
        async with durably.open(url(path), clock=lambda at=at: at) as storage:
            await storage.checkpointer.append(id_, said("a"), RunHead(**words))


async def test_a_run_has_its_status_and_its_agent(path):
    """Both are columns and fields, and nothing in them acts on the terminal."""
    hostile = {"status": "running", "agent_name": "e\x1b[2Jvil" * 9}
    await save_runs(
        path,
        ("r1", 1.6e9, {"status": "failed", "agent_name": "clerk"}),
        ("r2", 1.6e9, {"status": "completed"}),
        ("r3", 1.6e9, hostile),
    )
    listed = ("ls", url(path), "--kind", "run")
    told = (await asyncio.to_thread(run, *listed)).stdout.splitlines()
    assert told[0].split() == ["SAVES", "ENTRIES", "CREATED", "UPDATED", "STATUS", "AGENT", "ID"]
    assert [line.split()[-3:] for line in told[1:3]] == [
        ["failed", "clerk", "r1"],
        ["completed", "-", "r2"],
    ]
    assert told[3].isprintable()
    places = {line.index(id_) for line, id_ in zip(told, ("ID", "r1", "r2", "r3"), strict=True)}
    assert len(places) == 1
    rows = objects(await asyncio.to_thread(run, *listed, "--json"))
    assert [(row["status"], row["agent_name"]) for row in rows] == [
        ("failed", "clerk"),
        ("completed", ""),
        ("running", hostile["agent_name"]),
    ]
    assert not objects(await asyncio.to_thread(run, "ls", url(path), "--json"))


@pytest.mark.parametrize("page", [1, 2, 1000])
async def test_runs_are_chosen_by_status_and_idle_time(path, page, monkeypatch):
    """Both narrow the list, a limit counts what is left, and pages do not matter."""
    now = time.time()
    await save_runs(
        path,
        *((f"a{number}", now - 9000, {"status": "completed"}) for number in range(3)),
        *((f"b{number}", now - 9000, {"status": "running"}) for number in range(3)),
        ("c", now, {"status": "running"}),
    )
    monkeypatch.setattr(listing, "MAX_LIST_LIMIT", page)

    async def listed(*more):
        words = ("ls", url(path), "--kind", "run", *more, "--json")
        return [row["id"] for row in objects(await asyncio.to_thread(run, *words))]

    assert await listed("--status", "running") == ["b0", "b1", "b2", "c"]
    assert await listed("--status", "running", "--idle-for", "1h") == ["b0", "b1", "b2"]
    assert await listed("--status", "running", "--limit", "2") == ["b0", "b1"]
    assert len(await listed("--idle-for", "1h")) == 6
    assert await listed("--status", "failed") == []


def test_each_status_of_a_run_can_be_chosen():
    """The choices are what a run's status may be."""
    assert tuple(listing.Status) == RUN_STATUSES


def test_status_and_idle_time_are_of_runs_alone():
    """With another kind they are wrong usage."""
    for more in (("--status", "failed"), ("--idle-for", "1h", "--kind", "thread")):
        told = run("ls", "memory://", *more)
        assert (told.returncode, told.stdout) == (2, "")
        assert "go with --kind run alone" in told.stderr


async def test_a_run_whose_head_cannot_be_read_is_listed(path):
    """It says so, and its status and agent are null."""
    async with durably.open(url(path)) as storage:
        broken = Batch(records=(NewRecord(data=b"{}"),), head=b"nonsense")
        await storage.log_store.append(LogId(kind="run", id="r1"), broken)
    listed = ("ls", url(path), "--kind", "run")
    told = await asyncio.to_thread(run, *listed)
    assert (told.returncode, told.stdout.splitlines()[1].split()[-3:]) == (
        0,
        ["unreadable", "-", "r1"],
    )
    (row,) = objects(await asyncio.to_thread(run, *listed, "--json"))
    assert (row["status"], row["agent_name"]) == (None, None)


@pytest.mark.parametrize("page", [1, 2, 3, 1000])
def test_every_session_is_listed_once_whatever_the_page(path, page, monkeypatch, capsys):
    """Rows come in the order of their ids, through pages of any size; a limit ends the walk."""
    ids = sorted((f"s{number}" for number in range(7)), key=str.encode)
    store(path, *((one, said("a")) for one in ids))
    monkeypatch.setattr(listing, "MAX_LIST_LIMIT", page)

    def listed(**options):
        asyncio.run(listing._ls(url(path), listing._Choice(**options), as_json=True))
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
    store(path)
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
