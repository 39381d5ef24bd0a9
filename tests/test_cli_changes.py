"""``durably rm``, ``rewind``, ``trim``, ``recall`` and ``finish``: asked first, done, and said."""

import asyncio
import json

import pytest

import durably
from builders import call, result, said, snapshot
from cli_runs import objects, run, run_apart, sessions, url
from durably import RunHead
from durably.commands import rewinding
from terminal import run_asked

LONG = "x" * 5000


@pytest.fixture
def path(tmp_path):
    """A file with two sessions of three runs each, their checkpoints, and a thread."""
    path = tmp_path / "a.db"

    async def write():
        async with durably.open(url(path)) as storage:
            for id_ in ("u1", "u2"):
                for number in range(3):
                    entries = [*said("a"), call("c1"), result("c1", f"{number}{LONG}")]
                    run_id = f"{id_} r{number}"
                    await storage.sessions.append(id_, entries, run_id=run_id)
                    await storage.checkpointer.append(run_id, entries, RunHead())
            await storage.checkpoint_saver().append("t1", snapshot("a"))

    asyncio.run(write())
    return path


def ids(path, kind="session"):
    return [row["id"] for row in objects(run("ls", url(path), "--kind", kind, "--json"))]


def archived(path, id_="u1"):
    return run("recall", url(path), id_, "c1").returncode == 0


def test_a_session_goes_with_its_archive(path):
    """It says what goes, removes the session and its archive, and leaves checkpoints alone."""
    run("trim", url(path), "u1", "--yes")
    assert archived(path)
    told = run("rm", url(path), "u1", "--yes")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == "session u1: 3 runs\nremoved 1 session\n"
    assert ids(path) == ["u2"]
    assert not archived(path)
    assert len(ids(path, "run")) == 6


def test_a_session_goes_with_its_checkpoints_where_asked(path):
    """--checkpoints removes those of its runs, and no other session's."""
    told = run("rm", url(path), "u1", "--checkpoints", "--yes")
    assert "session u1: 3 runs, with the runs' checkpoints\n" in told.stdout
    assert ids(path, "run") == [f"u2 r{number}" for number in range(3)]


def test_runs_and_threads_can_be_removed(path):
    """--kind says what the ids name; several go at once."""
    (done,) = objects(run("rm", url(path), "u1 r0", "u2 r1", "--kind", "run", "--yes", "--json"))
    assert done == {"kind": "run", "removed": ["u1 r0", "u2 r1"], "missing": []}
    assert len(ids(path, "run")) == 4
    assert run("rm", url(path), "t1", "--kind", "thread", "--yes").returncode == 0
    assert ids(path, "thread") == []
    assert len(ids(path)) == 2


def test_a_missing_id_is_an_error_and_the_others_go(path):
    """It is named with what to do, the exit code is 1, and the rest is removed all the same."""
    told = run("rm", url(path), "no\x1bbody", "u1", "u1", "--yes", "--json")
    assert told.returncode == 1
    assert json.loads(told.stdout) == {
        "kind": "session",
        "removed": ["u1"],
        "missing": ["no\x1bbody"],
    }
    assert told.stderr.count("\n") == 1
    assert told.stderr.startswith("durably: there is no session 'no\\x1bbody'. List what there is")
    assert ids(path) == ["u2"]


def test_checkpoints_are_of_sessions_alone(path):
    """--checkpoints with another kind is wrong usage."""
    told = run("rm", url(path), "t1", "--kind", "thread", "--checkpoints", "--yes")
    assert told.returncode == 2
    assert ids(path, "thread") == ["t1"]


CHANGES = {
    "rm": ("rm", "u1"),
    "rewind": ("rewind", "u1", "--keep-entries", "4"),
    "trim": ("trim", "u1"),
}


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_without_a_terminal_none_of_them_asks(path, change):
    """Each exits with 1, names its question and --yes, and changes nothing."""
    before = sessions(path)
    command, *rest = CHANGES[change]
    told = run(command, url(path), *rest)
    assert told.returncode == 1
    assert "? There is no terminal to ask on, nothing was changed. Say --yes" in told.stderr
    assert sessions(path) == before


@pytest.mark.parametrize("change", sorted(CHANGES))
@pytest.mark.parametrize("answer", ["y", "n"])
def test_on_a_terminal_a_person_decides(path, change, answer):
    """Yes does it and exits with 0; no changes nothing and exits with 1."""
    before = sessions(path)
    command, *rest = CHANGES[change]
    told = run_asked(f"{answer}\n", command, url(path), *rest)
    assert told.returncode == (0 if answer == "y" else 1)
    assert (sessions(path) == before) == (answer == "n")


