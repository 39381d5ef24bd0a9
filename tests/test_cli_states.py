"""``durably states``, and states under ``--kind state``."""

import asyncio

import msgspec
import pytest

import durably
from builders import said, snapshot
from cli_runs import objects, run, store, url
from durably import StateSnapshot
from durably.commands import listing

SHOWN = """\
state k1

-- 2 entries --
user:
  first
user:
  second
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.db"


def save(path, *saved, at=1.6e9):
    """Store snapshots, each a key and a snapshot."""

    async def write():
        async with durably.open(url(path), clock=lambda: at) as storage:
            for key, one in saved:
                await storage.states.save(key, one)

    asyncio.run(write())


def test_a_row_is_a_key_with_its_times(path):
    """When it was made and changed, and the key; --json has the revision, too."""
    save(path, ("k1", snapshot("a")), at=1.5e9)
    save(path, ("k1", snapshot("b")))
    heading, line = run("states", url(path)).stdout.splitlines()
    assert heading.split() == ["CREATED", "UPDATED", "KEY"]
    assert line == "2017-07-14 02:40:00  2020-09-13 12:26:40  k1"
    (row,) = objects(run("states", url(path), "--json"))
    assert row.keys() == {"key", "revision", "created_at", "updated_at"}
    assert (row["key"], row["created_at"], row["updated_at"]) == ("k1", 1.5e9, 1.6e9)


@pytest.mark.parametrize("page", [1, 2, 3, 1000])
def test_every_key_is_listed_once_whatever_the_page(path, page, monkeypatch):
    """Keys come in order, through pages of any size."""
    keys = [f"k{number}" for number in range(5)]
    save(path, *((key, snapshot("a")) for key in reversed(keys)))
    monkeypatch.setattr(listing, "MAX_LIST_LIMIT", page)
    assert [row["key"] for row in objects(run("states", url(path), "--json"))] == keys


def test_no_state_is_no_row(path):
    """An empty storage has a heading, and no error."""
    store(path)
    told = run("states", url(path))
    assert (told.returncode, len(told.stdout.splitlines())) == (0, 1)
    assert run("states", url(path), "--json").stdout == ""


def test_a_state_reads_like_a_thread(path):
    """What the snapshot says of itself, then its messages; durably show says the same."""
    save(path, ("k1", snapshot("first", "second", turn=2, extra={"mood": "good"})))
    told = run("states", url(path), "k1")
    assert (told.returncode, told.stderr) == (0, "")
    before, between, after = told.stdout.partition("\n\n")
    assert '"turn": 2' in before
    assert '"mood": "good"' in before
    assert before.startswith("state k1\nsnapshot:\n  {\n")
    assert f"state k1{between}{after}" == SHOWN
    assert run("show", url(path), "k1", "--kind", "state").stdout == told.stdout


def test_json_is_the_snapshot(path):
    """It can be made again of what --json prints."""
    one = snapshot("a", turn=3, status="finished", extra={"mood": "good"})
    save(path, ("k1", one))
    (found,) = objects(run("states", url(path), "k1", "--json"))
    assert found.keys() == {"key", "snapshot"}
    assert msgspec.convert(found["snapshot"], StateSnapshot) == one
    assert objects(run("show", url(path), "k1", "--kind", "state", "--json")) == [found]


@pytest.mark.parametrize("command", [("states",), ("show", "--kind", "state")])
def test_a_missing_state_is_an_error(path, command):
    """It is one line that says how to find one, and exit code 1."""
    store(path)
    told = run(command[0], url(path), "no\x1bbody", *command[1:])
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr == (
        "durably: there is no state 'no\\x1bbody'. List what there is with: durably states URL\n"
    )


@pytest.mark.parametrize("text", ["a\x1b[2J\nb", "\u202egnp", "-dash", "[red]", "bell\x07"])
def test_keys_and_content_are_harmless(path, text):
    """A key is one line of printable characters, and so is what was said."""
    save(path, (text, StateSnapshot(messages=said(text), extra={text: text})))
    listed = run("states", url(path))
    shown = run("states", url(path), "--", text)
    assert len(listed.stdout.splitlines()) == 2
    assert shown.returncode == 0
    for told in (listed, shown):
        assert all(line.isprintable() for line in told.stdout.split("\n"))
    assert objects(run("states", url(path), "--json"))[0]["key"] == text


def test_states_are_listed_and_removed_by_kind(path):
    """The command ls counts their snapshots, and rm removes them."""
    save(path, ("k1", snapshot("a", "b")), ("k2", snapshot("a")))
    rows = objects(run("ls", url(path), "--kind", "state", "--json"))
    assert [(row["id"], row["snapshots"], row["entries"]) for row in rows] == [
        ("k1", 1, 2),
        ("k2", 1, 1),
    ]
    told = run("rm", url(path), "k1", "--kind", "state", "--yes")
    assert told.stdout == "state k1: 1 snapshot\nremoved 1 state\n"
    assert [row["key"] for row in objects(run("states", url(path), "--json"))] == ["k2"]


def test_states_are_copied_forked_and_exported_by_kind(tmp_path, path):
    """--kind state chooses them; a copy, a fork and an import read like the first."""
    save(path, ("k1", snapshot("a")))
    kind = ("--kind", "state")
    others = [url(tmp_path / f"{name}.db") for name in "bc"]
    assert run("copy", url(path), others[0], *kind).stdout.startswith("1 log, 1 record")
    assert run("export", url(path), tmp_path / "x.jsonl", *kind).returncode == 0
    assert run("import", tmp_path / "x.jsonl", others[1]).returncode == 0
    assert run("fork", url(path), "k1", "k2", *kind).returncode == 0
    (first,) = objects(run("states", url(path), "k1", "--json"))
    (fork,) = objects(run("states", url(path), "k2", "--json"))
    assert fork["snapshot"] == first["snapshot"]
    for other in others:
        assert objects(run("states", other, "k1", "--json")) == [first]
