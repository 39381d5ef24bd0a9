"""Wrong listings of sessions: too many, too few, or others than a filter asks for."""

import msgspec
from typing_extensions import override

from durably import DurablyError, InvalidFilter, JsonObject, Page, SessionCatalog, SessionInfo
from durably_conformance.building import fill
from durably_conformance.offering import upkeep_of
from durably_conformance.selftest.delegating_upkeep import CatalogMutation
from durably_conformance.selftest.spoiling import wrong
from durably_conformance.selftest.tracking import Tracked

altered = msgspec.structs.replace


class ListsStrays(CatalogMutation):
    """Lists every session that has runs, asked for or not."""

    @override
    async def list(
        self,
        *,
        where: JsonObject | None = None,
        after: str | None = None,
        limit: int = 100,
        uncatalogued: bool = False,
    ) -> Page[SessionInfo]:
        return await self.inner.list(where=where, after=after, limit=limit, uncatalogued=True)


class MarksNone(CatalogMutation):
    """Says of every session that it is in the catalog."""

    @override
    async def list(
        self,
        *,
        where: JsonObject | None = None,
        after: str | None = None,
        limit: int = 100,
        uncatalogued: bool = False,
    ) -> Page[SessionInfo]:
        page = await self.inner.list(
            where=where, after=after, limit=limit, uncatalogued=uncatalogued
        )
        rows = tuple(altered(row, is_catalogued=True) for row in page.items)
        return altered(page, items=rows)


class LosesTheFirst(CatalogMutation):
    """Loses the first session of each page but the first."""

    @override
    async def list(
        self,
        *,
        where: JsonObject | None = None,
        after: str | None = None,
        limit: int = 100,
        uncatalogued: bool = False,
    ) -> Page[SessionInfo]:
        page = await self.inner.list(
            where=where, after=after, limit=limit, uncatalogued=uncatalogued
        )
        return page if after is None else altered(page, items=page.items[1:])


class ComparesValuesAlone(CatalogMutation):
    """Takes True for 1, and 1 for 1.0."""

    @override
    async def list(
        self,
        *,
        where: JsonObject | None = None,
        after: str | None = None,
        limit: int = 100,
        uncatalogued: bool = False,
    ) -> Page[SessionInfo]:
        page = await self.inner.list(
            where=where, after=after, limit=limit, uncatalogued=uncatalogued
        )
        if not where or page.next is not None:
            return page
        all_of_it = await self.inner.list(after=after, limit=limit)
        rows = tuple(one for one in all_of_it.items if where.items() <= _flat(one).items())
        return altered(page, items=rows)


def _flat(row: SessionInfo) -> JsonObject:
    """Return the metadata of which a set can be made."""
    return {key: value for key, value in row.metadata.items() if not isinstance(value, list)}


class TakesAnyFilter(CatalogMutation):
    """Lists everything where it does not understand a filter."""

    @override
    async def list(
        self,
        *,
        where: JsonObject | None = None,
        after: str | None = None,
        limit: int = 100,
        uncatalogued: bool = False,
    ) -> Page[SessionInfo]:
        try:
            return await self.inner.list(
                where=where, after=after, limit=limit, uncatalogued=uncatalogued
            )
        except InvalidFilter:
            return await self.inner.list(after=after, limit=limit, uncatalogued=uncatalogued)


class ClampsLimits(CatalogMutation):
    """Takes the nearest limit that can be."""

    @override
    async def list(
        self,
        *,
        where: JsonObject | None = None,
        after: str | None = None,
        limit: int = 100,
        uncatalogued: bool = False,
    ) -> Page[SessionInfo]:
        near = max(1, min(1000, limit)) if type(limit) is int else limit
        return await self.inner.list(
            where=where, after=after, limit=near, uncatalogued=uncatalogued
        )


async def _with(place: Tracked, *names: str) -> SessionCatalog:
    """Return a catalog of some sessions, in which a session ``stray`` with a run is not."""
    handle = await place.connect()
    await fill(handle.sessions, "stray", "a1")
    for name in names:
        await upkeep_of(handle).catalog.create(name, metadata={"k": 1})
    return upkeep_of(handle).catalog


async def lists_a_stray(place: Tracked) -> bool:
    """List a catalog in which nothing is."""
    return bool((await (await _with(place)).list()).items)


async def marks_a_stray(place: Tracked) -> bool:
    """List all there is."""
    page = await (await _with(place)).list(uncatalogued=True)
    return any(row.is_catalogued for row in page.items)


async def loses_the_first(place: Tracked) -> bool:
    """List what comes after the first."""
    return not (await (await _with(place, "a", "b")).list(after="a")).items


async def takes_true_for_one(place: Tracked) -> bool:
    """List those where k is true, which is 1 of all."""
    return bool((await (await _with(place, "a")).list(where={"k": True})).items)


async def takes_any_filter(place: Tracked) -> bool:
    """List by a filter that is none."""
    try:
        return bool((await (await _with(place, "a")).list(where=["k"])).items)  # type: ignore[arg-type]
    except DurablyError:
        return False


async def takes_any_limit(place: Tracked) -> bool:
    """List no session."""
    try:
        return bool((await (await _with(place, "a")).list(limit=0)).items)
    except DurablyError:
        return False


MUTANTS = (
    wrong(
        "lists what nobody created",
        "Sessions that were never created are listed only when asked for.",
        "CAT-007",
        "a listing of keys",
        lists_a_stray,
        catalog=ListsStrays,
    ),
    wrong(
        "marks none",
        "Sessions that were never created are marked.",
        "CAT-007",
        "a field that is never set",
        marks_a_stray,
        catalog=MarksNone,
    ),
    wrong(
        "loses a session at the edge",
        "Pages of sessions join to all of them.",
        "CAT-008",
        "a page that begins behind the first id it did not give",
        loses_the_first,
        catalog=LosesTheFirst,
    ),
    wrong(
        "takes true for 1",
        "A filter finds equal values of the same types.",
        "CAT-009",
        "== of Python, or of a database without booleans",
        takes_true_for_one,
        catalog=ComparesValuesAlone,
    ),
    wrong(
        "lists everything where it does not understand",
        "A filter that is not understood is never everything.",
        "CAT-010",
        "a filter that is dropped where it cannot be translated",
        takes_any_filter,
        catalog=TakesAnyFilter,
    ),
    wrong(
        "lists up to the nearest limit",
        "A limit of a listing that is not 1 to 1,000 is InvalidLimit.",
        "CAT-015",
        "max(1, min(limit, MAX))",
        takes_any_limit,
        catalog=ClampsLimits,
    ),
)
