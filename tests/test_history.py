"""Bounded history: pages that add up to the flat view, and cursors that hold or say why not."""

import base64
import itertools
from hashlib import blake2b

import msgspec
import pytest

from builders import call, model, plant, result, said, user
from disturbed import LosesRecords
from durably import (
    CorruptRecord,
    CursorExpired,
    CursorForeign,
    CursorIncompatible,
    CursorMalformed,
    HistoryItem,
    HistoryPage,
    HistoryTooLarge,
    InvalidFilter,
    InvalidId,
    InvalidLimit,
    Storage,
    _cursors,
    _history,
)
from faults import Metered
from logs import closing_all, write_lock_is_free

RUNS = (0, 1, 50, 0, 0, 7, 1, 256, 1, 0, 50, 0)
LIMITS = (1, 2, 3, 7, 100, 256)
MIXED = (user, call, result, model, result)


async def fill(session, lengths=RUNS, name="s", kinds=(user,)):
    """Append runs of so many entries, each of another text and of these kinds in turn."""
    numbers = itertools.count()
    for position, length in enumerate(lengths):
        entries = [
            kinds[number % len(kinds)](f"{number}") for number in itertools.islice(numbers, length)
        ]
        await session.append(name, entries, run_id=f"r{position}")


async def flat(session, name="s"):
    """Return all items of a session, by reading it whole."""
    pairs = [(one.run_id, entry) for one in await session.segments(name) for entry in one.entries]
    return [
        HistoryItem(index=index, run_id=run_id, entry=entry)
        for index, (run_id, entry) in enumerate(pairs)
    ]


async def walked(pages):
    return [item async for page in pages for item in page.items]


def is_message(item):
    return item.entry.__struct_config__.tag in {"input", "assistant_text"}


@pytest.mark.parametrize("limit", LIMITS)
async def test_the_pages_are_the_flat_view(handles, limit):
    """Pages hold every entry once, in order, with its run and index; all but the last are full."""
    first, second = handles
    await fill(first.sessions)
    pages = [page async for page in second.sessions.pages("s", limit=limit)]
    view = await flat(first.sessions)
    assert len(view) == 366
    assert [list(page.items) for page in pages] == [
        view[start : start + limit] for start in range(0, len(view), limit)
    ]
    assert [page.next_cursor is None for page in pages] == [False] * (len(pages) - 1) + [True]


@pytest.mark.parametrize("limit", LIMITS)
async def test_messages_are_the_flat_view_filtered(storage, limit):
    """types="messages" gives what a filter over the flat view gives, in full pages."""
    await fill(storage.sessions, (*RUNS, *(3, 0, 4) * 20), kinds=MIXED)
    pages = [page async for page in storage.sessions.pages("s", limit=limit, types="messages")]
    view = [item for item in await flat(storage.sessions) if is_message(item)]
    assert len(view) == 203
    assert [item for page in pages for item in page.items] == view
    assert all(len(page.items) == limit for page in pages[:-1])


async def test_a_page_has_100_items_unless_asked(storage):
    """Without a limit a page has 100 items."""
    await fill(storage.sessions, (50, 49, 30))
    assert len((await storage.sessions.history("s")).items) == 100


@pytest.mark.parametrize("index", [0, 1, 2, 50, 51, 58, 364, 365])
async def test_a_rewind_to_an_items_index_keeps_what_came_before(storage, index):
    """Keeping item.index entries leaves exactly the items before it."""
    await fill(storage.sessions)
    view = await flat(storage.sessions)
    await storage.sessions.rewind("s", keep_entries=view[index].index)
    assert await flat(storage.sessions) == view[:index]


