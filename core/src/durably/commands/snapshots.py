"""``durably states``: which keys have a snapshot, and one of them, as a person reads it."""

import asyncio
from typing import Annotated

import msgspec
import typer

from durably.commands.arguments import AsJson, Url, open_url
from durably.commands.listing import each
from durably.commands.output import moment, print_json, print_line
from durably.commands.showing import show_state

__all__ = ["states"]


def states(
    url: Url,
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="KEY",
            help="The one to show; put -- before one that begins with a dash.",
            show_default="all are listed",
        ),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List the keys that have a snapshot, or show the one under a key as a person reads it.

    They come in the order of their UTF-8 bytes, page by page, and no content is read. Times are
    UTC. Nothing in what is shown acts on the terminal, as in durably show.

    With --json, each is an object on a line of its own: key, revision, created_at and updated_at
    in epoch seconds. With a KEY, it is one object: key, snapshot {version, status, messages, turn,
    usage, interrupt, pending_handoff, extra}.
    """
    asyncio.run(_list(url, as_json=as_json) if key is None else _show(url, key, as_json=as_json))


async def _list(url: str, *, as_json: bool) -> None:
    async with open_url(url) as storage:
        if not as_json:
            print_line(f"{'CREATED':19}  {'UPDATED':19}  KEY", style="bold")
        async for info in each(storage.states.list):
            if as_json:
                print_json(msgspec.structs.asdict(info))
            else:
                created, updated = moment(info.created_at), moment(info.updated_at)
                print_line(f"{created:19}  {updated:19}  {info.key}")


async def _show(url: str, key: str, *, as_json: bool) -> None:
    async with open_url(url) as storage:
        await show_state(storage, key, as_json=as_json, has_kind_option=False)
