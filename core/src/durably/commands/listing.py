"""``durably ls``: what a storage holds, without its content."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Protocol, TypeVar

import typer

from durably.checks import MAX_LIST_LIMIT
from durably.commands.arguments import AsJson, Kind, Url, open_url
from durably.commands.output import moment, print_json, print_line
from durably.logstore import LogInfo, LogState, Page
from durably.storage import Storage

__all__ = ["each", "ls"]

T = TypeVar("T")

RECORDS = {
    Kind.SESSION: "runs",
    Kind.RUN: "saves",
    Kind.THREAD: "snapshots",
    Kind.STATE: "snapshots",
    Kind.TREE: "nodes",
}
"""What one record of each kind is."""


class _Listing(Protocol[T]):
    async def __call__(self, *, after: str | None, limit: int) -> Page[T]: ...


def ls(
    url: Url,
    *,
    kind: Annotated[Kind, typer.Option(help="What to list.")] = Kind.SESSION,
    prefix: Annotated[str, typer.Option(help="Only ids that begin with this text.")] = "",
    after: Annotated[str, typer.Option(help="Only ids that come after this one.")] = "",
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most so many; all of them by default.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List sessions: how many runs and entries each has, and when it was made and changed.

    They come in the order of their ids' UTF-8 bytes, page by page, and no content is read.
    Times are UTC. Characters of an id that a terminal would not show are escaped.

    With --json, each is an object on a line of its own: kind, id, runs (of a run: saves, of a
    thread or state: snapshots, of a tree: nodes), entries, created_at and updated_at in epoch
    seconds.
    """
    asyncio.run(_ls(url, kind, prefix, after, limit, as_json=as_json))


async def _ls(
    url: str, kind: Kind, prefix: str, after: str, limit: int | None, *, as_json: bool
) -> None:
    async with open_url(url) as storage:
        if not as_json:
            print_line(_heading(kind), style="bold")
        async for info in _walk(storage, kind, prefix, after, limit):
            state = info.state
            if state is None:
                continue
            if as_json:
                print_json(_as_json(kind, info.id, state))
            else:
                print_line(_row(info.id, state))


async def _walk(
    storage: Storage, kind: Kind, prefix: str, after: str, limit: int | None
) -> AsyncIterator[LogInfo]:
    """Yield the logs of a kind with their states, a page in memory at a time."""
    left = limit
    place: str | None = after
    while place is not None and left != 0:
        size = MAX_LIST_LIMIT if left is None else min(left, MAX_LIST_LIMIT)
        page = await storage.log_store.list(
            kind.value, prefix=prefix, after=place, limit=size, with_state=True
        )
        for info in page.items:
            yield info
        place = page.next
        left = None if left is None else left - len(page.items)


async def each(listing: _Listing[T]) -> AsyncIterator[T]:
    """Yield all that an operation lists, a page in memory at a time."""
    place: str | None = None
    while True:
        page = await listing(after=place, limit=MAX_LIST_LIMIT)
        for item in page.items:
            yield item
        if page.next is None:
            return
        place = page.next


def _heading(kind: Kind) -> str:
    return f"{RECORDS[kind].upper():>9}  {'ENTRIES':>9}  {'CREATED':19}  {'UPDATED':19}  ID"


def _row(id_: str, state: LogState) -> str:
    created, updated = moment(state.created_at), moment(state.updated_at)
    return f"{state.record_count:>9}  {state.entry_count:>9}  {created:19}  {updated:19}  {id_}"


def _as_json(kind: Kind, id_: str, state: LogState) -> dict[str, object]:
    return {
        "kind": kind.value,
        "id": id_,
        RECORDS[kind]: state.record_count,
        "entries": state.entry_count,
        "created_at": state.created_at,
        "updated_at": state.updated_at,
    }
