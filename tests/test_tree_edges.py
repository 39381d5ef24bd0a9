"""What others do to trees and copies in between, and what lies in the way: nothing is lost."""

import json

import pytest

from builders import user
from disturbed import Wrapper
from durably import (
    CopyConflict,
    CorruptRecord,
    InvalidExport,
    MemoryLogStore,
    MigrationError,
    Migrators,
    RecordTooLarge,
    RunHead,
    StateSnapshot,
    Storage,
    Unavailable,
    _forks,
)
from durably.logstore import ALL, Batch, LogId, NewRecord
from durably.tree_values import TreeParent

NAMES = ("n0", "n1", "n2", "n3")


class Between(Wrapper):
    """Awaits ``before(operation, log)`` before each operation, once it is set."""

    before = None

    async def _pause(self, operation, log):
        if self.before is not None:
            await self.before(operation, log)

    async def append(self, log, batch):
        await self._pause("append", log)
        return await super().append(log, batch)

    async def read(self, log, span=ALL):
        await self._pause("read", log)
        return await super().read(log, span)


@pytest.fixture
async def pair():
    """A storage, and another one onto the same place in whose way something may come."""
    store = MemoryLogStore()
    between = Between(store)
    async with Storage(store) as calm, Storage(between) as disturbed:
        yield calm, disturbed, between


async def grown(storage, *, said="old", tree_id="src"):
    """Return a tree of four nodes."""
    tree = storage.tree(tree_id)
    for name in NAMES:
        await tree.append(user(f"{said} {name}"), node_id=name)
    return tree


def texts(entries):
    return [entry.content for entry in entries]


@pytest.mark.parametrize("grows", [False, True])
async def test_a_fork_leaves_one_that_was_completed_meanwhile(pair, grows):
    """Of two that complete a fork, the slower one changes nothing of what was done since."""
    calm, slow, between = pair
    await grown(calm)
    parent = TreeParent(tree_id="src", node_id="n3")
    head = _forks.forking_head(parent)
    await calm.log_store.append(LogId(kind="tree", id="new"), Batch(head=head))
    reads = []

    async def complete(operation, log):
        if (operation, log.id) == ("read", "new"):
            reads.append(log)
        if len(reads) == 2:
            between.before = None
            fork = await calm.tree("src").fork("new")
            await fork.label("n1", "important")
            if grows:
                await fork.append(user("more"), node_id="more")
            else:
                await fork.branch("n0")

    between.before = complete
    await slow.tree("src").fork("new")
    assert len(reads) == 2
    info = await calm.tree("new").info()
    assert (info.labels, info.leaf_id) == ({"n1": "important"}, "more" if grows else "n0")


async def test_a_fork_mixes_no_two_lives_of_its_source(pair, monkeypatch):
    """A fork that was cut off is not completed from a tree that was made anew since."""
    calm, cut, between = pair
    monkeypatch.setattr(_forks, "BATCH_RECORDS", 2)
    await grown(calm)
    appends = []

    async def fail(operation, log):
        appends.append(log) if (operation, log.id) == ("append", "new") else None
        if len(appends) == 2:
            raise Unavailable("the line was cut")

    between.before = fail
    with pytest.raises(Unavailable):
        await cut.tree("src").fork("new")
    await calm.tree("src").delete()
    await grown(calm, said="new")
    with pytest.raises(CopyConflict):
        await calm.tree("src").fork("new")


@pytest.mark.parametrize("is_newer", [False, True])
async def test_a_fork_takes_the_place_of_no_state(is_newer):
    """Copying a state under an id that another state has is refused, whichever is the newer."""
    times = iter([2.0, 1.0] if is_newer else [1.0, 2.0])
    async with Storage(MemoryLogStore(), clock=lambda: next(times, 3.0)) as storage:
        await storage.log_store.check()
        await storage.states.save("taken", StateSnapshot(turn=1))
        await storage.states.save("mine", StateSnapshot(turn=2))
        with pytest.raises(CopyConflict):
            await storage.fork("mine", "taken", kind="state")
        assert (await storage.states.load("taken")).turn == 1


