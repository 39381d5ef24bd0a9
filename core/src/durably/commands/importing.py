"""``durably import``: recorded conversations become sessions, and an export what it was."""

import asyncio
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from durably._records import encode_segment
from durably.checks import check_size
from durably.codec import load_json
from durably.commands.arguments import AsJson, Url, open_url
from durably.commands.chat import BadLine, ChatRun, read_conversation
from durably.commands.copying import summary
from durably.commands.lines import MAX_LINE_BYTES, FileUnreadable, Lines
from durably.commands.output import complain, count, print_json, print_line
from durably.commands.progress import Meter
from durably.commands.restoring import Restored, restore
from durably.errors import (
    CopyConflict,
    CorruptRecord,
    DurablyError,
    InvalidId,
    NotSerializable,
    RecordTooLarge,
    UnknownEntryType,
)
from durably.export import is_export
from durably.logstore import LogId
from durably.storage import Storage

__all__ = ["import_"]

MAX_REPORTED = 100
"""How many bad lines the JSON summary lists."""

MAX_COMPLAINTS = 10
"""How many bad lines or logs stderr names; the others are counted."""

_A_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(/|$)")
"""What a path is left with of a URL."""

_FAULTS_OF_A_LINE = (
    BadLine,
    CorruptRecord,
    InvalidId,
    NotSerializable,
    RecordTooLarge,
    UnknownEntryType,
)


class Tally(msgspec.Struct, kw_only=True):
    """What became of the lines of a file, blank ones aside."""

    lines: int = 0
    sessions: int = 0
    runs_stored: int = 0
    runs_known: int = 0
    empty: int = 0
    bad: int = 0
    bad_lines: list[dict[str, object]] = []
    stopped: str | None = None


def import_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A .jsonl file, or a .jsonl.gz file.", show_default=False
        ),
    ],
    url: Url,
    *,
    as_json: AsJson = False,
) -> None:
    """Import recorded conversations in OpenAI chat form, each as a session; or an export.

    What durably export wrote is known by its first line, and stored as it was, byte for byte.
    Importing it again, or after an interruption, stores what is missing. Where another log of the
    same id lies in the storage, or one with other content, that one stays and is named, the others
    are stored, and the exit code is 1. A broken line ends the import with exit code 1.

    Otherwise each line is a JSON object with id and messages. It becomes the session of that id;
    a run begins at each user message and is called import-0001 and so on.

    Importing again, or after an interruption, stores nothing twice: a run that is stored stays
    as it is. A conversation that has grown gets its new runs. Where a stored run differs from
    the line (another conversation of the same id, a longer last run, or a run that was
    trimmed), the stored one stays, and the rest of the line is skipped and reported.

    A line that cannot be imported is reported on stderr by its number, the first 10 of them, and
    skipped as a whole; the exit code is then 1. Blank lines are passed over; no messages, no
    session. A file whose first line is neither of an export nor a conversation is refused.

    With --json, it is one object: lines, sessions (now stored as in the file), runs_stored,
    runs_known (stored before), empty (without messages), bad, bad_lines [{line, error}] (the
    first 100), stopped (why the file could not be read to its end, or null). Of an export it is:
    logs, records (now stored), known (stored before), conflicts [{kind, id}] (what stayed as it
    was).
    """
    if _A_URL.match(str(file)) and "://" not in url and not file.exists():
        raise typer.BadParameter("FILE comes first, then the URL")
    done = asyncio.run(_import(file, url))
    if isinstance(done, Restored):
        _tell_restored(done, as_json=as_json)
    else:
        _tell_imported(done, as_json=as_json)


def _tell_restored(done: Restored, *, as_json: bool) -> None:
    if as_json:
        conflicts = [{"kind": log.kind, "id": log.id} for log in done.conflicts]
        print_json({**msgspec.structs.asdict(done.copied), "conflicts": conflicts})
    elif not done.conflicts:
        print_line(summary(done.copied))
    if done.conflicts:
        raise _of_conflicts(done)


def _of_conflicts(done: Restored) -> DurablyError:
    """Return one error for all conflicts: what stayed, and what was stored all the same."""
    first, *others = done.conflicts
    named = [str(log) for log in others[: MAX_COMPLAINTS - 1]]
    if len(named) < len(others):
        named.append(count(len(others) - len(named), "other log", "other logs"))
    likewise = f"; likewise {', '.join(named)}" if named else ""
    return DurablyError(
        f"{first} is there with other content, or was changed meanwhile{likewise};"
        f" stored all the same: {summary(done.copied)}",
        hint=CopyConflict(first).hint,
    )


