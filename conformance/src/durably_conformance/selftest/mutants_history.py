"""Wrong histories: pages that lose, repeat, renumber or leave out what is on them."""

import msgspec
from typing_extensions import override

from durably import AssistantTextEntry, HistoryItem, HistoryPage, InputEntry
from durably.history import DEFAULT_PAGE, HistoryFilter
from durably_conformance.building import call, fill, said
from durably_conformance.selftest.delegating import SessionMutation
from durably_conformance.selftest.spoiling import readable, wrong
from durably_conformance.selftest.tracking import Tracked

END = "end"


class SpoiledHistory(SessionMutation):
    """Gives of each page what ``page`` makes of it; by itself that is the right thing."""

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
        if types is None:
            items = page.items if after is None else await self.later(session_id, page.items)
        else:
            items = await self.messages(session_id, page.items)
        return msgspec.structs.replace(page, items=tuple(items))

    async def later(self, session_id: str, items: tuple[HistoryItem, ...]) -> list[HistoryItem]:
        """Return what a later page of everything has instead of its items."""
        _ = session_id
        return list(items)

    async def messages(self, session_id: str, items: tuple[HistoryItem, ...]) -> list[HistoryItem]:
        """Return what a page of messages has instead of its items."""
        _ = session_id
        return list(items)

    async def flat(self, session_id: str) -> list[HistoryItem]:
        """Return all items of a session."""
        runs = await readable(self.inner, session_id)
        entries = [(run.run_id, entry) for run in runs for entry in run.entries]
        return [
            HistoryItem(index=index, run_id=run_id, entry=entry)
            for index, (run_id, entry) in enumerate(entries)
        ]


class NumbersAnew(SpoiledHistory):
    """Numbers the items of each page from 0."""

    @override
    async def later(self, session_id: str, items: tuple[HistoryItem, ...]) -> list[HistoryItem]:
        return [msgspec.structs.replace(one, index=n) for n, one in enumerate(items)]


class LosesAtTheEdge(SpoiledHistory):
    """Loses the first item of a page that begins inside a run."""

    @override
    async def later(self, session_id: str, items: tuple[HistoryItem, ...]) -> list[HistoryItem]:
        flat = await self.flat(session_id)
        is_inside = bool(items) and flat[items[0].index - 1].run_id == items[0].run_id
        return list(items[1:] if is_inside else items)


class RepeatsAtTheEdge(SpoiledHistory):
    """Begins a page inside a run with the last item of the page before."""

    @override
    async def later(self, session_id: str, items: tuple[HistoryItem, ...]) -> list[HistoryItem]:
        flat = await self.flat(session_id)
        before = flat[items[0].index - 1 : items[0].index] if items else []
        return [*(one for one in before if one.run_id == items[0].run_id), *items]


class MergesInputs(SpoiledHistory):
    """Leaves out an input that follows another one."""

    @override
    async def messages(self, session_id: str, items: tuple[HistoryItem, ...]) -> list[HistoryItem]:
        flat = await self.flat(session_id)
        return [
            one
            for one in items
            if not (one.index and all(isinstance(x.entry, InputEntry) for x in _two(flat, one)))
        ]


def _two(flat: list[HistoryItem], last: HistoryItem) -> list[HistoryItem]:
    return flat[last.index - 1 : last.index + 1]


class NumbersMessages(SpoiledHistory):
    """Numbers the messages of a page by themselves."""

    @override
    async def messages(self, session_id: str, items: tuple[HistoryItem, ...]) -> list[HistoryItem]:
        return [msgspec.structs.replace(one, index=n) for n, one in enumerate(items)]


class GoesPastTheEnd(SessionMutation):
    """Gives a cursor with every full page, the last one included."""

    @override
    async def history(
        self,
        session_id: str,
        *,
        limit: int = DEFAULT_PAGE,
        after: str | None = None,
        types: HistoryFilter | None = None,
    ) -> HistoryPage:
        if after == END:
            return HistoryPage(items=())
        page = await self.inner.history(session_id, limit=limit, after=after, types=types)
        end = END if len(page.items) == limit else None
        return HistoryPage(items=page.items, next_cursor=page.next_cursor or end)


