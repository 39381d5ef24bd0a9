"""Formats of states and trees: what was once written is read for ever, and is written today."""

from pathlib import Path

import pytest

from builders import model, said, user
from durably import MemoryLogStore, Storage, TreeParent
from exports import lines
from golden import NOW
from places import FakeClock
from versions import LATER, MIGRATORS, STORED
from versions import NOW as SNAPSHOT

EXPORT = Path(__file__).parent / "golden" / "states-and-trees-format-1.jsonl"


async def write_tree(storage):
    """Write a tree with a node of every kind, and a fork of it."""
    tree = storage.tree("a tree")
    await tree.append(user("plain, é, \U0001f600, \x00"), node_id="first")
    await tree.append(model("a lone \ud800 surrogate"), node_id="sécond")
    await tree.append_custom("plan", {"steps": [1, 1.0, 2**70, None]}, node_id="plan")
    await tree.compact(said("so far"), first_kept_id="sécond", node_id="compaction")
    await tree.branch("first")
    await tree.append(user("another"), node_id="another")
    await tree.label("plan", "the \ud800 plan")
    await tree.rename("a talk")
    await tree.fork("a fork", node_id="plan")


@pytest.fixture
async def imported(storage):
    """A storage with what the golden file holds."""
    with EXPORT.open("rb") as stored:
        await storage.import_lines(stored)
    return storage


@pytest.mark.parametrize("stored", STORED)
async def test_snapshots_of_every_version_are_read(imported, stored):
    """A snapshot of each version of an application reads as the newest."""
    assert await imported.state_store(migrators=MIGRATORS).load(stored) == SNAPSHOT


async def test_a_snapshot_of_a_later_version_is_read_without_migrators(imported):
    """What is unknown in a snapshot of a later version is ignored, and stays."""
    found = await imported.states.load("version 4")
    assert (found.version, found.turn, found.messages) == (4, 2, said("hi"))
    assert LATER in EXPORT.read_bytes()


async def test_a_tree_is_read(imported):
    """Nodes of every kind, the leaf, labels, name and parent come back as they were written."""
    tree = imported.tree("a tree")
    info = await tree.info()
    assert (info.leaf_id, info.name, info.labels) == (
        "another",
        "a talk",
        {"plan": "the \ud800 plan"},
    )
    assert await tree.messages() == [user("plain, é, \U0001f600, \x00"), user("another")]
    surrogate = model("a lone \ud800 surrogate")
    assert await tree.messages("compaction") == [*said("so far"), surrogate]
    path = await tree.path("compaction")
    assert [node.id for node in path] == ["first", "sécond", "plan", "compaction"]
    assert (path[2].name, path[2].data) == ("plan", {"steps": [1, 1.0, 2**70, None]})
    assert {node.stored_at for node in path} == {NOW}
    fork = await imported.tree("a fork").info()
    assert (fork.parent, fork.leaf_id) == (TreeParent(tree_id="a tree", node_id="plan"), "plan")


async def test_a_tree_of_states_is_read_and_goes_on(imported):
    """A snapshot kept as a tree is loaded, and one that grew is appended to it."""
    store = imported.tree_states()
    found = await store.load("a state")
    assert (found.messages, found.turn) == (said("a", "b"), 2)
    await store.save("a state", found.replace(messages=said("a", "b", "c")))
    assert (await imported.tree("a state").stats()).nodes_by_kind == {"message": 3, "custom": 2}


async def test_what_is_imported_is_exported_as_it_was(imported):
    """Today's export of what an old one holds has the same bytes."""
    assert b"".join(await lines(imported)) == EXPORT.read_bytes()


async def test_the_bytes_written_are_those_of_the_golden_file():
    """This version writes, byte for byte, the trees that the golden file holds."""
    async with Storage(MemoryLogStore(), clock=FakeClock(NOW)) as storage:
        await write_tree(storage)
        written = await lines(storage, ids=["a tree", "a fork"])
    golden = EXPORT.read_bytes().splitlines(keepends=True)
    assert len(written) == 12
    assert set(written[:-1]) <= set(golden)
