"""The rules every log store shares, as pure functions over values.

A backend that decides in Python reads a log's ``Tip`` and the keys in question, asks here what
is to be written, and writes it in one atomic step.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

import msgspec

from durably.errors import RevisionConflict
from durably.logstore import Applied, Batch, Log, LogId, LogState, Range, Record, Rewrite

__all__ = [
    "REMEMBERED_CHANGES",
    "Admission",
    "Change",
    "Edit",
    "Known",
    "Tip",
    "admit",
    "check_revision",
    "edit",
    "evict",
    "select",
]

REMEMBERED_CHANGES = 8


class Change(msgspec.Struct, frozen=True, array_like=True):
    """A change the log remembers: the digest of its key, and the answer it got."""

    digest: bytes
    revision: int
    seq: int


class Tip(msgspec.Struct, frozen=True, kw_only=True):
    """The mutable side of a log as a store keeps it: its state and its last 8 changes."""

    state: LogState
    changes: tuple[Change, ...] = ()


class Known(msgspec.Struct, frozen=True):
    """Where a record key is in the log, and the revision of the change that brought it."""

    seq: int
    revision: int


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """What an append must write: the new tip, the new records.

    ``excess`` is how many of the oldest records, the new ones included, must go in the same
    step; the store removes them and passes the tip through ``evict``.
    """

    tip: Tip
    records: tuple[Record, ...]
    excess: int
    applied: Applied


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """What a rewrite must write: the new tip, the seqs to remove, the records to overwrite."""

    tip: Tip
    dropped: tuple[int, ...]
    replaced: tuple[Record, ...]
    applied: Applied


def admit(
    log: LogId, tip: Tip | None, batch: Batch, known: Mapping[str, Known]
) -> Applied | Admission:
    """Decide an append: an answer for a duplicate, else what must be written.

    ``tip`` is None for a log that does not exist; ``known`` holds those of the batch's record
    keys that are in the log; others that are there may be in it, too.

    Raises:
        RevisionConflict: the log is not at the expected revision.
    """
    earlier = _remembered(tip, batch.key)
    if earlier is None and known:
        earlier = _carried(batch, known)
    if earlier is not None:
        return earlier
    check_revision(log, tip, batch.expected_revision)
    if tip and known and batch.records and all(key in known for key in batch.record_keys):
        last = known[batch.record_keys[-1]]
        return Applied(revision=tip.state.revision, seq=last.seq, duplicate=True)
    return _admission(tip, batch, known)


def _remembered(tip: Tip | None, key: str) -> Applied | None:
    if tip is None or not tip.changes:
        return None
    digest = _digest(key)
    for change in tip.changes:
        if change.digest == digest:
            return Applied(revision=change.revision, seq=change.seq, duplicate=True)
    return None


def _carried(batch: Batch, known: Mapping[str, Known]) -> Applied | None:
    """Recognise a batch by a record that carries its key, long after its change is forgotten."""
    for position, key in enumerate(batch.record_keys):
        if key == f"{batch.key}:{position}" and key in known:
            last = known.get(batch.record_keys[-1], known[key])
            return Applied(revision=known[key].revision, seq=last.seq, duplicate=True)
    return None


def check_revision(log: LogId, stored: Tip | Log | None, expected: int | None) -> None:
    """Refuse a log that is not at the expected revision; None expects nothing.

    Raises:
        RevisionConflict: it is at another one; 0 stands for a log that does not exist.
    """
    actual = 0 if stored is None else stored.state.revision
    if expected is not None and expected != actual:
        raise RevisionConflict(log, expected=expected, actual=actual)


def _admission(tip: Tip | None, batch: Batch, known: Mapping[str, Known]) -> Admission:
    before = _created(batch.at) if tip is None else tip.state
    revision = before.revision + 1
    fresh = [record for record in batch.records if record.key not in known]
    record_count = before.record_count + len(fresh)
    records = tuple(
        Record(
            seq=seq,
            key=new.key or "",
            entry_count=new.entry_count,
            stored_at=batch.at,
            revision=revision,
            data=new.data,
        )
        for seq, new in enumerate(fresh, before.next_seq)
    )
    seq = _last_seq(batch, known, records)
    state = LogState(
        revision=revision,
        epoch=revision if tip is None else before.epoch,
        next_seq=before.next_seq + len(fresh),
        record_count=record_count,
        entry_count=before.entry_count + sum(record.entry_count for record in fresh),
        head=before.head if batch.head is None else batch.head,
        created_at=before.created_at,
        updated_at=batch.at,
    )
    keep = record_count if batch.keep_last is None else batch.keep_last
    return Admission(
        tip=_remember(tip, state, batch.key, seq),
        records=records,
        excess=max(0, record_count - keep),
        applied=Applied(revision=revision, seq=seq),
    )


def _last_seq(batch: Batch, known: Mapping[str, Known], records: Sequence[Record]) -> int:
    if not batch.records:
        return 0
    last = batch.record_keys[-1]
    return known[last].seq if last in known else records[-1].seq


def _created(at: float) -> LogState:
    """Return the state before a log's first change; 40 bits are exact as a double, too."""
    return LogState(
        revision=secrets.randbits(40),
        epoch=0,
        next_seq=1,
        record_count=0,
        entry_count=0,
        head=None,
        created_at=at,
        updated_at=at,
    )


