"""Every error a contract's docstring lists is raised as it says, and no other is listed."""

import builtins
import inspect
import re

import msgspec
import pytest

import durably
from disturbed import Conflicting, Small, Wrapper
from durably import (
    Checkpointer,
    CheckpointSaver,
    Claim,
    InputEntry,
    Migrators,
    ResultArchive,
    RevisionConflict,
    RunHead,
    Session,
    SessionCatalog,
    SessionTree,
    StateSnapshot,
    StateStore,
    Storage,
    StorageBusy,
    StorageClosed,
    ToolResultEntry,
    TreeStateStore,
    Unavailable,
)
from durably.logstore import ALL, Batch, LogId, LogStore, NewRecord, Rewrite
from faults import FailsAt, Stateless

SAID = [InputEntry(role="user", content="hello")]
LONG = [ToolResultEntry(call_id="c", output="x" * 5_000)]
UNSTORABLE = [ToolResultEntry(call_id="c", output="", raw={1, 2})]
HEAD = RunHead()
SNAPSHOT = StateSnapshot(messages=SAID)
UNKNOWN = b'{"entries":[{"type":"hologram"}]}'
BROKEN = b'{"entries":[{"type":"input","role":'
CONTRACTS = (
    Session,
    Checkpointer,
    Claim,
    CheckpointSaver,
    SessionCatalog,
    ResultArchive,
    StateStore,
    SessionTree,
    TreeStateStore,
    Migrators,
    Storage,
    LogStore,
)


def documented():
    """Return (Class.method, error) for each line of each Raises: section."""
    for contract in CONTRACTS:
        for name, method in vars(contract).items():
            if inspect.isfunction(method) and not name.startswith("_"):
                _, _, section = (inspect.getdoc(method) or "").partition("Raises:")
                for error in re.findall(r"^ {4}(\w+):", section, re.MULTILINE):
                    yield f"{contract.__name__}.{name}", error


class Scene:
    """A storage of every kind a provocation needs, on one place."""

    def __init__(self, place):
        self.place = place
        self.store = place.log_store()
        self.storage = durably.Storage(self.store)
        self.conflicting = durably.Storage(Conflicting(self.store))
        self.small = durably.Storage(Small(self.store, record_bytes=4_000, head_bytes=1_000))
        self.saver = self.storage.checkpoint_saver()

    async def through(self, store, act):
        """Make a call through a storage over another log store."""
        storage = Storage(store)
        try:
            await act(storage)
        finally:
            await storage.aclose()

    async def plant(self, kind, data, *, head=None, key="planted"):
        record = NewRecord(key=key, data=data, entry_count=3)
        await self.store.append(LogId(kind=kind, id="x"), Batch(records=(record,), head=head))

    async def run(self):
        return await self.storage.checkpointer.append("x", SAID, HEAD)

    async def overtaken(self):
        claim = await self.storage.checkpointer.claim("x")
        await self.run()
        return claim


PROVOCATIONS = {}


def provokes(method, error):
    def register(function):
        assert (method, error) not in PROVOCATIONS
        PROVOCATIONS[method, error] = function
        return function

    return register


def simply(method, error, act, *, plant=None):
    """Register a provocation that plants some bytes, if any, and makes one call."""

    @provokes(method, error)
    async def _(scene):
        if plant is not None:
            kind, data, *head = plant
            await scene.plant(kind, data, head=head[0] if head else None)
        await act(scene)


SESSION_CUT = ("session", BROKEN)
RUN_BROKEN, RUN_UNKNOWN = ("run", BROKEN), ("run", UNKNOWN)
THREAD_BROKEN = ("thread", b'{"messages":17}')
simply(
    "Session.append",
    "NotSerializable",
    lambda s: s.storage.sessions.append("x", UNSTORABLE),
)
simply("Session.append", "RecordTooLarge", lambda s: s.small.sessions.append("x", LONG))
for _name in ("segments", "load"):
    simply(
        f"Session.{_name}",
        "UnknownEntryType",
        lambda s, name=_name: getattr(s.storage.sessions, name)("x"),
        plant=("session", UNKNOWN),
    )
    simply(
        f"Session.{_name}",
        "CorruptRecord",
        lambda s, name=_name: getattr(s.storage.sessions, name)("x"),
        plant=("session", BROKEN),
    )
