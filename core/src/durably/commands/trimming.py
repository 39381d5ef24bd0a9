"""``durably trim`` and ``durably recall``: long tool results, shortened and brought back."""

import asyncio
from typing import Annotated

import msgspec
import typer

from durably._records import payload, raw_items, raw_object
from durably.commands.arguments import AsJson, SessionId, Url, absent, open_url
from durably.commands.asking import Yes, confirm
from durably.commands.output import count, print_block, print_json, print_line
from durably.commands.transcript import transcript
from durably.cuts import trim_item
from durably.entries import ToolResultEntry
from durably.errors import DurablyError
from durably.logstore import LogId, Record

__all__ = ["recall", "trim"]


def trim(
    url: Url,
    session_id: SessionId,
    *,
    keep_chars: Annotated[
        int, typer.Option(min=0, help="How many characters of each result stay.")
    ] = 400,
    keep_runs: Annotated[
        int, typer.Option(min=0, help="The last so many runs stay as they are.")
    ] = 1,
    archive: Annotated[
        bool,
        typer.Option(
            "--archive/--no-archive", help="Keep the results whole, for durably recall, or not."
        ),
    ] = True,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Shorten the long tool results of a session for good; what went is kept in its archive.

    A result keeps its first characters, and says how many went. It says how many results there
    are and asks before it changes anything. Trimming again to the same length does nothing.

    With --json, it is one object: session_id, trimmed (how many results), archived (a boolean).
    """
    waiting = asyncio.run(_count(url, session_id, keep_chars, keep_runs))
    trimmed = 0
    if waiting:
        results = count(waiting, "tool result", "tool results")
        kept = "keeping them whole in the archive" if archive else "keeping no copy"
        confirm(f"Shorten {results} of session {session_id!a}, {kept}?", yes=yes)
        trimmed = asyncio.run(_trim(url, session_id, keep_chars, keep_runs, archive=archive))
    if as_json:
        print_json({"session_id": session_id, "trimmed": trimmed, "archived": archive})
    else:
        print_line(f"trimmed {count(trimmed, 'tool result', 'tool results')}")


async def _count(url: str, session_id: str, keep_chars: int, keep_runs: int) -> int:
    """Return how many results would be trimmed now."""
    log = LogId(kind="session", id=session_id)
    async with open_url(url) as storage:
        stored = await storage.log_store.read(log)
    if stored is None:
        raise absent("session", session_id)
    earlier = stored.records[: max(0, len(stored.records) - keep_runs)]
    items = (item for record in earlier for item in _items(log, record))
    return sum(trim_item(item, keep_chars) is not None for item in items)


def _items(log: LogId, record: Record) -> list[msgspec.Raw]:
    fields = raw_object(payload(log, record), log, record.key)
    return raw_items(fields.get("entries", msgspec.Raw(b"null")), log, record.key)


async def _trim(
    url: str, session_id: str, keep_chars: int, keep_runs: int, *, archive: bool
) -> int:
    async with open_url(url) as storage:
        return await storage.sessions.trim_tool_results(
            session_id,
            keep_chars=keep_chars,
            keep_runs=keep_runs,
            archive=storage.archive if archive else None,
        )


def recall(
    url: Url,
    session_id: SessionId,
    call_id: Annotated[
        str,
        typer.Argument(
            metavar="CALL_ID", help="The call, as durably show names it.", show_default=False
        ),
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Show a tool result whole that was trimmed: what the archive holds of a call.

    There are several where calls of a session shared an id, oldest first.

    With --json, it is one object: session_id, call_id, results (entries as they were stored).
    """
    results = asyncio.run(_recall(url, session_id, call_id))
    if as_json:
        found = msgspec.to_builtins(results)
        print_json({"session_id": session_id, "call_id": call_id, "results": found})
        return
    for said in transcript(results):
        print_line(f"{said.heading}:", style="green")
        print_block(said.text)


async def _recall(url: str, session_id: str, call_id: str) -> list[ToolResultEntry]:
    async with open_url(url) as storage:
        results = await storage.archive.recall(session_id, call_id)
    if not results:
        raise DurablyError(
            f"the archive of session {session_id!a} has no result of call {call_id!a}",
            hint="Only what was trimmed with an archive is there; see durably show",
        )
    return results
