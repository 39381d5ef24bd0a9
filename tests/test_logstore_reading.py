"""What every log store promises of reading a range and of listing."""

import asyncio

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durably.logstore import ALL, Batch, LogId, NewRecord, Range, Rewrite
from logs import LOG, batch, log, state


@pytest.fixture
async def store(place):
    store = place.log_store()
    yield store
    await store.aclose()


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


LEFT = (2, 3, 6, 7, 8, 10, 11, 12)


@pytest.mark.parametrize(
    ("span", "wanted"),
    [
        (ALL, LEFT),
        (Range(after=3), (6, 7, 8, 10, 11, 12)),
        (Range(after=4), (6, 7, 8, 10, 11, 12)),
        (Range(until=6), (2, 3, 6)),
        (Range(until=5), (2, 3)),
        (Range(until=0), ()),
        (Range(after=3, until=8), (6, 7, 8)),
        (Range(after=8, until=3), ()),
        (Range(after=12), ()),
        (Range(after=2**70), ()),
        (Range(until=2**70), LEFT),
        (Range(after=2**32 + 2), ()),
        (Range(limit=0), ()),
        (Range(limit=2), (2, 3)),
        (Range(limit=99), LEFT),
        (Range(newest=True), LEFT),
        (Range(newest=True, limit=2), (11, 12)),
        (Range(newest=True, limit=2, until=8), (7, 8)),
        (Range(newest=True, limit=3, after=10), (11, 12)),
        (Range(entry_limit=4), (2,)),
        (Range(entry_limit=5), (2, 3)),
        (Range(entry_limit=6, after=3), (6, 7)),
        (Range(entry_limit=7, limit=2), (2, 3)),
        (Range(newest=True, entry_limit=2), (12,)),
        (Range(newest=True, entry_limit=6), (11, 12)),
        (Range(newest=True, entry_limit=7), (8, 10, 11, 12)),
        (Range(keys=frozenset()), ()),
        (Range(keys=frozenset({"r3", "r12", "r4", "none"})), (3, 12)),
        (Range(keys=frozenset({"r3", "r12", "r7"}), limit=2), (3, 7)),
        (Range(keys=frozenset({"r3", "r12", "r7"}), limit=2, newest=True), (7, 12)),
        (Range(keys=frozenset({"r2", "r3", "r12"}), entry_limit=5, after=2), (3, 12)),
    ],
)
async def test_a_range_selects(store, span, wanted):
    """A range reads these seqs, ascending, with the state as it is."""
    await _fill(store)
    stored = await store.read(LOG, span)
    assert tuple(one.seq for one in stored.records) == wanted
    assert (stored.state.record_count, stored.state.head) == (8, b"12")


async def test_without_data_records_come_without_it(store):
    """with_data=False leaves everything but the data."""
    await _fill(store)
    whole = await store.read(LOG)
    bare = await store.read(LOG, Range(with_data=False))
    assert all(one.data is None for one in bare.records)
    assert bare.records == tuple(msgspec.structs.replace(one, data=None) for one in whole.records)
    assert [one.data for one in whole.records] == [b"%d" % seq for seq in LEFT]


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


NAMES = ("a", "a%", "a%b", "a*", "a_", "aX", "aXb", "aa", "b", "B", "é", "e\u0301", "~")
NAMES += ("a\U0010ffff", "a\U0010ffffb", "\uffee", "\U0001f600", "\U0010ffff" * 64, "a'", "a b")
IN_ORDER = sorted(NAMES, key=str.encode)


async def _make(store, names):
    for name in names:
        await store.append(log(name), batch("k", head=name.encode()))


async def _listed(store, **options):
    found, after = [], ""
    while True:
        page = await store.list("session", after=after, **options)
        found += [row.id for row in page.items]
        if page.next is None:
            return found
        after = page.next


@pytest.mark.parametrize("limit", [1, 3, len(NAMES), 1000])
async def test_logs_are_listed_in_the_order_of_their_utf8_bytes(store, limit):
    """A walk in pages of any size gives every id once, in the order of its UTF-8 bytes."""
    await _make(store, NAMES)
    await store.append(LogId(kind="run", id="a"), batch("k"))
    assert await _listed(store, limit=limit) == IN_ORDER
    page = await store.list("session", limit=limit)
    assert page.items == tuple(row for row in page.items if row.state is None)
    assert page.next == (None if limit >= len(NAMES) else IN_ORDER[limit - 1])
    assert (await store.list("thread")).items == ()


@pytest.mark.parametrize("prefix", ["", "a", "a%", "a*", "a_", "A", "é", "e", "a\U0010ffff", "a'"])
async def test_a_prefix_is_plain_text(store, prefix):
    """A prefix matches ids that begin with just these characters, case and wildcards included."""
    await _make(store, NAMES)
    wanted = [name for name in IN_ORDER if name.startswith(prefix)]
    assert await _listed(store, prefix=prefix, limit=2) == wanted
    after = wanted[0] if wanted else "a"
    assert await _listed(store, prefix=prefix) == wanted
    page = await store.list("session", prefix=prefix, after=after)
    assert [row.id for row in page.items] == wanted[1:]


async def test_a_prefix_and_an_after_that_no_log_has_are_just_texts(store):
    """``after`` need not be an id that exists, nor have the prefix."""
    await _make(store, ["a1", "a3", "b1"])
    page = await store.list("session", after="a2", prefix="a")
    assert [row.id for row in page.items] == ["a3"]
    assert (await store.list("session", after="b", prefix="a")).items == ()
    assert [row.id for row in (await store.list("session", after="A", prefix="b")).items] == ["b1"]


async def test_a_walk_survives_inserts_and_deletes(store):
    """A walk goes on although the id it stands at was deleted and others came and went."""
    await _make(store, ["b", "d", "f", "h"])
    first = await store.list("session", limit=2)
    assert first.next == "d"
    await store.delete(log("d"))
    await store.delete(log("f"))
    await _make(store, ["a", "e", "z"])
    rest = await store.list("session", after=first.next)
    assert [row.id for row in rest.items] == ["e", "h", "z"]


async def test_a_listing_gives_states_where_asked(store):
    """with_state adds to each row the state that a read would give."""
    await _make(store, ["a", "b"])
    await store.append(log("b"), batch("l"))
    page = await store.list("session", with_state=True)
    assert [row.state for row in page.items] == [
        await state(store, log("a")),
        await state(store, log("b")),
    ]
    assert [row.state.head for row in page.items] == [b"a", b"b"]


async def test_a_log_that_does_not_exist_reads_as_none(store):
    """None stands for no log, whatever the range; a log without records is one."""
    assert await store.read(LOG) is None
    assert await store.read(LOG, Range(limit=0)) is None
    await store.append(LOG, Batch(head=b"h"))
    assert (await store.read(LOG)).records == ()