simply(
    "Session.rewind",
    "InvalidLimit",
    lambda s: s.storage.sessions.rewind("x", keep_entries=-1),
)
simply(
    "Session.rewind",
    "RevisionConflict",
    lambda s: s.storage.sessions.rewind("x", keep_entries=0, expected_revision=7),
)
simply(
    "Session.rewind",
    "CorruptRecord",
    lambda s: s.storage.sessions.rewind("x", keep_entries=1),
    plant=("session", BROKEN),
)
simply(
    "Session.trim_tool_results",
    "InvalidLimit",
    lambda s: s.storage.sessions.trim_tool_results("x", keep_chars=-1),
)
simply(
    "Session.trim_tool_results",
    "CorruptRecord",
    lambda s: s.storage.sessions.trim_tool_results("x", keep_runs=0),
    plant=("session", BROKEN),
)


def asked(**options):
    """Return a call that asks for a page of session x."""
    return lambda s: s.storage.sessions.history("x", **options)


simply("Session.history", "InvalidLimit", asked(limit=257))
simply("Session.history", "InvalidFilter", asked(types="tools"))
simply("Session.history", "CursorMalformed", asked(after="x"))
simply("Session.history", "UnknownEntryType", asked(), plant=("session", UNKNOWN))
simply("Session.history", "CorruptRecord", asked(), plant=SESSION_CUT)
simply(
    "Session.history",
    "HistoryTooLarge",
    asked(types="messages"),
    plant=("session", b"x" * (16 * 1024 * 1024 + 1)),
)
CURSORS = {
    "CursorForeign": ("y", {}),
    "CursorIncompatible": ("x", {"types": "messages"}),
    "CursorExpired": ("x", {}),
}
for _name, (_session, _options) in CURSORS.items():

    @provokes("Session.history", _name)
    async def history_elsewhere(scene, name=_name, session=_session, options=_options):
        sessions = scene.storage.sessions
        await sessions.append("x", SAID * 2)
        page = await sessions.history("x", limit=1)
        if name == "CursorExpired":
            await sessions.rewind("x", keep_entries=1)
        await sessions.history(session, after=page.next_cursor, **options)


def ended(**options):
    """Return a call that asks for the end of session x."""
    return lambda s: s.storage.sessions.last("x", **options)


simply("Session.last", "InvalidLimit", ended(runs=0))
simply("Session.last", "InvalidFilter", ended(runs=1, entries=1))
simply("Session.last", "UnknownEntryType", ended(runs=1), plant=("session", UNKNOWN))
simply("Session.last", "CorruptRecord", ended(entries=1), plant=SESSION_CUT)


@provokes("Session.clear", "StorageBusy")
async def clear_never_unchallenged(scene):
    await scene.storage.catalog.create("x")
    await scene.conflicting.sessions.clear("x")


@provokes("Session.rewind", "StorageBusy")
async def rewind_never_unchallenged(scene):
    await scene.storage.sessions.append("x", SAID)
    await scene.conflicting.sessions.rewind("x", keep_entries=0)


@provokes("Session.trim_tool_results", "StorageBusy")
async def trim_never_unchallenged(scene):
    await scene.storage.sessions.append("x", LONG)
    await scene.conflicting.sessions.trim_tool_results("x", keep_runs=0)


simply(
    "Checkpointer.append",
    "RevisionConflict",
    lambda s: s.storage.checkpointer.append("x", SAID, HEAD, expected_revision=7),
)
simply(
    "Checkpointer.append",
    "NotSerializable",
    lambda s: s.storage.checkpointer.append("x", UNSTORABLE, HEAD),
)
simply(
    "Checkpointer.append",
    "RecordTooLarge",
    lambda s: s.small.checkpointer.append("x", SAID, RunHead(error="x" * 5_000)),
)


@provokes("Checkpointer.load", "UnknownEntryType")
async def load_unknown(scene):
    await scene.run()
    await scene.plant(*RUN_UNKNOWN)
    await scene.storage.checkpointer.load("x")


@provokes("Checkpointer.load", "CorruptRecord")
async def load_broken(scene):
    await scene.run()
    await scene.plant(*RUN_BROKEN)
    await scene.storage.checkpointer.load("x")


