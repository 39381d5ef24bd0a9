"""What every log store promises of its changes: append, rewrite, delete."""

import asyncio

import msgspec
import pytest

from durably import RevisionConflict
from durably.logstore import Batch, LogId, NewRecord, Range, Rewrite
from logs import LOG, batch, change, closing_all, keys, log, state, tables, unkeyed


@pytest.fixture
async def store(place):
    store = place.log_store()
    yield store
    await store.aclose()


@pytest.fixture
async def keep():
    async with closing_all() as keep:
        yield keep


async def test_an_append_numbers_its_records_and_sets_the_head(store):
    """The first append numbers its records from 1 and sets head, counts, times and epoch."""
    records = (
        NewRecord(key="a", data=b"A", entry_count=3),
        NewRecord(key="b", data=b"", entry_count=0),
    )
    applied = await store.append(LOG, Batch(records=records, head=b"H", at=12.5))
    stored = await store.read(LOG)
    assert (applied.seq, applied.duplicate) == (2, False)
    assert [(one.seq, one.key, one.data, one.entry_count) for one in stored.records] == [
        (1, "a", b"A", 3),
        (2, "b", b"", 0),
    ]
    assert {(one.stored_at, one.revision) for one in stored.records} == {(12.5, applied.revision)}
    assert msgspec.structs.asdict(stored.state) == {
        "revision": applied.revision,
        "epoch": applied.revision,
        "next_seq": 3,
        "record_count": 2,
        "entry_count": 3,
        "head": b"H",
        "created_at": 12.5,
        "updated_at": 12.5,
    }


async def test_each_change_raises_the_revision_by_one(store):
    """Append, head refresh and rewrite each raise the revision by one and leave created_at."""
    first = await store.append(LOG, batch("a", at=1.0))
    second = await store.append(LOG, batch("b", at=5.0))
    third = await store.append(LOG, Batch(head=b"h", at=4.0))
    fourth = await store.rewrite(LOG, Rewrite(expected_revision=third.revision, at=3.0))
    found = [one.revision - first.revision for one in (second, third, fourth)]
    assert found == [1, 2, 3]
    now = await state(store)
    assert (now.created_at, now.updated_at, now.revision) == (1.0, 3.0, fourth.revision)


@pytest.mark.parametrize("later", [0, 1, 7, 8, 40])
async def test_a_batch_sent_again_gets_its_first_answer(store, later):
    """A batch whose record is in the log is known by its own key after any number of changes."""
    await store.append(LOG, batch("before"))
    sent = unkeyed(b"1", b"2", head=b"mine")
    first = await store.append(LOG, sent)
    await change(store, later)
    await store.append(LOG, batch("after"))
    again = await store.append(LOG, sent)
    assert again == msgspec.structs.replace(first, duplicate=True)
    stored = await store.read(LOG)
    assert [one.data for one in stored.records] == [b"before", b"1", b"2", b"after"]
    assert stored.state.head == (b"another" if later else b"mine")


@pytest.mark.parametrize("later", [0, 7, 30])
async def test_the_own_key_counts_before_the_expected_revision(store, later):
    """A known batch is a duplicate, not a conflict, although its revision is long past."""
    before = await store.append(LOG, batch("before"))
    sent = unkeyed(b"1", expected_revision=before.revision)
    first = await store.append(LOG, sent)
    await change(store, later)
    assert await store.append(LOG, sent) == msgspec.structs.replace(first, duplicate=True)
    assert (await state(store)).revision == first.revision + later


@pytest.mark.parametrize(("later", "remembered"), [(0, True), (7, True), (8, False)])
async def test_a_change_without_records_is_remembered_among_the_last_8(store, later, remembered):
    """A head-only batch and a rewrite are known while fewer than 8 others followed."""
    created = await store.append(LOG, batch("a"))
    refresh = Batch(head=b"H", expected_revision=created.revision)
    first = await store.append(LOG, refresh)
    await change(store, later)
    if remembered:
        assert await store.append(LOG, refresh) == msgspec.structs.replace(first, duplicate=True)
    else:
        with pytest.raises(RevisionConflict):
            await store.append(LOG, refresh)
    cut = Rewrite(expected_revision=(await state(store)).revision, head=b"R")
    second = await store.rewrite(LOG, cut)
    await change(store, later)
    before = await store.read(LOG)
    if remembered:
        assert await store.rewrite(LOG, cut) == msgspec.structs.replace(second, duplicate=True)
    else:
        with pytest.raises(RevisionConflict):
            await store.rewrite(LOG, cut)
    assert await store.read(LOG) == before


