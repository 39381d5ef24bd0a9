"""What trees read: a bounded number of records for a change, about a path's length for a path."""

import itertools

import pytest

from builders import said, user
from durably import Storage
from durably.logstore import Batch, LogId, NewRecord
from faults import Metered

LOG = LogId(kind="tree", id="t")


def node(parent, text="x"):
    """Return the data of a message after a parent."""
    place = b"" if parent is None else b'"parent":"%s",' % parent.encode()
    entry = b'{"type":"input","role":"user","content":"%s"}' % text.encode()
    return b'{"kind":"message",%s"entry":%s}' % (place, entry)


async def fill(storage, parents, leaf):
    """Store nodes with the parents they have, in that order, all at once."""
    made = tuple(NewRecord(key=key, data=node(parent)) for key, parent in parents.items())
    head = b'{"leaf":"%s"}' % leaf.encode()
    for start in range(0, len(made), 2000):
        await storage.log_store.append(LOG, Batch(records=made[start : start + 2000], head=head))


def chain(count, letter="n", root=None):
    """Return nodes that go each after the one before."""
    names = [f"{letter}{number}" for number in range(count)]
    return dict(zip(names, [root, *names[:-1]], strict=True))


@pytest.fixture
async def counted(place):
    """A storage, and the store beneath it that counts."""
    store = Metered(place.log_store())
    async with Storage(store) as storage:
        yield storage, store


@pytest.mark.parametrize("count", [100, 10_000])
async def test_a_change_reads_no_more_of_a_large_tree(counted, count):
    """Appends and branches read at most two records and no content, whatever a tree's size."""
    storage, store = counted
    await fill(storage, chain(count), f"n{count - 1}")
    tree = storage.tree("t")
    acts = {
        "append": lambda: tree.append(user("x")),
        "append by id": lambda: tree.append(user("x"), node_id="mine", parent_id="n50"),
        "custom": lambda: tree.append_custom("note"),
        "compact": lambda: tree.compact(said("s")),
        "branch": lambda: tree.branch("n3"),
        "branch to nothing": lambda: tree.branch(None),
        "label": lambda: tree.label("n7", "x"),
        "rename": lambda: tree.rename("x"),
        "info": tree.info,
    }
    for name, act in acts.items():
        reads = store.reads
        _, records, payload = await store.moved(act())
        assert (records <= 2, payload, store.reads - reads) == (True, 0, 1), name


@pytest.mark.parametrize("count", [100, 10_000])
async def test_a_short_path_of_a_large_tree_is_short(counted, count):
    """A path of five nodes reads at most twice as many, wherever it lies in a tree."""
    storage, store = counted
    await fill(storage, chain(count) | chain(3, "b", "n1"), "b2")
    tree = storage.tree("t")
    for leaf in (None, "n4"):
        found, records, _ = await store.moved(tree.path(leaf))
        assert len(found) == 5
        assert records <= 2 * len(found) + 2
    found, records, _ = await store.moved(tree.fork("f"))
    assert records <= 2 * 5 + 2


@pytest.mark.parametrize("length", [1, 2, 3, 10, 100, 1000])
async def test_a_straight_path_reads_little_beside_it(counted, length):
    """A path whose nodes lie side by side reads at most twice its length, in few reads."""
    storage, store = counted
    await fill(storage, chain(2000), "n1999")
    await storage.tree("t").branch(f"n{length - 1}")
    reads = store.reads
    found, records, _ = await store.moved(storage.tree("t").path())
    assert [one.id for one in found] == [f"n{number}" for number in range(length)]
    assert records <= 2 * length + 2
    assert store.reads - reads <= 12 + length / 100


@pytest.mark.parametrize("width", [2, 3, 7, 40])
async def test_interleaved_paths_read_little_beside_them(counted, width):
    """Where several paths grow in turn, one is read in at most three records for each node."""
    storage, store = counted
    chains = [chain(50, f"{letter}-") for letter in range(width)]
    mixed = dict(itertools.chain(*zip(*(one.items() for one in chains), strict=True)))
    await fill(storage, mixed, "0-49")
    found, records, _ = await store.moved(storage.tree("t").path())
    assert [one.id for one in found] == list(chains[0])
    assert records <= 3 * len(found) + 2


async def test_paths_are_right_however_a_tree_grew(counted):
    """For every node of a bushy tree the path is that of its parents, at a bounded cost."""
    storage, store = counted
    parents = {}
    for number in range(60):
        parents[f"n{number}"] = None if number % 13 == 0 else f"n{(number * 7) % number}"
    await fill(storage, parents, "n59")
    for leaf in parents:
        expected, at = [], leaf
        while at is not None:
            expected.insert(0, at)
            at = parents[at]
        found, records, _ = await store.moved(storage.tree("t").path(leaf))
        assert [one.id for one in found] == expected
        assert records <= 3 * len(expected) + 2


async def test_what_a_compaction_stands_for_is_not_read(counted):
    """messages() reads back to the first node kept of the last compaction, and not beyond."""
    storage, store = counted
    await fill(storage, chain(2000), "n1999")
    tree = storage.tree("t")
    await tree.compact(said("summary"), first_kept_id="n1998")
    await tree.append(user("after"))
    found, records, _ = await store.moved(tree.messages())
    assert found == said("summary", "x", "x", "after")
    assert records <= 10
    await tree.compact(said("all of it"))
    await tree.append(user("more"))
    found, records, _ = await store.moved(tree.messages())
    assert found == said("all of it", "more")
    assert records <= 5
    whole = await tree.path()
    assert len(whole) == 2004


async def test_a_compaction_reads_back_to_what_it_keeps(counted):
    """compact() reads the path back to first_kept_id, and not beyond."""
    storage, store = counted
    await fill(storage, chain(2000), "n1999")
    _, records, _ = await store.moved(storage.tree("t").compact(said("s"), first_kept_id="n1995"))
    assert records <= 12


async def test_messages_of_nested_compactions(storage):
    """The last compaction on a path counts, and keeps messages from before an earlier one."""
    tree = storage.tree("t")
    for id_ in ("a", "b"):
        await tree.append(user(id_), node_id=id_)
    await tree.compact(said("one"), first_kept_id="b", node_id="one")
    await tree.append(user("c"), node_id="c")
    await tree.append_custom("note", node_id="note")
    await tree.compact(said("two", "2"), first_kept_id="b", node_id="two")
    await tree.append(user("d"), node_id="d")
    assert await tree.messages() == said("two", "2", "b", "c", "d")
    assert await tree.messages("c") == said("one", "b", "c")
    assert await tree.messages("b") == said("a", "b")
    await tree.compact([], first_kept_id="one", node_id="three")
    assert await tree.messages() == said("c", "d")
    await tree.compact([], node_id="four")
    assert await tree.messages() == []
    assert len(await tree.path()) == 9