@pytest.mark.parametrize("types", [None, "messages"])
@pytest.mark.parametrize("limit", [1, 7, 256])
async def test_entries_appended_later_do_not_appear(handles, limit, types):
    """A walk ends where its first page saw the end, whatever any handle appends meanwhile."""
    first, second = handles
    await fill(first.sessions, (3, 0, 255, 40))
    view = await flat(first.sessions)
    items = []
    async for page in first.sessions.pages("s", limit=limit, types=types):
        items += page.items
        if len(items) % 40 <= limit:
            await second.sessions.append("s", said("later"))
            await first.sessions.append("s", said("later", "still"))
    assert items == view
    assert len(await first.sessions.load("s")) > len(view)


async def test_a_whole_page_has_no_cursor_to_what_comes_later(storage):
    """A page that reaches the end has no cursor, also if the session grows afterwards."""
    await storage.sessions.append("s", said("a", "b"))
    page = await storage.sessions.history("s", limit=2)
    await storage.sessions.append("s", said("c"))
    assert page.next_cursor is None
    assert (await storage.sessions.history("s", limit=2)).next_cursor is not None


@pytest.mark.parametrize("runs", [(), (0,), (0, 0, 0)])
async def test_what_has_no_entries_is_one_empty_page(storage, runs):
    """A session that does not exist, or has only empty runs, is a page without items."""
    await fill(storage.sessions, runs)
    pages = [page async for page in storage.sessions.pages("s")]
    assert pages == [HistoryPage(items=())]
    assert list(await storage.sessions.last("s", entries=5)) == []
    assert list(await storage.sessions.last("s", runs=5)) == []


class Text(str):
    __slots__ = ()


async def test_a_limit_that_is_none_is_refused(storage):
    """Whatever is no integer of 1 to 256 is refused alike, with the maximum, by both reads."""
    reads = (storage.sessions.history, storage.sessions.pages)
    limits = (0, -1, 257, 10**30, True, 1.0, "5", None)
    for read, limit in itertools.product(reads, limits):
        with pytest.raises(InvalidLimit, match="at least 1 and at most 256") as caught:
            await read("s", limit=limit)
        assert (caught.value.minimum, caught.value.maximum) == (1, 256)


async def test_types_that_are_not_understood_are_refused(storage):
    """Nothing but None and "messages" is a filter; another one never reads everything."""
    await storage.sessions.append("s", said("a"))
    reads = (storage.sessions.history, storage.sessions.pages)
    wrong = ("message", "", "Messages", b"messages", 0, True, ["messages"], Text("messages"))
    for read, types in itertools.product(reads, wrong):
        with pytest.raises(InvalidFilter):
            await read("s", types=types)


@pytest.mark.parametrize("name", ["runs", "entries"])
async def test_an_end_of_no_length_is_refused(storage, name):
    """The last runs or entries are counted by an integer of at least 1."""
    for count in (0, -1, True, 1.0, "5"):
        with pytest.raises(InvalidLimit, match=f"{name} must be an integer of at least 1"):
            await storage.sessions.last("s", **{name: count})


@pytest.mark.parametrize("options", [{}, {"runs": 1, "entries": 1}])
async def test_the_end_is_of_runs_or_of_entries(storage, options):
    """Asking for the last of neither, or of both, is refused."""
    with pytest.raises(InvalidFilter, match="runs or entries"):
        await storage.sessions.last("s", **options)


async def test_pages_refuses_an_illegal_id_at_once(storage):
    """The walk over an illegal id is refused where it is asked for."""
    with pytest.raises(InvalidId):
        storage.sessions.pages("")


@pytest.fixture
async def cursor(storage):
    """A cursor behind the first of three entries, in two runs."""
    await storage.sessions.append("s", said("a", "b"), run_id="r1")
    await storage.sessions.append("s", said("c"), run_id="r2")
    return (await storage.sessions.history("s", limit=1)).next_cursor


def with_checksum(body):
    data = blake2b(body, digest_size=8).digest() + body
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def body_of(cursor):
    return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))[8:]


def fields_of(cursor):
    return msgspec.msgpack.decode(body_of(cursor)[1:])


