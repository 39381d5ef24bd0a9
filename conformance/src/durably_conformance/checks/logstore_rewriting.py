"""``LogStore``: dropping and replacing records, and the epoch that tells of it."""

from typing import Any

from durably import LogStore, RevisionConflict
from durably.logstore import Applied, Batch, Log, NewRecord, Rewrite
from durably_conformance.building import batch, log
from durably_conformance.context import T
from durably_conformance.logs import content, keyed, keys, pair, state, stored
from durably_conformance.registry import check

UNKNOWN = (2**31, 2**32 + 1, 2**53, 2**64, 2**70)


async def _filled(t: T, store: LogStore) -> Log:
    """Store a to e in one batch, with a head, and return the log."""
    await store.append(log(), keyed("a", "b", "c", "d", "e", head=b"kept"))
    return await stored(t, store)


async def _rewrite(t: T, store: LogStore, **change: Any) -> Applied:  # noqa: ANN401 - Rewrite's own
    """Rewrite the log at the revision it is at."""
    now = await state(t, store)
    return await store.rewrite(log(), Rewrite(expected_revision=now.revision, **change))


@check("LOG-REW-001", contract="logstore")
async def records_are_dropped(t: T) -> None:
    """A rewrite drops every record after a seq, and single ones, and no other."""
    one, other = await pair(t)
    found = await _filled(t, one)
    seqs = [record.seq for record in found.records]
    await _rewrite(t, one, drop_after=seqs[3], drop=frozenset({seqs[1]}))
    left = content(await stored(t, other))
    t.eq(left, [content(found)[n] for n in (0, 2, 3)], "the records left")


@check("LOG-REW-002", contract="logstore", reports=("langchain-ai/langgraph#1436",))
async def a_replaced_record_keeps_its_place(t: T) -> None:
    """A replaced record has new data and a new entry_count, and keeps its seq, key and time."""
    one, other = await pair(t)
    await one.append(log(), Batch(records=keyed("a", "b", "c").records, at=5.0))
    seqs = [record.seq for record in (await stored(t, one)).records]
    new = NewRecord(data=b"new", entry_count=4)
    await _rewrite(t, one, replace={seqs[1]: new}, at=9.0)
    got = [
        (record.seq, record.key, record.stored_at, record.data, record.entry_count)
        for record in (await stored(t, other)).records
    ]
    wanted = [
        (seqs[0], "a", 5.0, b"a", 1),
        (seqs[1], "b", 5.0, b"new", 4),
        (seqs[2], "c", 5.0, b"c", 1),
    ]
    t.eq(got, wanted, "seq, key, stored_at, data and entry_count of the records")


@check("LOG-REW-003", contract="logstore")
async def a_rewrite_sets_the_head(t: T) -> None:
    """A rewrite sets the head it is given, else leaves it, and updated_at is its own time."""
    one, other = await pair(t)
    await one.append(log(), batch(b"a", head=b"kept", at=5.0))
    await _rewrite(t, one, at=3.0)
    now = await state(t, other)
    t.eq((now.head, now.updated_at), (b"kept", 3.0), "head and updated_at, given no head")
    await _rewrite(t, one, head=b"new", at=4.0)
    now = await state(t, other)
    t.eq((now.head, now.updated_at, now.created_at), (b"new", 4.0, 5.0), "the head, and times")


@check("LOG-REW-004", contract="logstore")
async def counts_follow_a_rewrite(t: T) -> None:
    """After a rewrite the state counts the records that are left, and their entries."""
    one, other = await pair(t)
    records = tuple(NewRecord(data=b"", entry_count=count) for count in (1, 2, 3, 4))
    await one.append(log(), Batch(records=records))
    seqs = [record.seq for record in (await stored(t, one)).records]
    new = NewRecord(data=b"", entry_count=7)
    await _rewrite(t, one, drop=frozenset({seqs[1]}), replace={seqs[2]: new})
    now = await state(t, other)
    t.eq((now.record_count, now.entry_count), (3, 12), "record_count and entry_count")


