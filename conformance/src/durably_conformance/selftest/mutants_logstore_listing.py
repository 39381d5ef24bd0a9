"""Wrong log stores: which logs they list, in which order and pages."""

from typing import Any

from typing_extensions import override

from durably import LogStore, Page
from durably.logstore import Applied, Batch, LogId, LogInfo
from durably_conformance.building import log
from durably_conformance.logs import ids, keyed
from durably_conformance.selftest.altering import altered
from durably_conformance.selftest.altering_listings import AlteredListing, Asked, made
from durably_conformance.selftest.sparing import wrong
from durably_conformance.selftest.tracking import Tracked


class OrderedByUtf16(AlteredListing):
    """Orders ids as UTF-16, as the strings of some languages are."""

    @override
    async def look(self, asked: Asked) -> Page[LogInfo]:
        page = await self.ask(asked)
        rows = sorted(page.items, key=lambda row: row.id.encode("utf-16-be"))
        return altered(page, items=tuple(rows))


class LosesTheLast(AlteredListing):
    """Ends a walk when one row is left."""

    @override
    async def look(self, asked: Asked) -> Page[LogInfo]:
        page = await self.ask(asked)
        rest = await self.ask(asked, after=page.next, limit=2) if page.next else page
        return altered(page, next=page.next if len(rest.items) > 1 or asked.limit == 1 else None)


class FullPages(AlteredListing):
    """Gives no page of less than ten rows, whatever the limit."""

    @override
    async def look(self, asked: Asked) -> Page[LogInfo]:
        return await self.ask(asked, limit=max(asked.limit, 10))


class LostPlace(AlteredListing):
    """Begins anew where the log it was at is gone."""

    @override
    async def look(self, asked: Asked) -> Page[LogInfo]:
        there = {row.id for row in await self.everything(asked)}
        lost = asked.after not in there and not asked.prefix
        return await self.ask(asked, after="" if lost else asked.after)


class ListsWhatItListed(AlteredListing):
    """Keeps each page it has listed once."""

    def __init__(self, inner: LogStore, shared: dict[str, Any]) -> None:
        super().__init__(inner, shared)
        self._pages: dict[object, Page[LogInfo]] = {}

    @override
    async def look(self, asked: Asked) -> Page[LogInfo]:
        if asked.name not in self._pages:
            self._pages[asked.name] = await self.ask(asked)
        return self._pages[asked.name]


class ListsWithTheSecondChange(AlteredListing):
    """Puts a log that begins with a head into its index with the next change."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        hidden: set[str] = self.shared.setdefault("hidden", set())
        missing = await self.inner.read(log) is None
        hidden.discard(log.id)
        if missing and not batch.records and batch.head:
            hidden.add(log.id)
        return await self.inner.append(log, batch)

    @override
    async def look(self, asked: Asked) -> Page[LogInfo]:
        page = await self.ask(asked)
        hidden: set[str] = self.shared.get("hidden", set())
        return altered(page, items=tuple(row for row in page.items if row.id not in hidden))


class AThousandLogs(AlteredListing):
    """Ends a walk after a thousand rows."""

    @override
    async def look(self, asked: Asked) -> Page[LogInfo]:
        page = await self.ask(asked)
        return altered(page, next=None if len(page.items) == 1000 else page.next)


async def lists_in_another_order(place: Tracked) -> bool:
    """List two ids that UTF-8 and UTF-16 order otherwise."""
    return await ids(await made(place, "\U0001f600", "\uffee")) != ["\uffee", "\U0001f600"]


async def loses_the_last(place: Tracked) -> bool:
    """List three logs in pages of two."""
    store = await made(place, "a", "b", "c")
    page = await store.list("test", limit=2)
    return len(page.items) == 2 and page.next is None


async def lists_too_many(place: Tracked) -> bool:
    """List two logs with a limit of one."""
    store = await made(place, "a", "b")
    return len((await store.list("test", limit=1)).items) > 1


async def begins_anew(place: Tracked) -> bool:
    """List after an id that is not there."""
    return await ids(await made(place, "a", "c"), after="b") != ["c"]


async def lists_the_past(place: Tracked) -> bool:
    """List, make a log, and list again."""
    store = await made(place)
    before = await ids(store)
    await store.append(log(), keyed("a"))
    return await ids(store) == before


async def hides_a_new_log(place: Tracked) -> bool:
    """Make a log of a head and list."""
    store = await made(place)
    await store.append(log(), Batch(head=b"h"))
    return await ids(store) != ["log"]


async def ends_at_a_thousand(place: Tracked) -> bool:
    """Make 1,001 logs and look whether there is a next page."""
    store = await made(place, *map(str, range(1001)))
    return (await store.list("test", limit=1000)).next is None


MUTANTS = (
    wrong(
        "orders ids as UTF-16",
        OrderedByUtf16,
        lists_in_another_order,
        fails="LOG-LIST-001",
        says="Logs are listed in the order of their ids' UTF-8 bytes.",
        provenance="ids sorted by a language whose strings are UTF-16",
    ),
    wrong(
        "loses the last row of a walk",
        LosesTheLast,
        loses_the_last,
        fails="LOG-LIST-002",
        says="A walk gives every log once.",
        provenance="len(rows) > limit + 1, off by one",
    ),
    wrong(
        "gives pages of ten at least",
        FullPages,
        lists_too_many,
        fails="LOG-LIST-003",
        says="A page has no more rows than its limit.",
        provenance="COUNT of a SCAN, which is a hint",
    ),
    wrong(
        "begins anew where its place is gone",
        LostPlace,
        begins_anew,
        fails="LOG-LIST-005",
        says="A walk goes on from where it was, though that log is gone.",
        provenance="a cursor looked up in the list it came from",
    ),
    wrong(
        "lists what it listed before",
        ListsWhatItListed,
        lists_the_past,
        fails="LOG-FENCE-003 LOG-LIST-009 LOG-NS-001",
        says="A log is listed by every handle as soon as it is there.",
        provenance="a listing kept by the client library",
    ),
    wrong(
        "lists a log with its second change",
        ListsWithTheSecondChange,
        hides_a_new_log,
        fails="LOG-LIST-009",
        says="A log is listed as soon as it is there.",
        provenance="microsoft/agent-framework#3169",
    ),
    wrong(
        "lists a thousand logs at most",
        AThousandLogs,
        ends_at_a_thousand,
        fails="LOG-LIST-010",
        says="A walk gives every log, also where there are more than a thousand.",
        provenance="stolostron/multicloud-operators-subscription#524",
    ),
)