simply(
    "Checkpointer.append",
    "InvalidLimit",
    lambda s: s.storage.checkpointer.append("x", SAID, HEAD, expected_revision=-1),
)
simply(
    "Checkpointer.delete",
    "InvalidLimit",
    lambda s: s.storage.checkpointer.delete("x", expected_revision=True),
)


@provokes("Checkpointer.delete", "RevisionConflict")
async def delete_stale(scene):
    revision = await scene.run()
    await scene.storage.checkpointer.delete("x", expected_revision=revision - 1)


simply(
    "Checkpointer.runs",
    "InvalidLimit",
    lambda s: s.storage.checkpointer.runs(idle_for=-1),
)
simply(
    "Checkpointer.runs",
    "InvalidStatus",
    lambda s: s.storage.checkpointer.runs(status="asleep"),
)
simply(
    "Checkpointer.runs",
    "CorruptRecord",
    lambda s: s.storage.checkpointer.runs(),
    plant=("run", b"{}"),
)


@provokes("Checkpointer.hold", "ValueError")
async def hold_another(scene):
    await scene.run()
    run = await scene.storage.checkpointer.load("x")
    scene.storage.checkpointer.hold("another", run)


@provokes("Checkpointer.claim", "RevisionConflict")
async def claim_overtaken(scene):
    await scene.run()
    await scene.conflicting.checkpointer.claim("x")


@provokes("Checkpointer.claim", "UnknownEntryType")
async def claim_unknown(scene):
    await scene.run()
    await scene.plant(*RUN_UNKNOWN)
    await scene.storage.checkpointer.claim("x")


@provokes("Checkpointer.claim", "CorruptRecord")
async def claim_broken(scene):
    await scene.run()
    await scene.plant(*RUN_BROKEN)
    await scene.storage.checkpointer.claim("x")


@provokes("Claim.append", "RevisionConflict")
async def claim_append_overtaken(scene):
    await (await scene.overtaken()).append(SAID, HEAD)


@provokes("Claim.append", "NotSerializable")
async def claim_append_unstorable(scene):
    await (await scene.storage.checkpointer.claim("x")).append(UNSTORABLE, HEAD)


@provokes("Claim.append", "InvalidStatus")
async def claim_append_status(scene):
    await (await scene.storage.checkpointer.claim("x")).append([], RunHead(status="lost"))


@provokes("Claim.append", "RecordTooLarge")
async def claim_append_large(scene):
    await (await scene.small.checkpointer.claim("x")).append(LONG, HEAD)


@provokes("Claim.delete", "RevisionConflict")
async def claim_delete_overtaken(scene):
    await (await scene.overtaken()).delete()


simply(
    "CheckpointSaver.append",
    "NotSerializable",
    lambda s: s.saver.append("x", StateSnapshot(messages=UNSTORABLE)),
)
simply(
    "Checkpointer.append",
    "InvalidStatus",
    lambda s: s.storage.checkpointer.append("x", SAID, RunHead(status="lost")),
)
simply(
    "CheckpointSaver.append",
    "InvalidStatus",
    lambda s: s.saver.append("x", StateSnapshot(status="lost")),
)
simply(
    "CheckpointSaver.append",
    "RecordTooLarge",
    lambda s: s.small.checkpoint_saver().append("x", StateSnapshot(messages=LONG)),
)
simply(
    "CheckpointSaver.append",
    "CorruptRecord",
    lambda s: s.saver.append("x", SNAPSHOT),
    plant=THREAD_BROKEN,
)
simply(
    "CheckpointSaver.get",
    "CheckpointNotFound",
    lambda s: s.saver.get("x", 1),
)
simply("CheckpointSaver.get", "InvalidLimit", lambda s: s.saver.get("x", 0))
simply("CheckpointSaver.list", "InvalidLimit", lambda s: s.saver.list("x", limit=1001))
READS = {
    "latest": lambda s: s.saver.latest("x"),
    "get": lambda s: s.saver.get("x", 1),
    "list": lambda s: s.saver.list("x"),
}
for _name, _act in READS.items():
    simply(f"CheckpointSaver.{_name}", "CorruptRecord", _act, plant=THREAD_BROKEN)

    @provokes(f"CheckpointSaver.{_name}", "UnknownEntryType")
    async def unknown_message(scene, act=_act):
        data = b'{"messages":[{"type":"hologram"}],"snapshot":{}}'
        await scene.plant("thread", data, key="base:planted")
        await act(scene)


