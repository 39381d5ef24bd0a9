"""Wrong cursors: ones that follow appends, or are taken where they do not belong."""

from typing import Any, ClassVar

from typing_extensions import override

from durably import (
    CursorExpired,
    CursorForeign,
    CursorIncompatible,
    CursorMalformed,
    DurablyError,
    Entry,
    HistoryPage,
    Rewound,
    Session,
)
from durably.history import DEFAULT_PAGE, HistoryFilter
from durably_conformance.building import fill
from durably_conformance.selftest.delegating import SessionMutation
from durably_conformance.selftest.spoiling import wrong
from durably_conformance.selftest.tracking import Tracked


class BeginsAgain(SessionMutation):
    """Gives the first page where a cursor cannot be used, and ``forgives`` says so."""

    error: ClassVar[type[DurablyError]] = DurablyError

    @override
    async def history(
        self,
        session_id: str,
        *,
        limit: int = DEFAULT_PAGE,
        after: str | None = None,
        types: HistoryFilter | None = None,
    ) -> HistoryPage:
        try:
            page = await self.inner.history(session_id, limit=limit, after=after, types=types)
        except self.error:
            if not await self.forgives(session_id, after):
                raise
            return await self.inner.history(session_id, limit=limit, types=types)
        await self.note(session_id, page)
        return page

    async def forgives(self, session_id: str, cursor: str | None) -> bool:
        """Return whether to begin again."""
        _ = session_id, cursor
        return True

    async def note(self, session_id: str, page: HistoryPage) -> None:
        """Remember what is needed to say so."""


class TakesAnyText(BeginsAgain):
    """Takes text that is no cursor for the beginning."""

    error = CursorMalformed


class TakesAnySession(BeginsAgain):
    """Takes another session's cursor for the beginning."""

    error = CursorForeign


class TakesAnyWalk(BeginsAgain):
    """Takes another walk's cursor for the beginning."""

    error = CursorIncompatible


class SurvivesRewinds(BeginsAgain):
    """Does not let cursors expire with a rewind."""

    error = CursorExpired

    @override
    async def forgives(self, session_id: str, cursor: str | None) -> bool:
        return bool(self.shared.get(f"rewound {session_id}"))

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        self.shared[f"rewound {session_id}"] = True
        return await self.inner.rewind(
            session_id, keep_entries=keep_entries, expected_revision=expected_revision
        )


class KnowsContent(BeginsAgain):
    """Knows a session that was cleared by what is in it."""

    error = CursorExpired

    @override
    async def clear(self, session_id: str) -> None:
        self.shared[f"cleared {session_id}"] = True
        await self.inner.clear(session_id)

    @override
    async def forgives(self, session_id: str, cursor: str | None) -> bool:
        was_cleared = bool(self.shared.get(f"cleared {session_id}"))
        return was_cleared and self.shared.get(str(cursor)) == await self._content(session_id)

    @override
    async def note(self, session_id: str, page: HistoryPage) -> None:
        if page.next_cursor is not None:
            self.shared[page.next_cursor] = await self._content(session_id)

    async def _content(self, session_id: str) -> list[Entry]:
        try:
            return await self.inner.load(session_id)
        except DurablyError:
            return []


class FollowsAppends(SessionMutation):
    """Adds to the page that ends a walk what was appended since it began."""

    @override
    async def history(
        self,
        session_id: str,
        *,
        limit: int = DEFAULT_PAGE,
        after: str | None = None,
        types: HistoryFilter | None = None,
    ) -> HistoryPage:
        page = await self.inner.history(session_id, limit=limit, after=after, types=types)
        if after is None or types is not None or page.next_cursor is not None:
            return page
        now = await self.inner.history(session_id, limit=256)
        last = page.items[-1].index if page.items else 0
        more = [one for one in now.items if one.index > last]
        return HistoryPage(items=(*page.items, *more))


class ExpiresWithAppends(SessionMutation):
    """Lets a cursor expire with every change of its session."""

    @override
    async def history(
        self,
        session_id: str,
        *,
        limit: int = DEFAULT_PAGE,
        after: str | None = None,
        types: HistoryFilter | None = None,
    ) -> HistoryPage:
        page = await self.inner.history(session_id, limit=limit, after=after, types=types)
        revision = await self.inner.revision(session_id)
        if after is not None and self.shared.get(after, revision) != revision:
            raise CursorExpired(session_id)
        if page.next_cursor is not None:
            self.shared[page.next_cursor] = revision
        return page


