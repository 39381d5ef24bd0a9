"""Cursors of ``Session.history``: of one walk over one life of one session."""

from durably import (
    CursorExpired,
    CursorForeign,
    CursorIncompatible,
    CursorMalformed,
    Session,
    UnknownEntryType,
)
from durably.history import HistoryFilter
from durably_conformance.building import fill, said
from durably_conformance.context import T
from durably_conformance.keeping import SESSIONS
from durably_conformance.planting import plant
from durably_conformance.registry import check


async def _cursor(t: T, sessions: Session, name: str, *, types: HistoryFilter | None = None) -> str:
    """Return the cursor behind the first entry of a session."""
    page = await sessions.history(name, limit=1, types=types)
    if page.next_cursor is None:
        t.fail("a first page of several has no cursor")
    return page.next_cursor


@check("SES-HIS-004", contract="session", requires=("history",))
async def text_that_is_no_cursor(t: T) -> None:
    """Text that is no cursor, or not a whole one, is CursorMalformed."""
    sessions = (await t.connect()).sessions
    await fill(sessions, "s", "a2")
    cursor = await _cursor(t, sessions, "s")
    for text in ("", "0", "a", "no cursor", "\x00", "\u00e9", "x" * 10_000, "{}", "AAAA"):
        what = f"a page after {text[:12]!r}"
        await t.raises(CursorMalformed, sessions.history("s", after=text), what)
    for size in (len(cursor) - 1, len(cursor) // 2):
        what = f"a page after {size} of {len(cursor)} characters"
        await t.raises(CursorMalformed, sessions.history("s", after=cursor[:size]), what)


@check("SES-HIS-005", contract="session", requires=("history",))
async def a_cursor_of_another_session(t: T) -> None:
    """A cursor of another session is CursorForeign, be their content the same."""
    one, other = await t.connect(), await t.connect()
    for name in ("s", "s2"):
        await fill(one.sessions, name, "a1 b1")
    cursor = await _cursor(t, one.sessions, "s")
    for name in ("s2", "S", "none"):
        what = f"a page of {name} after a cursor of s"
        await t.raises(CursorForeign, other.sessions.history(name, after=cursor), what)


@check("SES-HIS-006", contract="session", requires=("history",))
async def a_cursor_of_another_walk(t: T) -> None:
    """A cursor of a walk over messages is CursorIncompatible in one over everything, and back."""
    one, other = await t.connect(), await t.connect()
    await fill(one.sessions, "s", "a1 b1")
    ways: tuple[tuple[HistoryFilter | None, HistoryFilter | None], ...]
    ways = ((None, "messages"), ("messages", None))
    for types, others in ways:
        cursor = await _cursor(t, one.sessions, "s", types=types)
        call = other.sessions.history("s", after=cursor, types=others)
        await t.raises(CursorIncompatible, call, f"a page of {others} after one of {types}")


@check("SES-HIS-007", contract="session", requires=("history", "rewind"))
async def a_rewind_expires_cursors(t: T) -> None:
    """After a rewind a cursor is CursorExpired, also where what it had passed is there."""
    one, other = await t.connect(), await t.connect()
    await fill(one.sessions, "s", "a1 b1 c1")
    cursor = await _cursor(t, one.sessions, "s")
    await other.sessions.rewind("s", keep_entries=2)
    await t.raises(CursorExpired, one.sessions.history("s", after=cursor), "after a rewind")
    await fill(other.sessions, "s", "c1")
    call = one.sessions.history("s", after=cursor)
    await t.raises(CursorExpired, call, "after what was removed came again")


@check("SES-HIS-008", contract="session", requires=("history",))
async def a_clear_expires_cursors(t: T) -> None:
    """After a clear a cursor is CursorExpired, also where a session of the same content is made."""
    one, other = await t.connect(), await t.connect()
    await fill(one.sessions, "s", "a1 b1")
    cursor = await _cursor(t, one.sessions, "s")
    await other.sessions.clear("s")
    await t.raises(CursorExpired, one.sessions.history("s", after=cursor), "after a clear")
    await fill(other.sessions, "s", "a1 b1")
    call = one.sessions.history("s", after=cursor)
    await t.raises(CursorExpired, call, "after the same was made anew")


@check("SES-HIS-016", contract="session", requires=("history", "log_store"))
async def nothing_is_skipped(t: T) -> None:
    """An entry of an unknown type is UnknownEntryType on its page and at the end; not skipped."""
    one, other = await t.connect(), await t.connect()
    swap = (b'"type":"input"', b'"type":"hologram"')
    await plant(t, one, SESSIONS, said("a"), swap)
    sessions = other.sessions
    await t.raises(UnknownEntryType, sessions.history("x"), "a page")
    await t.raises(UnknownEntryType, sessions.history("x", types="messages"), "a page of messages")
    await t.raises(UnknownEntryType, sessions.last("x", entries=1), "the last entry")
    await t.raises(UnknownEntryType, sessions.last("x", runs=1), "the last run")
