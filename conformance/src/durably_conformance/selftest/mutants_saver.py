"""Wrong checkpoint savers: numbering, reading and listing snapshots."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from typing_extensions import override

from durably import (
    Checkpoint,
    CheckpointNotFound,
    DurablyError,
    StateSnapshot,
)
from durably_conformance.building import snapshot
from durably_conformance.selftest.delegating import SaverMutation
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class ReadMutation(SaverMutation):
    """Spoils each checkpoint it reads by ``read``; by itself that is the right thing."""

    def read(self, one: Checkpoint) -> Checkpoint:
        """Return what is handed out."""
        return one

    @override
    async def latest(self, thread_id: str) -> Checkpoint | None:
        one = await self.inner.latest(thread_id)
        return None if one is None else self.read(one)

    @override
    async def get(self, thread_id: str, seq: int) -> Checkpoint:
        return self.read(await self.inner.get(thread_id, seq))

    @override
    async def list(
        self, thread_id: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Checkpoint]:
        found = await self.inner.list(thread_id, before=before, limit=limit)
        return [self.read(one) for one in found]


class TakesBlocksOfSeqs(SaverMutation):
    """Takes its seqs from a block of its own, as each connection to a sequence with a cache."""

    @override
    async def append(self, thread_id: str, snapshot: StateSnapshot) -> int:
        seq = await self.inner.append(thread_id, snapshot)
        owners: list[object] = self.shared.setdefault(thread_id, [])
        if self not in owners:
            owners.append(self)
        return seq + 1000 * owners.index(self)


class LatestByClock(SaverMutation):
    """Takes the snapshot with the latest time for the latest."""

    @override
    async def latest(self, thread_id: str) -> Checkpoint | None:
        newest = await self.inner.latest(thread_id)
        try:
            found = await self.inner.list(thread_id, limit=5)
        except DurablyError:
            return newest
        return max(found, key=lambda one: one.stored_at, default=None)


class LosesUpdates(SaverMutation):
    """Lets the last of several appends at once win."""

    @override
    async def append(self, thread_id: str, snapshot: StateSnapshot) -> int:
        busy: Counter[str] = self.shared.setdefault("busy", Counter())
        busy[repr(thread_id)] += 1
        try:
            await asyncio.sleep(0)
            if busy[repr(thread_id)] > 1:
                latest = await self.inner.latest(thread_id)
                return latest.seq + 1 if latest else 1
            return await self.inner.append(thread_id, snapshot)
        finally:
            busy[repr(thread_id)] -= 1


class DropsUsage(ReadMutation):
    """Keeps an entry of usage for itself."""

    @override
    def read(self, one: Checkpoint) -> Checkpoint:
        usage = {name: value for name, value in one.snapshot.usage.items() if name != "input"}
        return one.replace(snapshot=one.snapshot.replace(usage=usage))


class FindsTheNearest(SaverMutation):
    """Gives the snapshot before a seq where there is none of it."""

    @override
    async def get(self, thread_id: str, seq: int) -> Checkpoint:
        try:
            return await self.inner.get(thread_id, seq)
        except CheckpointNotFound:
            found = await self.inner.list(thread_id, before=seq, limit=1)
            if not found:
                raise
            return found[0]


class NeedsAKnownBefore(SaverMutation):
    """Finds nothing before a seq that is not there."""

    @override
    async def list(
        self, thread_id: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Checkpoint]:
        found = await self.inner.list(thread_id, before=before, limit=limit)
        if type(before) is not int or len(found) < 2:
            return found
        try:
            await self.inner.get(thread_id, before)
        except CheckpointNotFound:
            return []
        return found


class StampsThreads(SaverMutation):
    """Gives the time of the newest for that of each snapshot."""

    @override
    async def list(
        self, thread_id: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Checkpoint]:
        found = await self.inner.list(thread_id, before=before, limit=limit)
        return [one.replace(stored_at=found[0].stored_at) for one in found]


class SortsSeqsAsText(SaverMutation):
    """Lists long threads in the order of the text of their seqs."""

    @override
    async def list(
        self, thread_id: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Checkpoint]:
        found = await self.inner.list(thread_id, before=before, limit=limit)
        return (
            sorted(found, key=lambda one: str(one.seq), reverse=True) if len(found) > 30 else found
        )


async def gives_a_smaller_seq(place: Tracked) -> bool:
    """Append by one saver, another, and the first again."""
    one, other = [(await place.connect()).checkpoint_saver() for _ in range(2)]
    seqs = [await saver.append("t", snapshot("a")) for saver in (one, other, one)]
    return seqs != sorted(seqs)


async def goes_by_the_clock(place: Tracked) -> bool:
    """Append twice, with the clock set back in between."""
    now = [200.0]
    saver = (await place.connect(clock=lambda: now[0])).checkpoint_saver()
    await saver.append("t", snapshot("a"))
    now[0] = 100.0
    last = await saver.append("t", snapshot("b"))
    latest = await saver.latest("t")
    return latest is None or latest.seq != last


async def loses_one_of_two(place: Tracked) -> bool:
    """Append twice at once."""
    saver = (await place.connect()).checkpoint_saver()
    await asyncio.gather(*(saver.append("t", snapshot(text)) for text in "ab"))
    return len(await saver.list("t")) == 1


async def loses_usage(place: Tracked) -> bool:
    """Append a snapshot with a number of input tokens."""
    saver = (await place.connect()).checkpoint_saver()
    await saver.append("t", snapshot("a", usage={"input": 1}))
    latest = await saver.latest("t")
    return latest is not None and not latest.snapshot.usage


async def finds_another(place: Tracked) -> bool:
    """Ask for a seq that is not there."""
    saver = (await place.connect()).checkpoint_saver()
    seq = await saver.append("t", snapshot("a"))
    try:
        return (await saver.get("t", seq + 1)).seq == seq
    except CheckpointNotFound:
        return False


async def finds_nothing_before(place: Tracked) -> bool:
    """List what is before a seq that is still to come."""
    saver = (await place.connect()).checkpoint_saver()
    seqs = [await saver.append("t", snapshot(text)) for text in "ab"]
    return not await saver.list("t", before=seqs[-1] + 1)


async def gives_all_one_time(place: Tracked) -> bool:
    """Append twice, at different times."""
    now = [100.0]
    saver = (await place.connect(clock=lambda: now[0])).checkpoint_saver()
    await saver.append("t", snapshot("a"))
    now[0] = 200.0
    await saver.append("t", snapshot("b"))
    return len({one.stored_at for one in await saver.list("t")}) == 1


async def puts_9_before_10(place: Tracked) -> bool:
    """Append many and look at their order."""
    saver = (await place.connect()).checkpoint_saver()
    for turn in range(101):
        await saver.append("t", snapshot(turn=turn))
    seqs = [one.seq for one in await saver.list("t")]
    return seqs != sorted(seqs, reverse=True)


MUTANTS = (
    Mutant(
        name="takes blocks of seqs",
        says="Every snapshot of a thread gets a greater seq than all before it.",
        fails=frozenset({"CKS-SEQ-001"}),
        provenance="a database sequence with a cache for each connection",
        harness=lambda: MemoryMutant(saver=TakesBlocksOfSeqs),
        probe=gives_a_smaller_seq,
    ),
    Mutant(
        name="latest by clock",
        says="The latest snapshot is the last one appended, whatever the clock says.",
        fails=frozenset({"CKS-SEQ-002"}),
        provenance="ORDER BY created_at DESC LIMIT 1",
        harness=lambda: MemoryMutant(saver=LatestByClock),
        probe=goes_by_the_clock,
    ),
    Mutant(
        name="lets the last append win",
        says="Of concurrent appends none is lost.",
        fails=frozenset({"CKS-SEQ-003"}),
        provenance="langchain-ai/langgraph#8115",
        harness=lambda: MemoryMutant(saver=LosesUpdates),
        probe=loses_one_of_two,
    ),
    Mutant(
        name="drops what was used",
        says="Every field of a snapshot comes back as it was saved.",
        fails=frozenset({"CKS-GET-001"}),
        provenance="a key that clashes with one of the store's own",
        harness=lambda: MemoryMutant(saver=DropsUsage),
        probe=loses_usage,
    ),
    Mutant(
        name="finds the nearest snapshot",
        says="A seq that no snapshot of the thread has is CheckpointNotFound.",
        fails=frozenset({"CKS-GET-002"}),
        provenance="WHERE seq <= ? ORDER BY seq DESC LIMIT 1",
        harness=lambda: MemoryMutant(saver=FindsTheNearest),
        probe=finds_another,
    ),
    Mutant(
        name="needs a known before",
        says="A list holds the snapshots below before, whether or not there is one of it.",
        fails=frozenset({"CKS-LIST-001"}),
        provenance="langchain-ai/langgraph#7179",
        harness=lambda: MemoryMutant(saver=NeedsAKnownBefore),
        probe=finds_nothing_before,
    ),
    Mutant(
        name="gives all snapshots one time",
        says="stored_at is the time when the snapshot was appended.",
        fails=frozenset({"CKS-LIST-002"}),
        provenance="the time of the thread's row, joined to each snapshot",
        harness=lambda: MemoryMutant(saver=StampsThreads),
        probe=gives_all_one_time,
    ),
    Mutant(
        name="sorts seqs as text",
        says="More than a hundred snapshots are listed in numeric order.",
        fails=frozenset({"CKS-HIST-001"}),
        provenance="langchain-ai/langgraph#6869",
        harness=lambda: MemoryMutant(saver=SortsSeqsAsText),
        probe=puts_9_before_10,
    ),
)
