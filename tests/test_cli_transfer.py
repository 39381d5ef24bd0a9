"""``durably copy``, ``fork``, ``export`` and ``import`` of exports."""

import asyncio
import gzip
import json
import os
import signal
import subprocess
import sys
import time

import pytest

import durably
from builders import said
from cli_runs import (
    COMMAND,
    ENVIRONMENT,
    conversation,
    objects,
    run,
    run_apart,
    sessions,
    store,
    url,
    write_lines,
)
from durably.commands import exporting
from durably.commands import lines as lines_module
from exports import digest, fill

ON_A_TERMINAL = """
import os, pty, subprocess, sys
ours, theirs = pty.openpty()
child = subprocess.Popen(sys.argv[1:], stdout=theirs, stderr=theirs)
os.close(theirs)
try:
    while piece := os.read(ours, 65536):
        sys.stdout.buffer.write(piece)
except OSError:
    pass
sys.exit(child.wait())
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.db"

    async def write():
        async with durably.open(url(path)) as storage:
            await fill(storage)
            await storage.sessions.append("u\x1b[2J", said("a"))

    asyncio.run(write())
    return path


def exported(path, file):
    assert run("export", url(path), file).returncode == 0
    return file.read_bytes()


def on_a_terminal(*arguments):
    """Run a command that writes to a terminal."""
    return subprocess.run(
        [sys.executable, "-c", ON_A_TERMINAL, COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**ENVIRONMENT, "TERM": "xterm"},
    )


def test_a_copy_is_equal(tmp_path, path):
    """Everything comes over, byte for byte; the second time nothing is moved."""
    other = tmp_path / "b.db"
    told = run("copy", url(path), url(other))
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == "7 logs, 11 records stored, 0 stored before\n"
    assert exported(path, tmp_path / "a.jsonl") == exported(other, tmp_path / "b.jsonl")
    (again,) = objects(run("copy", url(path), url(other), "--parallel", 1, "--json"))
    assert again == {"logs": 7, "records": 0, "known": 11}


def test_kinds_are_chosen(tmp_path, path):
    """--kind, once or more often, says what is copied."""
    chosen = ("--kind", "run", "--kind", "thread")
    (done,) = objects(run("copy", url(path), url(tmp_path / "b.db"), *chosen, "--json"))
    assert done["logs"] == 2
    assert sessions(tmp_path / "b.db") == {}
    assert run("copy", url(path), url(tmp_path / "b.db"), "--kind", "meta").returncode == 2
    assert run("copy", url(path), url(tmp_path / "b.db"), "--parallel", 0).returncode == 2


def test_a_conflict_is_one_line(tmp_path, path):
    """Where another log has an id, it stays, and the copy says so and exits with 1."""
    other = tmp_path / "b.db"

    async def write():
        async with durably.open(url(other)) as storage:
            await storage.sessions.append("plain", said("mine"))

    asyncio.run(write())
    told = run("copy", url(path), url(other), "--json")
    assert (told.returncode, told.stdout, told.stderr.count("\n")) == (1, "", 1)
    assert told.stderr.startswith("durably: session 'plain' is there with other content")
    assert [one.entries for one in sessions(other)["plain"]] == [said("mine")]


@pytest.mark.parametrize("taken", [1, 10, 12])
def test_an_import_with_conflicts_says_what_was_stored(tmp_path, taken):
    """One line names 10 of the logs that stayed and counts the others, and what was stored."""
    ids = [f"s{number:02}" for number in range(20)]
    store(tmp_path / "a.db", *((id_, said("a")) for id_ in ids))
    exported(tmp_path / "a.db", tmp_path / "a.jsonl")
    other = tmp_path / "b.db"
    store(other, *((id_, said("mine")) for id_ in ids[:taken]))
    told = run("import", tmp_path / "a.jsonl", url(other))
    left = 20 - taken
    assert (told.returncode, told.stdout, told.stderr.count("\n")) == (1, "", 1)
    assert told.stderr.startswith("durably: session 's00' is there with other content, or was ")
    stored = f"; stored all the same: {left} logs, {left} records stored, 0 stored before. Try"
    assert stored in told.stderr
    assert [f"'{id_}'" in told.stderr for id_ in ids] == [n < min(taken, 10) for n in range(20)]
    assert ("2 other logs" in told.stderr) == (taken == 12)
    again = run("import", tmp_path / "a.jsonl", url(other), "--json")
    conflicts = [{"kind": "session", "id": id_} for id_ in ids[:taken]]
    assert objects(again) == [{"logs": left, "records": 0, "known": left, "conflicts": conflicts}]
    assert again.returncode == 1


def test_a_copy_onto_itself_is_wrong_usage(path):
    """The same URL twice is refused."""
    told = run("copy", url(path), url(path))
    assert (told.returncode, told.stdout) == (2, "")
    assert "the source and the target are the same URL" in told.stderr


def test_a_fork_has_a_new_id(path):
    """The copy is there under the new id; what is missing or taken exits with 1."""
    (done,) = objects(run("fork", url(path), "catalogued", "copy", "--json"))
    assert done == {
        "kind": "session",
        "id": "catalogued",
        "new_id": "copy",
        "records": 3,
        "known": 0,
    }
    found = sessions(path)
    assert found["copy"] == found["catalogued"]
    assert run("fork", url(path), "t", "t2", "--kind", "thread").returncode == 0
    missing = run("fork", url(path), "nobody", "x")
    assert (missing.returncode, "there is no session 'nobody'" in missing.stderr) == (1, True)
    assert run("fork", url(path), "plain", "copy").returncode == 1


def test_an_export_comes_back_as_it_was(tmp_path, path):
    """What export writes, import stores again, whatever the file is called and once only."""
    text = exported(path, tmp_path / "a.jsonl")
    packed = exported(path, tmp_path / "a.jsonl.gz")
    assert gzip.decompress(packed) == text
    assert run_apart("export", url(path)).stdout.encode() == text
    for name in ("a.jsonl", "a.jsonl.gz"):
        other = tmp_path / f"{name}.db"
        told = run("import", tmp_path / name, url(other))
        assert told.stdout == "7 logs, 11 records stored, 0 stored before\n"
        assert exported(other, tmp_path / f"{name}.back") == text
        (again,) = objects(run("import", tmp_path / name, url(other), "--json"))
        assert again == {"logs": 7, "records": 0, "known": 11, "conflicts": []}
    assert digest(tmp_path / "a.jsonl")[:2] == (7, 11)


def test_one_export_on_every_url(tmp_path, path):
    """An empty storage has an export, too, which is none of a conversation."""
    store(tmp_path / "empty.db")
    told = run("export", url(tmp_path / "empty.db"))
    assert told.stdout == '{"durably":"export","format":1}\n{"end":0}\n'
    file = tmp_path / "empty.jsonl"
    file.write_text(told.stdout)
    assert run("import", file, url(path)).stdout == "0 logs, 0 records stored, 0 stored before\n"


def test_some_ids_and_kinds(tmp_path, path):
    """--id and --kind choose; an id that names nothing is reported, and exits with 1."""
    file = tmp_path / "a.jsonl"
    told = run("export", url(path), file, "--id", "plain", "--id", "no\x1b", "--json")
    assert told.returncode == 1
    (done,) = objects(told)
    assert done == {"file": str(file), "logs": 2, "records": 5, "missing": ["no\x1b"]}
    assert told.stderr.startswith("durably: there is nothing of id 'no\\x1b'. List")
    assert run("export", url(path), "--kind", "run").stdout.count('"kind"') == 1


def test_no_file_is_replaced_unless_asked(tmp_path, path):
    """A file that is there stays, but for --force; what is no file stays in any case."""
    file = tmp_path / "a.jsonl"
    file.write_text("mine")
    told = run("export", url(path), file)
    assert (told.returncode, file.read_text()) == (1, "mine")
    assert told.stderr.endswith("is there. Say --force to replace it\n")
    assert run("export", url(path), file, "--force").returncode == 0
    assert file.read_text().startswith('{"durably":"export"')
    os.mkfifo(tmp_path / "pipe")
    assert run("export", url(path), tmp_path / "pipe", "--force").returncode == 1
    assert (tmp_path / "pipe").is_fifo()
    assert run("export", url(path), "-", "--json").returncode == 2


def test_a_file_is_private_and_whole_or_not_there(tmp_path, path):
    """Only its owner reads it; one that fails leaves nothing behind, and what was there stays."""
    file = tmp_path / "out" / "a.jsonl"
    file.parent.mkdir()
    exported(path, file)
    assert file.stat().st_mode & 0o077 == 0
    before = file.read_bytes()
    told = run("export", url(path), file, "--force", "--id", "x" * 300)
    assert told.returncode == 1
    assert [*file.parent.iterdir()] == [file]
    assert file.read_bytes() == before


def test_a_file_that_appears_meanwhile_stays(tmp_path, path, monkeypatch):
    """What somebody else writes under that name while it is exported is not replaced."""
    file = tmp_path / "a.jsonl"
    monkeypatch.setattr(exporting.os, "fsync", lambda _: file.write_text("theirs"))
    told = run("export", url(path), file)
    assert (told.returncode, told.stderr.count("\n")) == (1, 1)
    assert file.read_text() == "theirs"


def test_a_kill_leaves_no_file_of_that_name(tmp_path):
    """Killed with SIGKILL in the middle, there is no file that looks like an export."""
    path = tmp_path / "a.db"

    async def write():
        async with durably.open(url(path)) as storage:
            for number in range(300):
                await storage.sessions.append(f"s{number % 10}", said(f"{number}" * 50_000))

    asyncio.run(write())
    folder = tmp_path / "out"
    folder.mkdir()
    command = [COMMAND, "export", url(path), str(folder / "a.jsonl.gz")]
    with subprocess.Popen(command, env=ENVIRONMENT) as child:
        deadline = time.monotonic() + 60
        while not any(one.stat().st_size for one in folder.iterdir()):
            assert time.monotonic() < deadline
            time.sleep(0.001)
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL
    assert not (folder / "a.jsonl.gz").exists()
    assert exported(path, folder / "a.jsonl.gz")


def test_nothing_of_an_export_reaches_a_terminal(path):
    """It is refused there: what was said could act on the terminal."""
    told = on_a_terminal("export", url(path))
    assert told.returncode == 1
    assert "an export is not for a terminal" in told.stdout


@pytest.mark.parametrize(
    ("command", "options", "bar", "last"),
    [
        ("copy", ["sqlite://"], "logs, ", "7 logs, 11 records stored"),
        ("prune", ["--keep-last", "1", "--yes"], "sessions, ", "removed 3 sessions of 4"),
        ("rm", ["plain", "empty", "--yes"], "sessions, ", "removed 2 sessions"),
    ],
)
def test_progress_is_shown_on_a_terminal(path, command, options, bar, last):
    """There is a bar over what goes one by one; what is printed in the end is the same."""
    told = on_a_terminal(command, url(path), *options)
    assert told.returncode == 0
    assert bar in told.stdout.split("a second, left")[-2]
    assert last in told.stdout


BROKEN = {
    "cut off": lambda text: text[:-1],
    "garbled": lambda text: [*text[:4], "hunter2", *text[5:]],
    "a chat": lambda text: [text[0], json.dumps(conversation("u1", "hunter2"))],
    "later": lambda _: ['{"durably":"export","format":9}'],
}


@pytest.mark.parametrize("fault", sorted(BROKEN))
def test_a_broken_export_is_one_line(tmp_path, path, fault):
    """It is named by its line with what to do, exits with 1, and repeats no content."""
    exported(path, tmp_path / "a.jsonl")
    text = (tmp_path / "a.jsonl").read_text().splitlines()
    file = write_lines(tmp_path / "b.jsonl", *BROKEN[fault](text))
    told = run("import", file, url(tmp_path / "b.db"), "--json")
    assert (told.returncode, told.stdout, told.stderr.count("\n")) == (1, "", 1)
    assert told.stderr.startswith("durably: line ")
    assert "hunter2" not in told.stderr


def test_a_truncated_archive_of_an_export(tmp_path, path):
    """A .gz that is cut off is said to be, wherever that is."""
    packed = exported(path, tmp_path / "a.jsonl.gz")
    for size in (20, len(packed) // 2, len(packed) - 4):
        (tmp_path / "b.jsonl.gz").write_bytes(packed[:size])
        told = run("import", tmp_path / "b.jsonl.gz", url(tmp_path / "b.db"))
        assert told.returncode == 1
        assert "cannot be read on after line" in told.stderr


def test_a_longer_line_than_fits(tmp_path, path, monkeypatch):
    """A line that is not held in memory is named by its number."""
    exported(path, tmp_path / "a.jsonl")
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 200)
    told = run("import", tmp_path / "a.jsonl", url(tmp_path / "b.db"))
    assert told.returncode == 1
    assert "of the export: it has over " in told.stderr


def test_a_reader_that_leaves_early_ends_an_export_quietly(tmp_path):
    """Where the pipe is closed after a line, nothing is said and the exit code is 0."""
    path = tmp_path / "a.db"
    store(path, *((f"s{number}", said("x" * 50_000)) for number in range(100)))
    command = [COMMAND, "export", url(path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=ENVIRONMENT, **pipes) as child:
        assert child.stdout.readline() == b'{"durably":"export","format":1}\n'
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(60) == 0
