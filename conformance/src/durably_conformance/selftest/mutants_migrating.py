"""Wrong migrations: steps skipped, jumped, made up or stored; versions not asked for."""

from collections.abc import Callable
from typing import Any

from typing_extensions import override

from durably import (
    DurablyError,
    InvalidLimit,
    JsonObject,
    MigrationError,
    Migrators,
    SchemaTooNew,
    StateSnapshot,
    StateStore,
)
from durably_conformance.building import snapshot
from durably_conformance.offering import migrating_saver, upkeep_of
from durably_conformance.planting import swap
from durably_conformance.selftest.delegating_states import StatesMutation
from durably_conformance.selftest.mutating import MigratorsWrap
from durably_conformance.selftest.spoiling import wrong
from durably_conformance.selftest.tracking import Tracked

_Step = Callable[[JsonObject], JsonObject]


def _same(old: JsonObject) -> JsonObject:
    return old


def skipped_by(name: str) -> MigratorsWrap:
    """Return what leaves out the migrators of one part."""
    return lambda migrators, part: None if part == name else migrators


def only_the_last_two(migrators: Migrators, _: str) -> Migrators:
    """Take no step before the last two."""
    first = migrators.version - 2
    steps = {n: _same if 0 < n < first else step for n, step in migrators.steps.items()}
    return Migrators(version=migrators.version, steps=steps)


def jumping(migrators: Migrators, _: str) -> Migrators:
    """Let a step say whatever version it likes."""

    def lenient(number: int, step: _Step) -> _Step:
        def taken(old: JsonObject) -> JsonObject:
            new = step(old)
            version = new.get("version", 0)
            is_later = isinstance(version, int) and version > number + 1
            return {**new, "version": number + 1} if is_later else new

        return taken

    steps = {number: lenient(number, step) for number, step in migrators.steps.items()}
    return Migrators(version=migrators.version, steps=steps)


def over_gaps(migrators: Migrators, _: str) -> Migrators:
    """Pass over steps that are missing."""
    steps: dict[int, _Step] = dict.fromkeys(range(1, migrators.version), _same)
    return Migrators(version=migrators.version, steps={**steps, **migrators.steps})


def from_the_first(migrators: Migrators, _: str) -> Migrators:
    """Take what has no version for the first one."""
    steps = {number: step for number, step in migrators.steps.items() if number}
    return Migrators(version=migrators.version, steps=steps)


class ReadsLaterOnes(StatesMutation):
    """Gives a snapshot of a later version as it was saved."""

    @override
    async def save(self, key: str, snapshot: StateSnapshot) -> int:
        saved = await self.inner.save(key, snapshot)
        self.shared[key] = snapshot
        return saved

    @override
    async def load(self, key: str) -> StateSnapshot:
        try:
            return await self.inner.load(key)
        except SchemaTooNew:
            found: StateSnapshot = self.shared[key]
            return found


class SavesWhatItRead(StatesMutation):
    """Saves what it brought up to date."""

    @override
    async def load(self, key: str) -> StateSnapshot:
        found = await self.inner.load(key)
        if found.extra.get("steps"):
            await self.inner.save(key, found)
        return found


class StampsItsVersion(StatesMutation):
    """Saves every snapshot under its own version."""

    @override
    async def save(self, key: str, snapshot: StateSnapshot) -> int:
        try:
            return await self.inner.save(key, snapshot)
        except InvalidLimit as error:
            return await self.inner.save(key, snapshot.replace(version=error.minimum))


def _doubling(old: JsonObject) -> JsonObject:
    turn: Any = old.get("turn", 0)
    return {**old, "turn": turn * 2 + 1, "extra": {"steps": 1}}


DOUBLING = Migrators(version=3, steps={1: _doubling, 2: _doubling})
"""Each step doubles the turns and adds one: from 0 they become 3."""


async def _opened(
    place: Tracked, version: int = 1, migrators: Migrators = DOUBLING
) -> tuple[StateStore, StateStore]:
    """Return states with one under ``k``, and the same with migrators."""
    upkeep = upkeep_of(await place.connect())
    await upkeep.states.save("k", StateSnapshot(version=version))
    return upkeep.states, upkeep.state_store(migrators=migrators)


async def skips_steps(place: Tracked) -> bool:
    """Read what is three versions old."""
    steps = dict.fromkeys(range(1, 4), _doubling)
    _, store = await _opened(place, 1, Migrators(version=4, steps=steps))
    return (await store.load("k")).turn == 3


async def lets_a_step_jump(place: Tracked) -> bool:
    """Read by a step that jumps."""
    jump = Migrators(version=3, steps={1: lambda old: {**old, "version": 3}, 2: _same})
    return await _is_read((await _opened(place, 1, jump))[1])


