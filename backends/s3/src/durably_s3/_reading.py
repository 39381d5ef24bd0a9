"""Reading a range of a log: which chunks it takes, and no more of them than that."""

import asyncio
from collections.abc import Sequence

from durably import CorruptRecord, StorageBusy, rules
from durably.logstore import Log, LogId, Range, Record
from durably_s3._area import Area, Seen, Vanished
from durably_s3._chunks import Chunk
from durably_s3._patience import Patience
from durably_s3._planning import living
from durably_s3._tip import Tip

__all__ = ["Retold", "read"]


class Retold:
    """What to do about a chunk that is not there: read the tip again, but not for ever."""

    def __init__(self, log: LogId) -> None:
        self._log = log
        self._missed: str | None = None

    async def wait(self, seen: Seen, vanished: Vanished, patience: Patience) -> None:
        """Wait a moment before the tip is read again.

        Raises:
            CorruptRecord: the same tip has named a missing chunk before.
            StorageBusy: others change the log all the time.
        """
        if seen.etag == self._missed:
            raise CorruptRecord(self._log, f"its object {vanished.key} is missing")
        self._missed = seen.etag
        await patience.rest(StorageBusy(f"others rewrite {self._log} all the time"))


async def read(area: Area, log: LogId, span: Range, patience: Patience) -> Log | None:
    """Read the state and a range of records, all as one tip tells them."""
    retold = Retold(log)
    while True:
        seen = await area.look(log, patience)
        if seen.tip is None:
            return None
        try:
            records = await _select(area, log, seen.tip, span, patience)
        except Vanished as vanished:
            await retold.wait(seen, vanished, patience)
            continue
        return Log(state=seen.tip.rules.state, records=records)


async def _select(
    area: Area, log: LogId, tip: Tip, span: Range, patience: Patience
) -> tuple[Record, ...]:
    if span.limit == 0:
        return ()
    chunks = _candidates(tip, span)
    if span.with_data and not any(_is_parted(tip, chunk, span) for chunk in chunks):
        parts = await asyncio.gather(*(area.records(log, one, patience) for one in chunks))
        records = [record for part in parts for record in part]
        return _selected((*records, *tip.tail), span)
    part = Tip(rules=tip.rules, low=tip.low, chunks=tuple(chunks), tail=tip.tail)
    contents = await area.contents(log, chunks, patience)
    chosen = _selected(tuple(living(part, contents)), span)
    if not span.with_data:
        return chosen
    seqs = frozenset(record.seq for record in chosen)
    found = await asyncio.gather(
        *(
            area.some_records(log, chunk, contents[chunk.name].index, seqs, patience)
            for chunk in chunks
        )
    )
    data = {record.seq: record for part_ in found for record in part_}
    return tuple(data.get(record.seq, record) for record in chosen)


def _selected(records: Sequence[Record], span: Range) -> tuple[Record, ...]:
    return rules.select(reversed(records) if span.newest else records, span)


def _candidates(tip: Tip, span: Range) -> list[Chunk]:
    """Return the chunks that may hold what is wanted, oldest first.

    Where the newest or the oldest are wanted, those are enough that have so many for certain.
    """
    inside = [
        chunk
        for chunk in tip.chunks
        if chunk.last > max(span.after, tip.low) and not _is_behind(chunk.first, span)
    ]
    if span.keys is not None or (span.limit is None and span.entry_limit is None):
        return inside
    enough: list[Chunk] = []
    records = entries = 0
    if span.newest:
        sure = [one for one in tip.tail if one.seq > span.after and not _is_behind(one.seq, span)]
        records, entries = len(sure), sum(one.entry_count for one in sure)
    for chunk in reversed(inside) if span.newest else inside:
        if _has_enough(records, entries, span):
            break
        enough.append(chunk)
        if not _is_cut(tip, chunk, span):
            records += chunk.record_count
            entries += chunk.entry_count
    return enough[::-1] if span.newest else enough


def _has_enough(records: int, entries: int, span: Range) -> bool:
    by_count = span.limit is not None and records >= span.limit
    return by_count or (span.entry_limit is not None and entries >= span.entry_limit)


def _is_behind(seq: int, span: Range) -> bool:
    return span.until is not None and seq > span.until


def _is_cut(tip: Tip, chunk: Chunk, span: Range) -> bool:
    """Whether a chunk has records that are not within the range, or not in the log any more."""
    return chunk.first <= max(span.after, tip.low) or _is_behind(chunk.last, span)


def _is_parted(tip: Tip, chunk: Chunk, span: Range) -> bool:
    """Whether perhaps only a part of a chunk's records is wanted."""
    counted = span.limit is not None or span.entry_limit is not None
    return counted or span.keys is not None or _is_cut(tip, chunk, span)
