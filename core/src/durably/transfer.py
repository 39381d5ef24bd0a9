"""Whole logs from one storage to another: lossless, and resumable.

What is transferred is what was stored, byte for byte: fields and entry types this version does
not know included. Not transferred is what a storage makes up itself: revisions, and the numbers
of records, which start anew. Every log is written in order, its records known by their keys and
times, so that whatever was cut off goes on where it stopped, and doing it again moves nothing.
The head of a run is written last: until then the run cannot be read.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from durably._paging import Portions, all_logs
from durably._writing import Place, Writer, described
from durably.archive import ARCHIVE
from durably.checks import check_count
from durably.errors import CopyConflict, InvalidFilter
from durably.logstore import LogId, LogStore, Range

__all__ = [
    "KINDS",
    "Copied",
    "Progress",
    "check_kinds",
    "copy_all",
    "copy_log",
    "fork_log",
    "nobody",
]

KINDS = ("session", "run", "thread", ARCHIVE, "state", "tree")
"""In the order in which they are transferred."""

MOST_AT_ONCE = 256
"""Logs."""

Progress: TypeAlias = Callable[[LogId, int], object]
"""Told of a log that is done, and of how many records were moved for it."""


def nobody(*_: object) -> None:
    """Be told of progress, and do nothing about it."""


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """How many logs there were, how many records were moved, and how many were there before."""

    logs: int = 0
    records: int = 0
    known: int = 0

    def plus(self, other: "Copied") -> "Copied":
        """Return the sums."""
        return Copied(
            logs=self.logs + other.logs,
            records=self.records + other.records,
            known=self.known + other.known,
        )


def check_kinds(kinds: Sequence[str]) -> None:
    """Refuse kinds of log that are not transferred.

    Raises:
        InvalidFilter: one is none of ``KINDS``.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise InvalidFilter("kind", kind, known=KINDS)


async def copy_all(
    source: LogStore,
    target: LogStore,
    *,
    kinds: Sequence[str],
    parallel: int,
    progress: Progress,
) -> Copied:
    """Copy every log of some kinds, several at once; see ``Storage.copy_to``."""
    check_kinds(kinds)
    check_count("parallel", parallel, minimum=1, maximum=MOST_AT_ONCE)
    copied = Copied()
    conflicts: list[CopyConflict] = []
    running: set[asyncio.Task[Copied]] = set()
    try:
        for kind in kinds:
            async for info in all_logs(source, kind):
                log = LogId(kind=kind, id=info.id)
                running.add(asyncio.ensure_future(copy_log(source, log, target, log, progress)))
                if len(running) >= parallel:
                    copied = await _some_done(running, copied, conflicts)
        while running:
            copied = await _some_done(running, copied, conflicts)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    if conflicts:
        raise conflicts[0]
    return copied


async def _some_done(
    running: set[asyncio.Task[Copied]], copied: Copied, conflicts: list[CopyConflict]
) -> Copied:
    """Wait for a copy to end, and return what was copied in all; those that ended leave the set.

    A conflict ends no other copy: it joins those there were.
    """
    done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    running -= done
    failures = [failure for task in done if (failure := task.exception()) is not None]
    conflicts += [failure for failure in failures if isinstance(failure, CopyConflict)]
    for failure in failures:
        if not isinstance(failure, CopyConflict):
            raise failure
    for task in done:
        if task.exception() is None:
            copied = copied.plus(task.result())
    return copied


async def copy_log(
    source: LogStore, log: LogId, target: LogStore, copy: LogId, progress: Progress
) -> Copied:
    """Copy one log under the same or another id; one that is not there is no log.

    Raises:
        CopyConflict: the target has another log there, or the source was rewound meanwhile.
    """
    index = await source.read(log, Range(with_data=False))
    if index is None:
        return Copied()
    writer = await Writer.open(target, copy, described(index.state))
    places = [Place.of(record) for record in index.records]
    if log != copy:
        writer.check_own(places)
    known = done = writer.skip(places)
    if known < len(places):
        first, last = index.records[known], index.records[-1]
        async for part in Portions(source, log, after=first.seq - 1, until=last.seq):
            count = len(part.records)
            if [Place.of(record) for record in part.records] != places[done : done + count]:
                raise CopyConflict(log)
            await writer.write(part.records, after=done)
            done += count
    if done < len(places):
        raise CopyConflict(log)
    await writer.finish(done)
    progress(copy, done - known)
    return Copied(logs=1, records=done - known, known=known)


async def fork_log(store: LogStore, kind: str, id_: str, new_id: str) -> Copied:
    """Copy one log within a store under a new id, a session with its archive."""
    copied = Copied()
    for each in ("session", ARCHIVE) if kind == "session" else (kind,):
        source, copy = LogId(kind=each, id=id_), LogId(kind=each, id=new_id)
        copied = copied.plus(await copy_log(store, source, store, copy, nobody))
    return copied
