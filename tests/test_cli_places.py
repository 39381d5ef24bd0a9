"""What commands say of a storage that is not there, and of an id that names something else."""

import asyncio
from itertools import permutations

import pytest

import durably
from builders import said, snapshot
from cli_runs import conversation, objects, run, run_apart, store, url, write_lines
from durably import InputEntry, RunHead

NEED_A_STORAGE = {
    "compact": (),
    "copy": ("sqlite://",),
    "doctor": (),
    "export": (),
    "finish": ("r1", "s1"),
    "fork": ("a", "b"),
    "gc": (),
    "history": ("s1",),
    "ls": (),
    "prune": ("--keep-last", "1", "--yes"),
    "recall": ("s1", "c1"),
    "rewind": ("s1", "--keep-entries", "1", "--yes"),
    "rm": ("s1", "--yes"),
    "show": ("s1",),
    "states": (),
    "tree": (),
    "trim": ("s1", "--yes"),
}


@pytest.fixture
def path(tmp_path):
    """A file that holds one thing of each kind, each under an id of its own."""
    path = tmp_path / "a.db"

    async def write():
        async with durably.open(url(path)) as storage:
            await storage.sessions.append("talk", said("a"))
            await storage.checkpointer.append("job", said("a"), RunHead())
            await storage.checkpoint_saver().append("review", snapshot("a"))
            await storage.states.save("cart", snapshot("a"))
            await storage.tree("doc").append(InputEntry(role="user", content="a"))

    asyncio.run(write())
    return path


@pytest.mark.parametrize("command", sorted(NEED_A_STORAGE))
def test_a_mistyped_path_is_an_error_and_makes_nothing(tmp_path, command):
    """It is one line that names the path, exit code 1, and no file appears."""
    told = run(command, url(tmp_path / "typo.db"), *NEED_A_STORAGE[command])
    assert told.returncode == 1
    assert told.stderr.startswith("durably: there is no database at ")
    assert "typo.db'. Check the path" in told.stderr
    assert told.stderr.count("\n") == 1
    assert [*tmp_path.iterdir()] == []


def test_a_relative_path_is_looked_for_where_the_command_runs(tmp_path):
    """The error names the whole path that was meant."""
    told = run_apart("ls", "sqlite:///typo.db", cwd=tmp_path)
    assert f"there is no database at '{tmp_path}/typo.db'" in told.stderr


def test_a_mistyped_path_replaces_no_backup(tmp_path):
    """An export of nothing leaves the file of that name as it was, --force or not."""
    backup = tmp_path / "backup.jsonl"
    backup.write_text("good")
    assert run("export", url(tmp_path / "typo.db"), backup, "--force").returncode == 1
    assert backup.read_text() == "good"


def test_import_and_the_target_of_a_copy_are_made(tmp_path, path):
    """What stores something new needs no storage that is there."""
    file = write_lines(tmp_path / "a.jsonl", conversation("u1", "a"))
    assert run("import", file, url(tmp_path / "b.db")).returncode == 0
    assert run("copy", url(path), url(tmp_path / "c.db")).returncode == 0
    assert (tmp_path / "b.db").exists()
    assert (tmp_path / "c.db").exists()


def test_what_the_url_says_wins(tmp_path):
    """With create=if-missing any command makes the storage; with create=never none does."""
    new = tmp_path / "new.db"
    file = write_lines(tmp_path / "a.jsonl", conversation("u1", "a"))
    told = run("import", file, url(new, create="never"))
    assert (told.returncode, new.exists()) == (1, False)
    assert run("ls", url(new, create="if-missing")).returncode == 0
    assert new.exists()


def test_a_directory_is_said_to_be_one(tmp_path):
    """The error says what to name instead."""
    told = run("ls", url(tmp_path))
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr == (
        f"durably: '{tmp_path}' is a directory, and a database is a file."
        f" Name the file in it, such as '{tmp_path}/agent.db'\n"
    )


IDS = {"session": "talk", "run": "job", "thread": "review", "state": "cart", "tree": "doc"}


@pytest.mark.parametrize(("kind", "asked"), [*permutations(IDS, 2)])
def test_an_id_of_another_kind_is_said_to_be_one(path, kind, asked):
    """Where show, fork or rm find it under another kind, they name that kind, and it stays."""
    id_ = IDS[kind]
    for command, more in (("show", ()), ("fork", ("new",)), ("rm", ("--yes",))):
        told = run(command, url(path), id_, *more, "--kind", asked)
        assert (told.returncode, told.stdout) == (1, "")
        assert told.stderr == (
            f"durably: there is no {asked} '{id_}'. There is a {kind} '{id_}': use --kind {kind}\n"
        )
    assert run("show", url(path), id_, "--kind", kind).returncode == 0


@pytest.mark.parametrize(
    ("command", "id_", "hint"),
    [
        ("states", "doc", "There is a tree 'doc': see durably tree URL 'doc'"),
        ("tree", "cart", "There is a state 'cart': see durably states URL 'cart'"),
        ("tree", "talk", "There is a session 'talk': see durably show URL 'talk' --kind session"),
    ],
)
def test_states_and_tree_name_the_command_that_shows_an_id(path, command, id_, hint):
    """They have no option for the kind, so the hint is the other command."""
    told = run(command, url(path), id_)
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.endswith(f"'{id_}'. {hint}\n")


def test_a_mistyped_kind_is_refused_in_plain_words(path):
    """It names the value and the choices, and no word of the parser's."""
    told = run("ls", url(path), "--kind", "stat")
    assert (told.returncode, told.stdout) == (2, "")
    assert "'--kind': 'stat' is not one of 'session'" in told.stderr


def test_others_are_removed_where_one_is_of_another_kind(path):
    """What is there goes; the other is named in JSON as missing."""
    store(path, ("s1", said("a")))
    told = run("rm", url(path), "s1", "cart", "--yes", "--json")
    assert objects(told) == [{"kind": "session", "removed": ["s1"], "missing": ["cart"]}]
    assert "There is a state 'cart'" in told.stderr
