"""Wrong checkpoint savers: what snapshots share, what a bound evicts, what a delete leaves."""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from durably import (
    Checkpoint,
    CheckpointSaver,
    DurablyError,
    Entry,
    StateSnapshot,
)
from durably_conformance.building import result, said, snapshot
from durably_conformance.reading_back import listed
from durably_conformance.selftest.delegating import SaverMutation
from durably_conformance.selftest.mutants_saver import ReadMutation
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class Sharing(SaverMutation):
    """Stores the messages that a snapshot does not share with the one it ``believes`` is last.

    What it takes for shared comes from the snapshot that really is; where the two are the same
    and ``count`` is right, nothing is spoiled.
    """

    def __init__(self, inner: CheckpointSaver, shared: dict[str, Any]) -> None:
        super().__init__(inner, shared)
        self.known: dict[str, Sequence[Entry]] = {}

    async def believes(self, thread_id: str, there: Sequence[Entry]) -> Sequence[Entry]:
        """Return the messages of the snapshot it takes for the last one."""
        _ = thread_id
        return there

    def count(self, old: Sequence[Entry], new: Sequence[Entry]) -> int:
        """Return how many of the first messages are shared."""
        pairs = itertools.takewhile(
            lambda pair: repr(pair[0]) == repr(pair[1]), zip(old, new, strict=False)
        )
        return sum(1 for _ in pairs)

    async def spoiled(self, thread_id: str, snapshot: StateSnapshot) -> StateSnapshot:
        """Return what is stored."""
        try:
            latest = await self.inner.latest(thread_id)
            there: Sequence[Entry] = latest.snapshot.messages if latest else ()
            count = self.count(await self.believes(thread_id, there), snapshot.messages)
            messages = [*there[:count], *snapshot.messages[count:]]
            return snapshot.replace(messages=messages)
        except (DurablyError, TypeError, AttributeError):  # refused, or unreadable, below
            return snapshot

    @override
    async def append(self, thread_id: str, snapshot: StateSnapshot) -> int:
        seq = await self.inner.append(thread_id, await self.spoiled(thread_id, snapshot))
        self.known[thread_id] = list(snapshot.messages)
        return seq


class NeverShrinks(Sharing):
    """Stores nothing where there is no new message."""

    @override
    def count(self, old: Sequence[Entry], new: Sequence[Entry]) -> int:
        shared = super().count(old, new)
        return len(old) if shared == len(new) and len(new) > 1 else shared


class TrustsItsMemory(Sharing):
    """Remembers what it saved last, as long as the thread begins as it did then."""

    @override
    async def believes(self, thread_id: str, there: Sequence[Entry]) -> Sequence[Entry]:
        oldest = [one.seq for one in await self.inner.list(thread_id, limit=1000)][-1:]
        first = (await self.inner.get(thread_id, oldest[0])).snapshot if oldest else None
        begun, self.known_first = getattr(self, "known_first", None), (thread_id, first)
        same = first is not None and begun == (thread_id, first)
        return self.known.get(thread_id, there) if same else there


class TrustsASeq(Sharing):
    """Remembers what it saved last, as long as the latest has the seq that it had then."""

    @override
    async def append(self, thread_id: str, snapshot: StateSnapshot) -> int:
        seq = await super().append(thread_id, snapshot)
        self.seqs = {**getattr(self, "seqs", {}), thread_id: seq}
        return seq

    @override
    async def believes(self, thread_id: str, there: Sequence[Entry]) -> Sequence[Entry]:
        latest = await self.inner.latest(thread_id)
        seqs: dict[str, int] = getattr(self, "seqs", {})
        same = latest is not None and seqs.get(thread_id) == latest.seq
        return self.known.get(thread_id, there) if same else there


class ComparesValues(Sharing):
    """Takes 1, 1.0 and True for the same."""

    @override
    def count(self, old: Sequence[Entry], new: Sequence[Entry]) -> int:
        pairs = itertools.takewhile(
            lambda pair: getattr(pair[0], "raw", None) is not None and pair[0] == pair[1],
            zip(old, new, strict=False),
        )
        return max(sum(1 for _ in pairs), super().count(old, new)) if len(new) > 1 else 0


class RemembersWhatWasRefused(Sharing):
    """Remembers a snapshot before it is stored."""

    @override
    async def believes(self, thread_id: str, there: Sequence[Entry]) -> Sequence[Entry]:
        latest = await self.inner.list(thread_id, limit=2)
        return self.known.get(thread_id, there) if len(latest) == 1 else there

    @override
    async def append(self, thread_id: str, snapshot: StateSnapshot) -> int:
        spoiled = await self.spoiled(thread_id, snapshot)
        if isinstance(getattr(snapshot, "messages", None), list) and len(snapshot.messages) > 2:
            self.known[thread_id] = list(snapshot.messages)
        return await self.inner.append(thread_id, spoiled)