@check("LOG-REW-005", contract="logstore", reports=("agno-agi/agno#9450",))
async def a_rewrite_is_compare_and_set(t: T) -> None:
    """A rewrite of a log that is at another revision, or missing, is a conflict without effect."""
    one, other = await pair(t)
    lost = one.rewrite(log(), Rewrite(expected_revision=3, head=b"h"))
    error = await t.raises(RevisionConflict, lost, "a rewrite of a log that is not there")
    t.eq((error.actual, await other.read(log())), (0, None), "the revision it names, and the log")
    stale = await one.append(log(), batch(b"a"))
    await other.append(log(), batch(b"b"))
    before = await stored(t, other)
    late = Rewrite(expected_revision=stale.revision, drop_after=0, head=b"h")
    error = await t.raises(RevisionConflict, one.rewrite(log(), late), "a stale rewrite")
    t.eq(error.actual, before.state.revision, "the actual revision it names")
    t.eq(await stored(t, other), before, "the log afterwards")


@check("LOG-REW-006", contract="logstore")
async def unknown_seqs_are_ignored(t: T) -> None:
    """A rewrite of seqs that are not there touches no record, now or later."""
    one, other = await pair(t)
    await one.append(log(), keyed("a", "b", "c"))
    before = await stored(t, one)
    beyond = before.records[-1].seq + 1
    replace = {seq: NewRecord(data=b"", entry_count=7) for seq in (beyond + 1, *UNKNOWN)}
    await _rewrite(t, one, drop=frozenset({0, beyond}), replace=replace, drop_after=2**71)
    after = await stored(t, other)
    t.eq(content(after), content(before), "the records")
    t.eq((after.state.entry_count, after.state.epoch), (3, before.state.epoch), "count and epoch")
    await other.append(log(), keyed("d", "e"))
    t.eq(keys(await stored(t, one)), ["a", "b", "c", "d", "e"], "the keys after another append")


@check("LOG-REW-007", contract="logstore")
async def a_dropped_key_is_free(t: T) -> None:
    """The key of a record that was dropped may be stored again."""
    one, other = await pair(t)
    found = await _filled(t, one)
    await _rewrite(t, one, drop=frozenset({found.records[1].seq}))
    answer = await other.append(log(), keyed("b"))
    t.ok(not answer.duplicate, "a record of a dropped key is no duplicate")
    t.eq(keys(await stored(t, one)), ["a", "c", "d", "e", "b"], "the keys")


@check("LOG-EPOCH-001", contract="logstore")
async def positions_that_move_move_the_epoch(t: T) -> None:
    """The epoch is the revision of the last rewrite that dropped a record or changed a count."""
    one, other = await pair(t)
    created = await one.append(log(), keyed("a", "b", "c", "d"))
    t.eq((await state(t, other)).epoch, created.revision, "the epoch of a new log")
    seqs = [record.seq for record in (await stored(t, one)).records]
    longer, shorter = (NewRecord(data=b"", entry_count=count) for count in (2, 0))
    for words, change in (
        ("shortened a record", {"replace": {seqs[0]: shorter}}),
        ("moved an entry", {"replace": {seqs[0]: longer, seqs[1]: shorter}}),
        ("dropped a record", {"drop": frozenset({seqs[1]})}),
        ("dropped the end", {"drop_after": seqs[2]}),
    ):
        answer = await _rewrite(t, one, **change)
        t.eq((await state(t, other)).epoch, answer.revision, f"the epoch after it {words}")


@check("LOG-EPOCH-002", contract="logstore")
async def positions_that_stay_leave_the_epoch(t: T) -> None:
    """Neither an append nor an eviction, a new head or new data of equal count moves the epoch."""
    one, other = await pair(t)
    created = await one.append(log(), keyed("a", "b", "c"))
    await one.append(log(), keyed("d"))
    t.eq((await state(t, other)).epoch, created.revision, "the epoch after an append")
    await one.append(log(), Batch(head=b"h", keep_last=2))
    t.eq((await state(t, other)).epoch, created.revision, "the epoch after an eviction")
    seq = (await stored(t, one)).records[0].seq
    await _rewrite(t, one, head=b"new")
    await _rewrite(t, one, replace={seq: NewRecord(data=b"new")})
    t.eq((await state(t, other)).epoch, created.revision, "the epoch after rewriting in place")
