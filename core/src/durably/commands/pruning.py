"""``durably prune``: remove what is old."""

import asyncio
import time
from collections.abc import Callable
from typing import Annotated

import msgspec
import typer

from durably.commands.arguments import AsJson, Kind, Url, open_url, read_duration
from durably.commands.asking import Yes, confirm
from durably.commands.output import count, print_json, print_line
from durably.commands.progress import Meter
from durably.retention import Pruned

__all__ = ["prune"]

SHOWN = 20
"""Ids that are named before the question; --dry-run names all."""


class _Choice(msgspec.Struct, frozen=True):
    """What to prune: older than a moment, in epoch seconds, and what is kept."""

    url: str
    kind: Kind
    before: float | None
    keep_last: int | None

    @property
    def older_than(self) -> float | None:
        """How long before now the moment lies."""
        return None if self.before is None else max(0.0, time.time() - self.before)

    def counted(self, number: int) -> str:
        """Return a number of what is pruned."""
        return count(number, self.kind.value, f"{self.kind.value}s")


def prune(
    url: Url,
    *,
    kind: Annotated[Kind, typer.Option(help="What to prune.")] = Kind.SESSION,
    older_than: Annotated[
        float | None,
        typer.Option(
            parser=read_duration,
            metavar="DURATION",
            help="What was not changed for so long: 90s, 15m, 12h, 30d or 8w.",
            show_default=False,
        ),
    ] = None,
    keep_last: Annotated[
        int | None, typer.Option(min=0, help="Keep the so many that were changed last.")
    ] = None,
    yes: Yes = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Name all that would go, and remove nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove old sessions, runs, threads, states or trees; a session goes with its archive.

    --older-than says how old, --keep-last how many stay whatever their age; where both are given,
    what either keeps stays. It says what would go and asks before it removes anything. What is
    changed meanwhile stays. It may be stopped at any moment and run again.

    With --json, it is one object: kind, ids (of what was removed or, with --dry-run, would be),
    examined (how many there were), dry_run.
    """
    if older_than is None and keep_last is None:
        raise typer.BadParameter("say what to prune: with --older-than, with --keep-last, or both")
    before = None if older_than is None else time.time() - older_than
    choice = _Choice(url, kind, before, keep_last)
    found = asyncio.run(_prune(choice, dry_run=True))
    if not as_json:
        _announce(choice, found, dry_run=dry_run)
    if found.ids and not dry_run:
        confirm(f"Remove {choice.counted(len(found.ids))} of {found.examined}?", yes=yes)
        with Meter(len(found.ids), f"{kind.value}s") as meter:
            found = asyncio.run(_prune(choice, dry_run=False, show=meter.show))
    if as_json:
        ids = list(found.ids)
        print_json({"kind": kind, "ids": ids, "examined": found.examined, "dry_run": dry_run})
    elif not dry_run:
        print_line(f"removed {choice.counted(len(found.ids))} of {found.examined}")


async def _prune(
    choice: _Choice, *, dry_run: bool, show: Callable[[int, int], object] | None = None
) -> Pruned:
    done = 0

    def progress(_id: str) -> None:
        nonlocal done
        done += 1
        if show is not None:
            show(done, done)

    async with open_url(choice.url) as storage:
        return await storage.prune(
            choice.kind.value,
            older_than=choice.older_than,
            keep_last=choice.keep_last,
            dry_run=dry_run,
            progress=progress,
        )


def _announce(choice: _Choice, found: Pruned, *, dry_run: bool) -> None:
    """Say what would go."""
    print_line(f"{choice.counted(len(found.ids))} of {found.examined} would go")
    shown = found.ids if dry_run else found.ids[:SHOWN]
    for id_ in shown:
        print_line(f"  {id_}")
    if len(shown) < len(found.ids):
        print_line(f"  and {len(found.ids) - len(shown)} more; --dry-run names all")
