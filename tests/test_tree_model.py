"""Any sequence of operations on trees and states gives what a plain model of them gives."""

import asyncio
import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from builders import snapshot, user
from durably import (
    InvalidNode,
    MemoryLogStore,
    NodeNotFound,
    RevisionConflict,
    StateNotFound,
    Storage,
    TreeNotFound,
    TreeParent,
)
from durably_s3 import S3LogStore, Settings, _planning
from durably_s3.testing import MemoryBucket, Shelf
from durably_sqlite import SQLiteLogStore
from redis_servers import namespace

pytest_plugins = ["redis_fixtures"]

TREES = st.sampled_from(["t", "T"])
NODES = st.integers(0, 30)
HANDLES = st.integers(0, 1)
TEXTS = st.lists(st.sampled_from("ab"), max_size=4)


class Model:
    """A tree as plain values: nodes by id in the order in which they were stored."""

    def __init__(self):
        self.nodes = {}
        self.leaf = None
        self.labels = {}
        self.parent = None

    def add(self, id_, parent, what):
        self.nodes[id_] = (parent, what)
        self.leaf = id_

    def path(self, leaf):
        found = []
        while leaf is not None:
            found.insert(0, leaf)
            leaf = self.nodes[leaf][0]
        return found

    def messages(self, leaf):
        path = self.path(leaf)
        said = [(id_, self.nodes[id_][1]) for id_ in path]
        at = max((n for n, (_, (kind, *_)) in enumerate(said) if kind == "compaction"), default=-1)
        texts = [(id_, what[1]) for id_, what in said if what[0] == "message"]
        if at < 0:
            return [text for _, text in texts]
        _, summary, kept = said[at][1]
        before = path[path.index(kept) : at] if kept is not None else []
        shown = {*before, *path[at + 1 :]}
        return [summary, *(text for id_, text in texts if id_ in shown)]


