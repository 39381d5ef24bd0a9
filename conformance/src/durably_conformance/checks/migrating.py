"""Migrators: one version at a time and never a jump; what is stored stays as it is."""

from collections.abc import Callable, Mapping
from typing import Any

from durably import (
    InvalidLimit,
    JsonObject,
    MigrationError,
    Migrators,
    SchemaTooNew,
    StateSnapshot,
    StateStore,
)
from durably.testing import Handle
from durably_conformance.building import said, snapshot
from durably_conformance.context import T
from durably_conformance.offering import migrating_saver, upkeep_of
from durably_conformance.planting import swap
from durably_conformance.registry import check

_Step = Callable[[JsonObject], JsonObject]
_Open = Callable[[Migrators], StateStore]

ODD = [StateSnapshot(version=version, messages=said("b")) for version in (0, 1, 2, 4)]
"""Of other versions than the third."""


def _noting(number: int) -> _Step:
    """Return a step that notes in ``extra`` that it was taken, and says so in each message."""

    def step(old: JsonObject) -> JsonObject:
        fields: dict[str, Any] = dict(old)
        extra = dict(fields.get("extra", {}))
        messages = [
            {**message, "content": f"{message['content']}{number}"}
            for message in fields.get("messages", [])
        ]
        extra["steps"] = [*extra.get("steps", []), number]
        return {**fields, "messages": messages, "extra": extra}

    return step


def _up_to(version: int, **steps: _Step) -> Migrators:
    """Return migrators whose steps note that they were taken; ``steps`` are others, as ``_2``."""
    noting: dict[int, _Step] = {number: _noting(number) for number in range(1, version)}
    others = {int(name[1:]): step for name, step in steps.items()}
    return Migrators(version=version, steps={**noting, **others})


def _migrated(version: int, *steps: int, text: str = "a") -> StateSnapshot:
    """Return what a snapshot of one message is after some steps."""
    extra: dict[str, Any] = {"steps": list(steps)} if steps else {}
    return snapshot(text + "".join(map(str, steps)), version=version, extra=extra)


async def _opened(t: T) -> tuple[Handle, StateStore, _Open]:
    """Return a handle, its states, and what opens those of another one with migrators."""
    one, other = await t.connect(), await t.connect()
    states = upkeep_of(one, "states", "state_store").states
    upkeep = upkeep_of(other, "states", "state_store")
    return one, states, lambda migrators: upkeep.state_store(migrators=migrators)


def _plain(found: StateSnapshot) -> StateSnapshot:
    return found.replace(messages=list(found.messages))


@check("MIG-001", contract="states")
async def one_version_at_a_time(t: T) -> None:
    """A snapshot is brought up to date by each step from its version on, in order and once."""
    _, states, opened = await _opened(t)
    for version in range(1, 5):
        await states.save(f"v{version}", snapshot("a", version=version))
    for version in range(1, 5):
        found = await opened(_up_to(4)).load(f"v{version}")
        wanted = _migrated(4, *range(version, 4))
        t.exact(_plain(found), wanted, f"a snapshot of version {version}")


@check("MIG-002", contract="states")
async def a_step_that_goes_wrong_is_said(t: T) -> None:
    """A step that is missing, fails or jumps is MigrationError, with both versions; all stays."""
    _, states, opened = await _opened(t)
    await states.save("k", snapshot("a"))

    def jumps(old: JsonObject) -> JsonObject:
        return {**old, "version": 3}

    def fails(old: JsonObject) -> JsonObject:
        return {**old, "extra": old["nothing"]}

    bad: Mapping[str, Migrators] = {
        "missing": Migrators(version=3, steps={1: _noting(1)}),
        "that fails": _up_to(3, _2=fails),
        "that jumps": _up_to(3, _1=jumps),
    }
    for what, migrators in bad.items():
        error = await t.raises(MigrationError, opened(migrators).load("k"), f"a step {what}")
        t.eq((error.found, error.wanted), (1, 3), f"the versions it names, of a step {what}")
    t.exact(_plain(await states.load("k")), snapshot("a"), "what is stored after that")


@check("MIG-003", contract="states")
async def a_later_version_is_refused(t: T) -> None:
    """A snapshot of a later version than the migrators is SchemaTooNew, with both versions."""
    _, states, opened = await _opened(t)
    later = snapshot("a", version=4)
    await states.save("k", later)
    error = await t.raises(SchemaTooNew, opened(_up_to(3)).load("k"), "a later version")
    t.eq((error.found, error.supported), (4, 3), "the versions it names")
    t.exact(_plain(await states.load("k")), later, "what is stored after that")