for _name, _act in {
    "create": lambda s, **metadata: s.catalog.create("x", **metadata),
    "touch": lambda s, **metadata: s.catalog.touch("x", **metadata),
}.items():

    @provokes(f"SessionCatalog.{_name}", "NotSerializable")
    async def catalog_unstorable(scene, act=_act):
        await act(scene.storage, metadata={"x": {1, 2}})

    @provokes(f"SessionCatalog.{_name}", "RecordTooLarge")
    async def catalog_large(scene, act=_act, name=_name):
        if name == "touch":
            await scene.storage.catalog.create("x")
        await act(scene.small, metadata={"x": "x" * 5_000})

    @provokes(f"SessionCatalog.{_name}", "StorageBusy")
    async def catalog_never_unchallenged(scene, act=_act, name=_name):
        if name == "touch":
            await scene.storage.catalog.create("x")
        await act(scene.conflicting)


@provokes("SessionCatalog.create", "SessionExists")
async def created_twice(scene):
    await scene.storage.catalog.create("x")
    await scene.storage.catalog.create("x")


for _name in ("get", "touch"):
    simply(
        f"SessionCatalog.{_name}",
        "SessionNotFound",
        lambda s, name=_name: getattr(s.storage.catalog, name)("x"),
    )
for _name in ("get", "touch", "list"):

    @provokes(f"SessionCatalog.{_name}", "CorruptRecord")
    async def catalog_broken(scene, name=_name):
        await scene.plant("session", b"{}", head=b'{"metadata":')
        await getattr(scene.storage.catalog, name)(*(() if name == "list" else ("x",)))


simply("SessionCatalog.list", "InvalidFilter", lambda s: s.storage.catalog.list(where=5))
simply("SessionCatalog.list", "InvalidLimit", lambda s: s.storage.catalog.list(limit=1001))


@provokes("ResultArchive.store", "RecordTooLarge")
async def archive_large(scene):
    await scene.small.archive.store("x", [("c", b"x" * 5_000)])


simply("ResultArchive.recall", "InvalidFilter", lambda s: s.storage.archive.recall("x", None))


@provokes("ResultArchive.recall", "CorruptRecord")
async def archive_broken(scene):
    await scene.storage.archive.store("x", [("c", BROKEN)])
    await scene.storage.archive.recall("x", "c")


STATE_BROKEN = b'{"messages":17}'
STATE_UNKNOWN = b'{"messages":[{"type":"hologram"}],"snapshot":{}}'
LATER = b'{"messages":[],"snapshot":{"version":3}}'
EARLIER = b'{"messages":[],"snapshot":{"version":1}}'
MIGRATORS = Migrators(version=2)


def updated(scene):
    """Return a store of states with migrators that lack a step."""
    return scene.storage.state_store(migrators=MIGRATORS)


for _class, _stores in {
    "StateStore": (lambda s: s.storage.states, lambda s: s.small.states, updated),
    "TreeStateStore": (
        lambda s: s.storage.tree_states(),
        lambda s: s.small.tree_states(),
        lambda s: s.storage.tree_states(migrators=MIGRATORS),
    ),
}.items():
    _plain, _small, _updated = _stores
    simply(
        f"{_class}.save",
        "NotSerializable",
        lambda s, of=_plain: of(s).save("x", StateSnapshot(messages=UNSTORABLE)),
    )
    simply(
        f"{_class}.save",
        "InvalidStatus",
        lambda s, of=_plain: of(s).save("x", StateSnapshot(status="lost")),
    )
    simply(
        f"{_class}.save",
        "InvalidLimit",
        lambda s, of=_updated: of(s).save("x", StateSnapshot(version=3)),
    )
    simply(
        f"{_class}.save",
        "RecordTooLarge",
        lambda s, of=_small: of(s).save("x", StateSnapshot(messages=LONG)),
    )
