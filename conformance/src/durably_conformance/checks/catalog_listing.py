"""``SessionCatalog.list``: which sessions, in which order, and which of them a filter finds."""

from typing import Any

from durably import InvalidFilter, InvalidLimit, JsonObject, SessionCatalog, SessionInfo
from durably_conformance.building import fill
from durably_conformance.context import T
from durably_conformance.offering import upkeep_of
from durably_conformance.registry import check

PAGES = 60
"""More than any walk here takes; one that goes in circles ends there."""


async def _rows(t: T, catalog: SessionCatalog, **options: Any) -> list[SessionInfo]:  # noqa: ANN401
    """Return all rows of a listing, page by page."""
    rows: list[SessionInfo] = []
    after: str | None = None
    for _ in range(PAGES):
        page = await catalog.list(after=after, **options)
        t.ok(len(page.items) <= options.get("limit", 100), "a page has at most its limit of rows")
        rows += page.items
        after = page.next
        if after is None:
            return rows
    return t.fail(f"the listing does not end: {PAGES} pages, {len(rows)} rows")


async def _ids(t: T, catalog: SessionCatalog, **options: Any) -> list[str]:  # noqa: ANN401
    return [row.session_id for row in await _rows(t, catalog, **options)]


@check("CAT-007", contract="session")
async def sessions_nobody_created(t: T) -> None:
    """Sessions that have runs and were never created are listed only when asked for, and marked."""
    one, other = await t.connect(), await t.connect()
    catalog = upkeep_of(other, "catalog").catalog
    await upkeep_of(one, "catalog").catalog.create("b", metadata={"n": 1})
    for name in ("a", "b", "c"):
        await fill(one.sessions, name, "x2 y0")
    t.eq(await _ids(t, catalog), ["b"], "sessions in the catalog")
    rows = await _rows(t, catalog, uncatalogued=True)
    marks = [(row.session_id, row.is_catalogued) for row in rows]
    t.eq(marks, [("a", False), ("b", True), ("c", False)], "all sessions, and their marks")
    counts = [(row.run_count, row.entry_count) for row in rows]
    t.eq(counts, [(2, 2)] * 3, "their runs and entries")
    t.exact([row.metadata for row in rows], [{}, {"n": 1}, {}], "their metadata")
    for where in ({"n": 1}, {}):
        found = await _ids(t, catalog, where=where, uncatalogued=True)
        t.eq(found, ["b"], f"sessions where {where}, those without metadata asked for")


@check("CAT-008", contract="session")
async def listings_join(t: T) -> None:
    """Pages of sessions join to all of them, none twice, in the order of their ids' bytes."""
    one, other = await t.connect(), await t.connect()
    names = ["a", "a2", "aa", "b", "\u00e9", "\uffff", "\U0001f600"]
    for name in reversed(names):
        await upkeep_of(one, "catalog").catalog.create(name)
    catalog = upkeep_of(other, "catalog").catalog
    for limit in (1, 3, 100):
        t.eq(await _ids(t, catalog, limit=limit), names, f"ids, {limit} a page at most")
    page = await catalog.list(after="aa")
    t.eq([row.session_id for row in page.items], names[3:], "ids after aa")


@check("CAT-009", contract="session")
async def a_filter_is_about_values_and_types(t: T) -> None:
    """A filter finds those that have all of its fields, with equal values of the same types."""
    one, other = await t.connect(), await t.connect()
    made: dict[str, JsonObject] = {
        "bool": {"k": True},
        "float": {"k": 1.0},
        "int": {"k": 1, "more": "x"},
        "list": {"k": [1, {"d": 0}]},
        "none": {"k": None},
        "other": {"more": "x"},
        "text": {"k": "1"},
    }
    for name, metadata in made.items():
        await upkeep_of(one, "catalog").catalog.create(name, metadata=metadata)
    wanted: tuple[tuple[JsonObject | None, str], ...] = (
        ({"k": 1}, "int"),
        ({"k": True}, "bool"),
        ({"k": "1"}, "text"),
        ({"k": None}, "none"),
        ({"k": [1, {"d": 0}]}, "list"),
        ({"k": [1]}, ""),
        ({"k": 1, "more": "x"}, "int"),
        ({"more": "x"}, "int other"),
        ({"K": 1}, ""),
        ({}, "bool float int list none other text"),
    )
    catalog = upkeep_of(other, "catalog").catalog
    for where, names in wanted:
        t.eq(await _ids(t, catalog, where=where), names.split(), f"sessions where {where}")


@check("CAT-010", contract="session")
async def a_filter_not_understood(t: T) -> None:
    """A filter that is not a JSON object is InvalidFilter, and never everything or nothing."""
    catalog = upkeep_of(await t.connect(), "catalog").catalog
    await catalog.create("s", metadata={"k": 1})
    bad: tuple[Any, ...] = ([], ["k"], "k", "", 1, 0, False, {"k": {1}}, {1: 1}, {"k": b"1"})
    for where in bad:
        await t.raises(InvalidFilter, catalog.list(where=where), f"where={where!r}")


@check("CAT-015", contract="session")
async def a_listing_out_of_range(t: T) -> None:
    """A limit of a listing that is not an integer of 1 to 1,000 is InvalidLimit."""
    catalog = upkeep_of(await t.connect(), "catalog").catalog
    await catalog.create("s")
    bad: tuple[Any, ...] = (0, -1, 1001, True, 1.5, "1")
    for limit in bad:
        await t.raises(InvalidLimit, catalog.list(limit=limit), f"limit={limit!r}")
