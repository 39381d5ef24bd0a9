"""``LogStore``: logs of 700 KiB, which a backend may keep in many pieces and move about."""

import asyncio

from durably import LogStore
from durably.logstore import Applied, Batch, NewRecord, Range, Rewrite
from durably_conformance.building import batch, log
from durably_conformance.context import T
from durably_conformance.logs import (
    BATCHES,
    LONG,
    at_work,
    content,
    datas,
    fill_long,
    keyed,
    keys,
    keys_in,
    large,
    meanwhile,
    pair,
    state,
    stored,
)
from durably_conformance.registry import check

LARGE = 70_000


@check("LOG-LONG-001", contract="logstore")
async def a_long_log_reads_as_it_was_appended(t: T) -> None:
    """A log of 700 KiB reads as it was appended, whole and by any range, from either end."""
    one, other = await pair(t)
    sent = [*await fill_long(one), keyed("x", "y", "z")]
    await one.append(LONG, sent[-1])
    found = await stored(t, other, LONG)
    wanted = [(record.key, record.data) for each in sent for record in each.records]
    t.eq([(record.key, record.data) for record in found.records], wanted, "keys and data")
    records = found.records
    seqs = [record.seq for record in records]
    some = frozenset({"00-03", "04-11", "05-00", "09-09", "y", "none"})
    for span, part in (
        (Range(limit=30), records[:30]),
        (Range(limit=30, newest=True), records[-30:]),
        (Range(entry_limit=17), records[:17]),
        (Range(entry_limit=17, newest=True), records[-17:]),
        (Range(after=seqs[40], until=seqs[90]), records[41:91]),
        (Range(after=seqs[40], until=seqs[90], limit=20, newest=True), records[71:91]),
        (Range(after=seqs[-5]), records[-4:]),
        (Range(keys=some), tuple(one for one in records if one.key in some)),
    ):
        t.eq((await stored(t, other, LONG, span=span)).records, part, f"what {span} reads")


@check("LOG-LONG-002", contract="logstore")
async def a_batch_is_known_from_far_behind(t: T) -> None:
    """A batch is known by its records, though 700 KiB of others followed it."""
    one, other = await pair(t)
    first, second = batch(b"a", b"b"), batch(bytes(LARGE), b"c")
    answers = [await one.append(LONG, sent) for sent in (first, second)]
    await fill_long(one)
    before = await state(t, other, LONG)
    for sent, answer in zip((first, second), answers, strict=True):
        wanted = Applied(revision=answer.revision, seq=answer.seq, duplicate=True)
        t.eq(await other.append(LONG, sent), wanted, "the answer to a batch sent again")
    t.eq(await state(t, one, LONG), before, "the state afterwards")
    old = first.record_keys[1]
    mixed = (NewRecord(key="new", data=b""), NewRecord(key=old, data=b"other"))
    await other.append(LONG, Batch(records=mixed))
    found = await stored(t, one, LONG, span=Range(keys=frozenset({old, "new"})))
    t.eq(datas(found), [b"b", b""], "an old record, and a new one")
    t.eq(found.state.record_count, before.record_count + 1, "record_count")


@check("LOG-LONG-003", contract="logstore")
async def a_long_log_is_read_while_it_grows(t: T) -> None:
    """Who reads a long log while it grows sees its beginning, and all that its state counts."""
    one, other = await pair(t)
    await one.append(LONG, large(0))

    async def write() -> None:
        for number in range(1, BATCHES):
            await one.append(LONG, large(number))

    async def look() -> None:
        found = await stored(t, other, LONG)
        count = found.state.record_count // 12
        wanted = [key for number in range(count) for key in large(number).record_keys]
        t.eq(keys(found), wanted, f"the keys of {found.state.record_count} records")

    await meanwhile(write(), look)
    await look()


@check("LOG-LONG-004", contract="logstore")
async def a_long_log_is_rewritten(t: T) -> None:
    """A rewrite of a long log drops and replaces what it names, wherever that lies."""
    one, other = await pair(t)
    await fill_long(one)
    found = await stored(t, one, LONG)
    records = found.records
    dropped = {0, *range(24, 36), 50, 118}
    replaced = {1, 49, 60, 110}
    new = NewRecord(data=b"new", entry_count=3)
    change = Rewrite(
        expected_revision=found.state.revision,
        drop=frozenset(records[place].seq for place in dropped),
        replace={records[place].seq: new for place in replaced},
        drop_after=records[117].seq,
    )
    await other.rewrite(LONG, change)
    wanted = [
        (record.seq, record.key, 3, b"new") if place in replaced else line
        for place, (record, line) in enumerate(zip(records, content(found), strict=True))
        if place <= 117 and place not in dropped  # noqa: PLR2004 - the last that is left
    ]
    after = await stored(t, one, LONG)
    t.eq(content(after), wanted, "the records")
    counts = (after.state.record_count, after.state.entry_count)
    t.eq(counts, (len(wanted), len(wanted) + 2 * len(replaced)), "record_count and entry_count")


@check("LOG-LONG-005", contract="logstore")
async def a_long_log_is_cut_at_any_record(t: T) -> None:
    """An eviction leaves exactly the newest records of a long log, and frees the others' keys."""
    one, other = await pair(t)
    sent = await fill_long(one)
    names = [key for each in sent for key in each.record_keys]
    await other.append(LONG, Batch(head=b"h", keep_last=41))
    t.eq(await keys_in(one, LONG), names[-41:], "the keys after an eviction")
    now = await state(t, one, LONG)
    t.eq((now.record_count, now.entry_count), (41, 41), "record_count and entry_count")
    answer = await one.append(LONG, large(0))
    t.ok(not answer.duplicate, "a batch of records that were evicted is new")
    t.eq(
        await keys_in(other, LONG), [*names[-41:], *names[:12]], "the keys after it was sent again"
    )
    await one.append(LONG, Batch(head=b"h", keep_last=12))
    t.eq(await keys_in(other, LONG), names[:12], "the keys after another eviction")


@check("LOG-LONG-006", contract="logstore")
async def a_long_log_leaves_nothing(t: T) -> None:
    """After a long log is deleted the storage holds what it held before, byte for byte."""
    one, other = await pair(t)
    await one.append(log("stays"), keyed("k"))
    before = await t.dump()
    await fill_long(one)
    now = await state(t, other, LONG)
    drop = frozenset(range(now.next_seq - 30, now.next_seq - 2))
    await other.rewrite(LONG, Rewrite(expected_revision=now.revision, drop=drop))
    await one.append(LONG, Batch(records=large(10).records, keep_last=60))
    t.differs(await t.dump(), before, "the storage before and after there is a log more")
    await other.delete(LONG)
    await t.place.settle()
    after = await t.dump()
    t.same_set(after.items(), before.items(), "what the storage holds")


@check("LOG-LONG-007", contract="logstore")
async def large_batches_at_once_all_land(t: T) -> None:
    """Of large batches that several handles append at once none is lost, and each lies together."""
    stores = await at_work(t, 3)

    async def write(who: int, store: LogStore) -> None:
        for number in range(4):
            await store.append(LONG, large(10 * who + number))

    await asyncio.gather(*(write(who, store) for who, store in enumerate(stores)))
    found = await keys_in(stores[0], LONG)
    first = [int(key.partition("-")[0]) for key in found[::12]]
    t.eq(found, [key for number in first for key in large(number).record_keys], "the keys")
    t.same_set(first, [10 * who + number for who in range(3) for number in range(4)], "the batches")
