"""Wrong states: mixed, lost, kept, or found where there are none."""

import asyncio
import copy
from collections.abc import Sequence

import msgspec
from typing_extensions import override

from durably import (
    DurablyError,
    NotSerializable,
    Page,
    StateInfo,
    StateNotFound,
    StateSnapshot,
    StateStore,
)
from durably.logstore import Applied, Batch, LogId
from durably_conformance.building import snapshot
from durably_conformance.offering import upkeep_of
from durably_conformance.planting import spoil
from durably_conformance.samples import BAD
from durably_conformance.selftest.delegating import StoreMutation
from durably_conformance.selftest.delegating_states import StatesMutation
from durably_conformance.selftest.noticing import logs_of
from durably_conformance.selftest.spoiling import wrong
from durably_conformance.selftest.tracking import Tracked


async def peek(store: StateStore, key: str) -> StateSnapshot | None:
    """Return a state, None also where it cannot be read."""
    try:
        return await store.load(key)
    except DurablyError:
        return None


class LosesHandoffs(StatesMutation):
    """Saves all but the handoff that is pending."""

    @override
    async def save(self, key: str, snapshot: StateSnapshot) -> int:
        if snapshot.version != 1:
            snapshot = snapshot.replace(pending_handoff=None)
        return await self.inner.save(key, snapshot)


class LoadsAnEmptyOne(StatesMutation):
    """Loads an empty snapshot where there is none."""

    @override
    async def load(self, key: str) -> StateSnapshot:
        try:
            return await self.inner.load(key)
        except StateNotFound:
            return StateSnapshot()


class MergesExtra(StatesMutation):
    """Keeps what the last snapshot had in ``extra`` and this one has not."""

    @override
    async def save(self, key: str, snapshot: StateSnapshot) -> int:
        last = await peek(self.inner, key)
        if last is not None and not snapshot.messages:
            snapshot = snapshot.replace(extra=last.extra | snapshot.extra)
        return await self.inner.save(key, snapshot)


class SavesInTwo(StatesMutation):
    """Saves the rest once more, beside the messages that are there; of long ones it is quick."""

    @override
    async def save(self, key: str, snapshot: StateSnapshot) -> int:
        await self.inner.save(key, snapshot)
        for _ in range(20 - len(snapshot.messages)):
            await asyncio.sleep(0)
        now = await peek(self.inner, key) or snapshot
        return await self.inner.save(key, snapshot.replace(messages=now.messages))


class IgnoresCase(StatesMutation):
    """Lists keys as a dictionary orders words."""

    @override
    async def list(self, *, after: str | None = None, limit: int = 100) -> Page[StateInfo]:
        page = await self.inner.list(after=after, limit=limit)
        rows = sorted(page.items, key=lambda row: row.key.casefold())
        return msgspec.structs.replace(page, items=tuple(rows))


class LoadsWhatItLists(StatesMutation):
    """Lists the keys whose snapshots it can load."""

    @override
    async def list(self, *, after: str | None = None, limit: int = 100) -> Page[StateInfo]:
        page = await self.inner.list(after=after, limit=limit)
        rows = [row for row in page.items if await peek(self.inner, row.key) is not None]
        return msgspec.structs.replace(page, items=tuple(rows))


class DeletesByPrefix(StatesMutation):
    """Deletes every key that begins so."""

    @override
    async def delete(self, key: str) -> bool:
        for row in (await self.inner.list(limit=1000)).items:
            if row.key.startswith(f"{key}/"):
                await self.inner.delete(row.key)
        return await self.inner.delete(key)


class CachesForAll(StatesMutation):
    """Keeps what was saved, by key alone."""

    @override
    async def save(self, key: str, snapshot: StateSnapshot) -> int:
        saved = await self.inner.save(key, snapshot)
        self.shared[key] = copy.deepcopy(await self.inner.load(key))
        return saved

    @override
    async def load(self, key: str) -> StateSnapshot:
        found = await self.inner.load(key)
        cached: StateSnapshot = self.shared.get(key, found)
        return cached if cached.version == found.version == 1 else found


class DeletesFirst(StatesMutation):
    """Removes what is there before it saves."""

    @override
    async def save(self, key: str, snapshot: StateSnapshot) -> int:
        try:
            return await self.inner.save(key, snapshot)
        except NotSerializable:
            await self.inner.delete(key)
            raise


