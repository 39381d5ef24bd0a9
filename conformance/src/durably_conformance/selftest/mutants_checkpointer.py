"""Wrong checkpointers: saving entries and head, reading them back, deleting."""

import asyncio
from collections.abc import Sequence
from itertools import islice

import msgspec
from typing_extensions import override

from durably import (
    RUN_STATUSES,
    Entry,
    RunHead,
    RunSnapshot,
)
from durably_conformance.building import head, said
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.spoiling_runs import SavingMutation, peek
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class OrdersByText(SavingMutation):
    """Puts the batches of a run in the order of the text of their numbers."""

    @override
    async def save(
        self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int | None
    ) -> int:
        saved = await super().save(run_id, entries, head, at)
        self.shared.setdefault(run_id, []).append(len(entries))
        return saved

    @override
    async def load(self, run_id: str) -> RunSnapshot | None:
        run = await self.inner.load(run_id)
        sizes: list[int] = self.shared.get(run_id, [])
        if run is None or sum(sizes) != len(run.entries):
            return run
        entries = iter(run.entries)
        batches = [list(islice(entries, size)) for size in sizes]
        order = sorted(range(len(batches)), key=str)
        return msgspec.structs.replace(run, entries=[e for n in order for e in batches[n]])


class FinishesWithEntries(SavingMutation):
    """Saves the head of a finished run only with its last entries."""

    @override
    async def save(
        self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int | None
    ) -> int:
        stored = await peek(self.inner, run_id)
        finished = getattr(head, "status", None) == "completed"
        if finished and stored and not entries and at is None:
            return stored.revision
        return await super().save(run_id, entries, head, at)


class KnowsEqualSaves(SavingMutation):
    """Takes a save for a repetition where it is equal to the last one of the same handle."""

    last: tuple[object, ...] = ()

    @override
    async def save(
        self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int | None
    ) -> int:
        this = run_id, entries, head
        stored = await peek(self.inner, run_id)
        plain = bool(entries) and head == RunHead() and at is None
        if plain and self.last == this and stored:
            return stored.revision
        saved = await super().save(run_id, entries, head, at)
        self.last = this
        return saved


class SavesInTwoSteps(SavingMutation):
    """Saves the entries, and the head in a second step."""

    @override
    async def save(
        self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int | None
    ) -> int:
        fenced: set[str] = self.shared.setdefault("fenced", set())
        stored = None if at is not None else await peek(self.inner, run_id)
        if at is not None:
            fenced.add(str(run_id))
        if (
            str(run_id) in fenced
            or stored is None
            or not entries
            or head.status not in RUN_STATUSES
        ):
            return await super().save(run_id, entries, head, at)
        await self.inner.append(run_id, entries, stored.head)
        await asyncio.sleep(0)
        return await self.inner.append(run_id, [], head)


async def puts_10_before_2(place: Tracked) -> bool:
    """Save eleven entries and look at the order."""
    checkpointer = (await place.connect()).checkpointer
    for number in range(11):
        await checkpointer.append("r", said(f"{number}"), head())
    run = await checkpointer.load("r")
    return run is not None and run.entries != said(*map(str, range(11)))


async def never_finishes(place: Tracked) -> bool:
    """Finish a run without a last entry."""
    checkpointer = (await place.connect()).checkpointer
    await checkpointer.append("r", said("a"), head())
    await checkpointer.append("r", [], head(status="completed"))
    run = await checkpointer.load("r")
    return run is not None and run.head.status == "running"


async def swallows_an_equal_save(place: Tracked) -> bool:
    """Make the same save twice, without a token."""
    checkpointer = (await place.connect()).checkpointer
    await checkpointer.append("r", said("a"), head())
    await checkpointer.append("r", said("a"), head())
    run = await checkpointer.load("r")
    return run is not None and len(run.entries) == 1


async def shows_half_a_save(place: Tracked) -> bool:
    """Load a run in the middle of a save."""
    checkpointer = (await place.connect()).checkpointer
    await checkpointer.append("r", said("a"), head(turns=1))
    saving = asyncio.create_task(checkpointer.append("r", said("b"), head(turns=2)))
    await asyncio.sleep(0)
    run = await checkpointer.load("r")
    await saving
    return run is not None and len(run.entries) != run.head.turns


MUTANTS = (
    Mutant(
        name="orders batches by text",
        says="A run is all of its batches in the order of their saves.",
        fails=frozenset({"CKP-APP-001"}),
        provenance="anomalyco/opencode#7425",
        harness=lambda: MemoryMutant(checkpointer=OrdersByText),
        probe=puts_10_before_2,
    ),
    Mutant(
        name="finishes with entries only",
        says="A save without entries sets the head alone.",
        fails=frozenset({"CKP-APP-002"}),
        provenance="a guard 'if not entries: return' on the last save",
        harness=lambda: MemoryMutant(checkpointer=FinishesWithEntries),
        probe=never_finishes,
    ),
    Mutant(
        name="takes equal saves for one",
        says="Without a token the same save made twice is stored twice.",
        fails=frozenset({"CKP-APP-003"}),
        provenance="a uniqueness constraint on a digest of the content",
        harness=lambda: MemoryMutant(checkpointer=KnowsEqualSaves),
        probe=swallows_an_equal_save,
    ),
    Mutant(
        name="saves in two steps",
        says="A reader never sees the entries of a save without its head.",
        fails=frozenset({"CKP-ATOM-001"}),
        provenance="langchain-ai/langgraph#8039",
        harness=lambda: MemoryMutant(checkpointer=SavesInTwoSteps),
        probe=shows_half_a_save,
    ),
)
