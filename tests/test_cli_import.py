"""``durably import``: files that are good, bad, cut off, grown, interrupted."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import durably
from builders import model, user
from cli_runs import (
    COMMAND,
    ENVIRONMENT,
    called,
    conversation,
    message,
    objects,
    run,
    sessions,
    url,
    write_lines,
)
from durably import InputEntry, ToolCallEntry, ToolResultEntry
from durably.commands import lines as lines_module
from durably.commands.importing import _import

DATA = Path(__file__).parents[2] / "shared" / "data"
NOTHING_BAD = {"empty": 0, "bad": 0, "bad_lines": [], "stopped": None}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.db"


def imported(file, path, *, code=0):
    """Import a file and return the summary and what stood on stderr."""
    told = run("import", file, url(path), "--json")
    assert told.returncode == code, told.stderr
    (summary,) = objects(told)
    return summary, told.stderr


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "compressed-whatever-its-name.gz.txt"])
def test_each_line_becomes_a_session(tmp_path, path, name):
    """A run begins at each user message; what stands before the first belongs to the first."""
    made = [conversation("u1", "one", "two"), conversation("u2", "three")]
    file = write_lines(tmp_path / name, *made)
    if name.endswith(".txt"):
        file = write_lines(tmp_path / "x.gz", *made).rename(tmp_path / name)
    told = run("import", file, url(path))
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == "2 sessions, 3 runs stored, 0 stored before\n"
    found = sessions(path)
    system = InputEntry(role="system", content="You help.")
    assert [(one.run_id, one.entries, one.meta) for one in found["u1"]] == [
        ("import-0001", [system, user("one"), model("You said one")], None),
        ("import-0002", [user("two"), model("You said two")], None),
    ]
    assert [one.entries[0] for one in found["u2"]] == [system]


def test_importing_again_stores_nothing_twice(tmp_path, path):
    """The second time every run is known, and not a byte of the sessions changes."""
    file = write_lines(tmp_path / "a.jsonl", conversation("u1", "a", "b"), conversation("u2", "c"))
    first, _ = imported(file, path)
    before = sessions(path)
    again, complaints = imported(file, path)
    assert first == {"lines": 2, "sessions": 2, "runs_stored": 3, "runs_known": 0, **NOTHING_BAD}
    assert again == {"lines": 2, "sessions": 2, "runs_stored": 0, "runs_known": 3, **NOTHING_BAD}
    assert complaints == ""
    assert sessions(path) == before


def test_a_grown_conversation_gets_its_new_runs(tmp_path, path):
    """What was imported stays, what follows it is appended."""
    imported(write_lines(tmp_path / "a.jsonl", conversation("u1", "a")), path)
    grown = write_lines(tmp_path / "b.jsonl", conversation("u1", "a", "b", "c"))
    summary, _ = imported(grown, path)
    assert (summary["runs_known"], summary["runs_stored"]) == (1, 2)
    whole = tmp_path / "whole.db"
    imported(grown, whole)
    assert sessions(path) == sessions(whole)


@pytest.mark.parametrize(
    "other",
    [
        conversation("u1", "a", "x", "c", "d"),
        {
            "id": "u1",
            "messages": [*conversation("u1", "a", "b")["messages"], message("system", "")],
        },
    ],
    ids=["another", "longer last run"],
)
def test_the_first_import_of_an_id_wins(tmp_path, path, other):
    """Where a stored run differs, it stays, nothing is mixed in after it, and that is said."""
    imported(write_lines(tmp_path / "a.jsonl", conversation("u1", "a", "b")), path)
    before = sessions(path)
    file = write_lines(tmp_path / "b.jsonl", other, conversation("u2", "z"))
    summary, complaints = imported(file, path, code=1)
    assert (summary["sessions"], summary["bad"], summary["runs_stored"]) == (1, 1, 1)
    assert complaints.startswith("durably: line 1: session 'u1' has another import-0002 than")
    found = sessions(path)
    assert set(found) == {"u1", "u2"}
    assert found["u1"] == before["u1"]


BAD = {
    "no JSON": '{"id": "x", "messages": [',
    "words": "hello",
    "not UTF-8": '{"id": "\udcff", "messages": []}',
    "a list": [1],
    "NaN": '{"id": "x", "messages": [], "cost": NaN}',
    "no id": {"messages": []},
    "no messages": {"id": "x"},
    "an id that is a number": {"id": 7, "messages": []},
    "an id that is empty": conversation("", "a"),
    "an id with NUL": conversation("a\x00", "a"),
    "an id with a surrogate": conversation("a\ud800", "a"),
    "an id that is long": conversation("x" * 257, "a"),
    "messages that are text": {"id": "x", "messages": "a"},
    "a message that is text": {"id": "x", "messages": ["a"]},
    "no role": {"id": "x", "messages": [{"content": "a"}]},
    "an unknown role": {"id": "x", "messages": [message("wizard", "a")]},
    "no content": {"id": "x", "messages": [{"role": "user"}]},
    "content that is null": {"id": "x", "messages": [message("user", None)]},
    "content that is a number": {"id": "x", "messages": [message("user", 7)]},
    "an unknown part": {"id": "x", "messages": [message("user", [{"type": "smell"}])]},
    "a part without text": {"id": "x", "messages": [message("user", [{"type": "text"}])]},
    "a result without a call": {"id": "x", "messages": [message("tool", "a")]},
    "a call without a name": {
        "id": "x",
        "messages": [message("assistant", None, tool_calls=[{"id": "c", "function": {}}])],
    },
    "arguments that are an object": {
        "id": "x",
        "messages": [message("assistant", None, tool_calls=[called("c", "f", {"a": 1})])],
    },
    "too deep": '{"id": "x", "messages": [], "deep": ' + "[" * 9999 + "]" * 9999 + "}",
    "too deep to store": {
        "id": "x",
        "messages": [message("user", "a", deep=json.loads("[" * 300 + "]" * 300))],
    },
    "bad after good runs": {
        "id": "x",
        "messages": [*conversation("x", "a", "b")["messages"], message("wizard", "a")],
    },
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_line_is_reported_by_its_number_and_skipped(tmp_path, path, bad):
    """It leaves nothing behind, the lines around it are imported, and the exit code is 1."""
    file = write_lines(tmp_path / "a.jsonl", conversation("u1", "a"), bad, conversation("u2", "b"))
    summary, complaints = imported(file, path, code=1)
    assert complaints.startswith("durably: line 2: ")
    assert complaints.count("\n") == 1
    assert complaints.isascii() or complaints.strip().isprintable()
    assert (summary["lines"], summary["sessions"], summary["bad"]) == (3, 2, 1)
    assert [one["line"] for one in summary["bad_lines"]] == [2]
    assert set(sessions(path)) == {"u1", "u2"}


@pytest.mark.parametrize(
    ("bad", "last"), [(10, " line 11"), (11, " 1 more bad line"), (150, " 140 more bad lines")]
)
def test_the_first_bad_lines_are_named_and_the_others_counted(tmp_path, path, bad, last):
    """Stderr names 10, JSON lists the first 100, and both count all of them."""
    file = write_lines(tmp_path / "a.jsonl", conversation("u1", "a"), *["bad"] * bad)
    summary, complaints = imported(file, path, code=1)
    assert (summary["bad"], len(summary["bad_lines"])) == (bad, min(bad, 100))
    told = [one.split(":")[1] for one in complaints.splitlines()]
    assert told[:10] == [f" line {number}" for number in range(2, 12)]
    assert (len(told), told[-1]) == (min(bad, 11), last)


OF_ANOTHER_SORT = {
    "a program": b'"""A program."""\n\nimport os\n' + b"print(os)\n" * 50,
    "a database": b"SQLite format 3\x00\x10\x00\n\x01\n" * 50,
    "JSON over several lines": json.dumps(conversation("u1", "a"), indent=2).encode(),
    "other records": b'{"name": "hunter2"}\n' * 50,
    "a list": b"[1, 2]\n" * 50,
    "behind blank lines": b"\n \r\nhello\n",
}


@pytest.mark.parametrize("data", OF_ANOTHER_SORT.values(), ids=OF_ANOTHER_SORT)
def test_a_file_of_another_sort_is_refused_at_once(tmp_path, path, data):
    """It is one line that says what a file must hold, repeats nothing, and makes no storage."""
    file = tmp_path / "a.jsonl"
    file.write_bytes(data)
    told = run("import", file, url(path), "--json")
    assert (told.returncode, told.stdout, told.stderr.count("\n")) == (1, "", 1)
    number = 3 if data.startswith(b"\n") else 1
    assert f"neither an export nor recorded conversations: see its line {number}." in told.stderr
    assert "hunter2" not in told.stderr
    assert not path.exists()


def test_a_file_and_a_url_that_are_swapped_are_wrong_usage(tmp_path, path):
    """It is told which comes first, and nothing is made."""
    file = write_lines(tmp_path / "a.jsonl", conversation("u1", "a"))
    for swapped in (url(path), "memory://", "redis://localhost"):
        told = run("import", swapped, file)
        assert (told.returncode, told.stdout) == (2, "")
        assert "FILE comes first, then the URL" in told.stderr
    assert not path.exists()


def test_blank_lines_and_a_byte_order_mark_are_no_faults(tmp_path, path):
    """They are passed over, and lines keep their numbers."""
    good = json.dumps(conversation("u1", "a"))
    file = write_lines(tmp_path / "a.jsonl", f"\ufeff{good}", "", "  \r", "bad", good)
    summary, complaints = imported(file, path, code=1)
    assert complaints.startswith("durably: line 4: ")
    assert (summary["lines"], summary["sessions"]) == (3, 2)


def test_a_last_line_needs_no_line_break(tmp_path, path):
    """A file that ends without one is read to its end."""
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps(conversation("u1", "a")))
    assert imported(file, path)[0]["sessions"] == 1


def test_no_messages_no_session(tmp_path, path):
    """A conversation without messages is counted, and makes no session."""
    file = write_lines(tmp_path / "a.jsonl", {"id": "u1", "messages": []})
    summary, _ = imported(file, path)
    assert (summary["lines"], summary["sessions"], summary["empty"]) == (1, 0, 1)
    assert sessions(path) == {}


def test_a_truncated_archive_gives_what_it_has(tmp_path, path):
    """What comes before the damage is imported; it is said where it lies, and exits with 1."""
    made = [conversation(f"u{number}", os.urandom(2000).hex()) for number in range(50)]
    file = write_lines(tmp_path / "a.jsonl.gz", *made)
    file.write_bytes(file.read_bytes()[:-30_000])
    summary, complaints = imported(file, path, code=1)
    assert 0 < summary["sessions"] < 50
    assert f"cannot be read on after line {summary['sessions']}: " in complaints
    assert complaints == f"durably: {summary['stopped']}\n"
    assert len(sessions(path)) == summary["sessions"]


def test_a_longer_line_than_fits_is_reported_and_skipped(tmp_path, path, monkeypatch, capsys):
    """It is read past in pieces, and the next line is the next line."""
    monkeypatch.setattr(lines_module, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(lines_module, "_PIECE", 64)
    long = [conversation("long", "x" * size) for size in (5000, 1000)]
    file = write_lines(
        tmp_path / "a.jsonl", conversation("u1", "a"), *long, conversation("u2", "b")
    )
    tally = asyncio.run(_import(file, url(path)))
    assert [one["line"] for one in tally.bad_lines] == [2, 3]
    assert "line 2: it has over" in capsys.readouterr().err
    assert set(sessions(path)) == {"u1", "u2"}


def test_a_run_over_the_limit_leaves_nothing_of_its_conversation(tmp_path, path):
    """What cannot be stored whole is not begun."""
    whole = conversation("big", "small", "x" * (64 * 1024 * 1024))
    file = write_lines(tmp_path / "a.jsonl", whole, conversation("u1", "a"))
    _, complaints = imported(file, path, code=1)
    assert "the limit is 67108864" in complaints
    assert set(sessions(path)) == {"u1"}


def test_calls_results_and_parts_become_entries(tmp_path, path):
    """Arguments stay verbatim; content is text or parts; what has no place is kept in meta."""
    said = [
        message("developer", "Be brief."),
        message(
            "user", [{"type": "text", "text": "Look \ud800"}, image("https://x/y")], name="Ann"
        ),
        message(
            "assistant", "Wait.", tool_calls=[called("c1", "price", '{"of": "it"')], refusal=None
        ),
        message(
            "tool",
            [{"type": "text", "text": "7"}, {"type": "text", "text": ".10"}],
            tool_call_id="c1",
        ),
        message("assistant", None, tool_calls=[called("c2", "stop", "")], audio={"id": 3}),
        message("tool", None, tool_call_id="c2", name="stop"),
    ]
    file = write_lines(tmp_path / "a.jsonl", {"id": "u1", "messages": said, "model": "m-1"})
    imported(file, path)
    ((only,),) = sessions(path).values()
    text, picture = durably.TextPart(text="Look \ud800"), durably.ImagePart(url="https://x/y")
    parts = [durably.TextPart(text="7"), durably.TextPart(text=".10")]
    assert only.entries == [
        InputEntry(role="developer", content="Be brief."),
        InputEntry(role="user", content=[text, picture]),
        model("Wait."),
        ToolCallEntry(call_id="c1", name="price", arguments='{"of": "it"'),
        ToolResultEntry(call_id="c1", output="7.10", parts=parts),
        ToolCallEntry(call_id="c2", name="stop", arguments=""),
        ToolResultEntry(call_id="c2", output=""),
    ]
    kept = {"1": {"name": "Ann"}, "4": {"audio": {"id": 3}}, "5": {"name": "stop"}}
    assert only.meta == {"openai_chat": {"conversation": {"model": "m-1"}, "messages": kept}}


def image(address, **more):
    return {"type": "image_url", "image_url": {"url": address, **more}}


PARTS = {
    "image data": (
        image("data:image/png;base64,AAAA"),
        durably.ImagePart(data="AAAA", media_type="image/png"),
    ),
    "file": (
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:a/b;base64,BBBB"}},
        durably.FilePart(data="BBBB", media_type="a/b", name="a.pdf"),
    ),
    "sound": (
        {"type": "input_audio", "input_audio": {"data": "CCCC", "format": "wav"}},
        durably.FilePart(data="CCCC", media_type="audio/wav"),
    ),
    "refusal": ({"type": "refusal", "refusal": "No."}, durably.TextPart(text="No.")),
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_part_of_each_kind(tmp_path, path, part):
    """Images, files and sounds become parts, none of them dropped."""
    given, wanted = part
    file = write_lines(tmp_path / "a.jsonl", {"id": "u1", "messages": [message("user", [given])]})
    imported(file, path)
    ((only,),) = sessions(path).values()
    assert only.entries[0].content == [wanted]
    assert only.meta is None


def test_what_a_part_has_no_place_for_is_kept(tmp_path, path):
    """Content with a field more than a part holds is kept in meta, whole."""
    given = [image("https://x/y", detail="high"), {"type": "file", "file": {"file_id": "f1"}}]
    file = write_lines(tmp_path / "a.jsonl", {"id": "u1", "messages": [message("user", given)]})
    imported(file, path)
    ((only,),) = sessions(path).values()
    assert only.meta == {"openai_chat": {"messages": {"0": {"content": given}}}}


def test_a_conversation_no_user_speaks_in_is_one_run(tmp_path, path):
    """Without a user message everything belongs to the first run."""
    said = [message("system", "a"), message("assistant", "b")]
    file = write_lines(tmp_path / "a.jsonl", {"id": "u1", "messages": said})
    imported(file, path)
    ((only,),) = sessions(path).values()
    assert len(only.entries) == 2


def stored_sessions(path):
    async def count():
        async with durably.open(url(path)) as storage:
            return len((await storage.log_store.list("session", limit=1000)).items)

    return asyncio.run(count()) if path.exists() else 0


def kill_midway(file, path, *, after):
    """Import, and kill it with SIGKILL once so many sessions are there."""
    with subprocess.Popen(
        [COMMAND, "import", str(file), url(path)], stdout=subprocess.PIPE, env=ENVIRONMENT
    ) as child:
        deadline = time.monotonic() + 60
        while stored_sessions(path) < after and time.monotonic() < deadline:
            time.sleep(0.005)
        child.send_signal(signal.SIGKILL)
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_after_a_kill_the_next_import_makes_it_whole(tmp_path, path, name):
    """Killed twice and issued again, it leaves exactly what a straight import leaves."""
    made = [conversation(f"u{number}", *"abcde") for number in range(400)]
    file = write_lines(tmp_path / name, *made)
    for after in (5, 20):
        kill_midway(file, path, after=after)
        assert after <= stored_sessions(path) < 400
    summary, _ = imported(file, path)
    assert (summary["sessions"], summary["bad"]) == (400, 0)
    assert summary["runs_known"] > 0
    straight = tmp_path / "straight.db"
    imported(file, straight)
    assert sessions(path) == sessions(straight)


@pytest.mark.parametrize("name", ["airline.jsonl.gz", "coding.jsonl.gz"])
def test_recordings_imported_twice_and_interrupted(tmp_path, path, name):
    """The recorded conversations leave each their session, whole, once."""
    file = DATA / name
    if not file.exists():
        pytest.skip(f"there are no recordings in {DATA}")
    kill_midway(file, path, after=3)
    first, _ = imported(file, path)
    assert first["runs_known"] > 0
    again, complaints = imported(file, path)
    assert (again["runs_stored"], again["bad"], complaints) == (0, 0, "")
    straight = tmp_path / "straight.db"
    imported(file, straight)
    found = sessions(path)
    assert found == sessions(straight)
    assert len(found) == again["sessions"] == again["lines"]


def test_an_interruption_ends_it_at_once(tmp_path, path):
    """Ctrl-C exits with 130 and without a traceback."""
    file = write_lines(tmp_path / "a.jsonl", *(conversation(f"u{n}", *"abc") for n in range(2000)))
    with subprocess.Popen(
        [COMMAND, "import", str(file), url(path)], stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as child:
        while stored_sessions(path) < 3:
            time.sleep(0.005)
        child.send_signal(signal.SIGINT)
        told = child.stderr.read()
    assert child.returncode == 130
    assert b"Traceback" not in told


def test_progress_is_shown_on_a_terminal_alone(tmp_path, path):
    """On a terminal stderr has a bar with rate and time left; stdout has the summary alone."""
    file = write_lines(tmp_path / "a.jsonl", *(conversation(f"u{n}", *"abc") for n in range(200)))
    code = (
        "import os, pty, subprocess, sys\n"
        "master, slave = pty.openpty()\n"
        "child = subprocess.Popen(sys.argv[1:], stderr=slave)\n"
        "os.close(slave)\n"
        "seen = b''\n"
        "try:\n"
        "    while piece := os.read(master, 65536):\n"
        "        seen += piece\n"
        "except OSError:\n"
        "    pass\n"
        "sys.stderr.buffer.write(seen)\n"
        "sys.exit(child.wait())\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, COMMAND, "import", str(file), url(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**ENVIRONMENT, "TERM": "xterm"},
    )
    assert told.stdout == "200 sessions, 600 runs stored, 0 stored before\n"
    assert "a second, left" in told.stderr
    assert "%" in told.stderr
    assert run("import", file, url(path)).stderr == ""