class Trees(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner()
        self.numbers = itertools.count()
        self.models = {}
        self.states = {}
        self.handles = [Storage(self.open_store()) for _ in range(2)]
        self.tree_states = [storage.tree_states() for storage in self.handles]

    def run(self, awaitable):
        return self.runner.run(awaitable)

    def fails(self, error, awaitable):
        with pytest.raises(error):
            self.run(awaitable)

    def node(self, tree, number):
        """Return one of a tree's nodes, or an id it does not have."""
        nodes = list(self.models[tree].nodes) if tree in self.models else []
        return nodes[number % len(nodes)] if nodes and number < 29 else "absent"

    @rule(
        handle=HANDLES,
        tree=TREES,
        number=st.none() | NODES,
        kept=st.none() | NODES,
        kind=st.sampled_from(["message", "message", "message", "compaction", "custom"]),
        stale=st.sampled_from([None, None, None, False, True]),
    )
    def append(self, *, handle, tree, number, kept, kind, stale):
        model = self.models.get(tree, Model())
        parent = model.leaf if number is None else self.node(tree, number)
        first_kept = None if kept is None else self.node(tree, kept)
        id_ = f"n{next(self.numbers)}"
        ours = self.handles[handle].tree(tree)
        options = {"node_id": id_, "parent_id": None if number is None else parent}
        if stale is not None:
            revision = self.run(ours.info()).revision if tree in self.models else 0
            options["expected_revision"] = revision + 1 if stale else revision
        act = {
            "message": lambda: ours.append(user(id_), **options),
            "compaction": lambda: ours.compact([user(id_)], first_kept_id=first_kept, **options),
            "custom": lambda: ours.append_custom(id_, [id_], **options),
        }[kind]
        if stale:
            self.fails(RevisionConflict, act())
        elif parent is not None and parent not in model.nodes:
            self.fails(NodeNotFound, act())
        elif (
            kind == "compaction"
            and first_kept is not None
            and (first_kept not in model.path(parent))
        ):
            self.fails(InvalidNode, act())
        else:
            made = self.run(act())
            assert (made.id, made.parent_id, made.kind) == (id_, parent, kind)
            what = (kind, id_, first_kept) if kind == "compaction" else (kind, id_)
            self.models.setdefault(tree, model).add(id_, parent, what)

    @rule(handle=HANDLES, tree=TREES, number=NODES)
    def append_again(self, handle, tree, number):
        if self.node(tree, number) == "absent":
            return
        id_ = self.node(tree, number)
        made = self.run(self.handles[handle].tree(tree).append(user("again"), node_id=id_))
        assert (made.parent_id, made.kind) == (
            self.models[tree].nodes[id_][0],
            self.models[tree].nodes[id_][1][0],
        )

    @rule(handle=HANDLES, tree=TREES, number=st.none() | NODES)
    def branch(self, handle, tree, number):
        id_ = None if number is None else self.node(tree, number)
        act = self.handles[handle].tree(tree).branch(id_)
        if tree not in self.models:
            self.fails(TreeNotFound, act)
        elif id_ == "absent":
            self.fails(NodeNotFound, act)
        else:
            assert self.run(act).leaf_id == id_
            self.models[tree].leaf = id_

    @rule(handle=HANDLES, tree=TREES, number=NODES, label=st.sampled_from([None, "x", "é"]))
    def label(self, handle, tree, number, label):
        id_ = self.node(tree, number)
        act = self.handles[handle].tree(tree).label(id_, label)
        if tree not in self.models:
            self.fails(TreeNotFound, act)
        elif id_ == "absent":
            self.fails(NodeNotFound, act)
        else:
            self.run(act)
            self.models[tree].labels.pop(id_, None)
            if label is not None:
                self.models[tree].labels[id_] = label

    @rule(handle=HANDLES, tree=TREES, number=NODES)
    def read(self, handle, tree, number):
        model = self.models.get(tree, Model())
        ours = self.handles[handle].tree(tree)
        id_ = self.node(tree, number)
        if id_ == "absent":
            self.fails(NodeNotFound, ours.path(id_))
            self.fails(NodeNotFound, ours.messages(id_))
        for leaf in (None, *([] if id_ == "absent" else [id_])):
            end = model.leaf if leaf is None else leaf
            found = self.run(ours.path(leaf))
            assert [node.id for node in found] == model.path(end)
            assert [node.label for node in found] == [model.labels.get(one.id) for one in found]
            messages = [entry.content for entry in self.run(ours.messages(leaf))]
            assert messages == model.messages(end)

    @precondition(lambda self: self.models)
    @rule(handle=HANDLES, tree=TREES, number=st.none() | NODES)
    def fork(self, handle, tree, number):
        if tree not in self.models:
            return
        model = self.models[tree]
        id_ = model.leaf if number is None else self.node(tree, number)
        if id_ == "absent":
            return
        name = f"fork {next(self.numbers)}"
        storage = self.handles[handle]
        fork = self.run(storage.tree(tree).fork(name, node_id=None if number is None else id_))
        copy = Model()
        copy.nodes = {one: model.nodes[one] for one in model.path(id_)}
        copy.leaf, copy.parent = id_, TreeParent(tree_id=tree, node_id=id_)
        copy.labels = {one: text for one, text in model.labels.items() if one in copy.nodes}
        self.models[name] = copy
        self.run(fork.append(user(name), node_id=name))
        copy.add(name, id_, ("message", name))

    @rule(handle=HANDLES, tree=TREES)
    def delete(self, handle, tree):
        assert self.run(self.handles[handle].tree(tree).delete()) == (tree in self.models)
        self.models.pop(tree, None)

    @rule(handle=HANDLES, key=st.sampled_from(["s", "S"]), texts=TEXTS, turn=st.integers(0, 2))
    def save(self, handle, key, texts, turn):
        saved = snapshot(*texts, turn=turn)
        self.run(self.handles[handle].states.save(key, saved))
        self.run(self.tree_states[handle].save(f"as tree {key}", saved))
        self.states.setdefault(key, []).append(saved)

    @rule(handle=HANDLES, key=st.sampled_from(["s", "S"]))
    def load(self, handle, key):
        stores = (self.handles[handle].states, key), (self.tree_states[handle], f"as tree {key}")
        for store, name in stores:
            if key in self.states:
                assert self.run(store.load(name)) == self.states[key][-1]
            else:
                self.fails(StateNotFound, store.load(name))
            assert self.run(store.has(name)) == (key in self.states)

    def teardown(self):
        try:
            for name, model in self.models.items():
                self.check(name, model)
            for key, saved in self.states.items():
                self.check_nothing_lost(f"as tree {key}", saved)
            infos = self.run(self.handles[0].trees(limit=1000)).items
            names = {info.tree_id for info in infos if not info.tree_id.startswith("as tree ")}
            assert names == set(self.models)
        finally:
            for storage in self.handles:
                self.run(storage.aclose())
            self.runner.close()

    def check(self, name, model):
        tree = self.handles[1].tree(name)
        info = self.run(tree.info())
        assert (info.leaf_id, info.labels) == (model.leaf, model.labels)
        assert (info.parent, info.node_count) == (model.parent, len(model.nodes))
        nodes = self.run(tree.nodes(limit=1000)).items
        assert [(one.id, one.parent_id) for one in nodes] == [
            (id_, parent) for id_, (parent, _) in model.nodes.items()
        ]
        stats = self.run(tree.stats())
        depths = [len(model.path(id_)) for id_ in model.nodes]
        parents = [parent for parent, _ in model.nodes.values()]
        assert stats.depth == max(depths, default=0)
        assert stats.root_count == parents.count(None)
        assert stats.leaf_count == sum(1 for id_ in model.nodes if id_ not in parents)
        assert stats.fork_count == sum(1 for id_ in model.nodes if parents.count(id_) > 1)

    def check_nothing_lost(self, name, saved):
        tree = self.handles[1].tree(name)
        nodes = self.run(tree.nodes(limit=1000)).items
        kept = [self.run(tree.messages(node.id)) for node in nodes if node.kind == "custom"]
        assert all(list(one.messages) in kept for one in saved)


def explore(open_store, examples):
    machine = type("TreesOf", (Trees,), {"open_store": lambda _: open_store()})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            database=None,
            report_multiple_bugs=False,
        ),
    )


