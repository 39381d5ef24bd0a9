"""``durably history``: a page of a session, or its end."""

import asyncio
from typing import Annotated

import msgspec
import typer

from durably.commands.arguments import AsJson, SessionId, Url, absent, open_url
from durably.commands.output import print_block, print_json, print_line
from durably.commands.transcript import transcript
from durably.history import DEFAULT_PAGE, MAX_PAGE, HistoryFilter, HistoryPage

__all__ = ["history"]


def history(
    url: Url,
    session_id: SessionId,
    *,
    limit: Annotated[
        int, typer.Option(min=1, max=MAX_PAGE, help="At most so many entries.")
    ] = DEFAULT_PAGE,
    after: Annotated[
        str | None,
        typer.Option(metavar="CURSOR", help="Go on behind an earlier page: its cursor."),
    ] = None,
    messages: Annotated[
        bool, typer.Option("--messages", help="Only what was said to the model and by it.")
    ] = False,
    last: Annotated[
        int | None, typer.Option(min=1, help="The last so many entries instead of a page.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a page of a session, oldest first, without reading the rest of it.

    Each entry has its number in the session: to rewind to just before it is to keep so many
    entries. Where more follows, the page ends with a cursor for --after. Walking on from page to
    page shows the session as it was at the first one; entries appended since do not appear.

    With --json, it is one object: session_id, items [{index, run_id, entry}], next_cursor (null
    at the end, and with --last).
    """
    if last is not None and (after is not None or messages):
        raise typer.BadParameter("--last goes neither with --after nor with --messages")
    page = asyncio.run(_read(url, session_id, limit, after, last, messages=messages))
    if as_json:
        print_json({"session_id": session_id, **msgspec.to_builtins(page)})
    else:
        _print(session_id, page)


async def _read(
    url: str, session_id: str, limit: int, after: str | None, last: int | None, *, messages: bool
) -> HistoryPage:
    async with open_url(url) as storage:
        sessions = storage.sessions
        if last is None:
            types: HistoryFilter | None = "messages" if messages else None
            page = await sessions.history(session_id, limit=limit, after=after, types=types)
        else:
            page = HistoryPage(items=tuple(await sessions.last(session_id, entries=last)))
        if not page.items and await sessions.revision(session_id) == 0:
            raise absent("session", session_id)
        return page


def _print(session_id: str, page: HistoryPage) -> None:
    print_line(f"session {session_id}", style="bold")
    run_id: str | None = None
    for item, said in zip(page.items, transcript(one.entry for one in page.items), strict=True):
        if item.run_id != run_id:
            run_id = item.run_id
            print_line("")
            print_line(f"-- run {run_id} --", style="bold cyan")
        print_line(f"{item.index} {said.heading}:", style="green")
        print_block(said.text)
    if page.next_cursor is not None:
        print_line("")
        print_line(f"-- more: --after={page.next_cursor} --", style="bold cyan")
