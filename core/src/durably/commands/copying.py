"""``durably copy`` and ``durably fork``: into another storage, and under another id."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from durably._paging import all_logs
from durably.commands.arguments import AsJson, Kind, Kinds, Url, missing, open_url
from durably.commands.output import count, print_json, print_line, stderr
from durably.commands.progress import Meter
from durably.logstore import LogId
from durably.storage import Storage
from durably.transfer import KINDS, MOST_AT_ONCE, Copied

__all__ = ["Tally", "copy", "count_logs", "fork", "summary"]


class Tally:
    """Counts the logs that are done, and shows it."""

    def __init__(self, meter: Meter) -> None:
        self.done = 0
        self._meter = meter

    def __call__(self, _log: LogId, _records: int) -> None:
        """Take note of a log that is done."""
        self.done += 1
        self._meter.show(self.done, self.done)


async def count_logs(storage: Storage, kinds: Sequence[str]) -> int | None:
    """Return how many logs there are, for a bar; None where nobody sees it."""
    if not stderr.is_terminal:
        return None
    return sum([1 for kind in kinds async for _ in all_logs(storage.log_store, kind)])


def summary(copied: Copied) -> str:
    """Say what was moved."""
    return (
        f"{count(copied.logs, 'log', 'logs')}, {count(copied.records, 'record', 'records')} stored,"
        f" {copied.known} stored before"
    )


def copy(
    source: Url,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="Where to, likewise.", show_default=False)
    ],
    *,
    kind: Kinds = None,
    parallel: Annotated[
        int, typer.Option(min=1, max=MOST_AT_ONCE, help="How many logs are copied at once.")
    ] = 8,
    as_json: AsJson = False,
) -> None:
    """Copy sessions with their archives, runs, threads, states and trees into another storage.

    Everything comes over byte for byte, with its times, whatever its backend. Copying again, or
    after an interruption, moves what is missing and nothing else; what has gone on in the target
    stays as it is there. A run or a tree cannot be read before it is whole. Where another log of
    the same id lies in the target, it stays, all others are copied, and the exit code is 1. Logs
    are told apart by the keys and the times of their records, not by their content. The namespace
    is that of each URL.

    With --json, it is one object: logs, records (now stored), known (stored before).
    """
    if source == target:
        raise typer.BadParameter("the source and the target are the same URL")
    kinds = [one.value for one in kind or ()] or KINDS
    copied = asyncio.run(_copy(source, target, kinds, parallel))
    if as_json:
        print_json(msgspec.structs.asdict(copied))
    else:
        print_line(summary(copied))


async def _copy(source: str, target: str, kinds: Sequence[str], parallel: int) -> Copied:
    async with open_url(source) as there, open_url(target, create=True) as here:
        with Meter(await count_logs(there, kinds), "logs") as meter:
            return await there.copy_to(here, kinds=kinds, parallel=parallel, progress=Tally(meter))


def fork(
    url: Url,
    id_: Annotated[str, typer.Argument(metavar="ID", help="What to copy.", show_default=False)],
    new_id: Annotated[
        str, typer.Argument(metavar="NEW_ID", help="The id of the copy.", show_default=False)
    ],
    *,
    kind: Annotated[Kind, typer.Option(help="What the id names.")] = Kind.SESSION,
    as_json: AsJson = False,
) -> None:
    """Copy a session with its archive, a run, thread, state or tree under a new id.

    Both go on apart. Where something else has the new id, it stays, and the exit code is 1. After
    an interruption the same command completes the copy.

    With --json, it is one object: kind, id, new_id, records (now stored), known (stored before).
    """
    copied = asyncio.run(_fork(url, id_, new_id, kind))
    if as_json:
        counts = {"records": copied.records, "known": copied.known}
        print_json({"kind": kind.value, "id": id_, "new_id": new_id, **counts})
    else:
        print_line(summary(copied))


async def _fork(url: str, id_: str, new_id: str, kind: Kind) -> Copied:
    async with open_url(url) as storage:
        copied = await storage.fork(id_, new_id, kind=kind.value)
        if not copied.logs:
            raise await missing(storage, kind.value, id_)
    return copied
