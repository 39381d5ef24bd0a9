"""``durably tree``: branches that are seen at a glance, and trees under ``--kind tree``."""

import asyncio
import json
import math
import random
import re

import msgspec
import pytest

import durably
from builders import call, model, result, said, user
from cli_runs import objects, run, store, url
from durably import InputEntry
from durably.commands import listing, tree_nodes
from durably.commands.branches import draw, id_width, shape_of
from durably.logstore import Batch, LogId, NewRecord

DRAWN = """\
tree t1
name     Holiday
holds    10 nodes, 8 messages, 4 branches
leaf     n9
updated  2020-09-13 12:26:40

● n1 user: Plan a trip for me
● n2 assistant: Where to?
├─○ n3 user: Rome
│ ├─○ n4 assistant: Rome it is
│ ○ n5 "other" user: No
├─○ n6 quiet
● n7 compaction, keeps from n2: They want Paris
● n8 custom note: { "by": "me" }
◉ n9 [leaf] "best" call search [c1]: {}
○ n10 result [c1]: found many
"""
WHOLE = """\
● n1 user:
│   Plan a trip
│   for   me
● n2 assistant:
│   Where to?
├─○ n3 user:
│ │   Rome
│ ├─○ n4 assistant:
│ │     Rome it is
│ ○ n5 "other" user:
│     No
"""
HOSTILE = {
    "clear": "\x1b[2Jgone",
    "title": "\x1b]0;owned\x07",
    "c1": "\x9b31mred\x9d0;t\x9c",
    "return": "shown\rhidden",
    "lines": "a\nb\r\nc\td",
    "nul": "a\x00b",
    "bidi": "\u202egnp.exe\u2066x\u2069\u200f",
    "surrogate": "a\ud800b",
    "separators": "a\u2028b\u2029c\x85d",
    "invisible": "a\u200bb\ufeffc\U000e0041",
    "markup": "[bold red]x[/bold red] :smile: [/]",
    "joined": "\U0001f468\u200d\U0001f469",
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.db"


async def fill(tree):
    """Make a tree of everything a node can be, with three forks, whose leaf has a child."""
    await tree.append(user("Plan a trip\nfor   me"), node_id="n1")
    await tree.append(model("Where to?"), node_id="n2")
    await tree.append(user("Rome"), node_id="n3")
    await tree.append(model("Rome it is"), node_id="n4")
    await tree.append(user("No"), node_id="n5", parent_id="n3")
    await tree.append(InputEntry(role="quiet", content=""), node_id="n6", parent_id="n2")
    await tree.compact(said("They want Paris"), first_kept_id="n2", node_id="n7", parent_id="n2")
    await tree.append_custom("note", {"by": "me"}, node_id="n8")
    await tree.append(call("c1"), node_id="n9")
    await tree.append(result("c1", "found\nmany"), node_id="n10")
    await tree.branch("n9")
    await tree.label("n9", "best")
    await tree.label("n5", "other")
    await tree.rename("Holiday")


def grow(path, make=fill, tree_id="t1"):
    """Make a tree."""

    async def write():
        async with durably.open(url(path), clock=lambda: 1.6e9) as storage:
            await make(storage.tree(tree_id))

    asyncio.run(write())


def plant(path, *nodes, leaf="n1"):
    """Store nodes below the contract: each an id and its JSON."""

    async def write():
        async with durably.open(url(path)) as storage:
            records = tuple(
                NewRecord(key=id_, data=json.dumps({"at": 1, **fields}).encode())
                for id_, fields in nodes
            )
            head = json.dumps({"leaf": leaf}).encode()
            await storage.log_store.append(
                LogId(kind="tree", id="t1"), Batch(records=records, head=head)
            )

    asyncio.run(write())


def message(parent=None, text="a"):
    fields = {"kind": "message", "entry": {"type": "input", "role": "user", "content": text}}
    return fields if parent is None else fields | {"parent": parent}


def drawing(told):
    """Return the drawn lines, without the styles that a terminal gets."""
    assert (told.returncode, told.stderr) == (0, "")
    return re.sub(r"\x1b\[\d*m", "", told.stdout.partition("\n\n")[2]).splitlines()


def test_a_tree_is_drawn_like_this(path):
    """A fork indents what goes another way than the leaf; a line has its mark, id and text."""
    grow(path)
    told = run("tree", url(path), "t1")
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == DRAWN


def test_everything_is_shown_where_asked(path):
    """--full has what was said whole, below the node and beside the branches."""
    grow(path)
    shown = run("tree", url(path), "t1", "--full").stdout.partition("\n\n")[2]
    assert shown.startswith(WHOLE)
    assert run("tree", url(path), "--full").returncode == 2


def test_json_has_tree_and_nodes(path):
    """One object: what is known of the tree, and its nodes with their content and text."""
    grow(path)
    (found,) = objects(run("tree", url(path), "t1", "--json"))
    nodes = found.pop("nodes")
    assert (found["tree_id"], found["leaf_id"], found["node_count"]) == ("t1", "n9", 10)
    assert found["labels"] == {"n9": "best", "n5": "other"}
    assert [one["id"] for one in nodes] == [f"n{number}" for number in range(1, 11)]
    assert msgspec.convert(nodes[1]["entry"], durably.Entry) == model("Where to?")
    texts = {one["id"]: one["text"] for one in nodes}
    assert texts["n1"] == "user: Plan a trip for me"
    assert texts["n6"] == "quiet"
    assert {one["problem"] for one in nodes} == {None}
    assert nodes[4].items() >= {"parent_id": "n3", "kind": "message", "label": "other"}.items()


def test_trees_are_listed(path):
    """A row has nodes, time, leaf, id and name; the object is that of the drawing."""
    grow(path)
    grow(path, lambda tree: tree.append(user("a"), node_id="x" * 30), "t2")
    heading, *rows = run("tree", url(path)).stdout.splitlines()
    assert heading.split() == ["NODES", "UPDATED", "LEAF", "ID", "NAME"]
    assert rows[0].split() == ["10", "2020-09-13", "12:26:40", "n9", "t1", '"Holiday"']
    assert rows[1].split() == ["1", "2020-09-13", "12:26:40", "x" * 12, "t2"]
    first, _ = objects(run("tree", url(path), "--json"))
    (drawn,) = objects(run("tree", url(path), "t1", "--json"))
    assert first == {name: value for name, value in drawn.items() if name != "nodes"}


@pytest.mark.parametrize("page", [1, 2, 1000])
def test_every_tree_is_listed_once_whatever_the_page(path, page, monkeypatch):
    """Trees come in order, through pages of any size."""
    ids = [f"t{number}" for number in range(5)]
    for id_ in ids:
        grow(path, lambda tree: tree.append(user("a")), id_)
    monkeypatch.setattr(listing, "MAX_LIST_LIMIT", page)
    assert [row["tree_id"] for row in objects(run("tree", url(path), "--json"))] == ids


@pytest.mark.parametrize("page", [1, 2, 3, 100])
def test_a_tree_is_drawn_the_same_whatever_the_page(path, page, monkeypatch):
    """Nodes come through pages of any size."""
    grow(path)
    monkeypatch.setattr(tree_nodes, "PAGE", page)
    assert run("tree", url(path), "t1").stdout == DRAWN


@pytest.mark.parametrize("command", [("tree",), ("show", "--kind", "tree")])
def test_a_missing_tree_is_an_error(path, command):
    """It is one line that says how to find one, and exit code 1."""
    store(path)
    told = run(command[0], url(path), "no\x1bbody", *command[1:])
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr == (
        "durably: there is no tree 'no\\x1bbody'. List what there is with: durably tree URL\n"
    )


def test_a_fork_names_its_parent(path):
    """The tree it was forked from, and at which node."""

    async def make(tree):
        await fill(tree)
        await tree.fork("t2")
        await tree.branch(None)
        await tree.fork("t3")

    grow(path, make)
    assert "parent tree  t1, at its node n9\n" in run("tree", url(path), "t2").stdout
    empty = run("tree", url(path), "t3").stdout
    assert "parent tree  t1, before its first node\n" in empty
    assert "leaf         before the first node\n" in empty
    assert drawing(run("tree", url(path), "t3")) == []


def test_several_roots_are_branches(path):
    """Conversations that began apart are joined at the left."""

    async def make(tree):
        for number in range(3):
            await tree.append(user("a"), node_id=f"n{number}")
            await tree.branch(None)

    grow(path, make)
    assert drawing(run("tree", url(path), "t1")) == [
        "┌─○ n0 user: a",
        "├─○ n1 user: a",
        "○ n2 user: a",
    ]


def test_ids_are_cut_to_what_tells_them_apart(path):
    """At least eight characters are shown, and as many more as it takes."""
    ids = ["0123456789abcdef", "0123456789abcxyz", "f" * 32]

    async def make(tree):
        for id_ in ids:
            await tree.append(user("a"), node_id=id_)

    grow(path, make)
    shown = [line.split()[1] for line in drawing(run("tree", url(path), "t1"))]
    assert shown == ["0123456789abcd…", "0123456789abcx…", "f" * 14 + "…"]
    assert id_width(["a" * 20, "b" * 20]) == 8
    assert id_width(["a" * 20, "a" * 21]) == 21
    assert id_width([]) == 8


def test_what_is_unknown_is_drawn_too(path):
    """A kind of node, a type of entry and broken content are named; what is around is shown."""
    plant(
        path,
        ("n1", message()),
        ("n2", {"kind": "hologram", "parent": "n1"}),
        ("n3", {"kind": "message", "parent": "n2", "entry": {"type": "smell\x1b"}}),
        ("n4", {"kind": "message", "parent": "n3", "entry": 7}),
        ("n5", message("n4", "still here")),
    )
    assert drawing(run("tree", url(path), "t1")) == [
        "◉ n1 [leaf] user: a",
        "○ n2 hologram: (of the unknown type 'hologram')",
        "○ n3 message: (of the unknown type 'smell\\x1b')",
        "○ n4 message: (its content cannot be read)",
        "○ n5 user: still here",
    ]
    (found,) = objects(run("tree", url(path), "t1", "--json"))
    problems = [one["problem"] for one in found["nodes"]]
    assert [problem is None for problem in problems] == [True, False, False, False, True]
    assert "unknown type 'hologram'" in problems[1]


def test_one_unknown_node_costs_few_pages(path, monkeypatch):
    """Pages shrink around it and grow again: what follows is not read node by node."""
    asked = []
    nodes = durably.trees.LogSessionTree.nodes

    async def counted(self, **options):
        asked.append(options)
        return await nodes(self, **options)

    monkeypatch.setattr(durably.trees.LogSessionTree, "nodes", counted)
    chain = [(f"n{number}", message(f"n{number - 1}")) for number in range(1000)]
    chain[500] = "n500", {"kind": "hologram", "parent": "n499"}
    plant(path, *chain)
    assert len(drawing(run("tree", url(path), "t1"))) == 1000
    assert len(asked) < 40


def test_a_node_that_hangs_nowhere_is_an_error(path):
    """One whose place cannot be read is one line on stderr, which names it."""
    plant(path, ("n1", message()), ("n2", {"kind": 7}))
    told = run("tree", url(path), "t1")
    assert (told.returncode, told.stdout, told.stderr.count("\n")) == (1, "", 1)
    assert "n2" in told.stderr


def test_a_long_conversation_stays_at_the_left(path):
    """Ten thousand nodes in a row are ten thousand lines of one column."""
    chain = [(f"n{number}", message(f"n{number - 1}")) for number in range(1, 10_000)]
    plant(path, ("n0", message()), *chain, leaf="n9999")
    lines = drawing(run("tree", url(path), "t1"))
    assert len(lines) == 10_000
    assert {line[:3] for line in lines} == {"● n", "◉ n"}
    assert lines[-1] == "◉ n9999 [leaf] user: a"


def read_back(shape):
    """Return the parents that a reader of a drawing sees."""
    columns, parents = {}, {}
    for drawn in draw(shape):
        column = len(drawn.first) - 1
        above = column - 2 if drawn.first[:-1].endswith("─") else column
        parents[drawn.number] = columns.get(above)
        columns[column] = drawn.number
        columns = {place: number for place, number in columns.items() if place <= column}
    return parents


@pytest.mark.parametrize("reach", [1, 2, 10, 500])
def test_a_drawing_says_what_the_tree_is(reach):
    """Whatever the tree, each node is drawn once, and its parent is told by the lines."""
    chance = random.Random(reach)  # noqa: S311 - any trees will do
    for _ in range(20):
        above = {
            number: None if chance.random() < 0.01 else max(0, number - chance.randint(1, reach))
            for number in range(1, 500)
        }
        above[0] = None
        ids = [str(number) for number in range(500)]
        parents = [None if above[number] is None else str(above[number]) for number in range(500)]
        leaf = chance.choice([None, *ids])
        shape = shape_of(ids, parents, leaf)
        assert read_back(shape) == above
        firsts = {drawn.number: drawn.first for drawn in draw(shape)}
        path = [*shape.path]
        assert [firsts[number] for number in path] == ["●"] * (len(path) - 1) + ["◉"] * bool(path)
        assert sum("○" in first for first in firsts.values()) == 500 - len(path)


@pytest.mark.parametrize("place", [1, 2])
def test_forks_upon_forks_indent_little(place):
    """A fork at every node of a long branch beside the leaf's makes no stairs."""
    parents, last = [None, "0"], 0
    while len(parents) < 10_000:
        parents += [str(last)] * 2
        last = len(parents) - place
    shape = shape_of([str(number) for number in range(len(parents))], parents, "1")
    deepest = max(len(drawn.first) for drawn in draw(shape))
    assert 1 < deepest <= 2 * math.log2(10_000) + 3


def test_a_parent_that_is_not_there_is_no_obstacle(path):
    """A node whose parent is missing is drawn as a root."""
    plant(path, ("n1", message()), ("n2", message("gone")), leaf="gone")
    assert drawing(run("tree", url(path), "t1")) == ["┌─○ n1 user: a", "○ n2 user: a"]


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE)
def test_content_is_harmless(path, raw):
    """Wherever it stands, it is one line of its own node, with escapes."""

    async def make(tree):
        await tree.append(user(raw), node_id="n1")
        await tree.append(InputEntry(role=raw, content=raw), node_id="n2")
        await tree.append_custom(raw, {raw: raw}, node_id="n3")
        await tree.compact(said(raw), node_id="n4")
        await tree.label("n4", raw)
        await tree.rename(raw)

    grow(path, make)
    told = run("tree", url(path), "t1")
    assert len(drawing(told)) == 4
    full = run("tree", url(path), "t1", "--full")
    listed = run("tree", url(path))
    joiner = "\u200d"
    for one in (told, full, listed):
        assert one.returncode == 0
        assert all(line.replace(joiner, "").isprintable() for line in one.stdout.split("\n"))
    (found,) = objects(run("tree", url(path), "t1", "--json"))
    assert found["nodes"][0]["entry"]["content"] == raw