class KeepsTheOld(StoreMutation):
    """Keeps every state that was saved."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        if log.kind == "state":
            batch = msgspec.structs.replace(batch, keep_last=None)
        return await self.inner.append(log, batch)


async def _states(place: Tracked, *saved: StateSnapshot) -> StateStore:
    """Return the states of a place, one of which was saved again and again."""
    states = upkeep_of(await place.connect()).states
    for one in saved:
        await states.save("k", one)
    return states


async def loses_a_handoff(place: Tracked) -> bool:
    """Save a snapshot with a handoff."""
    states = await _states(place, snapshot("a", version=7, pending_handoff="p"))
    return (await states.load("k")).pending_handoff is None


async def loads_an_empty_one(place: Tracked) -> bool:
    """Load what is not there."""
    return await peek(await _states(place), "k") is not None


async def merges_extra(place: Tracked) -> bool:
    """Save one thing and then another."""
    states = await _states(place, snapshot(extra={"a": 1}), snapshot(extra={"b": 1}))
    return len((await states.load("k")).extra) > 1


async def mixes_two_saves(place: Tracked) -> bool:
    """Save twice at once."""
    states = await _states(place, snapshot("0", turn=0))
    saves: Sequence[StateSnapshot] = [snapshot(*[f"{n}"] * n, turn=n) for n in (1, 2)]
    await asyncio.gather(*(states.save("k", one) for one in saves))
    return await states.load("k") not in saves


async def ignores_case(place: Tracked) -> bool:
    """List two keys."""
    states = upkeep_of(await place.connect()).states
    for key in ("Z", "a"):
        await states.save(key, snapshot())
    return [row.key for row in (await states.list()).items] == ["a", "Z"]


async def lists_what_it_can_read(place: Tracked) -> bool:
    """List a key whose snapshot is broken."""
    handle = await place.connect()
    await upkeep_of(handle).states.save("k", snapshot("a"))
    await spoil(handle, "state", "k", b"\xff")
    return not (await upkeep_of(handle).states.list()).items


async def deletes_another(place: Tracked) -> bool:
    """Delete a key that another one begins with."""
    states = await _states(place, snapshot())
    await states.save("k/", snapshot())
    await states.delete("k")
    return not await states.has("k/")


async def loads_from_another_namespace(place: Tracked) -> bool:
    """Save under one key in two namespaces."""
    states = await _states(place, snapshot("a"))
    await upkeep_of(await place.connect(namespace="n")).states.save("k", snapshot("b"))
    return (await states.load("k")).messages == snapshot("b").messages


async def deletes_what_it_cannot_save(place: Tracked) -> bool:
    """Save something that cannot be saved."""
    states = await _states(place, snapshot())
    try:
        await states.save("k", snapshot(extra={"k": BAD["nan"][0]}))
    except NotSerializable:
        return not await states.has("k")
    return False


async def keeps_what_was_replaced(place: Tracked) -> bool:
    """Save twice, and look at the raw content."""
    await _states(place, snapshot("first"), snapshot("second"))
    return any(b"first" in data for data in (await place.dump() or {}).values())


MUTANTS = (
    wrong(
        "a state without its handoff",
        "What is saved is what is loaded, in every field.",
        "STA-001",
        "a column for each field but the last one",
        loses_a_handoff,
        states=LosesHandoffs,
    ),
    wrong(
        "an empty state for none",
        "A key that has nothing is StateNotFound.",
        "STA-002",
        "dict.get with a default",
        loads_an_empty_one,
        states=LoadsAnEmptyOne,
    ),
    wrong(
        "a state merged with the last one",
        "A save replaces what was there as a whole.",
        "STA-003",
        "jsonb_set, or dict.update",
        merges_extra,
        states=MergesExtra,
    ),
    wrong(
        "a state saved in two steps",
        "Of saves at once one wins with all its fields.",
        "STA-004",
        "messages in one table and the rest in another, without a transaction",
        mixes_two_saves,
        states=SavesInTwo,
    ),
    wrong(
        "keys in the order of words",
        "Keys are listed in the order of their bytes.",
        "STA-005",
        "ORDER BY with the collation of a locale",
        ignores_case,
        states=IgnoresCase,
    ),
    wrong(
        "a listing that loads",
        "Listing takes no content.",
        "STA-006",
        "a listing made of load(), with what fails left out",
        lists_what_it_can_read,
        states=LoadsWhatItLists,
    ),
    wrong(
        "states deleted by prefix",
        "What is deleted is one key.",
        "STA-007",
        "DELETE ... WHERE key LIKE 'k/%'",
        deletes_another,
        states=DeletesByPrefix,
    ),
    wrong(
        "states cached across namespaces",
        "One key in two namespaces is two states.",
        "STA-008",
        "a cache by key alone",
        loads_from_another_namespace,
        states=CachesForAll,
    ),
    wrong(
        "a state deleted by a refused save",
        "A snapshot that is refused leaves what was there.",
        "STA-009",
        "DELETE, then INSERT",
        deletes_what_it_cannot_save,
        states=DeletesFirst,
    ),
    wrong(
        "states that pile up",
        "A state that was saved over has left the raw content.",
        "STA-010",
        "an append-only table of which the last row is read",
        keeps_what_was_replaced,
        store=KeepsTheOld,
        wrapped=logs_of("state"),
    ),
)