def packed(fields):
    return with_checksum(b"\x01" + msgspec.msgpack.encode(fields))


SPOILED = (
    lambda _: "",
    lambda _: "x",
    lambda _: "A" * 500,
    lambda _: "é",
    lambda _: 5,
    lambda _: True,
    lambda cursor: cursor.encode(),
    lambda cursor: [cursor],
    Text,
    lambda cursor: cursor[:-2],
    lambda cursor: cursor[1:],
    lambda cursor: cursor + cursor,
    lambda cursor: cursor + "AAAA",
    lambda cursor: f" {cursor}",
    lambda _: with_checksum(b""),
    lambda _: with_checksum(b"\x01"),
    lambda cursor: with_checksum(body_of(cursor) + b"\x00"),
    lambda _: packed([1, 2, 3]),
    lambda _: packed({"seq": 1}),
    lambda cursor: packed(fields_of(cursor)[:-1]),
    lambda cursor: packed([*fields_of(cursor), 0]),
    lambda cursor: packed([*fields_of(cursor)[:-1], -1]),
    lambda cursor: packed([*fields_of(cursor)[:-1], 2**53]),
    lambda cursor: packed([*fields_of(cursor)[:-1], 1.0]),
    lambda cursor: packed([b"short", *fields_of(cursor)[1:]]),
)


async def test_what_is_no_cursor_is_malformed(storage, cursor):
    """Text cut short or grown, other types and sealed nonsense are all CursorMalformed."""
    for spoil in SPOILED:
        with pytest.raises(CursorMalformed):
            await storage.sessions.history("s", after=spoil(cursor))


async def test_a_changed_character_is_malformed(cursor):
    """No character of a cursor can be another one, but for bits that mean nothing at its end."""
    meant = _cursors.read_cursor(cursor, "s", None)
    for position, character in enumerate(cursor):
        for other in "AQgw_-b4":
            text = cursor[:position] + other + cursor[position + 1 :]
            if other == character:
                continue
            if position == len(cursor) - 1 and body_of(text) == body_of(cursor):
                assert _cursors.read_cursor(text, "s", None) == meant
                continue
            with pytest.raises(CursorMalformed):
                _cursors.read_cursor(text, "s", None)


@pytest.mark.parametrize("name", ["other", "absent"])
async def test_a_cursor_of_another_session_is_foreign(storage, cursor, name):
    """A cursor opens no other session, also not one of the same content."""
    await storage.sessions.append("other", said("a", "b"), run_id="r1")
    await storage.sessions.append("other", said("c"), run_id="r2")
    with pytest.raises(CursorForeign, match=name):
        await storage.sessions.history(name, after=cursor)


async def test_a_cursor_goes_with_its_filter(storage, cursor):
    """A cursor of a walk with one filter is refused by a walk with another."""
    with pytest.raises(CursorIncompatible, match="types=None"):
        await storage.sessions.history("s", after=cursor, types="messages")
    narrow = await storage.sessions.history("s", limit=1, types="messages")
    with pytest.raises(CursorIncompatible, match="types='messages'"):
        await storage.sessions.history("s", after=narrow.next_cursor)


@pytest.mark.parametrize("body", [b"\x02", b"\x00\xc0", b"\xff\x01\x02"])
async def test_a_cursor_of_another_format_is_incompatible(storage, cursor, body):
    """A cursor whose seal is right and whose format is not ours is of another version."""
    with pytest.raises(CursorIncompatible, match="another version"):
        await storage.sessions.history("s", after=with_checksum(body))
    with pytest.raises(CursorIncompatible, match="another version"):
        await storage.sessions.history("s", after=with_checksum(b"\x02" + body_of(cursor)[1:]))


async def _recreate(storage):
    await storage.sessions.clear("s")
    await storage.sessions.append("s", said("a", "b"), run_id="r1")
    await storage.sessions.append("s", said("c"), run_id="r2")


