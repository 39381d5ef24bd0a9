"""Any range at all reads what the plainest selection from all records would."""

import asyncio

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from durably.logstore import Batch, NewRecord, Range, Rewrite
from logs import LOG, batch, log, state


async def _fill(store):
    """Store records of 0 to 4 entries with gaps between their seqs, and a neighbour each side."""
    await store.append(log("neighbour"), batch("r1", "r2"))
    for number in range(1, 13):
        record = NewRecord(key=f"r{number}", data=b"%d" % number, entry_count=number * 7 % 5)
        await store.append(LOG, Batch(records=(record,), head=b"%d" % number, at=float(number)))
    await store.append(log("other neighbour"), batch("r1", "r2"))
    now = await state(store)
    drop = frozenset({1, 4, 5, 9})
    await store.rewrite(LOG, Rewrite(expected_revision=now.revision, drop=drop))


def _reference(records, span):
    """Select a range in the plainest way, from all records."""
    left = [one for one in records if one.seq > span.after]
    left = [one for one in left if span.until is None or one.seq <= span.until]
    left = [one for one in left if span.keys is None or one.key in span.keys]
    if span.newest:
        left.reverse()
    if span.limit is not None:
        left = left[: span.limit]
    if span.entry_limit is not None:
        sums = [sum(one.entry_count for one in left[:end]) for end in range(len(left) + 1)]
        enough = [end for end, total in enumerate(sums) if total >= span.entry_limit]
        left = left[: enough[0]] if enough else left
    if not span.with_data:
        left = [msgspec.structs.replace(one, data=None) for one in left]
    return tuple(sorted(left, key=lambda one: one.seq))


SEQS = st.integers(0, 14)
SPANS = st.builds(
    Range,
    after=SEQS,
    until=st.none() | SEQS,
    limit=st.none() | st.integers(0, 9),
    entry_limit=st.none() | st.integers(1, 20),
    newest=st.booleans(),
    keys=st.none() | st.frozensets(SEQS.map("r{}".format)),
    with_data=st.booleans(),
)


def test_any_range_reads_what_the_plainest_selection_does(place):
    """Every combination of a range's fields reads what filtering all records would give."""
    with asyncio.Runner() as runner:
        store = place.log_store()
        runner.run(_fill(store))
        whole = runner.run(store.read(LOG))

        @settings(max_examples=300, deadline=None, derandomize=True, database=None)
        @given(SPANS)
        def agree(span):
            stored = runner.run(store.read(LOG, span))
            assert stored.records == _reference(whole.records, span)
            assert stored.state == whole.state

        try:
            agree()
        finally:
            runner.run(store.aclose())