def test_a_rewind_removes_runs_and_their_checkpoints(path):
    """It says which runs go and which is cut short, and the session ends there."""
    told = run("rewind", url(path), "u1", "--keep-entries", 4, "--yes")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == (
        "run u1 r1 would be cut short\n"
        "run u1 r2 would go, with its checkpoint\n"
        "removed 5 entries, 1 run\n"
    )
    assert [(one.run_id, len(one.entries)) for one in sessions(path)["u1"]] == [
        ("u1 r0", 3),
        ("u1 r1", 1),
    ]
    assert "u1 r2" not in ids(path, "run")
    assert len(ids(path, "run")) == 5


def test_a_session_that_changes_while_it_asks_is_not_rewound(path, monkeypatch):
    """What was named is not what would go any more: nothing goes, and the exit code is 1."""
    meanwhile = []

    def answer(question, *, yes):
        meanwhile.append(run_apart("finish", url(path), "u2 r0", "u1").returncode)

    monkeypatch.setattr(rewinding, "confirm", answer)
    told = run("rewind", url(path), "u1", "--keep-entries", 0)
    assert (meanwhile, told.returncode, told.stderr.count("\n")) == ([0], 1, 1)
    assert len(sessions(path)["u1"]) == 4
    assert len(ids(path, "run")) == 5


def test_a_rewind_in_json(path):
    """One object with what was removed; where nothing is to be removed it says so, unasked."""
    (done,) = objects(run("rewind", url(path), "u1", "--keep-entries", 0, "--yes", "--json"))
    runs = [f"u1 r{number}" for number in range(3)]
    facts = {"session_id": "u1", "removed_entries": 9, "removed_run_ids": runs}
    assert done == {**facts, "truncated_run_id": None}
    told = run("rewind", url(path), "u2", "--keep-entries", 9)
    assert (told.returncode, told.stdout) == (0, "removed 0 entries, 0 runs\n")
    assert run("rewind", url(path), "u2", "--keep-entries", -1).returncode == 2
    assert run("rewind", url(path), "u2").returncode == 2


def test_a_trim_keeps_what_goes_in_the_archive(path):
    """All but the last run's results are shortened; recall brings them back whole."""
    told = run("trim", url(path), "u1", "--keep-chars", 10, "--yes")
    assert told.stdout == "trimmed 2 tool results\n"
    outputs = [one.entries[2].output for one in sessions(path)["u1"]]
    assert [len(one) > 100 for one in outputs] == [False, False, True]
    (found,) = objects(run("recall", url(path), "u1", "c1", "--json"))
    assert found.keys() == {"session_id", "call_id", "results"}
    assert [one["output"] for one in found["results"]] == [f"0{LONG}", f"1{LONG}"]
    assert run("recall", url(path), "u1", "c1").stdout.startswith("result [c1]:\n  0xxx")
    again = run("trim", url(path), "u1", "--keep-chars", 10)
    assert (again.returncode, again.stdout) == (0, "trimmed 0 tool results\n")


def test_a_trim_without_an_archive(path):
    """--no-archive keeps no copy; recall says that there is none, and exits with 1."""
    (done,) = objects(
        run("trim", url(path), "u1", "--keep-runs", 0, "--no-archive", "--yes", "--json")
    )
    assert done == {"session_id": "u1", "trimmed": 3, "archived": False}
    told = run("recall", url(path), "u1", "c1")
    assert (told.returncode, told.stdout) == (1, "")
    assert "has no result of call 'c1'. Only what was trimmed with an archive" in told.stderr


def test_an_abandoned_run_is_finished_once(path):
    """It becomes a run of the session and its checkpoint goes; doing it again changes nothing."""
    told = run("finish", url(path), "u1 r0", "new")
    assert (told.returncode, told.stdout) == (0, "session new has run u1 r0\n")
    assert [one.run_id for one in sessions(path)["new"]] == ["u1 r0"]
    assert "u1 r0" not in ids(path, "run")
    (again,) = objects(run("finish", url(path), "u1 r0", "new", "--json"))
    assert again == {"run_id": "u1 r0", "session_id": "new", "finished": False}
    lost = run("finish", url(path), "nobody", "new")
    assert lost.returncode == 1
    assert lost.stderr == (
        "durably: there is no run 'nobody'. List what there is with: durably ls URL --kind run\n"
    )