async def _clear_catalogued(storage):
    await storage.catalog.create("s")
    await _recreate(storage)


@pytest.mark.parametrize(
    "act",
    [
        lambda s: s.sessions.rewind("s", keep_entries=2),
        lambda s: s.sessions.rewind("s", keep_entries=1),
        lambda s: s.sessions.rewind("s", keep_entries=0),
        lambda s: s.sessions.clear("s"),
        lambda s: s.catalog.delete("s"),
        _recreate,
        _clear_catalogued,
    ],
)
@pytest.mark.parametrize("types", [None, "messages"])
async def test_a_cursor_into_what_was_changed_is_expired(handles, cursor, act, types):
    """Rewinding, clearing, deleting and creating anew, identically or not, expires cursors."""
    first, second = handles
    page = await first.sessions.history("s", limit=1, types=types)
    await act(second)
    with pytest.raises(CursorExpired) as caught:
        await first.sessions.history("s", after=page.next_cursor, types=types)
    assert caught.value.session_id == "s"


@pytest.mark.parametrize(
    "act",
    [
        lambda s: s.sessions.append("s", said("later")),
        lambda s: s.sessions.append("s", []),
        lambda s: s.sessions.append("s", said("again"), run_id="r1"),
        lambda s: s.sessions.trim_tool_results("s", keep_runs=0, keep_chars=0),
        lambda s: s.sessions.rewind("s", keep_entries=4),
        lambda s: s.catalog.create("s"),
    ],
)
async def test_a_cursor_outlives_what_moves_nothing(handles, act):
    """Appending, trimming, rewinding past the end and cataloguing leave cursors as they are."""
    first, second = handles
    await first.sessions.append("s", [user("a"), result("c", "x" * 500)], run_id="r1")
    await first.sessions.append("s", said("b", "d"), run_id="r2")
    page = await first.sessions.history("s", limit=1)
    await act(second)
    rest = await first.sessions.history("s", after=page.next_cursor)
    assert [(item.index, item.run_id) for item in rest.items] == [(1, "r1"), (2, "r2"), (3, "r2")]
    assert rest.next_cursor is None


async def test_a_cursor_can_be_used_again(storage, cursor):
    """The same cursor gives the same page, as often as it is passed, through any handle."""
    first = await storage.sessions.history("s", limit=1, after=cursor)
    assert await storage.sessions.history("s", limit=1, after=cursor) == first
    assert [item.entry for item in first.items] == said("b")


async def test_pages_may_differ_in_size(storage):
    """A walk may ask for another limit with every page."""
    await fill(storage.sessions)
    view, cursor, items = await flat(storage.sessions), None, []
    for limit in (1, 256, 3, 50, 2, 200):
        page = await storage.sessions.history("s", limit=limit, after=cursor)
        items += page.items
        cursor = page.next_cursor
    assert (items, cursor) == (view, None)


@pytest.fixture
async def metered(place):
    """A log store that counts what it returns, and a storage over it."""
    store = Metered(place.log_store())
    async with Storage(store) as storage:
        yield store, storage


async def test_pages_are_read_when_they_are_asked_for(metered):
    """Asking for a walk reads nothing, a page takes one read, and an exhausted walk none."""
    store, storage = metered
    await fill(storage.sessions, (2, 2, 1))
    before = store.reads
    walk = storage.sessions.pages("s", limit=2)
    seen = [store.reads - before]
    seen += [store.reads - before async for _ in walk]
    for _ in range(3):
        with pytest.raises(StopAsyncIteration):
            await anext(walk)
    assert (seen, store.reads - before) == ([0, 1, 2, 3], 3)


async def test_an_abandoned_walk_blocks_nobody(place, handles):
    """A walk that was begun and left holds no lock: another handle writes at once."""
    first, second = handles
    await fill(first.sessions, (1, 1, 1))
    walk = first.sessions.pages("s", limit=1)
    await anext(walk)
    if place.backend == "sqlite":
        assert write_lock_is_free(place.file)
    assert await second.sessions.append("s", said("x"), run_id="new") == "new"
    assert (await second.sessions.rewind("s", keep_entries=1)).removed_entries == 3
    with pytest.raises(CursorExpired):
        await anext(walk)