class PublishesFirst(ReadMutation):
    """Publishes a snapshot, and then its messages."""

    @override
    async def append(self, thread_id: str, snapshot: StateSnapshot) -> int:
        seq = await self.inner.append(thread_id, snapshot)
        if snapshot.turn % 4 == 3:
            self.shared[f"{thread_id} {seq}"] = "to come"
            await asyncio.sleep(0)
            self.shared.pop(f"{thread_id} {seq}", None)
        return seq

    @override
    def read(self, one: Checkpoint) -> Checkpoint:
        if f"{one.thread_id} {one.seq}" not in self.shared:
            return one
        return one.replace(snapshot=one.snapshot.replace(messages=[]))


async def _kept(saver: CheckpointSaver, *history: str) -> bool:
    """Save a thread of one-letter messages and say whether the last one reads as it was saved."""
    for texts in history:
        await saver.append("t", snapshot(*texts))
    return await listed(saver, limit=1) == [snapshot(*history[-1])]


async def keeps_what_was_cut(place: Tracked) -> bool:
    """Save three messages, then the first two."""
    return not await _kept((await place.connect()).checkpoint_saver(), "abc", "ab")


async def mixes_two_writers(place: Tracked) -> bool:
    """Save by one saver, another, and the first again."""
    one, other = [(await place.connect()).checkpoint_saver() for _ in range(2)]
    await _kept(one, "abc", "abcd")
    await _kept(other, "xyz")
    return not await _kept(one, "abcde")


async def mixes_two_lives(place: Tracked) -> bool:
    """Save by one saver, delete and save by another, and save by the first again."""
    one, other = [(await place.connect()).checkpoint_saver() for _ in range(2)]
    await _kept(one, "abc")
    await other.delete("t")
    await _kept(other, "xyz")
    return not await _kept(one, "abcd")


async def takes_true_for_1(place: Tracked) -> bool:
    """Save a value, and an equal one of another type."""
    saver = (await place.connect()).checkpoint_saver()
    for value in (1, True):
        one: list[Entry] = [result("c", raw=value), *said("x")]
        await saver.append("t", StateSnapshot(messages=one))
    return "True" not in repr((await listed(saver, limit=1))[0])


async def goes_on_from_a_refused_one(place: Tracked) -> bool:
    """Save, be refused, and save again."""
    saver = (await place.connect()).checkpoint_saver()
    await _kept(saver, "ab")
    try:
        await saver.append("t", snapshot("a", "x", "y", status="odd"))
    except DurablyError:
        return not await _kept(saver, "axz")
    return False


async def shows_half_a_snapshot(place: Tracked) -> bool:
    """Read in the middle of an append."""
    saver = (await place.connect()).checkpoint_saver()
    appending = asyncio.create_task(saver.append("t", snapshot("a", turn=3)))
    await asyncio.sleep(0)
    latest = await saver.latest("t")
    await appending
    return latest is not None and not latest.snapshot.messages


MUTANTS = (
    Mutant(
        name="never shrinks a snapshot",
        says="However the messages change between saves, every snapshot reads as it was saved.",
        fails=frozenset({"CKS-SHARE-001"}),
        provenance="'if not new: return' in a save of what is new",
        harness=lambda: MemoryMutant(saver=NeverShrinks),
        probe=keeps_what_was_cut,
    ),
    Mutant(
        name="trusts its memory of a thread",
        says="Two savers that take turns on a thread never mix up which messages they share.",
        fails=frozenset({"CKS-SHARE-002"}),
        provenance="openai/openai-agents-python#2843",
        harness=lambda: MemoryMutant(saver=TrustsItsMemory),
        probe=mixes_two_writers,
    ),
    Mutant(
        name="takes equal values for the same",
        says="A message that differs in the type of a value alone is saved anew.",
        fails=frozenset({"CKS-SHARE-003"}),
        provenance="'==' between Python values, where 1 == 1.0 == True",
        harness=lambda: MemoryMutant(saver=ComparesValues),
        probe=takes_true_for_1,
    ),
    Mutant(
        name="goes on from a refused snapshot",
        says="After a snapshot that was refused a saver goes on from the last one it saved.",
        fails=frozenset({"CKS-SHARE-004"}),
        provenance="a cache that is filled before the write it is about",
        harness=lambda: MemoryMutant(saver=RemembersWhatWasRefused),
        probe=goes_on_from_a_refused_one,
    ),
    Mutant(
        name="publishes a snapshot before its messages",
        says="A reader beside a writer finds every snapshot whole.",
        fails=frozenset({"CKS-SHARE-005"}),
        provenance="PostHog/posthog#34648",
        harness=lambda: MemoryMutant(saver=PublishesFirst),
        probe=shows_half_a_snapshot,
    ),
    Mutant(
        name="trusts a seq of a former life",
        says="A thread saved again after its delete is whole, also by a saver that knew it.",
        fails=frozenset({"CKS-DEL-001"}),
        provenance="a cache that is checked by a number which starts again",
        harness=lambda: MemoryMutant(saver=TrustsASeq),
        probe=mixes_two_lives,
    ),
)