async def test_what_was_changed_in_the_target_outlives_another_copy():
    """Labels, metadata and a leaf set in the copy stay when the source grew and is copied again."""
    clock = iter(range(1, 1000))
    here, there = (Storage(MemoryLogStore(), clock=lambda: float(next(clock))) for _ in range(2))
    async with here, there:
        tree = await grown(here)
        session = await here.catalog.create("s", metadata={"v": 1})
        await here.copy_to(there)
        await tree.append(user("more"), node_id="more")
        await here.sessions.append(session.session_id, [user("hi")], run_id="r")
        await there.tree("src").label("n1", "kept")
        await there.tree("src").branch("n2")
        await there.catalog.touch("s", metadata={"v": 2})
        await here.copy_to(there)
        info = await there.tree("src").info()
        assert (info.labels, info.leaf_id, info.node_count) == ({"n1": "kept"}, "n2", 5)
        found = await there.catalog.get("s")
        assert (found.metadata, found.run_count) == ({"v": 2}, 1)


async def test_a_run_that_went_on_in_both_places_is_a_conflict():
    """A run's head is that of its entries: where both went on, neither is put upon the other."""
    clock = iter(range(1, 1000))
    here, there = (Storage(MemoryLogStore(), clock=lambda: float(next(clock))) for _ in range(2))
    async with here, there:
        await here.checkpointer.append("r", [user("a")], RunHead(turns=1))
        await here.copy_to(there)
        await here.checkpointer.append("r", [user("b")], RunHead(turns=2))
        await there.checkpointer.append("r", [], RunHead(turns=1, status="failed"))
        before = await there.checkpointer.load("r")
        with pytest.raises(CopyConflict):
            await here.copy_to(there)
        assert await there.checkpointer.load("r") == before


async def test_a_full_head_can_be_emptied(storage):
    """A label or a name that leaves a head too full is refused; taking one away never is."""
    tree = await grown(storage)
    label = "x" * 900

    async def fill():
        for number in range(100):
            await tree.append(user("."), node_id=f"m{number}")
            await tree.label(f"m{number}", label)

    with pytest.raises(RecordTooLarge):
        await fill()
    await tree.append(user("."), node_id="y" * 250)
    await tree.rename(None)
    assert "m0" not in (await tree.label("m0", None)).labels


async def test_a_tree_that_goes_while_it_is_counted_is_counted_anew(pair):
    """Counts are those of one tree, not of a part of it, nor of two."""
    calm, slow, between = pair
    tree = await grown(calm)
    for number in range(100):
        await tree.append(user(f"{number}"))
    reads = []

    async def remake(_, log):
        reads.append(log)
        if len(reads) == 4:
            between.before = None
            await tree.delete()
            await grown(calm)

    await slow.log_store.check()
    between.before = remake
    assert (await slow.tree("src").stats()).depth == 4


async def test_data_that_is_no_json_is_corrupt(storage):
    """A custom node that cannot be read is an error of ours, and named."""
    tree = await grown(storage)
    broken = NewRecord(key="bad", data=b'{"kind":"custom","name":"n","parent":"n3","data":1e999}')
    head = json.dumps({"leaf": "bad"}).encode()
    batch = Batch(records=(broken,), head=head)
    await storage.log_store.append(LogId(kind="tree", id="src"), batch)
    with pytest.raises(CorruptRecord, match="bad"):
        await tree.path()


async def test_a_step_may_return_what_it_keeps():
    """What a step returned is not changed: a constant may be returned again and again."""
    constant = {"version": 1, "status": "idle", "messages": [], "turn": 7}
    migrators = Migrators(version=2, steps={1: lambda _: constant})
    for _ in range(2):
        assert migrators.migrate({"version": 1})["version"] == 2
    assert constant["version"] == 1


async def test_what_is_nested_too_deep_is_not_migrated():
    """A snapshot no step could look at is an error in words."""
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(MigrationError, match="too deep"):
        Migrators(version=2, steps={1: dict}).migrate({"version": 1, "extra": {"deep": deep}})


async def test_times_without_a_head_are_no_export(storage):
    """A line that says when a head was made, and has none, is refused by its number."""
    lines = [
        b'{"durably":"export","format":1}\n',
        b'{"kind":"session","id":"s","created_at":1.0,"updated_at":1.0}\n',
        b'{"end":1}\n',
    ]
    with pytest.raises(InvalidExport, match="line 2"):
        await storage.import_lines(lines)


async def test_an_unknown_node_before_a_summary_hides_nothing(storage):
    """What a compaction stands for need not be known to read what follows it."""
    tree = await grown(storage)
    strange = NewRecord(key="odd", data=b'{"kind":"dream","parent":"n3"}')
    head = json.dumps({"leaf": "odd"}).encode()
    log = LogId(kind="tree", id="src")
    await storage.log_store.append(log, Batch(records=(strange,), head=head))
    await tree.compact([user("so far")])
    await tree.append(user("on"))
    assert texts(await tree.messages()) == ["so far", "on"]
