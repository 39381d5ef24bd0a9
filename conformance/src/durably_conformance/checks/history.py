"""``Session.history``, ``pages`` and ``last``: the flat view in parts, each with its place."""

from functools import partial
from typing import Any

from durably import (
    CustomEntry,
    Entry,
    HistoryItem,
    HistoryPage,
    InvalidFilter,
    InvalidLimit,
    ReasoningEntry,
    Session,
)
from durably_conformance.building import answer, call, fill, result, runs, said
from durably_conformance.context import T
from durably_conformance.registry import check

PAGES = 60
"""More than any walk here takes; one that goes in circles ends there."""

SESSION = "a2 b0 c3 d1 e0"

MIXED: tuple[list[Entry], ...] = (
    [*said("a"), call("1"), result("1"), answer("b")],
    [call("2"), ReasoningEntry(provider="p"), result("2")],
    [],
    [answer("c"), *said("d", "e"), CustomEntry(kind="k", data={"text": "x"})],
    [call("3"), result("3")],
    [answer("f")],
)
"""Runs of entries of every type, the first of them called ``r0``."""


def _flat(text: str) -> list[HistoryItem]:
    """Return the items of a session that was filled as ``text`` says."""
    whole = [(run_id, f"{run_id}{n}") for run_id, size in runs(text) for n in range(size)]
    return [
        HistoryItem(index=index, run_id=run_id, entry=said(text)[0])
        for index, (run_id, text) in enumerate(whole)
    ]


async def _rest(
    t: T,
    sessions: Session,
    page: HistoryPage,
    **options: Any,  # noqa: ANN401 - of history
) -> list[HistoryPage]:
    """Return a page and all that come after it."""
    pages = [page]
    while pages[-1].next_cursor is not None:
        if len(pages) == PAGES:
            t.fail(f"the walk does not end: {PAGES} pages")
        pages.append(await sessions.history("s", after=pages[-1].next_cursor, **options))
    return pages


async def _walked(t: T, sessions: Session, **options: Any) -> list[HistoryPage]:  # noqa: ANN401
    """Return the pages of a walk over the session ``s``."""
    return await _rest(t, sessions, await sessions.history("s", **options), **options)


def _items(pages: list[HistoryPage]) -> list[HistoryItem]:
    return [item for page in pages for item in page.items]


@check("SES-HIS-001", contract="session", requires=("history",))
async def pages_are_the_flat_view(t: T) -> None:
    """Pages of any limit join to the flat view, each entry with its place in it and its run_id."""
    one, other = await t.connect(), await t.connect()
    await fill(one.sessions, "s", SESSION)
    for limit in (1, 2, 4, 256):
        found = _items(await _walked(t, other.sessions, limit=limit))
        t.eq(found, _flat(SESSION), f"items, {limit} a page at most")
    walk = [page async for page in other.sessions.pages("s", limit=3)]
    t.eq(_items(walk), _flat(SESSION), "items of pages(), 3 a page at most")


@check("SES-HIS-002", contract="session", requires=("history",))
async def the_last_page_ends_it(t: T) -> None:
    """A page has no more items than its limit, and the one that ends the session has no cursor."""
    one, other = await t.connect(), await t.connect()
    nothing = HistoryPage(items=())
    t.eq(await other.sessions.history("s"), nothing, "a page of no session")
    await one.sessions.append("s", [], run_id="z")
    t.eq(await other.sessions.history("s"), nothing, "a page of a run without entries")
    await fill(one.sessions, "s", "a2 b1 c1")
    for limit in (2, 4, 5):
        pages = await _walked(t, other.sessions, limit=limit)
        longest = max(len(page.items) for page in pages)
        t.ok(longest <= limit, f"no page has more than {limit} items")
        t.ok(all(page.items for page in pages), f"no page of {limit} comes after the end")


@check("SES-HIS-003", contract="session", requires=("history",))
async def a_walk_sees_what_it_began_with(t: T) -> None:
    """Entries appended after the first page do not appear, and the walk goes on to its end."""
    one, other = await t.connect(), await t.connect()
    await fill(one.sessions, "s", "a1 b1 c1 d1")
    page = await other.sessions.history("s", limit=2)
    walk = other.sessions.pages("s", limit=2)
    first = await anext(walk)
    await fill(one.sessions, "s", "e2 f0 g1")
    found = [item.run_id for item in _items(await _rest(t, other.sessions, page, limit=2))]
    t.eq(found, list("abcd"), "runs in a walk that began before an append")
    found = [item.run_id for item in _items([first, *[page async for page in walk]])]
    t.eq(found, list("abcd"), "runs in a walk by pages()")


