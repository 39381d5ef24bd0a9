"""Walks over history: among other writers, by any interleaving, at a cost that does not grow."""

import asyncio
import base64
import contextlib
from hashlib import blake2b
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import call, model, result, said, user
from disturbed import Wrapper
from durably import (
    CursorExpired,
    CursorForeign,
    CursorIncompatible,
    CursorMalformed,
    DurablyError,
    MemoryLogStore,
    Storage,
)
from durably._cursors import read_cursor, write_cursor
from durably._records import encode_segment
from durably.checks import MAX_COUNT
from durably.logstore import ALL, Batch, LogId, NewRecord
from faults import Metered
from places import Place

STEADY = settings(max_examples=100, deadline=None, derandomize=True, database=None)


async def _stored(runs, length):
    """Return a metered memory store with a session of so many runs of so many entries."""
    store = Metered(MemoryLogStore())
    storage = Storage(store)
    data, count = encode_segment(said("x" * 40) * length)
    for start in range(0, runs, 10_000):
        numbers = range(start, min(runs, start + 10_000))
        batch = tuple(NewRecord(key=f"r{n}", data=data, entry_count=count) for n in numbers)
        await storage.log_store.append(LogId(kind="session", id="s"), Batch(records=batch))
    return store, storage


async def _costs(entries, length):
    """Return what the first page, one in the middle and the end take, and check what they are."""
    store, storage = await _stored(entries // length, length)
    sessions = storage.sessions
    first, *cost = await store.moved(sessions.history("s"))
    costs = {"first": cost}
    middle = entries // 2 + 7
    cursor = msgspec.structs.replace(
        read_cursor(first.next_cursor, "s", None),
        seq=middle // length + 1,
        offset=middle % length,
        index=middle,
    )
    page, *costs["middle"] = await store.moved(sessions.history("s", after=write_cursor(cursor)))
    end, *costs["end"] = await store.moved(sessions.last("s", entries=10))
    await storage.aclose()
    assert [item.index for item in first.items] == list(range(100))
    assert [item.index for item in page.items] == list(range(middle, middle + 100))
    assert {item.run_id for item in page.items} == {
        f"r{n // length}" for n in range(middle, middle + 100)
    }
    assert [item.index for item in end] == list(range(entries - 10, entries))
    return costs


@pytest.mark.parametrize("length", [1, 50])
async def test_a_page_costs_the_same_however_long_the_session(record_property, length):
    """First page, middle page and end move as much at 100,000 entries as at 300, or a record."""
    short, long = await _costs(300, length), await _costs(100_000, length)
    data, _ = encode_segment(said("x" * 40) * length)
    for what in ("first", "middle", "end"):
        assert abs(short[what][0] - long[what][0]) <= 1, what
        assert abs(short[what][1] - long[what][1]) <= len(data), what
        least = (10 if what == "end" else 100) // length
        assert max(1, least) <= long[what][0] <= least + 1, what
    record_property("counted", f"runs of {length}: records and bytes {long}")


class Witness(Wrapper):
    """Remembers how many entries the session had at its latest read."""

    entry_count = 0

    async def read(self, log, span=ALL):
        stored = await super().read(log, span)
        if stored is not None and log.kind == "session":
            self.entry_count = stored.state.entry_count
        return stored


WALKS = 50
APPENDS = 500


async def test_walks_during_appends_see_their_first_page(tmp_path, record_property):
    """Of 50 walks during 500 appends each is the flat view as its first page found it.

    At least 40 had an append acknowledged between their first and last page.
    """
    place = Place("sqlite", tmp_path)
    acknowledged = counted = 0
    witness = Witness(place.log_store())
    allowed = asyncio.Semaphore(0)
    progress = asyncio.Event()
    async with place.open() as writer, Storage(witness) as reader:
        await writer.sessions.append("s", said(*(f"seed {n}" for n in range(100))))

        async def append():
            nonlocal acknowledged
            for number in range(APPENDS):
                await allowed.acquire()
                await writer.sessions.append("s", said(f"{number}"))
                acknowledged += 1
                progress.set()

        def allow_some():
            for _ in range(APPENDS // WALKS // 2):
                allowed.release()

        appending = asyncio.create_task(append())
        seen = []
        for _ in range(WALKS):
            allow_some()
            walk = reader.sessions.pages("s", limit=10)
            items = [*(await anext(walk)).items]
            high_water, before = witness.entry_count, acknowledged
            allow_some()
            progress.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(progress.wait(), 5)
            async for page in walk:
                items += page.items
            counted += acknowledged > before
            seen.append((high_water, items))
        await appending
        view = await writer.sessions.load("s")
    assert len(view) == 100 + APPENDS
    for high_water, items in seen:
        assert [item.entry for item in items] == view[:high_water]
        assert [item.index for item in items] == list(range(high_water))
    assert counted >= 40
    record_property("counted", f"{counted} of {WALKS} walks had an append in between")


LONG = "x" * 600
KINDS = {
    "user": user,
    "model": model,
    "call": call,
    "result": lambda text: result(text, f"{text} {LONG}"),
}
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("append"), st.lists(st.sampled_from(sorted(KINDS)), max_size=5).map(tuple)
        ),
        st.tuples(st.just("begin"), st.sampled_from([None, "messages"])),
        st.tuples(st.just("page"), st.integers(1, 4)),
        st.tuples(st.just("page"), st.integers(1, 4)),
        st.tuples(st.just("rewind"), st.integers(0, 12)),
        st.tuples(st.just("trim"), st.integers(0, 500)),
    ),
    max_size=30,
)


