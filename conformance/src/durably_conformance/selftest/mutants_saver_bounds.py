"""Wrong checkpoint savers: what a bound evicts."""

from collections.abc import Sequence

from typing_extensions import override

from durably import Checkpoint, CheckpointNotFound, CheckpointSaver, DurablyError, StateSnapshot
from durably_conformance.building import snapshot
from durably_conformance.reading_back import listed
from durably_conformance.selftest.delegating import SaverMutation
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class ReadsPastItsBound(SaverMutation):
    """Finds a snapshot by its seq also when it was evicted."""

    def kept(self, thread_id: str) -> dict[int, Checkpoint]:
        """Return the snapshots of a thread by their seqs."""
        kept: dict[int, Checkpoint] = self.shared.setdefault(thread_id, {})
        return kept

    @override
    async def append(self, thread_id: str, snapshot: StateSnapshot) -> int:
        seq = await self.inner.append(thread_id, snapshot)
        self.kept(thread_id)[seq] = await self.inner.get(thread_id, seq)
        return seq

    @override
    async def get(self, thread_id: str, seq: int) -> Checkpoint:
        try:
            return await self.inner.get(thread_id, seq)
        except CheckpointNotFound:
            if seq not in self.kept(thread_id):
                raise
            return self.kept(thread_id)[seq]

    @override
    async def delete(self, thread_id: str) -> bool:
        deleted = await self.inner.delete(thread_id)
        self.kept(thread_id).clear()
        return deleted


class EvictsItsBase(SaverMutation):
    """Evicts, with the oldest snapshot, the messages that the next one shares with it."""

    @override
    async def list(
        self, thread_id: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Checkpoint]:
        found = await self.inner.list(thread_id, before=before, limit=limit)
        if before is not None or len(found) < 2 or found[-1].seq == 1:
            return found
        oldest = found[-1].snapshot
        older = await _readable(self.inner, thread_id, before=found[-1].seq)
        if older or len(oldest.messages) < 2:
            return found
        return [*found[:-1], found[-1].replace(snapshot=oldest.replace(messages=[]))]


class EvictsBeforeItCounts(SaverMutation):
    """Evicts everything older before it looks for the greatest seq."""

    @override
    async def append(self, thread_id: str, snapshot: StateSnapshot) -> int:
        seq = await self.inner.append(thread_id, snapshot)
        if seq > 1 and [one and one.seq for one in await _readable(self.inner, thread_id)] == [seq]:
            await self.inner.delete(thread_id)
            return await self.inner.append(thread_id, snapshot)
        return seq


class EvictsAnyThread(SaverMutation):
    """Evicts the oldest of all snapshots in place of the thread's own."""

    @override
    async def append(self, thread_id: str, snapshot: StateSnapshot) -> int:
        before = len(await _readable(self.inner, thread_id))
        seq = await self.inner.append(thread_id, snapshot)
        threads: list[str] = self.shared.setdefault("threads", [])
        if thread_id not in threads:
            threads.append(thread_id)
        if 0 < before == len(await _readable(self.inner, thread_id)) < 100:
            oldest = threads.pop(0)
            if oldest != thread_id:
                await self.inner.delete(oldest)
        return seq


async def _readable(
    saver: CheckpointSaver, thread_id: str, before: int | None = None
) -> Sequence[Checkpoint | None]:
    """Return the snapshots of a thread, or one None where one of them cannot be read."""
    try:
        return await saver.list(thread_id, before=before)
    except DurablyError:
        return [None]


async def reads_what_was_evicted(place: Tracked) -> bool:
    """Ask a bounded saver for its first of two snapshots."""
    saver = (await place.connect()).checkpoint_saver(max_checkpoints_per_thread=1)
    seqs = [await saver.append("t", snapshot(text)) for text in "ab"]
    try:
        return (await saver.get("t", seqs[0])).snapshot == snapshot("a")
    except CheckpointNotFound:
        return False


async def loses_shared_messages(place: Tracked) -> bool:
    """Evict a snapshot, and look at the next."""
    saver = (await place.connect()).checkpoint_saver(max_checkpoints_per_thread=2)
    for texts in ("a", "ab", "abc"):
        await saver.append("t", snapshot(*texts))
    return await listed(saver) != [snapshot(*"abc"), snapshot(*"ab")]


async def gives_a_seq_twice(place: Tracked) -> bool:
    """Append to a thread that keeps one snapshot."""
    saver = (await place.connect()).checkpoint_saver(max_checkpoints_per_thread=1)
    seqs = [await saver.append("t", snapshot(text)) for text in "abc"]
    return len(set(seqs)) < 3


async def evicts_another_thread(place: Tracked) -> bool:
    """Save one thread once, and another one more often than the bound."""
    saver = (await place.connect()).checkpoint_saver(max_checkpoints_per_thread=1)
    await saver.append("quiet", snapshot("a"))
    for text in "ab":
        await saver.append("t", snapshot(text))
    return not await saver.list("quiet")


MUTANTS = (
    Mutant(
        name="reads past its bound",
        says="With a bound only the newest so many snapshots are there.",
        fails=frozenset({"CKS-BOUND-001"}),
        provenance="an eviction that drops a snapshot from the list alone",
        harness=lambda: MemoryMutant(saver=ReadsPastItsBound),
        probe=reads_what_was_evicted,
    ),
    Mutant(
        name="evicts what others share",
        says="With a bound each of the newest snapshots is whole.",
        fails=frozenset({"CKS-BOUND-001"}),
        provenance="langchain-ai/langgraph#8531",
        harness=lambda: MemoryMutant(saver=EvictsItsBase),
        probe=loses_shared_messages,
    ),
    Mutant(
        name="evicts before it counts",
        says="A seq is never used again, also not after every older snapshot was evicted.",
        fails=frozenset({"CKS-BOUND-002"}),
        provenance="MAX(seq) + 1 over the rows that are left",
        harness=lambda: MemoryMutant(saver=EvictsBeforeItCounts),
        probe=gives_a_seq_twice,
    ),
    Mutant(
        name="evicts from any thread",
        says="A bound counts the snapshots of each thread alone.",
        fails=frozenset({"CKS-BOUND-003"}),
        provenance="DELETE … WHERE seq NOT IN (the newest n), without the thread",
        harness=lambda: MemoryMutant(saver=EvictsAnyThread),
        probe=evicts_another_thread,
    ),
)
