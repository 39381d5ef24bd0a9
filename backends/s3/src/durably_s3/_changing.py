"""Changes: what each makes of a log's tip, with the chunks that are new and those that go."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar

import msgspec
from typing_extensions import override

from durably import RevisionConflict, rules
from durably.logstore import Applied, Batch, LogId, Record, Rewrite
from durably_s3 import _chunks as chunks
from durably_s3 import _planning as planning
from durably_s3 import _tip as tips
from durably_s3._area import Area, Seen
from durably_s3._chunks import Chunk, Index, Sealed
from durably_s3._patience import Patience
from durably_s3._planning import Contents
from durably_s3._tip import Tip

__all__ = ["Answer", "Appending", "Change", "Deleting", "Plan", "Rewriting"]

T = TypeVar("T")

CHANGES_MEANWHILE = 2**20
"""More than others can make between two attempts; the revision of a new life is a random one."""

Answer: TypeAlias = Applied | RevisionConflict | bool


class Plan(msgspec.Struct, kw_only=True):
    """What a change is to write: new chunks by name, then ``body`` in the tip's place.

    Without a ``body`` it changes nothing. ``obsolete`` are the chunks that nothing names then.
    """

    answers: Sequence[Answer]
    tip: Tip | None = None
    body: bytes | None = None
    chunks: dict[str, bytes] = {}
    obsolete: Sequence[str] = ()


class Change(Protocol):
    """What is to be done to a log.

    ``may_be_late`` says whether it can be planned on a tip that was seen before it was asked for,
    ``is_in_doubt`` whether an attempt was made of which nobody knows if it was carried out.
    """

    may_be_late: bool = True
    is_in_doubt: bool = False

    async def look(self, area: Area, log: LogId, patience: Patience) -> Seen:
        """Return the tip as it is now."""
        return await area.look(log, patience)

    async def plan(self, area: Area, log: LogId, seen: Seen, patience: Patience) -> Plan:
        """Return what it makes of what was seen.

        Raises:
            Vanished: a chunk of the tip is not there.
        """
        ...


class Appending(Change):
    """Batches that share one tip."""

    def __init__(self, batches: Sequence[Batch], *, compress: bool) -> None:
        self._batches = batches
        self._compress = compress

    @override
    async def plan(self, area: Area, log: LogId, seen: Seen, patience: Patience) -> Plan:
        contents: Mapping[str, Contents] = {}
        if seen.tip and any(batch.records or batch.keep_last for batch in self._batches):
            contents = await area.contents(log, seen.tip.chunks, patience)
        tip, answers = planning.admit_all(log, seen.tip, self._batches, contents)
        if tip is None or tip is seen.tip:
            return Plan(answers=answers)
        draft = _Draft(area, log, tip, compress=self._compress)
        await draft.seal()
        await draft.merge(patience)
        return draft.plan(answers, seen)


class Rewriting(Change):
    """A rewrite."""

    def __init__(self, change: Rewrite, *, compress: bool) -> None:
        self._change = change
        self._compress = compress

    @override
    async def plan(self, area: Area, log: LogId, seen: Seen, patience: Patience) -> Plan:
        contents: Mapping[str, Contents] = {}
        if seen.tip:
            contents = await area.contents(log, seen.tip.chunks, patience)
        try:
            decided = planning.edit(log, seen.tip, self._change, contents)
        except RevisionConflict as conflict:
            return Plan(answers=[conflict])
        if isinstance(decided, Applied) or seen.tip is None:
            return Plan(answers=[decided if isinstance(decided, Applied) else decided.applied])
        draft = _Draft(area, log, seen.tip, compress=self._compress)
        await draft.edit(decided, contents, patience)
        await draft.seal()
        return draft.plan([decided.applied], seen)


class Deleting(Change):
    """A deletion: a tombstone takes the tip's place, and then goes, too.

    It begins with the tip as it is now: after an attempt on an older one, a log that was created
    anew long ago would look as if that had been done in between.
    """

    may_be_late: bool = False

    def __init__(self, expected_revision: int | None) -> None:
        self._expected = expected_revision
        self._life: Tip | None = None
        self._was_spoiled = False

    @override
    async def look(self, area: Area, log: LogId, patience: Patience) -> Seen:
        if self._expected is None:
            return await area.look_at_any(log, patience)
        return await area.look(log, patience)

    @override
    async def plan(self, area: Area, log: LogId, seen: Seen, patience: Patience) -> Plan:
        if seen.tip is None and not seen.spoiled:
            return Plan(answers=[False])
        if seen.tip is not None:
            is_new = self._was_spoiled or (self._life and _is_another_life(seen.tip, self._life))
            if self.is_in_doubt and is_new:
                return Plan(answers=[True])
            try:
                rules.check_revision(log, seen.tip.rules, self._expected)
            except RevisionConflict as conflict:
                return Plan(answers=[conflict])
            self._life = seen.tip
        self._was_spoiled = seen.spoiled
        names = [chunk.name for chunk in seen.tip.chunks] if seen.tip else []
        return Plan(answers=[True], body=tips.tombstone(), obsolete=names)


def _is_another_life(tip: Tip, life: Tip) -> bool:
    """Whether a log was created anew since: then an attempt to delete it may have succeeded."""
    now, then = tip.rules.state, life.rules.state
    grown = now.revision - then.revision
    return now.created_at != then.created_at or not 0 <= grown < CHANGES_MEANWHILE


class _Draft:
    """A tip in the making."""

    def __init__(self, area: Area, log: LogId, tip: Tip, *, compress: bool) -> None:
        self._area = area
        self._log = log
        self._tip = tip
        self._compress = compress
        self._chunks: dict[str, bytes] = {}

    def plan(self, answers: Sequence[Answer], seen: Seen) -> Plan:
        """Return what is to be written."""
        named = {chunk.name for chunk in self._tip.chunks}
        before = seen.tip.chunks if seen.tip else ()
        return Plan(
            answers=answers,
            tip=self._tip,
            body=tips.encode(self._tip),
            chunks={name: data for name, data in self._chunks.items() if name in named},
            obsolete=[chunk.name for chunk in before if chunk.name not in named],
        )

    async def seal(self) -> None:
        """Make a chunk of the newest records, if they are many."""
        tail, compress = self._tip.tail, self._compress
        if not planning.is_full(tail):
            return
        made = self._keep(await self._work(lambda: chunks.build(tail, compress=compress)))
        self._tip = msgspec.structs.replace(self._tip, chunks=(*self._tip.chunks, made), tail=())

    async def merge(self, patience: Patience) -> None:
        """Merge chunks while there are too many of one level."""
        while (run := planning.overfull(self._tip.chunks)) is not None:
            listed = self._tip.chunks
            made: list[Chunk] = []
            for portion in planning.portions(listed[slice(*run)]):
                made += await self._merged(portion, patience)
            merged = (*listed[: run[0]], *made, *listed[run[1] :])
            self._tip = msgspec.structs.replace(self._tip, chunks=merged)

    async def _merged(self, portion: Sequence[Chunk], patience: Patience) -> Sequence[Chunk]:
        level, low = portion[0].level + 1, self._tip.low
        if len(portion) == 1:
            return [msgspec.structs.replace(portion[0], level=level)]
        parts = await asyncio.gather(*(self._whole(chunk, patience) for chunk in portion))
        made = await self._work(lambda: chunks.concatenate(parts, level=level, low=low))
        return [] if made is None else [self._keep(made)]

    async def _whole(self, chunk: Chunk, patience: Patience) -> tuple[Index, Sequence[bytes]]:
        data = self._chunks.get(chunk.name)
        if data is None:
            return await self._area.whole(self._log, chunk, patience)
        return chunks.split(chunk, data)

    async def edit(
        self, edit: rules.Edit, contents: Mapping[str, Contents], patience: Patience
    ) -> None:
        """Remove and replace records; chunks that have none of them stay as they are."""
        before, dropped = self._tip, frozenset(edit.dropped)
        replaced = {record.seq: record for record in edit.replaced}
        touched = dropped | replaced.keys()
        left: list[Chunk] = []
        for chunk in before.chunks:
            seqs = [row.seq for row in contents[chunk.name].index.rows if row.seq > before.low]
            if touched.isdisjoint(seqs):
                left.append(chunk)
            elif not dropped.issuperset(seqs):
                records = await self._area.records(self._log, chunk, patience)
                kept = [
                    replaced.get(record.seq, record)
                    for record in records
                    if record.seq > before.low and record.seq not in dropped
                ]
                left.append(self._keep(await self._rebuilt(kept, chunk.level)))
        self._tip = Tip(
            rules=edit.tip,
            low=before.low,
            chunks=tuple(left),
            tail=tuple(replaced.get(one.seq, one) for one in before.tail if one.seq not in dropped),
        )

    async def _rebuilt(self, records: Sequence[Record], level: int) -> Sealed:
        compress = self._compress
        return await self._work(lambda: chunks.build(records, level=level, compress=compress))

    def _keep(self, made: Sealed) -> Chunk:
        self._chunks[made.chunk.name] = made.data
        key = self._area.keys.chunk(self._log, made.chunk.name)
        self._area.memory.keep_contents(key, made.index)
        return made.chunk

    async def _work(self, task: Callable[[], T]) -> T:
        return await self._area.bucket.work(task)
