"""``durably ls``: what a storage holds, without its content."""

import asyncio
import time
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Annotated, Protocol, TypeVar

import msgspec
import typer

from durably._records import decode_head
from durably.checks import MAX_LIST_LIMIT
from durably.commands.arguments import AsJson, Kind, Url, open_url, read_duration
from durably.commands.harmless import one_line
from durably.commands.output import moment, print_json, print_line
from durably.errors import CorruptRecord
from durably.logstore import LogId, LogState, Page
from durably.runs import RunHead
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


AGENT_WIDTH = 16
STATUS_WIDTH = 11


class Status(StrEnum):
    """Where a run stands."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    COMPLETED = "completed"
    FAILED = "failed"


class _Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What to list: of runs those of a status, and saved last by a moment in epoch seconds."""

    kind: Kind = Kind.SESSION
    prefix: str = ""
    after: str = ""
    limit: int | None = None
    status: Status | None = None
    saved_by: float | None = None


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    """One log; a run has a head, but for one that cannot be read."""

    kind: Kind
    id: str
    state: LogState
    head: RunHead | None = None

    def is_in(self, choice: _Choice) -> bool:
        """Whether it is one of those that are to be listed."""
        status = None if self.head is None else self.head.status
        return choice.status in {None, status} and (
            choice.saved_by is None or self.state.updated_at <= choice.saved_by
        )


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
    status: Annotated[
        Status | None, typer.Option(help="Only runs that stand so.", show_default=False)
    ] = None,
    idle_for: Annotated[
        float | None,
        typer.Option(
            parser=read_duration,
            metavar="DURATION",
            help="Only runs that were not saved for so long: 90s, 15m, 12h, 30d or 8w.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List sessions: how many runs and entries each has, and when it was made and changed.

    A run has its status and its agent, too; with --kind run, --status and --idle-for choose.

    They come in the order of their ids' UTF-8 bytes, page by page, and no content is read.
    Times are UTC. Characters of an id that a terminal would not show are escaped.

    With --json, each is an object on a line of its own: kind, id, runs (of a run: saves, of a
    thread or state: snapshots, of a tree: nodes), entries, created_at and updated_at in epoch
    seconds. A run has status and agent_name, too, which are null where its head cannot be read.
    """
    if kind is not Kind.RUN and (status is not None or idle_for is not None):
        raise typer.BadParameter("--status and --idle-for go with --kind run alone")
    choice = _Choice(
        kind=kind,
        prefix=prefix,
        after=after,
        limit=limit,
        status=status,
        saved_by=None if idle_for is None else time.time() - idle_for,
    )
    asyncio.run(_ls(url, choice, as_json=as_json))


async def _ls(url: str, choice: _Choice, *, as_json: bool) -> None:
    async with open_url(url) as storage:
        if not as_json:
            print_line(_heading(choice.kind), style="bold")
        async for row in _walk(storage, choice):
            if as_json:
                print_json(_as_json(row))
            else:
                print_line(_line(row))


async def _walk(storage: Storage, choice: _Choice) -> AsyncIterator[_Row]:
    """Yield what is chosen, a page in memory at a time."""
    left = choice.limit
    is_narrow = choice.status is not None or choice.saved_by is not None
    place: str | None = choice.after
    while place is not None and left != 0:
        size = MAX_LIST_LIMIT if left is None or is_narrow else min(left, MAX_LIST_LIMIT)
        page = await storage.log_store.list(
            choice.kind.value, prefix=choice.prefix, after=place, limit=size, with_state=True
        )
        rows = [_row(choice.kind, info.id, info.state) for info in page.items if info.state]
        chosen = [row for row in rows if row.is_in(choice)][:left]
        for row in chosen:
            yield row
        place = page.next
        left = None if left is None else left - len(chosen)


def _row(kind: Kind, id_: str, state: LogState) -> _Row:
    head = None
    if kind is Kind.RUN:
        try:
            head = decode_head(LogId(kind=kind.value, id=id_), state.head)
        except CorruptRecord:
            head = None
    return _Row(kind=kind, id=id_, state=state, head=head)


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
    run = f"{'STATUS':{STATUS_WIDTH}}  {'AGENT':{AGENT_WIDTH}}  " if kind is Kind.RUN else ""
    return f"{RECORDS[kind].upper():>9}  {'ENTRIES':>9}  {'CREATED':19}  {'UPDATED':19}  {run}ID"


def _line(row: _Row) -> str:
    state = row.state
    created, updated = moment(state.created_at), moment(state.updated_at)
    run = ""
    if row.kind is Kind.RUN:
        status, agent = ("unreadable", "") if row.head is None else _told(row.head)
        run = f"{status:{STATUS_WIDTH}}  {agent or '-':{AGENT_WIDTH}}  "
    counts = f"{state.record_count:>9}  {state.entry_count:>9}"
    return f"{counts}  {created:19}  {updated:19}  {run}{row.id}"


def _told(head: RunHead) -> tuple[str, str]:
    """Return status and agent as they fit into a row."""
    return one_line(head.status)[:STATUS_WIDTH], one_line(head.agent_name)[:AGENT_WIDTH]


def _as_json(row: _Row) -> dict[str, object]:
    state, head = row.state, row.head
    run = {"status": head and head.status, "agent_name": head and head.agent_name}
    return {
        "kind": row.kind.value,
        "id": row.id,
        RECORDS[row.kind]: state.record_count,
        "entries": state.entry_count,
        **(run if row.kind is Kind.RUN else {}),
        "created_at": state.created_at,
        "updated_at": state.updated_at,
    }