@check("MIG-004", contract="states", requires=("log_store",))
async def what_has_no_version_is_of_version_0(t: T) -> None:
    """What was stored without a version has version 0: its step is taken, or nothing is changed."""
    handle, states, opened = await _opened(t)
    for key in ("k", "l"):
        await states.save(key, snapshot("a", version=7, turn=1))
        t.eq((await states.load(key)).version, 7, "the version that is stored")
        await swap(handle, "state", key, (b'"version":7,', b""))
    found = await opened(_up_to(2, _0=_noting(0))).load("k")
    t.exact(_plain(found), _migrated(2, 0, 1).replace(turn=1), "what has a step from 0")
    found = await opened(_up_to(2)).load("l")
    t.exact(_plain(found), _migrated(2, 1).replace(turn=1), "what has none")
    await states.save("m", snapshot("a"))
    found = await opened(_up_to(2, _0=_noting(0))).load("m")
    t.exact(_plain(found), _migrated(2, 1), "what is saved now, which has a version")


@check("MIG-005", contract="states")
async def reading_migrates_nothing_stored(t: T) -> None:
    """What is read with migrators stays stored as it was, until it is saved again."""
    _, states, opened = await _opened(t)
    await states.save("k", snapshot("a"))
    [before] = (await states.list()).items
    found = _plain(await opened(_up_to(2)).load("k"))
    t.exact(found, _migrated(2, 1), "what is read")
    t.exact(_plain(await states.load("k")), snapshot("a"), "what is stored after it was read")
    t.eq((await states.list()).items, (before,), "its revision and times")
    await opened(_up_to(2)).save("k", found)
    t.exact(_plain(await states.load("k")), found, "what is stored after it was saved again")
    t.exact(_plain(await opened(_up_to(2)).load("k")), found, "what is read then")


@check("MIG-006", contract="states", requires=("checkpoint_saver",))
async def each_way_to_read_a_thread_migrates(t: T) -> None:
    """A saver with migrators brings up to date what it reads, and refuses another version."""
    one, other = await t.connect(), await t.connect()
    plain, saver = one.checkpoint_saver(), migrating_saver(other, _up_to(3))
    seqs = [await plain.append("t", snapshot("a", version=version)) for version in (1, 2, 3)]
    wanted = [_migrated(3, 1, 2), _migrated(3, 2), _migrated(3)]
    listed = [_plain(one.snapshot) for one in await saver.list("t")]
    t.exact(listed, wanted[::-1], "what list gives")
    got = [_plain((await saver.get("t", seq)).snapshot) for seq in seqs]
    t.exact(got, wanted, "what get gives")
    await plain.append("t", snapshot("a"))
    latest = await saver.latest("t")
    t.exact(latest and _plain(latest.snapshot), wanted[0], "what latest gives")
    for odd in ODD:
        await t.raises(InvalidLimit, saver.append("t", odd), f"an append of version {odd.version}")
    versions = [one.snapshot.version for one in await plain.list("t")]
    t.eq(versions, [1, 3, 2, 1], "the versions that are stored")


@check("MIG-007", contract="states")
async def a_state_kept_as_a_tree_is_migrated(t: T) -> None:
    """With migrators a state kept as a tree is brought up to date, and no other version saved."""
    one, other = await t.connect(), await t.connect()
    plain = upkeep_of(one, "tree_states").tree_states()
    states = upkeep_of(other, "tree_states").tree_states(migrators=_up_to(3))
    revision = await plain.save("k", snapshot("a"))
    found = _plain(await states.load("k"))
    t.exact(found, _migrated(3, 1, 2), "what is read")
    t.eq([row.revision for row in (await plain.list()).items], [revision], "its revision")
    t.exact(_plain(await plain.load("k")), snapshot("a"), "what is stored")
    for odd in ODD:
        await t.raises(InvalidLimit, states.save("k", odd), f"a save of version {odd.version}")
    await states.save("k", found)
    t.exact(_plain(await plain.load("k")), found, "what is stored after it was saved again")


@check("MIG-008", contract="states")
async def only_their_version_is_saved(t: T) -> None:
    """With migrators a snapshot of another version than theirs is refused, and nothing saved."""
    _, states, opened = await _opened(t)
    store = opened(_up_to(3))
    await store.save("k", snapshot("a", version=3))
    for odd in ODD:
        await t.raises(InvalidLimit, store.save("k", odd), f"a save of version {odd.version}")
    t.exact(_plain(await states.load("k")), snapshot("a", version=3), "what is stored")