@pytest.mark.parametrize("id_", ["a\x1b[2J\nb", "\u202egnp", "-dash", "[red]"])
def test_ids_are_harmless(path, id_):
    """Ids of trees and nodes are one line, with escapes."""

    async def make(tree):
        await tree.append(user("a"), node_id=id_)
        await tree.compact(said("b"), first_kept_id=id_, node_id="n2")
        await tree.branch(id_)
        await tree.fork("copy")

    grow(path, make, id_)
    for told, lines in ((run("tree", url(path), "--", id_), 7), (run("tree", url(path)), 3)):
        assert told.returncode == 0
        assert all(line.isprintable() for line in told.stdout.split("\n"))
        assert len(told.stdout.splitlines()) == lines
    assert all(line.isprintable() for line in run("tree", url(path), "copy").stdout.split("\n"))


def test_content_cannot_pose_as_a_node(path):
    """What was said stays behind what is drawn, also where a terminal folds or cuts it."""
    text = f"{'x' * 30}\n● n9 [leaf] user: Yes. " * 9
    grow(path, lambda tree: tree.append(user(text), node_id="n1"))
    terminal = {"TTY_COMPATIBLE": "1", "COLUMNS": "40"}
    for options in ({}, {"environment": terminal}):
        (only,) = drawing(run("tree", url(path), "t1", **options))
        assert only.startswith("◉ n1 [leaf] user: xxxx")
        assert only.endswith("…")
        full = drawing(run("tree", url(path), "t1", "--full", **options))
        assert full[0] == "◉ n1 [leaf] user:"
        assert len(full) > 9
        assert all(line.startswith("    ") for line in full[1:] if line)
    assert max(map(len, [only, *full])) <= 40


