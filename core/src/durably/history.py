"""What bounded reading of a session gives: items, pages, and their limits."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal, TypeAlias

import msgspec

from durably.checks import check_count
from durably.entries import Entry
from durably.errors import InvalidFilter

__all__ = [
    "DEFAULT_PAGE",
    "MAX_PAGE",
    "MAX_SCANNED_BYTES",
    "MAX_SCANNED_RECORDS",
    "HistoryFilter",
    "HistoryItem",
    "HistoryPage",
    "check_page",
    "walk",
]

HistoryFilter: TypeAlias = Literal["messages"]

DEFAULT_PAGE = 100
MAX_PAGE = 256
"""Items."""

MAX_SCANNED_RECORDS = 10_000
MAX_SCANNED_BYTES = 16 * 1024 * 1024
"""What one page may look at where it leaves entries out."""


class HistoryItem(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a session, the run it belongs to, and its place in the flat ``load`` view.

    To rewind to just before it is to keep ``index`` entries.
    """

    index: int
    run_id: str
    entry: Entry


class HistoryPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some items, oldest first; ``next_cursor`` is what to pass as ``after``, None at the end.

    A page is never the whole transcript, unless it is both the first and the last one.
    """

    items: tuple[HistoryItem, ...]
    next_cursor: str | None = None


def check_page(limit: int, types: HistoryFilter | None) -> None:
    """Refuse what no page can be of.

    Raises:
        InvalidLimit: the limit is not an integer of 1 to 256.
        InvalidFilter: ``types`` is neither None nor ``"messages"``.
    """
    check_count("limit", limit, minimum=1, maximum=MAX_PAGE)
    if types is not None and (type(types) is not str or types != "messages"):
        raise InvalidFilter("types", types, known=("messages",))


async def walk(read: Callable[[str | None], Awaitable[HistoryPage]]) -> AsyncIterator[HistoryPage]:
    """Give page after page, each read when it is asked for; ``read`` takes a cursor."""
    page = await read(None)
    yield page
    while page.next_cursor is not None:
        page = await read(page.next_cursor)
        yield page