async def _is_taken(sessions: Session, after: str | None, **options: Any) -> bool:  # noqa: ANN401
    """Return whether a cursor is taken with what ``options`` say, ``of`` being the session."""
    try:
        await sessions.history(options.pop("of", "s"), after=after, **options)
    except DurablyError:
        return False
    return True


async def _begun(place: Tracked) -> tuple[Session, str | None]:
    """Return a session store, and the cursor behind the first entry of a session ``s`` there."""
    sessions = (await place.connect()).sessions
    await fill(sessions, "s", "a1 b1")
    return sessions, (await sessions.history("s", limit=1)).next_cursor


async def takes_any_text(place: Tracked) -> bool:
    """Go on after what is no cursor."""
    sessions, _ = await _begun(place)
    return await _is_taken(sessions, "x")


async def takes_any_session(place: Tracked) -> bool:
    """Go on in another session."""
    sessions, cursor = await _begun(place)
    return await _is_taken(sessions, cursor, of="s2")


async def takes_any_walk(place: Tracked) -> bool:
    """Go on in another walk."""
    sessions, cursor = await _begun(place)
    return await _is_taken(sessions, cursor, types="messages")


async def survives_a_rewind(place: Tracked) -> bool:
    """Go on after a rewind."""
    sessions, cursor = await _begun(place)
    await sessions.rewind("s", keep_entries=1)
    return await _is_taken(sessions, cursor)


async def survives_a_clear(place: Tracked) -> bool:
    """Go on after the session was made anew."""
    sessions, cursor = await _begun(place)
    await sessions.clear("s")
    await fill(sessions, "s", "a1 b1")
    return await _is_taken(sessions, cursor)


async def follows_appends(place: Tracked) -> bool:
    """Append between two pages."""
    sessions = (await place.connect()).sessions
    await fill(sessions, "s", "a1 b1 c1 d1")
    page = await sessions.history("s", limit=2)
    await fill(sessions, "s", "e1")
    later = await sessions.history("s", limit=2, after=page.next_cursor)
    return len(later.items) == 3


async def expires_too_soon(place: Tracked) -> bool:
    """Append between two pages."""
    sessions = (await place.connect()).sessions
    await fill(sessions, "s", "a2")
    page = await sessions.history("s", limit=1)
    await fill(sessions, "s", "b1")
    try:
        await sessions.history("s", after=page.next_cursor)
    except CursorExpired:
        return True
    return False


MUTANTS = (
    wrong(
        "follows appends",
        "Entries appended after the first page do not appear.",
        "SES-HIS-003",
        "a cursor that says where a walk stands, and not where it ends",
        follows_appends,
        sessions=FollowsAppends,
    ),
    wrong(
        "expires with every append",
        "A walk goes on to its end, whatever is appended.",
        "SES-HIS-003",
        "a cursor that holds the revision of its session",
        expires_too_soon,
        sessions=ExpiresWithAppends,
    ),
    wrong(
        "takes any text for a cursor",
        "Text that is no cursor is CursorMalformed.",
        "SES-HIS-004",
        "a cursor that cannot be read taken for none",
        takes_any_text,
        sessions=TakesAnyText,
    ),
    wrong(
        "takes another session's cursor",
        "A cursor of another session is CursorForeign.",
        "SES-HIS-005",
        "a cursor that is a bare number",
        takes_any_session,
        sessions=TakesAnySession,
    ),
    wrong(
        "takes another walk's cursor",
        "A cursor of a walk over messages is CursorIncompatible in one over everything.",
        "SES-HIS-006",
        "a filter that is no part of the cursor",
        takes_any_walk,
        sessions=TakesAnyWalk,
    ),
    wrong(
        "cursors survive a rewind",
        "After a rewind a cursor is CursorExpired.",
        "SES-HIS-007",
        "positions that are taken to mean the same for ever",
        survives_a_rewind,
        sessions=SurvivesRewinds,
    ),
    wrong(
        "knows a session by its content",
        "After a clear a cursor is CursorExpired, be the session made anew the same.",
        "SES-HIS-008",
        "an ETag of the content in the place of a number that never comes again",
        survives_a_clear,
        sessions=KnowsContent,
    ),
)