simply("StateStore.load", "StateNotFound", lambda s: s.storage.states.load("x"))
for _error, _data in {
    "SchemaTooNew": LATER,
    "MigrationError": EARLIER,
    "UnknownEntryType": STATE_UNKNOWN.replace(b"{}", b'{"version":2}'),
    "CorruptRecord": STATE_BROKEN,
}.items():
    simply("StateStore.load", _error, lambda s: updated(s).load("x"), plant=("state", _data))
simply("StateStore.list", "InvalidLimit", lambda s: s.storage.states.list(limit=0))
simply(
    "StateStore.list",
    "CorruptRecord",
    lambda s: s.through(Stateless(s.store), lambda storage: storage.states.list()),
    plant=("state", LATER),
)
NODE_UNKNOWN = b'{"kind":"hologram"}'
NODE_BROKEN = b'{"kind":17}'
WHOLE = b'{"leaf":"planted"}'
simply(
    "TreeStateStore.save",
    "StorageBusy",
    lambda s: s.conflicting.tree_states().save("x", SNAPSHOT),
)
for _error, _data in {"UnknownEntryType": NODE_UNKNOWN, "CorruptRecord": NODE_BROKEN}.items():

    @provokes("TreeStateStore.save", _error)
    async def tree_state_unreadable(scene, data=_data):
        await scene.plant("tree", data, head=WHOLE)
        await scene.storage.tree_states().save("x", SNAPSHOT)


STATE_NODE = b'{"kind":"custom","name":"durably:state","data":{"version":%d}}'
simply("TreeStateStore.load", "StateNotFound", lambda s: s.storage.tree_states().load("x"))
for _error, _data in {
    "SchemaTooNew": STATE_NODE % 3,
    "MigrationError": STATE_NODE % 1,
    "UnknownEntryType": NODE_UNKNOWN,
    "CorruptRecord": NODE_BROKEN,
}.items():
    simply(
        "TreeStateStore.load",
        _error,
        lambda s: s.storage.tree_states(migrators=MIGRATORS).load("x"),
        plant=("tree", _data, WHOLE),
    )
simply("TreeStateStore.list", "InvalidLimit", lambda s: s.storage.tree_states().list(limit=0))
simply(
    "TreeStateStore.list",
    "CorruptRecord",
    lambda s: s.storage.tree_states().list(),
    plant=("tree", NODE_BROKEN),
)
simply("TreeStateStore.recent", "InvalidLimit", lambda s: s.storage.tree_states().recent(limit=0))
simply(
    "TreeStateStore.recent",
    "CorruptRecord",
    lambda s: s.storage.tree_states().recent(),
    plant=("tree", NODE_BROKEN),
)
simply("Migrators.migrate", "InvalidLimit", lambda _: migrated({"version": -1}))
simply("Migrators.migrate", "SchemaTooNew", lambda _: migrated({"version": 3}))
simply("Migrators.migrate", "MigrationError", lambda _: migrated({"version": 1}))


async def migrated(snapshot):
    return MIGRATORS.migrate(snapshot)


def tree(scene):
    return scene.storage.tree("x")


async def planted(scene):
    """Return a tree with one node."""
    await tree(scene).append(SAID[0], node_id="planted")
    return tree(scene)


WRITES = {
    "append": lambda tree, **options: tree.append(SAID[0], **options),
    "compact": lambda tree, **options: tree.compact(SAID, **options),
    "append_custom": lambda tree, **options: tree.append_custom("note", **options),
}
for _name, _act in WRITES.items():
    simply(
        f"SessionTree.{_name}",
        "NodeNotFound",
        lambda s, act=_act: act(tree(s), parent_id="absent"),
    )
    simply(
        f"SessionTree.{_name}",
        "InvalidNode",
        lambda s, act=_act: act(tree(s), node_id="a", parent_id="a"),
    )
    simply(
        f"SessionTree.{_name}",
        "InvalidLimit",
        lambda s, act=_act: act(tree(s), expected_revision=-1),
    )
    simply(
        f"SessionTree.{_name}",
        "RevisionConflict",
        lambda s, act=_act: act(tree(s), expected_revision=7),
    )
    simply(f"SessionTree.{_name}", "StorageBusy", lambda s, act=_act: act(s.conflicting.tree("x")))
    simply(
        f"SessionTree.{_name}",
        "CorruptRecord",
        lambda s, act=_act: act(tree(s)),
        plant=("tree", b"{}"),
    )
