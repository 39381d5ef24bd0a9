"""Wrong checkpointers: the head of a run."""

from collections.abc import Sequence
from typing import Any

import msgspec
from typing_extensions import override

from durably import Entry, RunHead, RunSnapshot
from durably_conformance.building import head, said
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.spoiling_runs import SavingMutation, peek
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class HeadMutation(SavingMutation):
    """Saves another head than it was given: ``spoiled`` of it and the one before."""

    def spoiled(self, head: RunHead, before: RunHead | None) -> RunHead:
        """Return what is saved."""
        _ = before
        return head

    @override
    async def save(
        self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int | None
    ) -> int:
        if type(head) is not RunHead:  # refused below
            return await self.inner.append(run_id, entries, head)
        stored = await peek(self.inner, run_id)
        saved = self.spoiled(head, stored.head if stored else None)
        return await self.inner.append(run_id, entries, saved, expected_revision=at)


class DropsTokens(HeadMutation):
    """Has no column for the number of input tokens."""

    @override
    def spoiled(self, head: RunHead, before: RunHead | None) -> RunHead:
        return head.replace(last_input_tokens=None)


class MergesHeads(HeadMutation):
    """Takes from the head before what the new one leaves out."""

    @override
    def spoiled(self, head: RunHead, before: RunHead | None) -> RunHead:
        if before is None:
            return head
        error = before.error if head.error is None else head.error
        return head.replace(error=error)


class KeepsTheCallersTime(SavingMutation):
    """Gives an ``updated_at`` back where the caller set one."""

    @override
    async def save(
        self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int | None
    ) -> int:
        before = await peek(self.inner, run_id)
        saved = await super().save(run_id, entries, head, at)
        if before is None or before.revision != saved:
            self.shared[run_id] = head.updated_at
        return saved

    @override
    async def load(self, run_id: str) -> RunSnapshot | None:
        return _retimed(await self.inner.load(run_id), updated_at=self.shared.get(run_id))


class MovesTheStart(SavingMutation):
    """Stamps the start of a run with every save that gives none."""

    @override
    async def save(
        self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int | None
    ) -> int:
        before = await peek(self.inner, run_id)
        saved = await super().save(run_id, entries, head, at)
        after = await peek(self.inner, run_id)
        if after is not None and (before is None or before.revision != saved):
            given = head.started_at
            self.shared[run_id] = after.head.updated_at if given is None else given
        return saved

    @override
    async def load(self, run_id: str) -> RunSnapshot | None:
        return _retimed(await self.inner.load(run_id), started_at=self.shared.get(run_id))


def _retimed(run: RunSnapshot | None, **times: Any) -> RunSnapshot | None:  # noqa: ANN401 - floats
    given = {name: time for name, time in times.items() if time is not None}
    if run is None or not given:
        return run
    return msgspec.structs.replace(run, head=run.head.replace(**given))


async def _saved(place: Tracked, *heads: RunHead) -> RunHead:
    """Save one head after the other, a second apart, and return what is loaded."""
    now = [100.0]
    checkpointer = (await place.connect(clock=lambda: now[0])).checkpointer
    for one in heads:
        await checkpointer.append("r", said("a"), one)
        now[0] += 1
    run = await checkpointer.load("r")
    return run.head if run else head()


async def loses_tokens(place: Tracked) -> bool:
    """Save a head with a number of input tokens."""
    return (await _saved(place, head(last_input_tokens=7))).last_input_tokens is None


async def keeps_an_old_error(place: Tracked) -> bool:
    """Save a head with an error, and one without."""
    return (await _saved(place, head(error="why"), head())).error == "why"


async def believes_the_caller(place: Tracked) -> bool:
    """Save a head that says when it was updated."""
    return (await _saved(place, head(updated_at=1.0))).updated_at == 1.0


async def starts_again(place: Tracked) -> bool:
    """Save two heads, a second apart."""
    return (await _saved(place, head(), head())).started_at == 101.0


MUTANTS = (
    Mutant(
        name="drops the input tokens of a head",
        says="Every field of a head comes back as it was saved.",
        fails=frozenset({"CKP-HEAD-001"}),
        provenance="a field that came later, and no column for it",
        harness=lambda: MemoryMutant(checkpointer=DropsTokens),
        probe=loses_tokens,
    ),
    Mutant(
        name="merges heads",
        says="A field that is left out of the next head is gone.",
        fails=frozenset({"CKP-HEAD-002"}),
        provenance="COALESCE(excluded.error, error) in an upsert",
        harness=lambda: MemoryMutant(checkpointer=MergesHeads),
        probe=keeps_an_old_error,
    ),
    Mutant(
        name="believes the caller's updated_at",
        says="Every save stamps updated_at with the time of the store's clock.",
        fails=frozenset({"CKP-HEAD-003"}),
        provenance="setdefault('updated_at', now)",
        harness=lambda: MemoryMutant(checkpointer=KeepsTheCallersTime),
        probe=believes_the_caller,
    ),
    Mutant(
        name="starts a run with every save",
        says="started_at is stamped with the time of the first save.",
        fails=frozenset({"CKP-HEAD-004"}),
        provenance="started_at = head.started_at or now, on every save",
        harness=lambda: MemoryMutant(checkpointer=MovesTheStart),
        probe=starts_again,
    ),
)