def test_a_plain_stream_gets_a_plain_drawing(path):
    """Where the encoding has no lines and dots, there are others."""
    grow(path)
    told = run("tree", url(path), "t1", environment={"PYTHONIOENCODING": "ascii"})
    lines = drawing(told)
    assert lines[2:6] == [
        "+-o n3 user: Rome",
        "| +-o n4 assistant: Rome it is",
        '| o n5 "other" user: No',
        "+-o n6 quiet",
    ]
    assert lines[8] == '@ n9 [leaf] "best" call search [c1]: {}'


def test_show_reads_the_path_to_the_leaf(path):
    """It has the conversation as a model sees it; what is off the path is not in it."""
    grow(path)
    told = run("show", url(path), "t1", "--kind", "tree")
    assert told.stdout.startswith("tree t1\ninfo:\n  {\n")
    assert told.stdout.endswith(
        "-- 3 entries --\nuser:\n  They want Paris\nassistant:\n  Where to?\n"
        "call search [c1]:\n  {}\n"
    )
    (found,) = objects(run("show", url(path), "t1", "--kind", "tree", "--json"))
    messages = found.pop("messages")
    assert msgspec.convert(messages, list[durably.Entry]) == [
        *said("They want Paris"),
        model("Where to?"),
        call("c1"),
    ]
    assert [found] == objects(run("tree", url(path), "--json"))


