"""What a change makes of a tip: pure functions over the tip and the indexes of its chunks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice

import msgspec

from durably import RevisionConflict, rules
from durably.logstore import Applied, Batch, LogId, Record, Rewrite
from durably_s3._chunks import Chunk, Index, record_of
from durably_s3._tip import Tip

__all__ = ["Contents", "admit_all", "edit", "is_full", "living", "overfull", "portions"]

SEAL_BYTES = 64 * 1024
"""Newest records in a tip, beyond which they are sealed: every append writes them again."""

RECORD_BYTES = 40
"""About what a record takes in a tip beside its key and its data."""

FAN = 8
"""Adjacent chunks of one level that are merged into one of the next."""

TOP_LEVEL = 6
LARGEST_CHUNK = 32 * 1024 * 1024
"""Bytes that merging makes of several chunks at most: it holds them in memory."""


class Contents:
    """An index, and where in it each key is."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self._known: dict[str, rules.Known] | None = None

    def known(self, key: str) -> rules.Known | None:
        """Return where a key is, None if it is not there."""
        if self._known is None:
            self._known = {row.key: rules.Known(row.seq, row.revision) for row in self.index.rows}
        return self._known.get(key)


def admit_all(
    log: LogId, tip: Tip | None, batches: Iterable[Batch], contents: Mapping[str, Contents]
) -> tuple[Tip | None, list[Applied | RevisionConflict]]:
    """Return the tip after some batches, the same where none changes it, and what each is told.

    ``contents`` are those of all chunks by name; none where no batch has records or evicts any.
    """
    answers: list[Applied | RevisionConflict] = []
    for batch in batches:
        known = _known(tip, contents, batch.record_keys) if tip else {}
        try:
            decided = rules.admit(log, tip.rules if tip else None, batch, known)
        except RevisionConflict as conflict:
            answers.append(conflict)
            continue
        if isinstance(decided, rules.Admission):
            tip = _grown(tip, decided, contents)
            decided = decided.applied
        answers.append(decided)
    return tip, answers


def _known(
    tip: Tip, contents: Mapping[str, Contents], keys: Sequence[str]
) -> dict[str, rules.Known]:
    """Return which of some keys are in the log."""
    known: dict[str, rules.Known] = {}
    for key in keys:
        for chunk in tip.chunks:
            found = contents[chunk.name].known(key)
            if found is not None and found.seq > tip.low:
                known[key] = found
    wanted = frozenset(keys)
    for record in tip.tail:
        if record.key in wanted:
            known[record.key] = rules.Known(record.seq, record.revision)
    return known


def _grown(tip: Tip | None, admission: rules.Admission, contents: Mapping[str, Contents]) -> Tip:
    before = Tip(rules=admission.tip) if tip is None else tip
    tail = (*before.tail, *admission.records)
    after = msgspec.structs.replace(before, rules=admission.tip, tail=tail)
    return _evicted(after, admission.excess, contents) if admission.excess else after


def _evicted(tip: Tip, excess: int, contents: Mapping[str, Contents]) -> Tip:
    """Return the tip without its oldest records; a chunk goes once all of it has."""
    oldest = list(islice(living(tip, contents), excess))
    entries = sum(record.entry_count for record in oldest)
    low = oldest[-1].seq
    return Tip(
        rules=rules.evict(tip.rules, records=len(oldest), entries=entries),
        low=low,
        chunks=tuple(chunk for chunk in tip.chunks if chunk.last > low),
        tail=tuple(record for record in tip.tail if record.seq > low),
    )


def living(tip: Tip, contents: Mapping[str, Contents]) -> Iterator[Record]:
    """Give the records that were not evicted, oldest first, those of chunks without data."""
    for chunk in tip.chunks:
        for row in contents[chunk.name].index.rows:
            if row.seq > tip.low:
                yield record_of(row, None)
    yield from tip.tail


def edit(
    log: LogId, tip: Tip | None, change: Rewrite, contents: Mapping[str, Contents]
) -> Applied | rules.Edit:
    """Decide a rewrite.

    Raises:
        RevisionConflict: the log is not at the expected revision, or does not exist.
    """
    if tip is None:
        return rules.edit(log, None, change, ())
    touched = (
        record
        for record in living(tip, contents)
        if change.drops(record.seq) or record.seq in change.replace
    )
    return rules.edit(log, tip.rules, change, touched)


def is_full(tail: Sequence[Record]) -> bool:
    """Whether the newest records are to be sealed."""
    sizes = (len(one.data or b"") + len(one.key) + RECORD_BYTES for one in tail)
    return sum(sizes) > SEAL_BYTES


def overfull(chunks: Sequence[Chunk]) -> tuple[int, int] | None:
    """Return where chunks that are to be merged begin and end, None if there are none."""
    start = 0
    for level, group in groupby(chunks, lambda chunk: chunk.level):
        count = sum(1 for _ in group)
        if count >= FAN and level < TOP_LEVEL:
            return start, start + FAN
        start += count
    return None


def portions(chunks: Sequence[Chunk]) -> list[list[Chunk]]:
    """Divide chunks that are to be merged: no portion is larger than one chunk may be."""
    divided: list[list[Chunk]] = []
    size = 0
    for chunk in chunks:
        if divided and size + chunk.size <= LARGEST_CHUNK:
            divided[-1].append(chunk)
            size += chunk.size
        else:
            divided.append([chunk])
            size = chunk.size
    return divided