async def test_the_expected_revision_counts_before_record_keys(store):
    """A batch of known records at a stale revision is a conflict, not a duplicate."""
    first = await store.append(LOG, batch("a"))
    await change(store, 1)
    for stale in (0, first.revision):
        with pytest.raises(RevisionConflict) as caught:
            await store.append(LOG, batch("a", expected_revision=stale))
        assert (caught.value.expected, caught.value.actual) == (stale, first.revision + 1)


async def test_a_missing_log_is_at_revision_0(store):
    """Expecting 0 creates the log once; expecting more of a missing one changes nothing."""
    with pytest.raises(RevisionConflict) as caught:
        await store.append(LOG, batch("a", expected_revision=7))
    assert (caught.value.expected, caught.value.actual) == (7, 0)
    assert await store.read(LOG) is None
    assert not (await store.append(LOG, batch("a", expected_revision=0))).duplicate
    with pytest.raises(RevisionConflict):
        await store.append(LOG, batch("b", expected_revision=0))
    assert await keys(store) == ["a"]


async def test_without_a_new_record_nothing_changes(store):
    """A batch of known records leaves revision, times and head, and says where they are."""
    await store.append(LOG, batch("a", "b", head=b"first"))
    await store.append(LOG, batch("c"))
    before = await store.read(LOG)
    sent = batch("b", "a", head=b"second", keep_last=1)
    answer = await store.append(LOG, sent)
    assert (answer.duplicate, answer.seq) == (True, 1)
    assert answer.revision == before.state.revision
    assert await store.read(LOG) == before


async def test_known_records_stay_and_new_ones_come(store):
    """Of a mixed batch the known records are left as they are, and the head is set."""
    await store.append(LOG, batch("a", "b", head=b"first", at=1.0))
    new = NewRecord(key="a", data=b"other", entry_count=9)
    mixed = Batch(records=(new, NewRecord(key="c", data=b"c")), head=b"second", at=2.0)
    answer = await store.append(LOG, mixed)
    assert (answer.seq, answer.duplicate) == (3, False)
    stored = await store.read(LOG)
    assert [one.data for one in stored.records] == [b"a", b"b", b"c"]
    assert [one.stored_at for one in stored.records] == [1.0, 1.0, 2.0]
    counts = stored.state.record_count, stored.state.entry_count, stored.state.next_seq
    assert (stored.state.head, counts) == (b"second", (3, 3, 4))
    last_known = await store.append(LOG, batch("d", "b"))
    assert (last_known.seq, await keys(store)) == (2, ["a", "b", "c", "d"])


async def test_a_head_needs_no_record(store):
    """A head alone creates a log or refreshes its head; no head leaves it as it is."""
    first = await store.append(LOG, Batch(head=b""))
    assert (first.seq, (await state(store)).head) == (0, b"")
    await store.append(LOG, Batch(head=b"H"))
    await store.append(LOG, batch("a"))
    now = await state(store)
    assert (now.head, now.record_count, now.epoch) == (b"H", 1, first.revision)


async def test_keep_last_evicts_the_oldest(store):
    """Eviction leaves the newest records and right counts; epoch and numbering go on."""
    created = await store.append(LOG, unkeyed(b"1", b"2", b"3"))
    await store.append(LOG, Batch(records=(NewRecord(data=b"4", entry_count=5),), keep_last=9))
    assert (await state(store)).record_count == 4
    await store.append(LOG, unkeyed(b"5", keep_last=2))
    stored = await store.read(LOG)
    assert [(one.seq, one.data) for one in stored.records] == [(4, b"4"), (5, b"5")]
    assert (stored.state.record_count, stored.state.entry_count) == (2, 6)
    assert (stored.state.next_seq, stored.state.epoch) == (6, created.revision)
    await store.append(LOG, Batch(head=b"alone", keep_last=1))
    now = await state(store)
    assert (now.record_count, now.entry_count, now.next_seq) == (1, 1, 6)