for _name, _act in {
    "append": lambda tree, what: tree.append(what[0]),
    "compact": lambda tree, what: tree.compact(what),
    "append_custom": lambda tree, what: tree.append_custom("note", what[0].raw or what[0].output),
}.items():
    simply(
        f"SessionTree.{_name}",
        "NotSerializable",
        lambda s, act=_act: act(tree(s), UNSTORABLE),
    )
    simply(
        f"SessionTree.{_name}",
        "RecordTooLarge",
        lambda s, act=_act: act(s.small.tree("x"), LONG),
    )

CHANGES = {
    "branch": lambda tree: tree.branch("planted"),
    "label": lambda tree: tree.label("planted", "here"),
    "rename": lambda tree: tree.rename("name"),
}
for _name, _act in CHANGES.items():
    simply(f"SessionTree.{_name}", "TreeNotFound", lambda s, act=_act: act(tree(s)))
    simply(
        f"SessionTree.{_name}",
        "CorruptRecord",
        lambda s, act=_act: act(tree(s)),
        plant=("tree", b"{}"),
    )

    @provokes(f"SessionTree.{_name}", "StorageBusy")
    async def head_never_unchallenged(scene, act=_act):
        await planted(scene)
        await act(scene.conflicting.tree("x"))


for _name, _act in {
    "branch": lambda tree: tree.branch("absent"),
    "label": lambda tree: tree.label("absent", "here"),
    "path": lambda tree: tree.path("absent"),
    "messages": lambda tree: tree.messages("absent"),
    "nodes": lambda tree: tree.nodes(after="absent"),
    "fork": lambda tree: tree.fork("y", node_id="absent"),
}.items():

    @provokes(f"SessionTree.{_name}", "NodeNotFound")
    async def no_such_node(scene, act=_act):
        await act(await planted(scene))


for _error, _options in {
    "InvalidLimit": {"expected_revision": -1},
    "RevisionConflict": {"expected_revision": 7},
}.items():

    @provokes("SessionTree.branch", _error)
    async def branch_at_another_revision(scene, options=_options):
        await (await planted(scene)).branch(None, **options)


for _name, _act in {
    "label": lambda tree, text: tree.label("planted", text),
    "rename": lambda tree, text: tree.rename(text),
}.items():

    @provokes(f"SessionTree.{_name}", "NotSerializable")
    async def named_by_no_text(scene, act=_act):
        await act(await planted(scene), 5)

    @provokes(f"SessionTree.{_name}", "RecordTooLarge")
    async def named_at_length(scene, act=_act):
        await planted(scene)
        await act(scene.small.tree("x"), "x" * 5_000)


TREE_READS = {
    "path": lambda tree: tree.path(),
    "messages": lambda tree: tree.messages(),
    "nodes": lambda tree: tree.nodes(),
}
for _name, _act in TREE_READS.items():
    simply(
        f"SessionTree.{_name}",
        "UnknownEntryType",
        lambda s, act=_act: act(tree(s)),
        plant=("tree", NODE_UNKNOWN, WHOLE),
    )
    simply(
        f"SessionTree.{_name}",
        "CorruptRecord",
        lambda s, act=_act: act(tree(s)),
        plant=("tree", NODE_BROKEN, WHOLE),
    )
for _name in ("path", "messages", "nodes"):

    @provokes(f"SessionTree.{_name}", "StorageBusy")
    async def made_again_and_again(scene, name=_name):
        for number in range(3):
            await tree(scene).append(SAID[0], node_id=f"{number}")
        await tree(scene).branch("0")
        remade = Remade(scene.store)
        options = {"after": "0"} if name == "nodes" else {}
        await scene.through(remade, lambda storage: getattr(storage.tree("x"), name)(**options))


class Remade(Wrapper):
    """Has made every tree anew each time a node is read by its id."""

    async def read(self, log, span=ALL):
        stored = await super().read(log, span)
        if stored is None or not span.keys:
            return stored
        state = msgspec.structs.replace(stored.state, epoch=stored.state.epoch + 1)
        return msgspec.structs.replace(stored, state=state)


class Gone(Wrapper):
    """Has every tree deleted once more than its state is read."""

    async def read(self, log, span=ALL):
        return await super().read(log, span) if span.until is None else None