def _known(item):
    """Return what of an item no trim changes."""
    entry = item.entry
    said_or_id = getattr(entry, "call_id", None) or entry.content
    return item.index, item.run_id, entry.__struct_config__.tag, said_or_id


class _Walks:
    """Walks over one session, what their first pages saw, and whether that was undone since."""

    def __init__(self, storage):
        self.session = storage.sessions
        self.open = []
        self.number = 0

    async def append(self, kinds):
        entries = [KINDS[kind](f"{self.number} {position}") for position, kind in enumerate(kinds)]
        self.number += 1
        await self.session.append("s", entries, run_id=f"r{self.number}")

    async def rewind(self, keep):
        done = await self.session.rewind("s", keep_entries=keep)
        if done.removed_entries or done.removed_run_ids:
            for walk in self.open:
                walk.undone = True

    async def trim(self, keep_chars):
        await self.session.trim_tool_results("s", keep_chars=keep_chars, keep_runs=0)

    async def begin(self, types):
        view = [
            (index, run_id, entry)
            for index, (run_id, entry) in enumerate(
                (one.run_id, entry)
                for one in await self.session.segments("s")
                for entry in one.entries
            )
        ]
        kept = [
            _known(SimpleNamespace(index=index, run_id=run_id, entry=entry))
            for index, run_id, entry in view
            if types is None or entry.__struct_config__.tag in {"input", "assistant_text"}
        ]
        walk = SimpleNamespace(types=types, view=kept, items=[], cursor=None, undone=False)
        await self._read(walk, 1)
        self.open.append(walk)

    async def page(self, limit):
        """Read the next page of every walk that has one."""
        for walk in self.open:
            if walk.cursor is None:
                continue
            if walk.undone:
                with pytest.raises(CursorExpired):
                    await self._read(walk, limit)
            else:
                await self._read(walk, limit)

    async def _read(self, walk, limit):
        page = await self.session.history("s", limit=limit, after=walk.cursor, types=walk.types)
        walk.items += map(_known, page.items)
        walk.cursor = page.next_cursor
        assert walk.items == walk.view[: len(walk.items)]
        assert len(page.items) <= limit
        if walk.cursor is None:
            assert walk.items == walk.view


async def _interleave(steps):
    async with Storage(MemoryLogStore()) as storage:
        walks = _Walks(storage)
        for name, argument in steps:
            await getattr(walks, name)(argument)
        await walks.page(256)
        assert all(walk.undone or walk.cursor is None for walk in walks.open)


