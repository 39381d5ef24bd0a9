"""``durably export``: what a storage holds, as a file of JSON Lines."""

import asyncio
import gzip
import os
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from io import BufferedWriter
from pathlib import Path
from typing import Annotated

import typer

from durably._typing import override
from durably.commands.arguments import AsJson, Kinds, Url, open_url
from durably.commands.copying import Tally, count_logs
from durably.commands.output import complain, count, print_json, print_line, print_raw, stdout
from durably.commands.progress import Meter
from durably.errors import DurablyError
from durably.logstore import LogId
from durably.transfer import KINDS

__all__ = ["export"]

STDOUT = Path("-")

LEVEL = 6
"""Of compression."""


class _Counted(Tally):
    """Counts the records, too, and knows which ids were there."""

    def __init__(self, meter: Meter) -> None:
        super().__init__(meter)
        self.records = 0
        self.ids: set[str] = set()

    @override
    def __call__(self, log: LogId, records: int) -> None:
        super().__call__(log, records)
        self.records += records
        self.ids.add(log.id)


def export(
    url: Url,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Where to; compressed where it ends in .gz; - is stdout."
        ),
    ] = STDOUT,
    *,
    kind: Kinds = None,
    id_: Annotated[
        list[str] | None,
        typer.Option(
            "--id", help="Only this id; may be given more than once.", show_default="all of them"
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Export sessions with archives, runs, threads, states and trees as JSON Lines.

    It is for durably import. Content is written as it was stored, byte for byte, and the same from
    whatever backend. The file appears whole, or not at all. It holds what was said, in the clear:
    only its owner can read it. Where an id names nothing, the others are exported, and the exit
    code is 1.

    With --json, which needs a FILE, it is one object: file, logs, records, missing (ids).
    """
    if file == STDOUT and as_json:
        raise typer.BadParameter("--json needs a FILE: stdout is for the export itself")
    if file == STDOUT and stdout.is_terminal:
        raise DurablyError("an export is not for a terminal", hint="Name a file, or use a pipe")
    kinds = [one.value for one in kind or ()] or KINDS
    done = asyncio.run(_export(url, file, kinds, id_, force=force))
    missing = sorted(set(id_ or ()) - done.ids)
    for one in missing:
        complain(f"there is nothing of id {one!a}. List what there is with: durably ls URL")
    facts = {"file": str(file), "logs": done.done, "records": done.records, "missing": missing}
    if as_json:
        print_json(facts)
    elif file != STDOUT:
        print_line(f"{count(done.done, 'log', 'logs')}, {count(done.records, 'record', 'records')}")
    if missing:
        raise typer.Exit(1)


async def _export(
    url: str, file: Path, kinds: Sequence[str], ids: Sequence[str] | None, *, force: bool
) -> _Counted:
    async with open_url(url) as storage:
        total = len(kinds) * len(ids) if ids else await count_logs(storage, kinds)
        with Meter(total, "logs") as meter:
            tally = _Counted(meter)
            lines = storage.export(kinds=kinds, ids=ids, progress=tally)
            if file == STDOUT:
                async for line in lines:
                    print_raw(line)
                return tally
            with _in_words(file), _replacing(file, force=force) as output:
                async for line in lines:
                    output.write(line)
            return tally


@contextmanager
def _replacing(file: Path, *, force: bool) -> Generator[gzip.GzipFile | BufferedWriter, None, None]:
    """Give a file that gets its name once it is whole.

    Raises:
        DurablyError: there is one of that name already.
    """
    _check_free(file, force=force)
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".part", dir=file.parent)
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as raw:
            if file.suffix == ".gz":
                with gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as packed:
                    yield packed
            else:
                yield raw
            raw.flush()
            os.fsync(raw.fileno())
        if force:
            part.replace(file)
        else:
            file.hardlink_to(part)
    finally:
        part.unlink(missing_ok=True)


def _check_free(file: Path, *, force: bool) -> None:
    if file.exists() and not file.is_file():
        raise DurablyError(f"{str(file)!a} is there and no file", hint="Choose another name")
    if file.exists() and not force:
        raise DurablyError(f"{str(file)!a} is there", hint="Say --force to replace it")


@contextmanager
def _in_words(file: Path) -> Generator[None, None, None]:
    """Say what went wrong with a file.

    Raises:
        DurablyError: something did.
    """
    try:
        yield
    except DurablyError:
        raise
    except OSError as error:
        raise DurablyError(f"{str(file)!a} cannot be written: {error.strerror or error}") from error