@provokes("SessionTree.stats", "StorageBusy")
async def counted_while_it_goes(scene):
    await planted(scene)
    await scene.through(Gone(scene.store), lambda storage: storage.tree("x").stats())


for _name in ("info", "stats", "fork"):
    _arguments = ("y",) if _name == "fork" else ()
    simply(
        f"SessionTree.{_name}",
        "TreeNotFound",
        lambda s, name=_name, arguments=_arguments: getattr(tree(s), name)(*arguments),
    )
    simply(
        f"SessionTree.{_name}",
        "CorruptRecord",
        lambda s, name=_name, arguments=_arguments: getattr(tree(s), name)(*arguments),
        plant=("tree", b"{}"),
    )
simply("SessionTree.nodes", "InvalidLimit", lambda s: tree(s).nodes(limit=1001))


@provokes("SessionTree.fork", "CopyConflict")
async def fork_onto_another_tree(scene):
    await planted(scene)
    await scene.storage.tree("y").append(SAID[0])
    await tree(scene).fork("y")


@provokes("SessionTree.fork", "StorageBusy")
async def fork_never_unchallenged(scene):
    await planted(scene)
    await scene.conflicting.tree("x").fork("y")


@provokes("Storage.tree", "InvalidId")
async def tree_of_no_name(scene):
    scene.storage.tree("")


simply("Storage.trees", "InvalidLimit", lambda s: s.storage.trees(limit=0))
simply("Storage.trees", "CorruptRecord", lambda s: s.storage.trees(), plant=("tree", b"{}"))


simply("Storage.rewind", "InvalidLimit", lambda s: s.storage.rewind("x", keep_entries=-1))
simply(
    "Storage.rewind",
    "RevisionConflict",
    lambda s: s.storage.rewind("x", keep_entries=0, expected_revision=7),
)
simply(
    "Storage.rewind",
    "CorruptRecord",
    lambda s: s.storage.rewind("x", keep_entries=1),
    plant=SESSION_CUT,
)


@provokes("Storage.rewind", "StorageBusy")
async def whole_rewind_never_unchallenged(scene):
    await scene.storage.sessions.append("x", SAID)
    await scene.conflicting.rewind("x", keep_entries=0)


simply("Storage.finish", "RunNotFound", lambda s: s.storage.finish("x", "x"))


@provokes("Storage.finish", "RevisionConflict")
async def finish_overtaken(scene):
    await scene.run()
    await scene.conflicting.finish("x", "x")


for _name, _plant in {"UnknownEntryType": RUN_UNKNOWN, "CorruptRecord": RUN_BROKEN}.items():

    @provokes("Storage.finish", _name)
    async def finish_unreadable(scene, plant=_plant):
        await scene.run()
        await scene.plant(*plant)
        await scene.storage.finish("x", "x")


@provokes("Storage.finish", "RecordTooLarge")
async def finish_large(scene):
    for _ in range(2):
        await scene.small.checkpointer.append("x", SAID * 40, HEAD)
    await scene.small.finish("x", "x")


simply("Storage.prune", "InvalidFilter", lambda s: s.storage.prune("sessions", keep_last=0))
simply("Storage.prune", "InvalidLimit", lambda s: s.storage.prune("session", keep_last=-1))
simply(
    "Storage.prune",
    "CorruptRecord",
    lambda s: s.through(Stateless(s.store), lambda storage: storage.prune("run", keep_last=0)),
    plant=("run", b"{}"),
)


simply(
    "Storage.copy_to",
    "InvalidFilter",
    lambda s: s.storage.copy_to(s.storage, kinds=["meta"]),
)
simply("Storage.copy_to", "InvalidLimit", lambda s: s.storage.copy_to(s.storage, parallel=0))
simply("Storage.fork", "InvalidFilter", lambda s: s.storage.fork("x", "y", kind="meta"))
simply("Storage.export", "InvalidFilter", lambda s: lines(s.storage, kinds=["meta"]))
simply("Storage.import_lines", "InvalidExport", lambda s: s.storage.import_lines([b"x"]))


async def lines(storage, **options):
    return [line async for line in storage.export(**options)]


async def elsewhere(scene, entries):
    """Return another namespace with a session x."""
    other = scene.storage.scoped("elsewhere")
    await other.sessions.append("x", entries, run_id="r")
    return other


