"""Any sequence of operations on states, plain and kept as trees, gives what a pure model gives."""

import asyncio
import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from builders import said, snapshot, user
from durably import MemoryLogStore, Migrators, SchemaTooNew, StateNotFound, Storage
from durably_s3 import S3LogStore, Settings, _planning
from durably_s3.testing import MemoryBucket, Shelf
from durably_sqlite import SQLiteLogStore
from places import FakeClock
from redis_servers import namespace
from tree_model import Kept, KeptTree

pytest_plugins = ["redis_fixtures"]

KEYS = ["Z", "k", "é", "\U0001f600"]
KINDS = {"plain": Kept, "trees": KeptTree}
kinds = st.sampled_from(list(KINDS))
keys = st.sampled_from(["k", "k", "k", "é"])
handles = st.integers(0, 1)
texts = st.lists(st.sampled_from("ab"), max_size=4)
turns = st.integers(0, 1)
NODES = st.integers(0, 30)


def _shout(old):
    for message in old["messages"]:
        message["content"] = message["content"].upper()
    return {**old, "extra": {"was": old["version"]}}


MIGRATORS = Migrators(version=2, steps={1: _shout})


class States(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = FakeClock(1.0)
        self.numbers = itertools.count()
        self.models = {kind: {} for kind in KINDS}
        self.revisions = {}
        self.saved = {}
        self.pauses = itertools.cycle([1, 0, 2, 0, 0])
        self.storages = [Storage(self.open_store(), clock=self.clock) for _ in range(2)]
        self.stores = [{"plain": one.states, "trees": one.tree_states()} for one in self.storages]
        self.migrating = [
            {
                "plain": one.state_store(migrators=MIGRATORS),
                "trees": one.tree_states(migrators=MIGRATORS),
            }
            for one in self.storages
        ]

    def run(self, awaitable):
        return self.runner.run(awaitable)

    @initialize(texts=texts)
    def begin(self, texts):
        for kind in KINDS:
            self._save(self.stores[0][kind], kind, "k", snapshot(*texts))

    @rule(handle=handles, kind=kinds, key=st.sampled_from(KEYS), texts=texts, turn=turns)
    def save(self, *, handle, kind, key, texts, turn):
        self._save(self.stores[handle][kind], kind, key, snapshot(*texts, turn=turn))

    @rule(handle=handles, kind=kinds, key=keys, back=st.integers(0, 3), more=texts)
    def go_on(self, *, handle, kind, key, back, more):
        """Save what is there with more messages, or first without its last ones."""
        if key in self.models[kind]:
            loaded = self.models[kind][key].load()
            messages = [*loaded.messages[: len(loaded.messages) - back], *said(*more)]
            self._save(self.stores[handle][kind], kind, key, loaded.replace(messages=messages))

    @rule(handle=handles, kind=kinds, key=keys)
    def save_again(self, handle, kind, key):
        """Save what this store saved last, whatever others did since."""
        store = self.stores[handle][kind]
        if (store, key) in self.saved:
            self._save(store, kind, key, self.saved[store, key])

    @rule(handle=handles, kind=kinds, key=keys)
    def load_with_migrators(self, handle, kind, key):
        """Load with migrators what any version saved, and save it as it is now."""
        store = self.migrating[handle][kind]
        if key not in self.models[kind]:
            self._fails(StateNotFound, store.load(key))
            return
        found = self.run(store.load(key))
        assert found == self.models[kind][key].migrated()
        self._save(store, kind, key, found)

    def _save(self, store, kind, key, saved):
        self.clock.now += next(self.pauses)
        before = self.revisions.get((kind, key))
        revision = self.run(store.save(key, saved))
        model = self.models[kind].setdefault(key, KINDS[kind](self.clock.now))
        has_changed = model.save(saved, self.clock.now)
        assert (revision != before) == has_changed
        self.revisions[kind, key] = revision
        self.saved[store, key] = saved
        self._look_at(kind, key)

    def _look_at(self, kind, key):
        """Load what was just changed, through a handle that may not have changed it."""
        handle = next(self.numbers) % 2
        expected = self.models[kind][key].load()
        assert self.run(self.stores[handle][kind].load(key)) == expected
        if expected.version == 2:
            self._fails(SchemaTooNew, self._of_old(handle, kind).load(key))

    def _fails(self, error, awaitable):
        with pytest.raises(error):
            self.run(awaitable)

    def _of_old(self, handle, kind):
        first = Migrators(version=1)
        storage = self.storages[handle]
        if kind == "plain":
            return storage.state_store(migrators=first)
        return storage.tree_states(migrators=first)

    @rule(handle=handles, kind=kinds, key=st.sampled_from([*KEYS, *"xyz"]))
    def delete(self, handle, kind, key):
        store = self.stores[handle][kind]
        is_there = self.models[kind].pop(key, None) is not None
        assert self.run(store.has(key)) == is_there
        assert self.run(store.delete(key)) == is_there
        self._fails(StateNotFound, store.load(key))
        self.revisions.pop((kind, key), None)

    @rule(handle=handles, limit=st.integers(1, 5))
    def list(self, handle, limit):
        for kind, models in self.models.items():
            found, after = [], ""
            while after is not None:
                page = self.run(self.stores[handle][kind].list(after=after or None, limit=limit))
                assert len(page.items) == limit or page.next is None
                found += page.items
                after = page.next
            assert [(one.key, one.created_at, one.updated_at, one.revision) for one in found] == [
                (key, models[key].created_at, models[key].updated_at, self.revisions[kind, key])
                for key in sorted(models, key=str.encode)
            ]
        models = self.models["trees"]
        expected = sorted(models, key=lambda key: (-models[key].updated_at, key.encode()))
        found = self.run(self.stores[handle]["trees"].recent(limit=limit))
        assert [one.key for one in found] == expected[:limit]

    @rule(handle=handles, key=keys, number=st.none() | NODES)
    def branch_by_hand(self, handle, key, number):
        """Move the leaf of a tree by hand: its snapshot is what the path to there says."""
        model = self.models["trees"].get(key)
        if model is None or not model.nodes:
            return
        node = None if number is None else number % len(model.nodes)
        tree = self.storages[handle].tree(key)
        info = self.run(tree.branch(None if node is None else self._nodes(key)[node].id))
        model.branch(node, self.clock.now)
        self.revisions["trees", key] = info.revision
        self._look_at("trees", key)

    @rule(handle=handles, key=keys)
    def append_by_hand(self, handle, key):
        """Go on by hand: the snapshot has it, and the next save goes on from there."""
        text = f"n{next(self.numbers)}"
        made = self.run(self.storages[handle].tree(key).append(user(text)))
        self._add(key, made, "message", text)

    @rule(handle=handles, key=keys, kept=st.integers(0, 4))
    def compact_by_hand(self, handle, key, kept):
        """Put a summary in place of what was said, but for the messages from a node on."""
        text, model = f"n{next(self.numbers)}", self.models["trees"].get(key)
        path = [] if model is None else model.path(model.leaf)
        first = path[-kept] if 0 < kept <= len(path) else None
        id_ = None if first is None else self._nodes(key)[first].id
        made = self.run(self.storages[handle].tree(key).compact([user(text)], first_kept_id=id_))
        self._add(key, made, "compaction", (text, first))

    def _add(self, key, made, kind, what):
        model = self.models["trees"].setdefault(key, KeptTree(self.clock.now))
        model.add(kind, what, self.clock.now, parent=model.leaf)
        self.revisions["trees", key] = made.revision
        self._look_at("trees", key)

    def _nodes(self, key):
        return self.run(self.storages[0].tree(key).nodes(limit=1000)).items

    def teardown(self):
        try:
            for kind, models in self.models.items():
                for key, model in models.items():
                    assert self.run(self.stores[1][kind].load(key)) == model.load()
            for key, model in self.models["trees"].items():
                self._check_nothing_lost(key, model)
        finally:
            for storage in self.storages:
                self.run(storage.aclose())
            self.runner.close()

    def _check_nothing_lost(self, key, model):
        """Every node ever stored is there, in its place, with the conversation that led to it."""
        nodes = self._nodes(key)
        numbers = {None: None} | {node.id: number for number, node in enumerate(nodes)}
        assert [(numbers[one.parent_id], one.kind) for one in nodes] == [
            (parent, kind) for parent, kind, _ in model.nodes
        ]
        for number, node in enumerate(nodes):
            messages = self.run(self.storages[1].tree(key).messages(node.id))
            assert messages == said(*model.texts(number))


def explore(make, examples):
    """Run the machine over fresh places; ``make`` returns what opens a store onto a new one."""

    class StatesOf(States):
        def open_store(self):
            if not hasattr(self, "opens"):
                self.opens = make()
            return self.opens()

    run_state_machine_as_test(
        StatesOf,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            database=None,
            report_multiple_bugs=False,
        ),
    )


