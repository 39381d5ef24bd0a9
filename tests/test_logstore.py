"""What our log stores do where the contract leaves them free."""

import pytest

from durably import RevisionConflict
from durably.logstore import Batch, Rewrite
from logs import LOG, batch, change, state


@pytest.fixture
async def store(place):
    store = place.log_store()
    yield store
    await store.aclose()


async def test_a_change_without_records_is_forgotten_after_8_others(store):
    """A head-only batch and a rewrite that 8 others followed are taken for new ones."""
    created = await store.append(LOG, batch("a"))
    refresh = Batch(head=b"H", expected_revision=created.revision)
    await store.append(LOG, refresh)
    await change(store, 8)
    with pytest.raises(RevisionConflict):
        await store.append(LOG, refresh)
    cut = Rewrite(expected_revision=(await state(store)).revision, head=b"R")
    await store.rewrite(LOG, cut)
    await change(store, 8)
    with pytest.raises(RevisionConflict):
        await store.rewrite(LOG, cut)


async def test_a_logs_life_begins_at_a_random_number_of_40_bits(store):
    """The first revision is below 2**40 and seldom small, so that no token fits another life."""
    seen = []
    for _ in range(40):
        seen.append((await store.append(LOG, batch("a"))).revision)
        await store.delete(LOG)
    assert len(set(seen)) == 40
    assert all(0 < one <= 2**40 for one in seen)
    assert max(seen) > 2**32


async def test_seqs_count_from_1_without_gaps(store):
    """Records are numbered 1, 2, 3 in each life of a log, and next_seq is the next of these."""
    for _ in range(2):
        await store.append(LOG, batch("a", "b"))
        await store.append(LOG, batch("c"))
        stored = await store.read(LOG)
        assert [one.seq for one in stored.records] == [1, 2, 3]
        assert stored.state.next_seq == 4
        await store.delete(LOG)
