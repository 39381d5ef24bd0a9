"""``durably show``: what a person reads, and that nothing in it acts on the terminal."""

import asyncio

import msgspec
import pytest

import durably
from builders import call, result, said, snapshot
from cli_runs import objects, run, store, url
from durably import (
    AssistantTextEntry,
    CustomEntry,
    FilePart,
    ImagePart,
    InputEntry,
    ReasoningEntry,
    RunHead,
    TextPart,
    ToolCallEntry,
    ToolResultEntry,
)

EVERYTHING = [
    InputEntry(role="system", content="You help."),
    InputEntry(
        role="user",
        content=[
            TextPart(text="Look:\nhere"),
            ImagePart(data="AAAA", media_type="image/png"),
            FilePart(url="https://x/y", name="y.pdf"),
        ],
    ),
    ReasoningEntry(provider="acme", metadata={"id": 7}),
    AssistantTextEntry(content="Let me see."),
    ToolCallEntry(call_id="c1", name="price", arguments='{"of": "it"'),
    ToolResultEntry(call_id="c1", output="7.10", is_error=True, trimmed_chars=9),
    CustomEntry(kind="note", data={"by": "me"}),
]
SHOWN = """\
session u1

-- run r1, 7 entries --
system:
  You help.
user:
  Look:
  here
  (image, image/png, 4 characters of base64)
  (file y.pdf, https://x/y)
reasoning of acme:
  {
    "id": 7
  }
assistant:
  Let me see.
call price [c1]:
  {"of": "it"
result price [c1], an error, 9 characters trimmed:
  7.10
custom note:
  {
    "by": "me"
  }
"""
HOSTILE = {
    "clear": ("\x1b[2Jgone", "\\x1b[2Jgone"),
    "title": ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
    "link": ("\x1b]8;;http://x\x1b\\y", "\\x1b]8;;http://x\\x1b\\y"),
    "c1": ("\x9b31mred\x9d0;t\x9c", "\\x9b31mred\\x9d0;t\\x9c"),
    "return": ("shown\rhidden", "shown\\rhidden"),
    "backspace": ("x\x08y\x7f", "x\\x08y\\x7f"),
    "nul": ("a\x00b", "a\\x00b"),
    "bidi": ("\u202egnp.exe\u2066x\u2069\u200f", "\\u202egnp.exe\\u2066x\\u2069\\u200f"),
    "surrogate": ("a\ud800b", "a\\ud800b"),
    "separators": ("a\u2028b\u2029c\x85d", "a\\u2028b\\u2029c\\x85d"),
    "invisible": ("a\u200bb\ufeffc\U000e0041", "a\\u200bb\\ufeffc\\U000e0041"),
    "markup": ("[bold red]x[/bold red] :smile: [/]", "[bold red]x[/bold red] :smile: [/]"),
    "link markup": ("[link=http://x]y[/link]", "[link=http://x]y[/link]"),
    "joined": ("\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469"),
    "windows": ("a\r\nb", "a\n  b"),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.db"


def test_a_session_reads_like_this(path):
    """Roles, content, calls with their results, and where a run begins."""
    store(path, ("u1", EVERYTHING))
    told = run("show", url(path), "u1")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == SHOWN


def test_meta_is_shown(path):
    """What a run was appended with is there, above its entries."""

    async def write():
        async with durably.open(url(path)) as storage:
            await storage.sessions.append("u1", said("a"), run_id="r1", meta={"cost": 3})

    asyncio.run(write())
    assert (
        '1 entry --\nmeta:\n  {\n    "cost": 3\n  }\nuser:\n  a\n'
        in run("show", url(path), "u1").stdout
    )


def test_json_has_everything(path):
    """The runs with their entries as they are stored, of which entries can be made again."""
    store(path, ("u1", EVERYTHING))
    (found,) = objects(run("show", url(path), "u1", "--json"))
    assert found.keys() == {"session_id", "runs"}
    assert found["session_id"] == "u1"
    (only,) = found["runs"]
    assert only.keys() == {"run_id", "meta", "entries"}
    assert (only["run_id"], only["meta"]) == ("r1", None)
    assert msgspec.convert(only["entries"], list[durably.Entry]) == EVERYTHING


def test_a_run_and_a_thread_can_be_shown(path):
    """--kind run shows head and entries, --kind thread the latest snapshot."""

    async def write():
        async with durably.open(url(path)) as storage:
            head = RunHead(status="failed", error="no luck")
            await storage.checkpointer.append("r1", [call("c1"), result("c1")], head)
            await storage.checkpoint_saver().append("t1", snapshot("first"))
            await storage.checkpoint_saver().append("t1", snapshot("first", "second", turn=2))

    asyncio.run(write())
    shown = run("show", url(path), "r1", "--kind", "run").stdout
    assert shown.startswith("run r1\nhead:\n")
    assert '"error": "no luck"' in shown
    assert shown.endswith("result search [c1]:\n  found\n")
    shown = run("show", url(path), "t1", "--kind", "thread").stdout
    assert shown.startswith("thread t1\nstate:\n")
    assert shown.endswith("-- snapshot 2, 2 entries --\nuser:\n  first\nuser:\n  second\n")
    (found,) = objects(run("show", url(path), "r1", "--kind", "run", "--json"))
    assert found.keys() == {"run_id", "revision", "head", "entries"}
    (found,) = objects(run("show", url(path), "t1", "--kind", "thread", "--json"))
    assert found.keys() == {"thread_id", "seq", "stored_at", "snapshot"}


@pytest.mark.parametrize("kind", ["session", "run", "thread"])
def test_what_is_not_there_is_an_error(path, kind):
    """An id that names nothing exits with 1 and says how to find one that does."""
    store(path)
    told = run("show", url(path), "no\x1bbody", "--kind", kind)
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr == (
        f"durably: there is no {kind} 'no\\x1bbody'."
        f" List what there is with: durably ls URL --kind {kind}\n"
    )


def test_a_session_without_runs_is_there(path):
    """A session whose runs were all rewound is shown as empty, not as missing."""

    async def write():
        async with durably.open(url(path)) as storage:
            await storage.sessions.append("u1", said("a"))
            await storage.sessions.rewind("u1", keep_entries=0)

    asyncio.run(write())
    told = run("show", url(path), "u1")
    assert (told.returncode, told.stdout) == (0, "session u1\n")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_content_is_harmless(path, text):
    """Wherever it stands, it is shown with escapes, and acts on nothing."""
    raw, shown = text
    everywhere = [
        *said(raw),
        AssistantTextEntry(content=[TextPart(text=raw)]),
        ToolCallEntry(call_id=raw, name=raw, arguments=raw),
        ToolResultEntry(call_id=raw, output=raw, parts=[ImagePart(url=raw)]),
        CustomEntry(kind=raw, data={"a": raw}),
        ReasoningEntry(provider=raw, metadata={"a": raw}),
        InputEntry(role=raw, content=""),
    ]
    store(path, ("u1", everywhere))
    told = run("show", url(path), "u1", encoding="utf-8")
    assert (told.returncode, told.stderr) == (0, "")
    assert f"user:\n  {shown}\n" in told.stdout
    joiner = "\u200d"
    assert all(line.replace(joiner, "").isprintable() for line in told.stdout.split("\n"))
    (found,) = objects(run("show", url(path), "u1", "--json"))
    assert found["runs"][0]["entries"][0]["content"] == raw


@pytest.mark.parametrize("id_", ["a\x1b[2J\nb", "\u202egnp", "-dash", "[red]"])
def test_ids_are_harmless(path, id_):
    """An id in a heading is one line, with escapes, also that of a run."""

    async def write():
        async with durably.open(url(path)) as storage:
            await storage.sessions.append(id_, said("a"), run_id=id_)

    asyncio.run(write())
    told = run("show", url(path), "--", id_)
    assert told.returncode == 0
    assert all(line.isprintable() for line in told.stdout.split("\n"))
    assert len(told.stdout.splitlines()) == 5


def test_content_cannot_pose_as_a_heading(path):
    """Every line of content is indented, every heading is not."""
    store(path, ("u1", said("\n-- run r9, 1 entries --\nassistant:\n  Yes.")))
    lines = run("show", url(path), "u1").stdout.splitlines()
    assert "  -- run r9, 1 entries --" in lines
    assert [line for line in lines if line and not line.startswith(" ")] == [
        "session u1",
        "-- run r1, 1 entry --",
        "user:",
    ]


def test_content_cannot_pose_as_a_heading_on_a_terminal(path):
    """Where lines are folded to the width of a terminal, what is folded is indented, too."""
    store(path, ("u1", said("x" * 38 + "assistant: " * 8)))
    shown = run("show", url(path), "u1", environment={"TTY_COMPATIBLE": "1", "COLUMNS": "40"})
    lines = shown.stdout.splitlines()
    assert max(map(len, lines)) <= 40
    assert len([line for line in lines if line and not line.startswith(" ")]) == 3
