"""``LogStore``: the bound a batch may give, and the numbers of records."""

from durably.logstore import Batch, NewRecord, Rewrite
from durably_conformance.building import batch, log
from durably_conformance.context import T
from durably_conformance.logs import datas, keyed, keys, pair, state, stored
from durably_conformance.registry import check


@check("LOG-KEEP-001", contract="logstore")
async def the_newest_stay(t: T) -> None:
    """A batch with keep_last leaves the newest so many records, of its own ones, too."""
    one, other = await pair(t)
    await one.append(log(), batch(b"1", b"2", b"3", keep_last=5))
    t.eq(datas(await stored(t, other)), [b"1", b"2", b"3"], "records where all fit")
    await one.append(log(), batch(b"4", keep_last=3))
    t.eq(datas(await stored(t, other)), [b"2", b"3", b"4"], "records where one went")
    await one.append(log(), batch(b"5", b"6", b"7", keep_last=2))
    t.eq(datas(await stored(t, other)), [b"6", b"7"], "records of a batch larger than its bound")


@check("LOG-KEEP-002", contract="logstore")
async def a_bound_is_the_batchs_own(t: T) -> None:
    """A batch without keep_last evicts nothing, whatever bound a batch before it gave."""
    one, other = await pair(t)
    await one.append(log(), batch(b"1"))
    await one.append(log(), batch(b"2", keep_last=1))
    await one.append(log(), batch(b"3"))
    await other.append(log(), batch(b"4", b"5"))
    t.eq(datas(await stored(t, one)), [b"2", b"3", b"4", b"5"], "records")


@check("LOG-KEEP-003", contract="logstore")
async def a_head_may_evict(t: T) -> None:
    """A batch without records evicts as well."""
    one, other = await pair(t)
    await one.append(log(), batch(b"1", b"2", b"3"))
    await one.append(log(), Batch(head=b"h", keep_last=1))
    found = await stored(t, other)
    t.eq((datas(found), found.state.head), ([b"3"], b"h"), "records and head")


@check("LOG-KEEP-004", contract="logstore")
async def counts_follow_an_eviction(t: T) -> None:
    """After an eviction the state counts the records that are left, and their entries."""
    one, other = await pair(t)
    for count in (1, 2, 4):
        await one.append(log(), Batch(records=(NewRecord(data=b"", entry_count=count),)))
    last = (NewRecord(data=b"", entry_count=8), NewRecord(data=b"", entry_count=16))
    await one.append(log(), Batch(records=last, keep_last=3))
    now = await state(t, other)
    t.eq((now.record_count, now.entry_count), (3, 28), "record_count and entry_count")


@check("LOG-KEEP-005", contract="logstore")
async def an_evicted_key_is_free(t: T) -> None:
    """The key of a record that was evicted may be stored again."""
    one, other = await pair(t)
    await one.append(log(), keyed("a"))
    await one.append(log(), Batch(records=keyed("b").records, keep_last=1))
    answer = await other.append(log(), Batch(records=keyed("a").records, keep_last=2))
    t.ok(not answer.duplicate, "a record of an evicted key is no duplicate")
    t.eq(keys(await stored(t, one)), ["b", "a"], "the keys")


@check("LOG-SEQ-001", contract="logstore")
async def seqs_rise(t: T) -> None:
    """A record's seq is above those before it, and not below the next_seq last read."""
    one, other = await pair(t)
    last, announced = 0, 0
    for position in range(4):
        store = (one, other)[position % 2]
        await store.append(log(), batch(b"a", b"b"))
        found = await stored(t, other)
        fresh = [record.seq for record in found.records[-2:]]
        t.ok(last < fresh[0] < fresh[1], f"the seqs {fresh} rise, after {last}")
        t.ok(announced <= fresh[0], f"the seq {fresh[0]} is not below the next_seq {announced}")
        last, announced = fresh[1], found.state.next_seq
        t.ok(announced > last, f"the next_seq {announced} is above the last seq {last}")


@check("LOG-SEQ-002", contract="logstore", reports=("openai/openai-agents-python#3755",))
async def a_dropped_seq_is_not_used_again(t: T) -> None:
    """The seq of a record that a rewrite dropped is never given to another."""
    one, other = await pair(t)
    await one.append(log(), batch(b"a", b"b", b"c"))
    for _ in range(2):
        found = await stored(t, one)
        last = found.records[-1].seq
        drop = frozenset(record.seq for record in found.records[-2:])
        await one.rewrite(log(), Rewrite(expected_revision=found.state.revision, drop=drop))
        await other.append(log(), batch(b"d"))
        fresh = (await stored(t, one)).records[-1].seq
        t.ok(fresh > last, f"the seq {fresh} is above the dropped {last}")


@check("LOG-SEQ-003", contract="logstore")
async def an_evicted_seq_is_not_used_again(t: T) -> None:
    """The seq of a record that was evicted is never given to another."""
    one, other = await pair(t)
    seen: list[int] = []
    for position in range(6):
        store = (one, other)[position % 2]
        await store.append(log(), batch(b"a", b"b", keep_last=2 + position % 2))
        seen += [record.seq for record in (await stored(t, one)).records if record.seq not in seen]
    t.eq(len(seen), 12, f"how many seqs the records had, of {seen}")
    t.eq(seen, sorted(seen), "the seqs in the order of the appends")