def shared(make):
    """Return what opens two stores onto one fresh place, for each run of a machine."""
    opened = itertools.count()
    place = []

    def open_store():
        if next(opened) % 2 == 0:
            place[:] = [make()]
        return place[0]()

    return open_store


@pytest.mark.timeout(200)
def test_on_memory():
    """Random sequences through two handles give what the model gives, on memory."""
    names = itertools.count()

    def make():
        name = f"tree model {next(names)}"
        return lambda: MemoryLogStore(name)

    explore(shared(make), 200)


@pytest.mark.timeout(200)
def test_on_sqlite(tmp_path):
    """Random sequences through two handles give what the model gives, on SQLite."""
    names = itertools.count()

    def make():
        file = tmp_path / f"{next(names)}.db"
        return lambda: SQLiteLogStore(file)

    explore(shared(make), 50)


@pytest.mark.timeout(200)
@pytest.mark.xdist_group("redis")
def test_on_redis(server):
    """Random sequences through two handles give what the model gives, on Redis."""

    def make():
        name = namespace()
        return lambda: server.store(namespace=name)

    explore(shared(make), 50)


@pytest.mark.timeout(200)
def test_on_s3(monkeypatch):
    """Random sequences give what the model gives, on S3 with chunks that seal and merge early."""
    monkeypatch.setattr(_planning, "SEAL_BYTES", 300)
    monkeypatch.setattr(_planning, "FAN", 3)
    settings = Settings(bucket="bucket", prefix="some/where")

    def make():
        shelf = Shelf()
        return lambda: S3LogStore(settings, bucket=MemoryBucket(shelf))

    explore(shared(make), 50)