def _remember(tip: Tip | None, state: LogState, key: str, seq: int) -> Tip:
    change = Change(digest=_digest(key), revision=state.revision, seq=seq)
    earlier = () if tip is None else tip.changes
    return Tip(state=state, changes=(*earlier, change)[-REMEMBERED_CHANGES:])


def _digest(key: str) -> bytes:
    return blake2b(key.encode(), digest_size=12).digest()


def evict(tip: Tip, *, records: int, entries: int) -> Tip:
    """Return the tip after so many records, with so many entries in all, were evicted."""
    state = msgspec.structs.replace(
        tip.state,
        record_count=tip.state.record_count - records,
        entry_count=tip.state.entry_count - entries,
    )
    return msgspec.structs.replace(tip, state=state)


def edit(log: LogId, tip: Tip | None, change: Rewrite, records: Iterable[Record]) -> Applied | Edit:
    """Decide a rewrite: an answer for a duplicate, else what must be written.

    ``records`` are the log's, or at least those the change drops or replaces; their data is
    not looked at.

    Raises:
        RevisionConflict: the log is not at the expected revision, or does not exist.
    """
    earlier = _remembered(tip, change.key)
    if earlier is not None:
        return earlier
    if tip is None:
        raise RevisionConflict(log, expected=change.expected_revision, actual=0)
    check_revision(log, tip, change.expected_revision)
    gone: list[Record] = []
    replaced: list[Record] = []
    grown = 0
    moved = False
    for record in records:
        if change.drops(record.seq):
            gone.append(record)
        elif (new := change.replace.get(record.seq)) is not None:
            grown += new.entry_count - record.entry_count
            moved = moved or new.entry_count != record.entry_count
            replaced.append(
                msgspec.structs.replace(record, data=new.data, entry_count=new.entry_count)
            )
    state = _edited_state(tip.state, change, gone, grown, moved=moved)
    return Edit(
        tip=_remember(tip, state, change.key, 0),
        dropped=tuple(record.seq for record in gone),
        replaced=tuple(replaced),
        applied=Applied(revision=state.revision),
    )


def _edited_state(
    before: LogState, change: Rewrite, gone: Sequence[Record], grown: int, *, moved: bool
) -> LogState:
    revision = before.revision + 1
    return msgspec.structs.replace(
        before,
        revision=revision,
        epoch=revision if gone or moved else before.epoch,
        record_count=before.record_count - len(gone),
        entry_count=before.entry_count + grown - sum(record.entry_count for record in gone),
        head=before.head if change.head is None else change.head,
        updated_at=change.at,
    )


def select(records: Iterable[Record], span: Range) -> tuple[Record, ...]:
    """Return the records of a range, ascending, and take no more of them than it needs.

    ``records`` come in the order of reading: ascending, or descending with ``span.newest``.
    """
    found: list[Record] = []
    entries = 0
    if span.limit == 0:
        return ()
    for record in records:
        if not _inside(record, span):
            continue
        found.append(record if span.with_data else msgspec.structs.replace(record, data=None))
        entries += record.entry_count
        enough = span.entry_limit is not None and entries >= span.entry_limit
        if enough or len(found) == span.limit:
            break
    return tuple(reversed(found) if span.newest else found)


def _inside(record: Record, span: Range) -> bool:
    return (
        record.seq > span.after
        and (span.until is None or record.seq <= span.until)
        and (span.keys is None or record.key in span.keys)
    )
