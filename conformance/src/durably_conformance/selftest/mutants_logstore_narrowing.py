"""Wrong log stores: what narrows a listing, and what its rows say."""

import fnmatch

from typing_extensions import override

from durably import Page
from durably.logstore import LogInfo
from durably_conformance.building import log
from durably_conformance.logs import ids, keyed
from durably_conformance.selftest.altering import altered
from durably_conformance.selftest.altering_listings import AlteredListing, Asked, made
from durably_conformance.selftest.sparing import wrong
from durably_conformance.selftest.tracking import Tracked


class PrefixIsAPattern(AlteredListing):
    """Matches a prefix as a pattern."""

    @override
    async def look(self, asked: Asked) -> Page[LogInfo]:
        rows = [
            row
            for row in await self.everything(asked)
            if fnmatch.fnmatchcase(row.id, f"{asked.prefix}*") and row.id > asked.after
        ]
        left = tuple(rows[: asked.limit])
        return Page(items=left, next=left[-1].id if len(rows) > asked.limit else None)


class PrefixInAnyCase(AlteredListing):
    """Matches a prefix in any case."""

    @override
    async def look(self, asked: Asked) -> Page[LogInfo]:
        rows = [
            row
            for row in await self.everything(asked)
            if row.id.lower().startswith(asked.prefix.lower()) and row.id > asked.after
        ]
        left = tuple(rows[: asked.limit])
        return Page(items=left, next=left[-1].id if len(rows) > asked.limit else None)


class AfterOrPrefix(AlteredListing):
    """Takes no notice of ``after`` where there is a prefix that it does not have."""

    @override
    async def look(self, asked: Asked) -> Page[LogInfo]:
        inside = asked.after.startswith(asked.prefix)
        return await self.ask(asked, after=asked.after if inside else "")


class StatesWithoutHeads(AlteredListing):
    """Leaves the heads out of the states it lists."""

    @override
    async def look(self, asked: Asked) -> Page[LogInfo]:
        page = await self.ask(asked)
        rows = [
            altered(row, state=row.state and altered(row.state, head=None)) for row in page.items
        ]
        return altered(page, items=tuple(rows))


class KindIsAPrefix(AlteredListing):
    """Lists every kind that begins with the one asked for."""

    @override
    async def look(self, asked: Asked) -> Page[LogInfo]:
        page = await self.ask(asked)
        if asked.kind != "test" or asked.prefix or page.next is not None:
            return page
        others = await self.ask(asked, kind="test-other")
        return altered(page, items=(*page.items, *others.items))


async def lists_by_pattern(place: Tracked) -> bool:
    """List by a prefix that is a pattern."""
    return await ids(await made(place, "a*", "ab"), prefix="a*") != ["a*"]


async def lists_in_any_case(place: Tracked) -> bool:
    """List by a prefix of another case."""
    return await ids(await made(place, "ab"), prefix="A") != []


async def forgets_where_it_is(place: Tracked) -> bool:
    """List by a prefix, after an id behind it."""
    return await ids(await made(place, "a1", "b1"), prefix="a", after="b1") != []


async def lists_no_head(place: Tracked) -> bool:
    """List a log that has a head."""
    store = await made(place, "a")
    page = await store.list("test", with_state=True)
    return [row.state and row.state.head for row in page.items] != [b"h"]


async def lists_another_kind(place: Tracked) -> bool:
    """Make a log of another kind and list."""
    store = await made(place)
    await store.append(log("x", kind="test-other"), keyed("a"))
    return await ids(store) != []


MUTANTS = (
    wrong(
        "matches a prefix as a pattern",
        PrefixIsAPattern,
        lists_by_pattern,
        fails="LOG-LIST-004",
        says="A prefix stands for just its characters.",
        provenance="langchain-ai/langgraph#8300",
    ),
    wrong(
        "matches a prefix in any case",
        PrefixInAnyCase,
        lists_in_any_case,
        fails="LOG-LIST-004",
        says="A prefix stands for no other case.",
        provenance="LIKE, which in SQLite takes no notice of case",
    ),
    wrong(
        "forgets where it is with a prefix",
        AfterOrPrefix,
        forgets_where_it_is,
        fails="LOG-LIST-006",
        says="With a prefix, a listing begins behind after all the same.",
        provenance="a key to begin at that is made of the prefix alone",
    ),
    wrong(
        "lists states without heads",
        StatesWithoutHeads,
        lists_no_head,
        fails="LOG-LIST-007",
        says="A listing gives the state that a read gives.",
        provenance="an index that repeats a part of what it points to",
    ),
    wrong(
        "takes a kind for a prefix",
        KindIsAPrefix,
        lists_another_kind,
        fails="LOG-LIST-008",
        says="A listing of one kind gives logs of that kind alone.",
        provenance="microsoft/agent-framework#5942",
    ),
)