def _tell_imported(tally: Tally, *, as_json: bool) -> None:
    more = tally.bad - MAX_COMPLAINTS
    if more > 0:
        complain(count(more, "more bad line", "more bad lines"))
    if as_json:
        print_json(msgspec.structs.asdict(tally))
    else:
        print_line(_summary(tally))
    if tally.bad or tally.stopped:
        raise typer.Exit(1)


async def _import(file: Path, url: str) -> Tally | Restored:
    with Lines(file) as lines:
        found = ((lines.number, line) for line in lines)
        try:
            first = _beginning(found)
        except FileUnreadable as error:
            complain(str(error))
            return Tally(stopped=str(error))
        is_exported = bool(first) and is_export(first[0][1] or b"")
        if first and not is_exported:
            _check_sort(file, *first[-1])
        async with open_url(url, create=True) as storage:
            if is_exported:
                return await restore(storage, lines, (line for _, line in chain(first, found)))
            return await _import_chat(storage, lines, chain(first, found))


def _beginning(found: Iterator[tuple[int, bytes | None]]) -> list[tuple[int, bytes | None]]:
    """Return the first lines, up to one that is not blank."""
    first: list[tuple[int, bytes | None]] = []
    for number, line in found:
        first.append((number, line))
        if line is None or line.strip():
            break
    return first


def _check_sort(file: Path, number: int, line: bytes | None) -> None:
    """Refuse a file of another sort, before anything is opened for it.

    Raises:
        DurablyError: its first line is no JSON object with a field of a conversation's.
    """
    if line is None or not line.strip() or _is_of_a_conversation(line):
        return
    raise DurablyError(
        f"{str(file)!a} is neither an export nor recorded conversations: see its line {number}",
        hint="Each line must be a JSON object with id and messages; nothing was imported",
    )


def _is_of_a_conversation(line: bytes) -> bool:
    try:
        value = load_json(line)
    except msgspec.DecodeError:
        return False
    return isinstance(value, dict) and bool({"id", "messages"} & value.keys())


async def _import_chat(
    storage: Storage, lines: Lines, found: Iterable[tuple[int, bytes | None]]
) -> Tally:
    tally = Tally()
    with Meter(lines.size) as meter:
        try:
            for number, line in found:
                await _take(storage, number, line, tally)
                meter.show(lines.position, tally.sessions)
        except FileUnreadable as error:
            tally.stopped = str(error)
            complain(tally.stopped)
    return tally


async def _take(storage: Storage, number: int, line: bytes | None, tally: Tally) -> None:
    """Import one line, or report it."""
    if line is not None and not line.strip():
        return
    tally.lines += 1
    try:
        if line is None:
            raise BadLine(f"it has over {MAX_LINE_BYTES} bytes")
        await _store(storage, line, tally)
    except _FAULTS_OF_A_LINE as error:
        tally.bad += 1
        if tally.bad <= MAX_REPORTED:
            tally.bad_lines.append({"line": number, "error": str(error)})
        if tally.bad <= MAX_COMPLAINTS:
            complain(f"line {number}: {error}")


async def _store(storage: Storage, line: bytes, tally: Tally) -> None:
    """Store the runs of a conversation that are not stored yet."""
    conversation = read_conversation(line)
    log = LogId(kind="session", id=conversation.id)
    for run in conversation.runs:
        _check(log, run, storage.limits.record_bytes)
    if not conversation.runs:
        tally.empty += 1
        return
    stored = {one.run_id: one for one in await storage.sessions.segments(log.id)}
    for number, run in enumerate(conversation.runs, start=1):
        run_id = f"import-{number:04}"
        known = stored.get(run_id)
        if known is None:
            await storage.sessions.append(log.id, run.entries, run_id=run_id, meta=run.meta)
            tally.runs_stored += 1
        elif (known.entries, known.meta) == (run.entries, run.meta):
            tally.runs_known += 1
        else:
            raise BadLine(
                f"{log} has another {run_id} than this line; it stays, and so does what follows"
            )
    tally.sessions += 1


def _check(log: LogId, run: ChatRun, limit: int) -> None:
    """Refuse a run that cannot be stored, before any of its conversation is."""
    data, _ = encode_segment(run.entries, run.meta)
    check_size(log, "record", len(data), limit)


def _summary(tally: Tally) -> str:
    parts = [
        count(tally.sessions, "session", "sessions"),
        f"{count(tally.runs_stored, 'run', 'runs')} stored",
        f"{tally.runs_known} stored before",
    ]
    if tally.empty:
        parts.append(f"{count(tally.empty, 'line', 'lines')} without messages")
    if tally.bad:
        parts.append(count(tally.bad, "bad line", "bad lines"))
    return ", ".join(parts)