@provokes("Storage.copy_to", "CopyConflict")
async def copy_onto_another(scene):
    await scene.storage.sessions.append("x", SAID)
    await scene.storage.copy_to(await elsewhere(scene, SAID))


@provokes("Storage.copy_to", "RecordTooLarge")
async def copy_large(scene):
    await (await elsewhere(scene, LONG)).copy_to(scene.small)


@provokes("Storage.fork", "CopyConflict")
async def fork_onto_another(scene):
    for name in ("x", "y"):
        await scene.storage.sessions.append(name, SAID)
    await scene.storage.fork("x", "y")


@provokes("Storage.export", "CopyConflict")
async def export_of_what_is_rewound(scene):
    for _ in range(70):
        await scene.storage.sessions.append("x", SAID)
    lines_read = 0
    async for _ in scene.storage.export():
        await scene.storage.sessions.rewind("x", keep_entries=70 - lines_read)
        lines_read += 1


@provokes("Storage.import_lines", "CopyConflict")
async def import_onto_another(scene):
    await scene.storage.sessions.append("x", SAID)
    await scene.storage.import_lines(await lines(await elsewhere(scene, SAID)))


@provokes("Storage.import_lines", "RecordTooLarge")
async def import_large(scene):
    await scene.small.import_lines(await lines(await elsewhere(scene, LONG)))


@provokes("Storage.checkpoint_saver", "InvalidLimit")
async def saver_of_nothing(scene):
    scene.storage.checkpoint_saver(max_checkpoints_per_thread=0)


@provokes("Storage.scoped", "InvalidId")
async def storage_scoped_illegally(scene):
    scene.storage.scoped("a\x00b")


@provokes("Storage.scoped", "Unsupported")
async def storage_scoped_without_namespaces(scene):
    scene.conflicting.scoped("tenant")


for _error in (Unavailable("gone"), StorageBusy("locked"), StorageClosed()):

    @provokes("Storage.ping", type(_error).__name__)
    async def ping_in_vain(scene, error=_error):
        store = FailsAt(scene.store, 1, error=error)
        await scene.through(store, lambda storage: storage.ping())


LOG = LogId(kind="run", id="x")
simply(
    "LogStore.append",
    "RevisionConflict",
    lambda s: s.store.append(LOG, Batch(head=b"{}", expected_revision=7)),
)
simply(
    "LogStore.rewrite",
    "RevisionConflict",
    lambda s: s.store.rewrite(LOG, Rewrite(expected_revision=7)),
)


@provokes("LogStore.scoped", "InvalidId")
async def scoped_illegally(scene):
    scene.store.scoped("a\x00b")


@provokes("LogStore.scoped", "Unsupported")
async def scoped_without_namespaces(scene):
    Conflicting(scene.store).scoped("tenant")


@provokes("LogStore.delete", "RevisionConflict")
async def delete_log_stale(scene):
    revision = await scene.run()
    await scene.store.delete(LOG, expected_revision=revision - 1)


def test_the_table_is_the_documentation():
    """Each documented error has a provocation, and each provocation is documented."""
    assert set(documented()) == set(PROVOCATIONS)


@pytest.mark.parametrize("case", sorted(PROVOCATIONS), ids=" ".join)
async def test_documented_errors_are_raised(place, case, monkeypatch):
    """The call raises exactly the class its docstring names."""
    monkeypatch.setattr("durably._retry.LONGEST_PAUSE", 0)
    scene = Scene(place)
    expected = getattr(durably, case[1], None) or getattr(builtins, case[1])
    try:
        with pytest.raises(expected) as caught:
            await PROVOCATIONS[case](scene)
    finally:
        for storage in (scene.storage, scene.conflicting, scene.small):
            await storage.aclose()
    assert type(caught.value) is expected


async def test_conflicts_carry_their_data(storage):
    """A RevisionConflict says which log, what was expected and what was found."""
    revision = await storage.checkpointer.append("x", SAID, HEAD)
    with pytest.raises(RevisionConflict, match="run 'x'") as caught:
        await storage.checkpointer.append("x", SAID, HEAD, expected_revision=0)
    assert (caught.value.expected, caught.value.actual) == (0, revision)