@pytest.mark.parametrize("existing", [0, 2])
async def test_keep_last_may_evict_the_first_records_of_its_own_batch(store, existing):
    """Of a batch with more records than may stay only its newest are stored."""
    for number in range(existing):
        await store.append(LOG, batch(f"old {number}"))
    answer = await store.append(LOG, batch("a", "b", "c", keep_last=2))
    assert answer.seq == existing + 3
    assert await keys(store) == ["b", "c"]
    now = await state(store)
    assert (now.record_count, now.entry_count, now.next_seq) == (2, 2, existing + 4)


async def test_an_evicted_key_is_free_and_its_seq_is_not(store):
    """An evicted record's key may be stored again, under a new seq."""
    await store.append(LOG, batch("a"))
    await store.append(LOG, batch("b", keep_last=1))
    answer = await store.append(LOG, batch("a"))
    assert (answer.seq, answer.duplicate) == (3, False)
    assert await keys(store) == ["b", "a"]


async def test_a_seq_is_never_used_again(store):
    """Numbering goes on after the newest records, or all of them, were dropped."""
    await store.append(LOG, batch("a", "b", "c"))
    for drop_after, wanted in ((1, 4), (0, 5)):
        now = (await state(store)).revision
        await store.rewrite(LOG, Rewrite(expected_revision=now, drop_after=drop_after))
        assert (await store.append(LOG, batch("d"))).seq == wanted
    assert await keys(store) == ["d"]


async def test_a_rewrite_drops_and_replaces(store):
    """A rewrite drops the tail and single records, and replaces data but not key and time."""
    await store.append(LOG, batch("a", "b", "c", "d", "e", head=b"h", at=1.0))
    before = await store.read(LOG)
    answer = await store.rewrite(
        LOG,
        Rewrite(
            expected_revision=before.state.revision,
            drop_after=4,
            drop=frozenset({2}),
            replace={1: NewRecord(data=b"new", entry_count=4)},
            at=9.0,
        ),
    )
    stored = await store.read(LOG)
    first, third, fourth = (before.records[index] for index in (0, 2, 3))
    replaced = msgspec.structs.replace(first, data=b"new", entry_count=4)
    assert stored.records == (replaced, third, fourth)
    assert (answer.seq, answer.duplicate) == (0, False)
    counts = stored.state.record_count, stored.state.entry_count, stored.state.next_seq
    assert (counts, stored.state.head, stored.state.updated_at) == ((3, 6, 6), b"h", 9.0)


@pytest.mark.parametrize(
    ("change", "moves"),
    [
        ({}, False),
        ({"head": b"H"}, False),
        ({"replace": {2: NewRecord(data=b"same count")}}, False),
        ({"replace": {2: NewRecord(data=b"", entry_count=2)}}, True),
        (
            {
                "replace": {
                    1: NewRecord(data=b"", entry_count=0),
                    2: NewRecord(data=b"", entry_count=2),
                }
            },
            True,
        ),
        ({"drop": frozenset({1})}, True),
        ({"drop_after": 2}, True),
        ({"drop_after": 3}, False),
        ({"drop": frozenset({4, 2**31, 2**32 + 1, 2**70})}, False),
        ({"drop_after": 2**40}, False),
        ({"replace": {99: NewRecord(data=b"", entry_count=7)}}, False),
        ({"replace": {2**32 + 2: NewRecord(data=b"", entry_count=7)}}, False),
    ],
)
async def test_the_epoch_changes_with_positions_alone(store, change, moves):
    """A rewrite moves the epoch if it drops a record or changes a count; unknown seqs do not."""
    before = (await store.append(LOG, batch("a", "b", "c"))).revision
    answer = await store.rewrite(LOG, Rewrite(expected_revision=before, **change))
    now = await store.read(LOG)
    assert now.state.epoch == (answer.revision if moves else before)
    assert now.state.entry_count == sum(one.entry_count for one in now.records)
    assert now.state.record_count == len(now.records)
    if not moves:
        assert [one.key for one in now.records] == ["a", "b", "c"]


