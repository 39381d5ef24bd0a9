"""Migrators: one version at a time, never a jump, and what is stored stays as it is."""

import copy

import pytest

from builders import plant, records, said, snapshot
from durably import (
    CorruptRecord,
    InvalidLimit,
    MigrationError,
    Migrators,
    SchemaTooNew,
    StateSnapshot,
)
from versions import LATER, MIGRATORS, NOW, STORED, speak_plainly

KINDS = {
    "thread": (
        lambda storage, migrators: storage.checkpoint_saver(migrators=migrators),
        "base:planted",
    ),
    "state": (lambda storage, migrators: storage.state_store(migrators=migrators), "planted"),
}
READS = {
    "latest": ("thread", lambda store: store.latest("x")),
    "get": ("thread", lambda store: store.get("x", 1)),
    "list": ("thread", lambda store: store.list("x")),
    "load": ("state", lambda store: store.load("x")),
}


async def read(place, name, data, migrators):
    """Plant a stored snapshot and read it with one operation."""
    kind, act = READS[name]
    make, key = KINDS[kind]
    if not await records(place, kind, "x"):
        await plant(place, kind, "x", data, key=key)
    async with place.open() as storage:
        found = await act(make(storage, migrators))
    found = found[0] if isinstance(found, list) else found
    return getattr(found, "snapshot", found)


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("stored", STORED)
async def test_every_version_reads_as_the_newest(place, name, stored):
    """Each way to read brings each stored version up to date, and its bytes stay."""
    assert await read(place, name, STORED[stored], MIGRATORS) == NOW
    (record,) = await records(place, READS[name][0], "x")
    assert record.data == STORED[stored]


@pytest.mark.parametrize("name", READS)
async def test_without_migrators_nothing_is_checked(place, name):
    """Whatever its version, a snapshot reads as it is; one without a version has version 1."""
    for data, version in ((STORED["unversioned"], 1), (LATER, 4)):
        assert (await read(place, name, data, None)).version == version
        async with place.open() as storage:
            await storage.states.delete("x")
            await storage.checkpoint_saver().delete("x")


@pytest.mark.parametrize("name", READS)
async def test_a_later_version_is_refused_and_kept(place, name):
    """A snapshot of a later version is SchemaTooNew, names both, and keeps every byte."""
    with pytest.raises(SchemaTooNew, match=f"planted.*{READS[name][0]} 'x'") as caught:
        await read(place, name, LATER, MIGRATORS)
    assert (caught.value.found, caught.value.supported) == (4, 3)
    assert "application" in caught.value.hint
    (record,) = await records(place, READS[name][0], "x")
    assert record.data == LATER


async def test_a_step_sees_fields_nobody_knows(place):
    """Migrators of a later version get what this version of durably does not know, and use it."""
    seen = []

    def into_extra(old):
        seen.append(copy.deepcopy(old))
        return {**old, "extra": {"plan": old["plan"], "mood": old["messages"][0]["mood"]}}

    migrators = Migrators(version=5, steps={4: into_extra})
    found = await read(place, "load", LATER, migrators)
    assert found.extra == {"plan": ["rest"], "mood": "glad"}
    assert seen[0]["messages"][0] == {
        "type": "input",
        "role": "user",
        "content": "hi",
        "mood": "glad",
    }


async def test_a_message_of_an_old_type_can_be_migrated(place):
    """A step may turn a message this version does not know into one that it does."""
    data = b'{"messages":[{"type":"dream","of":"sheep"}],"snapshot":{"version":1}}'

    def wake(old):
        messages = [{"type": "input", "role": "user", "content": m["of"]} for m in old["messages"]]
        return {**old, "messages": messages}

    found = await read(place, "load", data, Migrators(version=2, steps={1: wake}))
    assert found.messages == said("sheep")


async def test_a_custom_first_step_sees_unversioned_snapshots_alone(place):
    """Step 0 is for what was stored without a version; what is saved now always has one."""

    def mark(old):
        assert "version" not in old
        return {**old, "extra": {"was": "unversioned"}}

    migrators = Migrators(version=1, steps={0: mark})
    assert (await read(place, "load", STORED["unversioned"], migrators)).extra == {
        "was": "unversioned"
    }
    async with place.open() as storage:
        store = storage.state_store(migrators=migrators)
        saver = storage.checkpoint_saver(migrators=migrators)
        await store.save("y", snapshot("a"))
        assert (await store.load("y")).extra == {}
        for turn in range(3):
            await saver.append("y", snapshot(*"abc"[: turn + 1], turn=turn))
        assert [one.snapshot.extra for one in await saver.list("y")] == [{}, {}, {}]


