"""``durably rm``: remove sessions, runs, threads, states and trees by their ids."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer

from durably.commands.arguments import AsJson, Kind, Url, missing, open_url
from durably.commands.asking import Yes, confirm
from durably.commands.listing import RECORDS
from durably.commands.output import complain, count, print_json, print_line
from durably.commands.progress import Meter
from durably.logstore import LogId, LogState, Range
from durably.storage import Storage

__all__ = ["rm"]


def rm(
    url: Url,
    ids: Annotated[
        list[str],
        typer.Argument(
            metavar="ID...",
            help="What to remove; put -- before ids that begin with a dash.",
            show_default=False,
        ),
    ],
    *,
    kind: Annotated[Kind, typer.Option(help="What the ids name.")] = Kind.SESSION,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Of a session, the runs' checkpoints, too.")
    ] = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove sessions, runs, threads, states or trees for good.

    A session goes with its runs and its archive; trees forked from a tree stay.

    It says what would go and asks before it removes anything. Where an id names nothing, the
    others are removed all the same, that one is reported, and the exit code is 1. After an
    interruption the same command removes the rest.

    With --json, it is one object: kind, removed and missing (ids).
    """
    if checkpoints and kind is not Kind.SESSION:
        raise typer.BadParameter("--checkpoints goes with --kind session alone")
    ids = list(dict.fromkeys(ids))
    states, complaints = asyncio.run(_states(url, kind, ids))
    for id_ in ids:
        if id_ not in states:
            complain(complaints[id_])
        elif not as_json:
            print_line(_described(kind, id_, states[id_], checkpoints=checkpoints))
    removed: list[str] = []
    if states:
        confirm(f"Remove {count(len(states), kind.value, f'{kind.value}s')} for good?", yes=yes)
        removed = asyncio.run(_remove(url, kind, list(states), checkpoints=checkpoints))
    if as_json:
        print_json({"kind": kind.value, "removed": removed, "missing": list(complaints)})
    elif states:
        print_line(f"removed {count(len(removed), kind.value, f'{kind.value}s')}")
    if complaints:
        raise typer.Exit(1)


def _described(kind: Kind, id_: str, state: LogState, *, checkpoints: bool) -> str:
    records = count(state.record_count, RECORDS[kind][:-1], RECORDS[kind])
    more = ", with the runs' checkpoints" if checkpoints else ""
    return f"{kind.value} {id_}: {records}{more}"


async def _states(
    url: str, kind: Kind, ids: Sequence[str]
) -> tuple[dict[str, LogState], dict[str, str]]:
    """Return the states of those that are there and what to say of the others, by their ids."""
    found: dict[str, LogState] = {}
    complaints: dict[str, str] = {}
    async with open_url(url) as storage:
        for id_ in ids:
            stored = await storage.log_store.read(LogId(kind=kind.value, id=id_), Range(limit=0))
            if stored is not None:
                found[id_] = stored.state
            else:
                complaints[id_] = str(await missing(storage, kind.value, id_))
    return found, complaints


async def _remove(url: str, kind: Kind, ids: Sequence[str], *, checkpoints: bool) -> list[str]:
    removed: list[str] = []
    with Meter(len(ids), f"{kind.value}s") as meter:
        async with open_url(url) as storage:
            for done, id_ in enumerate(ids, 1):
                if await _removed(storage, kind, id_, checkpoints=checkpoints):
                    removed.append(id_)
                meter.show(done, done)
    return removed


async def _removed(storage: Storage, kind: Kind, id_: str, *, checkpoints: bool) -> bool:
    match kind:
        case Kind.SESSION:
            return await storage.catalog.delete(id_, checkpoints=checkpoints)
        case Kind.RUN:
            return await storage.checkpointer.delete(id_)
        case Kind.THREAD:
            return await storage.checkpoint_saver().delete(id_)
        case Kind.STATE:
            return await storage.states.delete(id_)
        case Kind.TREE:
            return await storage.tree(id_).delete()
