"""Pages of logs that are looked at one by one, some of which are left out."""

from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from durably.checks import MAX_LIST_LIMIT
from durably.logstore import LogInfo, LogStore, Page

__all__ = ["all_logs", "filtered_page"]

T = TypeVar("T")


async def filtered_page(
    store: LogStore,
    kind: str,
    *,
    after: str | None,
    limit: int,
    accept: Callable[[LogInfo], T | None],
    is_narrow: bool,
) -> Page[T]:
    """Return a page of what ``accept`` makes of logs with their states; None leaves one out.

    ``is_narrow`` says that logs may be left out at all; such a page is short only at the end.
    """
    rows = min(limit + 1, MAX_LIST_LIMIT) if is_narrow else limit
    position: str | None = "" if after is None else after
    found: list[T] = []
    last = ""
    while position is not None:
        page = await store.list(kind, after=position, limit=rows, with_state=True)
        for info in page.items:
            accepted = accept(info)
            if accepted is None:
                continue
            if len(found) == limit:
                return Page(items=tuple(found), next=last)
            found.append(accepted)
            last = info.id
        position = page.next
        rows = min(2 * rows, MAX_LIST_LIMIT)
        if not is_narrow:
            break
    return Page(items=tuple(found), next=position)


async def all_logs(
    store: LogStore, kind: str, *, with_state: bool = False
) -> AsyncIterator[LogInfo]:
    """Give every log of a kind, page by page."""
    position: str | None = ""
    while position is not None:
        page = await store.list(kind, after=position, limit=MAX_LIST_LIMIT, with_state=with_state)
        for info in page.items:
            yield info
        position = page.next