@pytest.mark.parametrize("count", [1, 2, 49, 50, 51, 52, 310, 366, 367, 2**64])
async def test_the_last_entries_are_the_end_of_the_flat_view(storage, count):
    """last(entries=n) is the flat view's last n items, across runs and empty ones."""
    await fill(storage.sessions)
    view = await flat(storage.sessions)
    assert list(await storage.sessions.last("s", entries=count)) == view[-count:]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 11, 12, 13, 2**64])
async def test_the_last_runs_come_whole(storage, count):
    """last(runs=n) is every item of the last n runs, empty runs counted."""
    await fill(storage.sessions)
    runs = {f"r{position}" for position in range(len(RUNS))[-count:]}
    view = [item for item in await flat(storage.sessions) if item.run_id in runs]
    assert list(await storage.sessions.last("s", runs=count)) == view


async def test_an_end_reads_what_it_returns(metered):
    """last() moves the records of what it returns, and no other."""
    store, storage = metered
    await fill(storage.sessions, (9, 3, 3, 3))
    assert (await store.moved(storage.sessions.last("s", entries=4)))[1] == 2
    assert (await store.moved(storage.sessions.last("s", runs=3)))[1] == 3


@pytest.mark.parametrize("count", [1, 3])
async def test_a_run_without_the_entries_it_counts_is_corrupt(place, count):
    """A record that holds fewer or more entries than it says is no page."""
    data = b'{"entries":[{"type":"input","role":"user","content":"a"},'
    data += b'{"type":"input","role":"user","content":"b"}]}'
    await plant(place, "session", "s", data, key="odd", entry_count=count)
    async with place.open() as storage:
        for act in (
            lambda: storage.sessions.history("s"),
            lambda: storage.sessions.history("s", types="messages"),
            lambda: storage.sessions.last("s", entries=1),
            lambda: storage.sessions.last("s", runs=1),
        ):
            with pytest.raises(CorruptRecord) as caught:
                await act()
            assert caught.value.record == "odd"


@pytest.mark.parametrize(
    "act",
    [
        lambda s: walked(s.sessions.pages("s")),
        lambda s: s.sessions.history("s"),
        lambda s: walked(s.sessions.pages("s", limit=2)),
        lambda s: walked(s.sessions.pages("s", types="messages")),
        lambda s: s.sessions.last("s", runs=2),
        lambda s: s.sessions.last("s", entries=3),
        lambda s: s.sessions.last("s", runs=9),
        lambda s: s.sessions.last("s", entries=9),
    ],
)
async def test_a_session_that_lost_a_run_is_no_shorter_history(place, act):
    """Where a store returns fewer records than it counts, that is corrupt, and not the end."""
    async with closing_all() as keep:
        losing = keep(Storage(LosesRecords(place.log_store(), "session")))
        await fill(losing.sessions, (2, 2, 2))
        with pytest.raises(CorruptRecord):
            await act(losing)


@pytest.mark.parametrize("needed", [1, 2, 9, 40])
@pytest.mark.parametrize("before", [[], [result("c")]], ids=["empty", "full"])
async def test_a_page_may_look_at_so_many_records_and_no_more(metered, monkeypatch, needed, before):
    """A page that needs as many records as the bound is given, one more is HistoryTooLarge."""
    store, storage = metered
    for _ in range(needed - 1):
        await storage.sessions.append("s", before)
    await storage.sessions.append("s", said("found", "more"))
    await fill(storage.sessions, (1,) * 5)
    monkeypatch.setattr("durably._history.MAX_SCANNED_RECORDS", needed)
    page, moved, _ = await store.moved(storage.sessions.history("s", limit=1, types="messages"))
    assert ([item.entry for item in page.items], moved) == (said("found"), needed)
    if needed > 1:
        monkeypatch.setattr("durably._history.MAX_SCANNED_RECORDS", needed - 1)
        before = store.records
        with pytest.raises(HistoryTooLarge) as caught:
            await storage.sessions.history("s", limit=1, types="messages")
        assert caught.value.max_records == needed - 1
        assert store.records - before == needed - 1


