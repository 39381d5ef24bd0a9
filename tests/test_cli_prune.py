"""``durably prune``: says what would go, asks, and removes that."""

import asyncio
import signal
import time

import pytest
import typer

import durably
from builders import said, snapshot
from cli_runs import objects, run, url
from durably import RunHead
from durably.commands.arguments import read_duration
from terminal import run_asked

DAY = 86_400


@pytest.fixture
def path(tmp_path):
    """A file with one of each kind of each of the last five days."""
    path = tmp_path / "a.db"

    async def write():
        now = time.time()
        for age in range(5):
            async with durably.open(url(path), clock=lambda at=now - age * DAY - 9: at) as storage:
                await storage.sessions.append(f"s{age}", said("a"))
                await storage.checkpointer.append(f"r{age}", said("a"), RunHead())
                await storage.checkpoint_saver().append(f"t{age}", snapshot("a"))
                await storage.states.save(f"k{age}", snapshot("a"))
                await storage.tree(f"b{age}").append(*said("a"))

    asyncio.run(write())
    return path


def ids(path, kind="session"):
    return [row["id"] for row in objects(run("ls", url(path), "--kind", kind, "--json"))]


def test_what_is_old_goes(path):
    """With --yes what is older goes, and it is said what."""
    told = run("prune", url(path), "--older-than", "2d", "--yes")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == "3 sessions of 5 would go\n  s2\n  s3\n  s4\nremoved 3 sessions of 5\n"
    assert ids(path) == ["s0", "s1"]
    assert len(ids(path, "run")) == len(ids(path, "thread")) == 5


def test_a_dry_run_removes_nothing(path):
    """--dry-run names all that would go."""
    told = run("prune", url(path), "--keep-last", 1, "--dry-run")
    assert told.stdout == "4 sessions of 5 would go\n  s1\n  s2\n  s3\n  s4\n"
    (found,) = objects(run("prune", url(path), "--keep-last", 1, "--dry-run", "--json"))
    assert found == {
        "kind": "session",
        "ids": ["s1", "s2", "s3", "s4"],
        "examined": 5,
        "dry_run": True,
    }
    assert len(ids(path)) == 5


@pytest.mark.parametrize(
    ("kind", "letter"), [("run", "r"), ("thread", "t"), ("state", "k"), ("tree", "b")]
)
def test_other_kinds_are_pruned_too(path, kind, letter):
    """--kind chooses; where age and number are given, what either keeps stays."""
    (done,) = objects(
        run(
            "prune",
            url(path),
            "--kind",
            kind,
            "--older-than",
            "36h",
            "--keep-last",
            3,
            "--yes",
            "--json",
        )
    )
    assert done == {
        "kind": kind,
        "ids": [f"{letter}3", f"{letter}4"],
        "examined": 5,
        "dry_run": False,
    }
    assert ids(path, kind) == [f"{letter}{age}" for age in range(3)]
    assert len(ids(path)) == 5


def test_without_a_terminal_it_does_not_ask(path):
    """It exits with 1, says that --yes does it without asking, and removes nothing."""
    told = run("prune", url(path), "--keep-last", 0)
    assert told.returncode == 1
    assert "Remove 5 sessions of 5? There is no terminal" in told.stderr
    assert told.stderr.endswith("Say --yes to do it without asking\n")
    assert len(ids(path)) == 5


def test_nothing_to_prune_is_not_asked_about(path):
    """Where nothing would go there is no question, and no error."""
    told = run("prune", url(path), "--older-than", "8w")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.endswith("removed 0 sessions of 5\n")


@pytest.mark.parametrize(
    ("answer", "code", "left"), [("y\n", 0, 2), ("n\n", 1, 5), ("\n", 1, 5), ("\x04", 1, 5)]
)
def test_a_person_is_asked(path, answer, code, left):
    """On a terminal yes removes what was named; no, nothing and the end of input remove nothing."""
    told = run_asked(answer, "prune", url(path), "--older-than", "2d")
    assert told.returncode == code
    assert "Remove 3 sessions of 5?" in told.stderr
    assert ("nothing was changed" in told.stderr) == (code == 1)
    assert "Traceback" not in told.stderr
    assert len(ids(path)) == left


def test_an_interruption_at_the_question_changes_nothing(path):
    """Ctrl-C exits with 130 and without a traceback."""
    told = run_asked(signal.SIGINT, "prune", url(path), "--older-than", "2d")
    assert told.returncode == 130
    assert "Traceback" not in told.stderr
    assert len(ids(path)) == 5


def test_many_ids_are_named_in_part(tmp_path):
    """Before the question it names 20, and says how many more there are."""
    path = tmp_path / "b.db"

    async def write():
        async with durably.open(url(path)) as storage:
            for number in range(25):
                await storage.sessions.append(f"s\x1b{number:02}", said("a"))

    asyncio.run(write())
    told = run("prune", url(path), "--keep-last", 0, "--yes")
    assert told.stdout.count("\n  s\\x1b") == 20
    assert "  and 5 more; --dry-run names all\n" in told.stdout
    assert ids(path) == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("15m", 900),
        ("12h", 43_200),
        ("30d", 30 * DAY),
        ("8w", 56 * DAY),
        ("0s", 0),
        ("1.5h", 5400),
    ],
)
def test_durations(text, seconds):
    """A number and a unit."""
    assert read_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "30", "d", "-1d", "1 d", "1y", "1e3s", "1d12h", "\u0661d", "NaNs"]
)
def test_what_is_no_duration_is_wrong_usage(text):
    """It exits with 2 and says what one looks like."""
    with pytest.raises(typer.BadParameter):
        read_duration(text)
    told = run("prune", "memory://", f"--older-than={text}")
    assert told.returncode == 2
    assert "such as 90s, 15m, 12h, 30d" in told.stderr


def test_something_must_say_what_is_old():
    """Without --older-than and --keep-last it exits with 2."""
    told = run("prune", "memory://", "--yes")
    assert (told.returncode, told.stdout) == (2, "")
    assert "--older-than" in told.stderr
    assert run("prune", "memory://", "--keep-last", -1).returncode == 2