@STEADY
@given(STEPS)
def test_any_interleaving_is_a_prefix_or_expired(steps):
    """A walk gives the view its first page saw, in order and to its end, or CursorExpired."""
    asyncio.run(_interleave(steps))


CURSOR_ERRORS = (CursorMalformed, CursorForeign, CursorIncompatible, CursorExpired)


@pytest.fixture(scope="module")
def asked():
    """A function that passes a cursor to session "mine", and cursors of it and of "theirs"."""
    with asyncio.Runner() as runner:
        storage = Storage(MemoryLogStore())
        cursors = {}

        async def prepare():
            for name in ("mine", "theirs"):
                for run in range(4):
                    kinds = [user(name), result("c", name), model(name)]
                    await storage.sessions.append(name, kinds, run_id=f"{name} {run}")
                for types in (None, "messages"):
                    page = await storage.sessions.history(name, limit=2, types=types)
                    cursors[name, types] = page.next_cursor

        def ask(cursor, types):
            return runner.run(storage.sessions.history("mine", after=cursor, types=types))

        runner.run(prepare())
        yield ask, cursors
        runner.run(storage.aclose())


def _mutated(cursors, which, changes):
    text = cursors[which]
    for position, removed, added in changes:
        at = position % (len(text) + 1)
        text = text[:at] + added + text[at + removed :]
    return text


BASE64 = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_=+/", max_size=3)
TYPES = st.sampled_from([None, "messages"])


@STEADY
@given(
    text=st.text() | st.text("ABCDEFxyz0189-_=", max_size=120),
    types=TYPES,
)
def test_any_text_is_a_documented_error(asked, text, types):
    """Text that no page gave is one of the errors for cursors, and nothing else."""
    ask, _ = asked
    with pytest.raises(CURSOR_ERRORS):
        ask(text, types)


@STEADY
@given(
    which=st.tuples(st.sampled_from(["mine", "theirs"]), TYPES),
    changes=st.lists(
        st.tuples(st.integers(0, 200), st.integers(0, 3), BASE64), min_size=1, max_size=3
    ),
    types=TYPES,
)
def test_a_spoiled_cursor_opens_nothing_else(asked, which, changes, types):
    """A cursor with some characters changed is refused, or is still the cursor it was."""
    ask, cursors = asked
    text = _mutated(cursors, which, changes)
    with contextlib.suppress(*CURSOR_ERRORS):
        page = ask(text, types)
        assert which == ("mine", types)
        assert page == ask(cursors[which], types)


NUMBERS = st.integers(0, 20) | st.integers(0, MAX_COUNT)


@STEADY
@given(
    types=TYPES,
    changes=st.fixed_dictionaries(
        {},
        optional={
            "epoch": NUMBERS,
            "until": NUMBERS,
            "total": NUMBERS,
            "seq": NUMBERS,
            "offset": NUMBERS,
            "index": NUMBERS,
        },
    ),
)
def test_a_forged_cursor_stays_in_its_session(asked, types, changes):
    """A cursor sealed by a forger gives its own session's entries, or an error of ours."""
    ask, cursors = asked
    cursor = read_cursor(cursors["mine", types], "mine", types)
    text = write_cursor(msgspec.structs.replace(cursor, **changes))
    with contextlib.suppress(DurablyError):
        assert {item.run_id.split()[0] for item in ask(text, types).items} <= {"mine"}


@STEADY
@given(body=st.binary(max_size=80) | st.binary(max_size=80).map(b"\x01".__add__), types=TYPES)
def test_sealed_bytes_are_no_cursor(asked, body, types):
    """Any bytes under a right checksum are an error for cursors, too."""
    ask, _ = asked
    data = blake2b(body, digest_size=8).digest() + body
    with pytest.raises(CURSOR_ERRORS):
        ask(base64.urlsafe_b64encode(data).decode().rstrip("="), types)