@pytest.mark.parametrize("empty", [0, 1, 5])
async def test_the_end_may_be_looked_for_as_far_as_the_bound(metered, monkeypatch, empty):
    """A last page without messages is given if all there is is within the bound."""
    _, storage = metered
    await fill(storage.sessions, (1,) * 6 + (0,) * empty, kinds=(result,))
    monkeypatch.setattr("durably._history.MAX_SCANNED_RECORDS", 6)
    assert await storage.sessions.history("s", limit=2, types="messages") == HistoryPage(items=())
    monkeypatch.setattr("durably._history.MAX_SCANNED_RECORDS", 5)
    with pytest.raises(HistoryTooLarge):
        await storage.sessions.history("s", limit=2, types="messages")


async def test_a_page_may_look_at_so_many_bytes_and_no_more(metered, monkeypatch):
    """A page that needs as many bytes as the bound is given, one more is HistoryTooLarge."""
    store, storage = metered
    for size in (10, 100, 1000):
        await storage.sessions.append("s", [result("c", "x" * size)])
    await storage.sessions.append("s", said("found", "more"))
    _, _, needed = await store.moved(storage.sessions.history("s", limit=1, types="messages"))
    monkeypatch.setattr("durably._history.MAX_SCANNED_BYTES", needed)
    page = await storage.sessions.history("s", limit=1, types="messages")
    assert [item.entry for item in page.items] == said("found")
    monkeypatch.setattr("durably._history.MAX_SCANNED_BYTES", needed - 1)
    with pytest.raises(HistoryTooLarge) as caught:
        await storage.sessions.history("s", limit=1, types="messages")
    assert caught.value.max_bytes == needed - 1


async def test_the_bounds_are_of_one_page(storage, monkeypatch):
    """A walk with a filter may look at any number of records, page by page."""
    await fill(storage.sessions, (1,) * 30, kinds=MIXED)
    monkeypatch.setattr("durably._history.MAX_SCANNED_RECORDS", 5)
    items = await walked(storage.sessions.pages("s", limit=2, types="messages"))
    assert [item.index for item in items] == [n for n in range(30) if n % 5 in {0, 3}]


async def test_without_a_filter_no_page_is_too_large(storage, monkeypatch):
    """The bounds are for what is left out: a page of all entries has none."""
    monkeypatch.setattr("durably._history.MAX_SCANNED_RECORDS", 1)
    monkeypatch.setattr("durably._history.MAX_SCANNED_BYTES", 1)
    await fill(storage.sessions, (1,) * 30)
    assert len((await storage.sessions.history("s")).items) == 30


def test_the_bounds_are_what_the_contract_says():
    """A filtered page looks at up to 10,000 records and 16 MiB."""
    assert _history.MAX_SCANNED_RECORDS == 10_000
    assert _history.MAX_SCANNED_BYTES == 16 * 1024 * 1024


async def test_a_scan_of_large_entries_stops_near_its_bound(metered, monkeypatch):
    """What a projection moves before it gives up is hardly more than what it may look at."""
    monkeypatch.setattr("durably._history.MAX_SCANNED_BYTES", 1_000_000)
    store, storage = metered
    for _ in range(200):
        await storage.sessions.append("s", [result("c", "x" * 20_000)])
    before = store.payload
    with pytest.raises(HistoryTooLarge):
        await storage.sessions.history("s", limit=256, types="messages")
    assert store.payload - before < 1_100_000