def test_show_of_a_leaf_before_the_first_node_is_empty(path):
    """There is no message, and no error."""

    async def make(tree):
        await tree.append(user("a"))
        await tree.branch(None)

    grow(path, make)
    told = run("show", url(path), "t1", "--kind", "tree")
    assert (told.returncode, told.stdout.endswith("-- 0 entries --\n")) == (0, True)


def test_trees_are_listed_and_removed_by_kind(path):
    """The command ls counts their nodes, and rm removes them; a fork stays."""

    async def make(tree):
        await fill(tree)
        await tree.fork("t2")

    grow(path, make)
    rows = objects(run("ls", url(path), "--kind", "tree", "--json"))
    assert [(row["id"], row["nodes"], row["entries"]) for row in rows] == [
        ("t1", 10, 8),
        ("t2", 5, 3),
    ]
    told = run("rm", url(path), "t1", "--kind", "tree", "--yes")
    assert told.stdout == "tree t1: 10 nodes\nremoved 1 tree\n"
    assert len(drawing(run("tree", url(path), "t2"))) == 5


def test_trees_are_copied_forked_and_exported_by_kind(tmp_path, path):
    """--kind tree chooses them; a copy, a fork and an import are drawn like the first."""
    grow(path)
    kind = ("--kind", "tree")
    others = [url(tmp_path / f"{name}.db") for name in "bc"]
    assert run("copy", url(path), others[0], *kind).stdout.startswith("1 log, 10 records")
    assert run("export", url(path), tmp_path / "x.jsonl", *kind).returncode == 0
    assert run("import", tmp_path / "x.jsonl", others[1]).returncode == 0
    assert run("fork", url(path), "t1", "t2", *kind).returncode == 0
    first = drawing(run("tree", url(path), "t1"))
    assert drawing(run("tree", url(path), "t2")) == first
    for other in others:
        assert drawing(run("tree", other, "t1")) == first