STEPS = {
    "there is no step from version 1": {},
    "step 1 raised KeyError": {1: lambda old: old["secret"]},
    "step 1 returned NoneType, not a JSON object": {1: lambda _: None},
    "step 1 returned list, not a JSON object": {1: lambda old: [old]},
    "step 1 set the version 3, not 2": {1: lambda old: {**old, "version": 3}},
    "step 1 set the version 0, not 2": {1: lambda old: {**old, "version": 0}},
    "step 1 set the version str, not 2": {1: lambda old: {**old, "version": "2"}},
    "step 1 set the version bool, not 2": {1: lambda old: {**old, "version": True}},
    "what the steps returned is no snapshot: set": {1: lambda old: {**old, "extra": {1, 2}}},
    "what the steps returned is no snapshot: Expected": {1: lambda old: {**old, "turn": "two"}},
    "what the steps returned is no snapshot: no JSON array": {
        1: lambda old: {**old, "messages": {}}
    },
}


@pytest.mark.parametrize("reason", STEPS)
async def test_a_step_that_goes_wrong_is_said(place, reason):
    """A missing, failing or jumping step is MigrationError with log, record and versions."""
    migrators = Migrators(version=2, steps=STEPS[reason])
    with pytest.raises(MigrationError, match=reason) as caught:
        await read(place, "load", STORED["version 1"], migrators)
    assert (caught.value.found, caught.value.wanted) == (1, 2)
    assert "record 'planted' of state 'x'" in str(caught.value)
    assert caught.value.hint
    assert "ada" not in str(caught.value)
    (record,) = await records(place, "state", "x")
    assert record.data == STORED["version 1"]


async def test_the_cause_of_a_failing_step_is_kept(place):
    """What a step raised is the cause of the MigrationError."""
    migrators = Migrators(version=2, steps={1: lambda old: old["secret"]})
    with pytest.raises(MigrationError) as caught:
        await read(place, "load", STORED["version 1"], migrators)
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize("version", [b'"1"', b"1.0", b"true", b"null", b"-1", b"[]"])
async def test_a_version_that_is_no_number_is_corrupt(place, version):
    """A stored version that is no integer of at least 0 is CorruptRecord."""
    data = b'{"messages":[],"snapshot":{"version":%s}}' % version
    with pytest.raises(CorruptRecord, match="version"):
        await read(place, "load", data, MIGRATORS)


@pytest.mark.parametrize("version", [0, 1, 2, 4])
async def test_only_the_version_of_the_migrators_is_saved(storage, version):
    """A snapshot of another version is refused: it would be migrated wrongly, or unreadable."""
    stores = (
        storage.state_store(migrators=MIGRATORS).save,
        storage.checkpoint_saver(migrators=MIGRATORS).append,
        storage.tree_states(migrators=MIGRATORS).save,
    )
    for save in stores:
        with pytest.raises(InvalidLimit, match="version"):
            await save("x", StateSnapshot(version=version))
        await save("x", StateSnapshot(version=3))


async def test_a_migrated_snapshot_is_saved_anew(storage):
    """What was brought up to date and saved again is stored in the new version."""
    await storage.states.save("x", snapshot("hi", extra={"who": "ada"}))
    store = storage.state_store(migrators=MIGRATORS)
    loaded = await store.load("x")
    assert (loaded.version, loaded.extra) == (3, {"user": {"name": "ada"}})
    await store.save("x", loaded)
    assert await storage.states.load("x") == loaded


def test_steps_can_be_tried_alone():
    """migrate() takes and returns plain JSON, and leaves alone what it is given."""
    old = {"messages": [], "extra": {"who": "ada"}}
    kept = copy.deepcopy(old)
    assert MIGRATORS.migrate(old) == {
        "messages": [],
        "version": 3,
        "extra": {"user": {"name": "ada"}},
    }
    assert old == kept


def test_migrators_are_checked_when_they_are_made():
    """A version below 1, a step that is never reached, and one that is no function are refused."""
    for version in (0, -1, True, "1", None):
        with pytest.raises(InvalidLimit):
            Migrators(version=version)
    for number in (2, -1, "1", True):
        with pytest.raises(InvalidLimit):
            Migrators(version=2, steps={number: speak_plainly})
    with pytest.raises(TypeError, match="step 1"):
        Migrators(version=2, steps={1: "speak"})


def test_migrators_share_nothing_with_what_made_them():
    """Steps added to the mapping afterwards do not become steps."""
    steps = {}
    migrators = Migrators(version=1, steps=steps)
    steps[0] = speak_plainly
    assert migrators.steps == {}
    with pytest.raises(AttributeError):
        migrators.version = 2