async def passes_over_a_gap(place: Tracked) -> bool:
    """Read where a step is missing."""
    return await _is_read((await _opened(place, 1, Migrators(version=3, steps={1: _same})))[1])


async def _is_read(store: StateStore) -> bool:
    try:
        await store.load("k")
    except (MigrationError, SchemaTooNew):
        return False
    return True


async def reads_a_later_one(place: Tracked) -> bool:
    """Read a later version."""
    return await _is_read((await _opened(place, 4))[1])


async def leaves_out_the_step_from_nothing(place: Tracked) -> bool:
    """Read what has no version."""
    handle = await place.connect()
    states = upkeep_of(handle).states
    await states.save("k", snapshot("a", version=7, turn=4))
    await swap(handle, "state", "k", (b'"version":7,', b""))
    migrators = Migrators(version=1, steps={0: lambda old: {**old, "turn": 5}})
    return (await upkeep_of(handle).state_store(migrators=migrators).load("k")).turn == 4


async def saves_what_it_read(place: Tracked) -> bool:
    """Read with migrators, and then without."""
    plain, store = await _opened(place)
    await store.load("k")
    return (await plain.load("k")).version != 1


async def reads_an_old_checkpoint(place: Tracked) -> bool:
    """Read a thread with migrators."""
    handle = await place.connect()
    await handle.checkpoint_saver().append("t", snapshot("a"))
    found = await migrating_saver(handle, DOUBLING).latest("t")
    return found is not None and found.snapshot.version == 1


async def reads_an_old_tree(place: Tracked) -> bool:
    """Read a state that is kept as a tree with migrators."""
    upkeep = upkeep_of(await place.connect())
    await upkeep.tree_states().save("k", snapshot("a"))
    return (await upkeep.tree_states(migrators=DOUBLING).load("k")).version == 1


async def reads_an_old_state(place: Tracked) -> bool:
    """Read a state with migrators."""
    _, store = await _opened(place)
    return (await store.load("k")).version == 1


async def saves_another_version(place: Tracked) -> bool:
    """Save another version than that of the migrators."""
    _, store = await _opened(place)
    try:
        await store.save("k", StateSnapshot(version=2))
    except DurablyError:
        return False
    return True


MUTANTS = (
    wrong(
        "the last two steps alone",
        "Each step from a snapshot's version on is taken.",
        "MIG-001",
        "converters from the versions that are still supported",
        skips_steps,
        migrators=only_the_last_two,
    ),
    wrong(
        "a step that may jump",
        "A step that jumps is MigrationError.",
        "MIG-002",
        "a version that is counted and never looked at",
        lets_a_step_jump,
        migrators=jumping,
    ),
    wrong(
        "a missing step passed over",
        "A step that is missing is MigrationError.",
        "MIG-002",
        "steps.get(version, lambda old: old)",
        passes_over_a_gap,
        migrators=over_gaps,
    ),
    wrong(
        "later versions read as they are",
        "A snapshot of a later version is SchemaTooNew.",
        "MIG-003",
        "while version < newest",
        reads_a_later_one,
        states=ReadsLaterOnes,
    ),
    wrong(
        "no version taken for the first",
        "What was stored without a version has version 0.",
        "MIG-004",
        "fields.get('version', 1)",
        leaves_out_the_step_from_nothing,
        migrators=from_the_first,
    ),
    wrong(
        "reading that saves",
        "What is read with migrators stays stored as it was.",
        "MIG-005",
        "a migration on the way that writes back what it read",
        saves_what_it_read,
        states=SavesWhatItRead,
    ),
    wrong(
        "migrators skipped by the saver",
        "A saver with migrators brings up to date what it reads.",
        "MIG-006",
        "an option that is taken and passed on to nothing",
        reads_an_old_checkpoint,
        migrators=skipped_by("saver"),
    ),
    wrong(
        "migrators skipped by trees",
        "A state that is kept as a tree is brought up to date.",
        "MIG-007",
        "an option that is taken and passed on to nothing",
        reads_an_old_tree,
        migrators=skipped_by("tree_states"),
    ),
    wrong(
        "migrators skipped by states",
        "A snapshot is brought up to date when it is read.",
        "MIG-001 MIG-002 MIG-003 MIG-004 MIG-005 MIG-008",
        "an option that is taken and passed on to nothing",
        reads_an_old_state,
        migrators=skipped_by("states"),
    ),
    wrong(
        "a version stamped on what is saved",
        "With migrators a snapshot of another version is refused.",
        "MIG-008",
        "the version of the writer in the place of the snapshot's",
        saves_another_version,
        states=StampsItsVersion,
    ),
)