@check("SES-HIS-009", contract="session", requires=("history",))
async def messages_are_all_there(t: T) -> None:
    """The messages of a session are its inputs and the model's texts, with their places; no more.

    Limits count what is left: of what is left out a page is not shorter.
    """
    one, other = await t.connect(), await t.connect()
    for number, entries in enumerate(MIXED):
        await one.sessions.append("s", entries, run_id=f"r{number}")
    flat = [(f"r{number}", entry) for number, run in enumerate(MIXED) for entry in run]
    wanted = [
        HistoryItem(index=index, run_id=run_id, entry=entry)
        for index, (run_id, entry) in enumerate(flat)
        if entry in (*said("a", "d", "e"), *map(answer, "bcf"))
    ]
    for limit in (1, 4, 100):
        found = _items(await _walked(t, other.sessions, limit=limit, types="messages"))
        t.eq(found, wanted, f"messages, {limit} a page at most")


@check("SES-HIS-010", contract="session", requires=("history",))
async def a_limit_counts_what_is_left(t: T) -> None:
    """Where entries are left out, a limit counts those that are left."""
    one, other = await t.connect(), await t.connect()
    for number, entries in enumerate(MIXED):
        await one.sessions.append("s", entries, run_id=f"r{number}")
    page = await other.sessions.history("s", limit=4, types="messages")
    t.eq(len(page.items), 4, "messages on a page of 4")


@check("SES-HIS-011", contract="session", requires=("history",))
async def limits_out_of_range(t: T) -> None:
    """A limit that is not an integer of 1 to 256 is InvalidLimit."""
    sessions = (await t.connect()).sessions
    await fill(sessions, "s", "a2")
    bad: tuple[Any, ...] = (0, -1, 257, 2**70, True, 1.5, "1", None)
    for limit in bad:
        what = f"a page of {limit!r}"
        await t.raises(InvalidLimit, sessions.history("s", limit=limit), what)
        walk = partial(sessions.pages, "s", limit=limit)
        await t.raises(InvalidLimit, walk, f"{what}, all")


@check("SES-HIS-012", contract="session", requires=("history",))
async def types_not_understood(t: T) -> None:
    """A choice of types that is not understood is InvalidFilter, and never everything."""
    sessions = (await t.connect()).sessions
    await fill(sessions, "s", "a2")
    bad: tuple[Any, ...] = ("message", "", "MESSAGES", "all", ["messages"], True, 0)
    for types in bad:
        await t.raises(InvalidFilter, sessions.history("s", types=types), f"types={types!r}")


@check("SES-HIS-013", contract="session", requires=("history",))
async def the_last_runs(t: T) -> None:
    """The last runs come whole, those without entries counted, with places in the flat view."""
    one, other = await t.connect(), await t.connect()
    t.eq(list(await other.sessions.last("s", runs=1)), [], "the last run of no session")
    await fill(one.sessions, "s", SESSION)
    flat = _flat(SESSION)
    for count, size in ((1, 0), (2, 1), (3, 4), (4, 4), (5, 6), (6, 6), (2**70, 6)):
        found = list(await other.sessions.last("s", runs=count))
        t.eq(found, flat[len(flat) - size :], f"items of the last {count} runs")


@check("SES-HIS-014", contract="session", requires=("history",))
async def the_last_entries(t: T) -> None:
    """The last entries come whichever runs they lie in, with places in the flat view."""
    one, other = await t.connect(), await t.connect()
    t.eq(list(await other.sessions.last("s", entries=1)), [], "the last entry of no session")
    await fill(one.sessions, "s", SESSION)
    for count in (1, 2, 4, 5, 6, 7, 2**70):
        found = list(await other.sessions.last("s", entries=count))
        t.eq(found, _flat(SESSION)[-count:], f"the last {count} items")


@check("SES-HIS-015", contract="session", requires=("history",))
async def an_end_that_is_none(t: T) -> None:
    """A count of last runs or entries below 1 is InvalidLimit; both, or neither, InvalidFilter."""
    sessions = (await t.connect()).sessions
    await fill(sessions, "s", "a2")
    bad: tuple[Any, ...] = (0, -1, True, 1.5, "1")
    for count in bad:
        await t.raises(InvalidLimit, sessions.last("s", runs=count), f"runs={count!r}")
        await t.raises(InvalidLimit, sessions.last("s", entries=count), f"entries={count!r}")
    await t.raises(InvalidFilter, sessions.last("s"), "neither")
    await t.raises(InvalidFilter, sessions.last("s", runs=1, entries=1), "both")