class GivesTooMany(SessionMutation):
    """Gives one item more than asked for."""

    @override
    async def history(
        self,
        session_id: str,
        *,
        limit: int = DEFAULT_PAGE,
        after: str | None = None,
        types: HistoryFilter | None = None,
    ) -> HistoryPage:
        more = limit + 1 if type(limit) is int and 1 < limit < 256 and types is None else limit
        return await self.inner.history(session_id, limit=more, after=after, types=types)


class LooksAtTooFew(SpoiledHistory):
    """Counts what is left out towards the limit of a first page."""

    @override
    async def history(
        self,
        session_id: str,
        *,
        limit: int = DEFAULT_PAGE,
        after: str | None = None,
        types: HistoryFilter | None = None,
    ) -> HistoryPage:
        if types is not None and after is None and type(limit) is int:
            looked = [one.entry for one in (await self.flat(session_id))[:limit]]
            kept = [one for one in looked if isinstance(one, InputEntry | AssistantTextEntry)]
            limit = len(kept) or limit
        return await self.inner.history(session_id, limit=limit, after=after, types=types)


async def _walk(place: Tracked, text: str, limit: int) -> list[HistoryPage]:
    sessions = (await place.connect()).sessions
    await fill(sessions, "s", text)
    return [page async for page in sessions.pages("s", limit=limit)]


async def numbers_anew(place: Tracked) -> bool:
    """Read two pages."""
    return (await _walk(place, "a2", 1))[1].items[0].index == 0


async def loses_at_the_edge(place: Tracked) -> bool:
    """Read a run in two pages."""
    return (await _walk(place, "a2", 1))[1].items == ()


async def repeats_at_the_edge(place: Tracked) -> bool:
    """Read a run in two pages."""
    return (await _walk(place, "a2", 1))[1].items[0].entry == said("a0")[0]


async def goes_past_the_end(place: Tracked) -> bool:
    """Read as many as there are."""
    return len(await _walk(place, "a2", 2)) == 2


async def gives_too_many(place: Tracked) -> bool:
    """Read fewer than there are."""
    return len((await _walk(place, "a3", 2))[0].items) == 3


async def drops_a_message(place: Tracked) -> bool:
    """Read two inputs."""
    sessions = (await place.connect()).sessions
    await fill(sessions, "s", "a2")
    return len((await sessions.history("s", types="messages")).items) == 1


async def numbers_messages(place: Tracked) -> bool:
    """Read a message behind a call."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", [call("1"), *said("a")])
    return (await sessions.history("s", types="messages")).items[0].index == 0


async def looks_at_too_few(place: Tracked) -> bool:
    """Read two messages with a call in between."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", [*said("a"), call("1"), *said("b")])
    return len((await sessions.history("s", limit=2, types="messages")).items) == 1


MUTANTS = (
    wrong(
        "numbers each page anew",
        "Each entry comes with its place in the flat view.",
        "SES-HIS-001",
        "a counter that restarts with each page",
        numbers_anew,
        sessions=NumbersAnew,
    ),
    wrong(
        "loses an entry at the edge",
        "Pages join to the flat view.",
        "SES-HIS-001",
        "> where >= was meant",
        loses_at_the_edge,
        sessions=LosesAtTheEdge,
    ),
    wrong(
        "repeats an entry at the edge",
        "Pages join to the flat view.",
        "SES-HIS-001",
        ">= where > was meant",
        repeats_at_the_edge,
        sessions=RepeatsAtTheEdge,
    ),
    wrong(
        "goes past the end",
        "The page that ends a session has no cursor.",
        "SES-HIS-002",
        "a full page taken for a sign that there is more",
        goes_past_the_end,
        sessions=GoesPastTheEnd,
    ),
    wrong(
        "gives one too many",
        "A page has no more items than its limit.",
        "SES-HIS-002",
        "the row that says whether there is more, given with the others",
        gives_too_many,
        sessions=GivesTooMany,
    ),
    wrong(
        "merges inputs",
        "The messages of a session are all of its inputs and the model's texts.",
        "SES-HIS-009",
        "messages of one role in a row, kept as one",
        drops_a_message,
        sessions=MergesInputs,
    ),
    wrong(
        "numbers messages",
        "A message comes with its place in the flat view.",
        "SES-HIS-009",
        "enumerate over what is left",
        numbers_messages,
        sessions=NumbersMessages,
    ),
    wrong(
        "counts what it leaves out",
        "A limit counts the entries that are left.",
        "SES-HIS-010",
        "LIMIT before WHERE",
        looks_at_too_few,
        sessions=LooksAtTooFew,
    ),
)
