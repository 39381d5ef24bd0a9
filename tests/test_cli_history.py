"""``durably history``: pages and ends of a session, as a person reads them and as JSON."""

import asyncio
import json

import msgspec
import pytest

import durably
from builders import call, model, result, said, user
from cli_runs import objects, run, store, url

LONG = [f"text {number}" for number in range(250)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.db"


@pytest.fixture
def talk(path):
    """A session of two runs with messages, a call and its result."""

    async def write():
        async with durably.open(url(path)) as storage:
            first = [user("Price?"), call("c1"), result("c1"), model("7.10")]
            await storage.sessions.append("u1", first, run_id="r1")
            await storage.sessions.append("u1", said("Thanks"), run_id="r2")

    asyncio.run(write())
    return url(path)


def test_a_page_reads_like_this(talk):
    """Each entry has its number and who said it; where a run begins, its id stands."""
    told = run("history", talk, "u1")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == (
        "session u1\n"
        "\n-- run r1 --\n"
        "0 user:\n  Price?\n"
        "1 call search [c1]:\n  {}\n"
        "2 result search [c1]:\n  found\n"
        "3 assistant:\n  7.10\n"
        "\n-- run r2 --\n"
        "4 user:\n  Thanks\n"
    )


def test_json_has_everything(talk):
    """Items with index, run and entry as they are stored, and null for the cursor at the end."""
    (found,) = objects(run("history", talk, "u1", "--json"))
    assert found.keys() == {"session_id", "items", "next_cursor"}
    assert [(one["index"], one["run_id"]) for one in found["items"]] == [
        *((index, "r1") for index in range(4)),
        (4, "r2"),
    ]
    entries = msgspec.convert([one["entry"] for one in found["items"]], list[durably.Entry])
    assert entries == [user("Price?"), call("c1"), result("c1"), model("7.10"), user("Thanks")]
    assert found["next_cursor"] is None


def test_only_messages(talk):
    """--messages leaves out calls and results, and keeps the numbers."""
    (found,) = objects(run("history", talk, "u1", "--messages", "--json"))
    assert [one["index"] for one in found["items"]] == [0, 3, 4]


def test_the_end(talk):
    """--last shows the last entries, in order."""
    (found,) = objects(run("history", talk, "u1", "--last", 2, "--json"))
    assert [one["index"] for one in found["items"]] == [3, 4]
    assert run("history", talk, "u1", "--last", 1).stdout.endswith(
        "-- run r2 --\n4 user:\n  Thanks\n"
    )


def test_pages_are_walked_by_their_cursors(path):
    """A page has 100 entries unless asked; its cursor, also as text shows it, gives the next."""
    store(path, ("u1", said(*LONG)))
    first = run("history", url(path), "u1").stdout
    assert "99 user:" in first
    assert "100 user:" not in first
    cursor = first.splitlines()[-1].removeprefix("-- more: --after=").removesuffix(" --")
    (second,) = objects(run("history", url(path), "u1", f"--after={cursor}", "--json"))
    assert [one["index"] for one in second["items"]] == [*range(100, 200)]
    after, seen = None, []
    while after is not None or not seen:
        more = () if after is None else (f"--after={after}",)
        (page,) = objects(run("history", url(path), "u1", "--limit", 60, "--json", *more))
        seen += [one["entry"]["content"] for one in page["items"]]
        after = page["next_cursor"]
    assert seen == LONG


def test_what_it_shows_is_harmless(path):
    """Nothing of ids or content acts on a terminal."""
    store(path, ("u\x1b[2J", said("\x1b[2Jgone\u202e")))
    told = run("history", url(path), "u\x1b[2J")
    assert all(line.isprintable() for line in told.stdout.splitlines())
    assert "\\x1b[2Jgone" in told.stdout
    raw = run("history", url(path), "u\x1b[2J", "--json").stdout
    assert raw.isascii()
    assert json.loads(raw)["session_id"] == "u\x1b[2J"


def test_errors_have_a_remedy(talk, path):
    """No session, no cursor, another's cursor, an expired one: one line, exit code 1."""
    store(path, ("other", said(*LONG)))
    (page,) = objects(run("history", talk, "other", "--limit", 1, "--json"))
    cursor = f"--after={page['next_cursor']}"
    for arguments, words in [
        (("nobody",), "there is no session 'nobody'. List what there is with: durably ls URL"),
        (("u1", "--after", "abc"), "this is no cursor. Pass a page's next_cursor as it is"),
        (("u1", cursor), "not of session 'u1'"),
        (("other", cursor, "--messages"), "Start again without one"),
    ]:
        told = run("history", talk, *arguments)
        assert (told.returncode, told.stdout, told.stderr.count("\n")) == (1, "", 1)
        assert words in told.stderr


def test_wrong_usage(talk):
    """Limits out of their range, and --last with what does not go with it, exit with 2."""
    for arguments in (
        ("--limit", 0),
        ("--limit", 257),
        ("--last", 0),
        ("--last", 1, "--messages"),
        ("--last", 1, "--after", "x"),
    ):
        assert run("history", talk, "u1", *arguments).returncode == 2


def test_a_session_without_runs_is_empty(path):
    """One that is in the catalog alone is shown as empty, and is no error."""

    async def create():
        async with durably.open(url(path)) as storage:
            await storage.catalog.create("u1")

    asyncio.run(create())
    assert run("history", url(path), "u1").stdout == "session u1\n"
