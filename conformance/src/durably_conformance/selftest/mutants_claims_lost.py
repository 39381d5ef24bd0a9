"""Wrong claims: made at once, or with a save that was cancelled."""

import asyncio
from collections.abc import Sequence

from typing_extensions import override

from durably import (
    Claim,
    Entry,
    RunHead,
)
from durably_conformance.building import head, said
from durably_conformance.reading_back import cancelled_after
from durably_conformance.selftest.delegating import CheckpointerMutation
from durably_conformance.selftest.mutants_claims import is_stopped, two_claims
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.spoiling_runs import ClaimMutation, claims
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class MakesOneForAll(CheckpointerMutation):
    """Gives those that claim a run at the same time one claim."""

    @override
    async def claim(self, run_id: str) -> Claim:
        made: dict[str, asyncio.Task[Claim]] = self.shared.setdefault("made", {})
        key = repr(run_id)
        if key not in made:
            made[key] = asyncio.ensure_future(self._claim(run_id))
        return await made[key]

    async def _claim(self, run_id: str) -> Claim:
        try:
            await asyncio.sleep(0)
            return await self.inner.claim(run_id)
        finally:
            self.shared["made"].pop(repr(run_id), None)


class SavesAgain(ClaimMutation):
    """Claims the run again after a cancelled save, and saves whatever it is asked to save."""

    unsure = False

    @override
    async def append(self, entries: Sequence[Entry], head: RunHead) -> int:
        if self.unsure:
            self.inner = await self.runs.claim(self.run_id)
            self.unsure = False
        try:
            saved = await super().append(entries, head)
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.unsure = True
            raise
        return saved


class LosesItsRevision(ClaimMutation):
    """Notes its new revision one step after the save."""

    pending: tuple[int, object] | None = None

    @override
    async def append(self, entries: Sequence[Entry], head: RunHead) -> int:
        this = list(entries), head
        if self.pending is not None:
            stale, last = self.pending
            if this != last:
                return await self.runs.append(self.run_id, entries, head, expected_revision=stale)
            self.pending = None
            if self.inner.revision != stale:
                return self.inner.revision
        before = self.inner.revision
        saved = await super().append(entries, head)
        self.pending = before, this
        await asyncio.sleep(0)
        self.pending = None
        return saved


async def lets_two_claims_save(place: Tracked) -> bool:
    """Claim a run twice at once, and save by both."""
    runs = (await place.connect()).checkpointer
    await runs.append("r", said("a"), head())
    both = await asyncio.gather(runs.claim("r"), runs.claim("r"), return_exceptions=True)
    held = [one for one in both if isinstance(one, Claim)]
    stopped = [await is_stopped(one, said(f"{n}")) for n, one in enumerate(held)]
    return stopped.count(False) > 1


async def stores_a_cancelled_save_twice(place: Tracked) -> bool:
    """Make a save again that was cancelled."""
    runs, _, claim = await two_claims(place)
    cancelled = await cancelled_after(1, claim.append(said("b"), head(turns=1)))
    stopped = await is_stopped(claim, said("b"))
    run = await runs.load("r")
    return cancelled and not stopped and run is not None and run.entries == said("a", "b", "b")


async def stops_after_a_cancelled_save(place: Tracked) -> bool:
    """Make another save after one that was cancelled."""
    _, _, claim = await two_claims(place)
    await cancelled_after(1, claim.append(said("b"), head(turns=1)))
    return await is_stopped(claim, said("c"))


MUTANTS = (
    Mutant(
        name="makes one claim for all",
        says="Of several that claim a run at once exactly one goes on to save.",
        fails=frozenset({"CKP-CLAIM-009"}),
        provenance="requests of one key that are joined into one",
        harness=lambda: MemoryMutant(checkpointer=MakesOneForAll),
        probe=lets_two_claims_save,
    ),
    Mutant(
        name="stores a cancelled save twice",
        says="A save that was cancelled may be made again and is stored once.",
        fails=frozenset({"CKP-CLAIM-010"}),
        provenance="google/adk-python#5723",
        harness=lambda: MemoryMutant(checkpointer=claims(SavesAgain)),
        probe=stores_a_cancelled_save_twice,
    ),
    Mutant(
        name="loses its revision to a cancellation",
        says="A claim goes on after a save that was cancelled.",
        fails=frozenset({"CKP-CLAIM-011"}),
        provenance="openai/openai-agents-python#4203",
        harness=lambda: MemoryMutant(checkpointer=claims(LosesItsRevision)),
        probe=stops_after_a_cancelled_save,
    ),
)