@pytest.mark.timeout(200)
def test_on_memory():
    """Random sequences through two handles give what the model gives, on memory."""
    names = itertools.count()

    def make():
        name = f"state model {next(names)}"
        return lambda: MemoryLogStore(name)

    explore(make, 100)


@pytest.mark.timeout(200)
def test_on_sqlite(tmp_path):
    """Random sequences through two handles give what the model gives, on SQLite."""
    names = itertools.count()

    def make():
        file = tmp_path / f"{next(names)}.db"
        return lambda: SQLiteLogStore(file, synchronous="normal")

    explore(make, 30)


@pytest.mark.timeout(200)
@pytest.mark.xdist_group("redis")
def test_on_redis(server):
    """Random sequences through two handles give what the model gives, on Redis."""

    def make():
        name = namespace()
        return lambda: server.store(namespace=name)

    explore(make, 30)


@pytest.mark.timeout(200)
def test_on_s3(monkeypatch):
    """Random sequences give what the model gives, on S3 with chunks that seal and merge early."""
    monkeypatch.setattr(_planning, "SEAL_BYTES", 300)
    monkeypatch.setattr(_planning, "FAN", 3)
    settings = Settings(bucket="bucket", prefix="some/where")

    def make():
        shelf = Shelf()
        return lambda: S3LogStore(settings, bucket=MemoryBucket(shelf))

    explore(make, 30)
