"""Every error a contract's docstring lists is raised as it says, and no other is listed."""

import inspect
import re

import pytest

import durably
from disturbed import Conflicting, Small
from durably import (
    Checkpointer,
    CheckpointSaver,
    Claim,
    InputEntry,
    RevisionConflict,
    RunHead,
    Session,
    StateSnapshot,
    ToolResultEntry,
)
from durably.logstore import Batch, LogId, LogStore, NewRecord, Rewrite

SAID = [InputEntry(role="user", content="hello")]
LONG = [ToolResultEntry(call_id="c", output="x" * 5_000)]
UNSTORABLE = [ToolResultEntry(call_id="c", output="", raw={1, 2})]
HEAD = RunHead()
SNAPSHOT = StateSnapshot(messages=SAID)
UNKNOWN = b'{"entries":[{"type":"hologram"}]}'
BROKEN = b'{"entries":[{"type":"input","role":'
CONTRACTS = (Session, Checkpointer, Claim, CheckpointSaver, LogStore)


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
            await scene.plant(*plant)
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
async def test_documented_errors_are_raised(place, case):
    """The call raises exactly the class its docstring names."""
    scene = Scene(place)
    expected = getattr(durably, case[1])
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