async def test_a_rewrite_is_compare_and_set(store):
    """A rewrite at another revision, or of a missing log, is a conflict and changes nothing."""
    with pytest.raises(RevisionConflict) as caught:
        await store.rewrite(LOG, Rewrite(expected_revision=3, head=b"H"))
    assert (caught.value.actual, await store.read(LOG)) == (0, None)
    stale = await store.append(LOG, batch("a", "b"))
    await change(store, 1)
    before = await store.read(LOG)
    with pytest.raises(RevisionConflict) as caught:
        await store.rewrite(LOG, Rewrite(expected_revision=stale.revision, drop_after=0))
    assert caught.value.actual == before.state.revision
    assert await store.read(LOG) == before


async def test_delete_removes_that_log_and_nothing_else(place, keep):
    """A deleted log leaves no row behind; logs of other ids, kinds and namespaces stay."""
    store, other = keep(place.log_store()), keep(place.log_store(namespace="other"))
    near = [log("a log "), log("A log"), log("a lo"), LogId(kind="run", id="a log")]
    for one in near:
        await store.append(one, batch("k", head=b"h"))
    await other.append(LOG, batch("k"))
    before = tables(place.file) if place.backend == "sqlite" else None
    await store.append(LOG, batch("k", "l", head=b"h"))
    assert [await store.delete(LOG), await store.delete(LOG)] == [True, False]
    assert await store.read(LOG) is None
    assert [await keys(store, one) for one in near] == [["k"]] * 4
    assert await keys(other) == ["k"]
    if before is not None:
        assert tables(place.file) == before


async def test_delete_is_compare_and_set_where_asked(store):
    """A log at another revision stays; a missing one is just not there."""
    assert await store.delete(LOG, expected_revision=5) is False
    stale = await store.append(LOG, batch("a"))
    now = await store.append(LOG, batch("b"))
    for wrong in (0, stale.revision):
        with pytest.raises(RevisionConflict) as caught:
            await store.delete(LOG, expected_revision=wrong)
        assert (caught.value.expected, caught.value.actual) == (wrong, now.revision)
    assert await keys(store) == ["a", "b"]
    assert await store.delete(LOG, expected_revision=now.revision) is True
    assert await store.read(LOG) is None


async def test_revisions_never_repeat_across_a_delete(store):
    """A log's lives share no revision: each starts at a random number of 40 bits."""
    seen = []
    for _ in range(40):
        seen.append((await store.append(LOG, batch("a"))).revision)
        seen.append((await store.append(LOG, batch("b"))).revision)
        await store.delete(LOG)
    assert len(set(seen)) == 80
    assert all(0 < one < 2**41 for one in seen)
    assert max(seen) > 2**32


async def test_a_stale_batch_does_not_enter_the_next_life(store):
    """A token of a deleted log is refused by the log of the same id that follows."""
    token = (await store.append(LOG, batch("a"))).revision
    await store.delete(LOG)
    await store.append(LOG, batch("b"))
    with pytest.raises(RevisionConflict):
        await store.append(LOG, batch("c", expected_revision=token))
    with pytest.raises(RevisionConflict):
        await store.rewrite(LOG, Rewrite(expected_revision=token, drop_after=0))
    with pytest.raises(RevisionConflict):
        await store.delete(LOG, expected_revision=token)
    assert await keys(store) == ["b"]


async def test_concurrent_appends_through_two_handles_all_land_once(place, keep):
    """Appends that race, each sent by two handles, are stored once each and numbered 1 to n."""
    stores = [keep(place.log_store()), keep(place.log_store())]
    sent = [unkeyed(b"x", b"y", key=f"batch {number}") for number in range(20)]
    answers = await asyncio.gather(*(store.append(LOG, one) for one in sent for store in stores))
    assert sum(not answer.duplicate for answer in answers) == 20
    assert len({answer.revision for answer in answers}) == 20
    stored = await stores[1].read(LOG)
    assert [one.seq for one in stored.records] == list(range(1, 41))
    found = [one.key for one in stored.records]
    whole = [(f"{key[:-2]}:0", f"{key[:-2]}:1") for key in found[::2]]
    assert list(zip(found[::2], found[1::2], strict=True)) == whole


async def test_a_head_of_64_kib_and_an_empty_record_are_kept(store):
    """A head of 64 KiB and a record without bytes come back as they were."""
    head = bytes(range(256)) * 256
    await store.append(LOG, Batch(records=(NewRecord(data=b"", entry_count=0),), head=head))
    stored = await store.read(LOG, Range(limit=1))
    assert (stored.state.head, stored.records[0].data) == (head, b"")
