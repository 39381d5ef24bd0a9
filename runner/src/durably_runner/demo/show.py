"""What the demo does and shows; an expectation that fails ends it with exit code 1."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

import durably
from durably.entries import AssistantTextEntry, Entry, InputEntry, ToolCallEntry, ToolResultEntry
from durably.runs import RunSnapshot
from durably.storage import Storage
from durably_runner.demo.job import FILES, SESSION_ID, Workspace, make_orders

__all__ = ["run_demo"]

RUN_ID = "convert-2026-11"
KILL_IN_STEP = 7
"""The step in which the worker is killed: begun, and not recorded yet."""

HEAD_LINES = 4
"""How many entries of a long transcript are shown before its last one."""


class _Ended(NamedTuple):
    returncode: int
    last_line: str


_parts: list[dict[str, Any]] = []
"""What was shown so far, for programs."""

_console = Console(highlight=False, markup=False, soft_wrap=True)


def run_demo(directory: Path | None, *, as_json: bool = False) -> None:
    """Run the demo in a new directory, which is kept, or in a temporary one.

    With ``as_json`` nothing is printed but one JSON array at the end: for each part its
    ``title``, its ``facts``, each a pair of a name and a value, and its ``transcripts``.
    """
    _console.quiet = as_json
    _parts.clear()
    _run(directory)
    if as_json:
        print(json.dumps(_parts))  # noqa: T201 - for programs


def _run(directory: Path | None) -> None:
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="durably-demo-") as temporary:
            asyncio.run(_demo(Workspace(Path(temporary))))
        return
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        sys.exit(f"durably: {directory} exists; name a new directory")
    except OSError as error:
        sys.exit(f"durably: {directory} cannot be made: {error.strerror}")
    asyncio.run(_demo(Workspace(directory.absolute())))
    _console.print(f"\nEverything is kept in {directory}")


async def _demo(workspace: Workspace) -> None:
    make_orders(workspace)
    async with durably.open(workspace.url) as storage:
        _title(f"1. A worker converts {FILES} files, and is killed with SIGKILL in the middle")
        killed = await _kill(storage, workspace)
        _title("2. The same call again, with the same run_id: it goes on where it was")
        completed = await _resume(storage, workspace, killed)
        _title("3. The same call a third time: the stored answer, and no work")
        await _replay(storage, workspace, completed)
        _title("4. The session remembers the run; its end is undone")
        await _rewind(storage)


async def _kill(storage: Storage, workspace: Workspace) -> RunSnapshot:
    code = _run_worker(workspace, kill_at=f"begun {KILL_IN_STEP}").returncode
    run = await _load(storage)
    recorded = len(_converted(run.entries))
    _say("worker", f"exit code {code}")
    _say("stored", f"status {run.head.status}, {recorded} of {FILES} steps recorded")
    _say("begun", f"{len(workspace.begun())} steps")
    _expect(code == -signal.SIGKILL and recorded < FILES, "the worker was not killed midway")
    _expect(run.head.status == "running", "the run is not where the worker left it")
    _expect(recorded >= KILL_IN_STEP - 1, "a recorded step is missing")
    return run


async def _resume(storage: Storage, workspace: Workspace, killed: RunSnapshot) -> RunSnapshot:
    begun_before = workspace.begun()
    answer = _answer(workspace)
    run = await _load(storage)
    begun = workspace.begun()[len(begun_before) :]
    recorded = set(_converted(killed.entries))
    lost = set(begun_before) - recorded
    _say("begun", f"{len(begun)} steps, the first of them {begun[0]}")
    _say("repeated", f"{len(recorded & set(begun))} of the {len(recorded)} recorded steps")
    _say("repeated", f"{len(lost & set(begun))} of the {len(lost)} steps cut off by the kill")
    _say_run(run)
    _expect(not recorded & set(begun), "a recorded step was repeated")
    _expect(run.entries[: len(killed.entries)] == killed.entries, "a recorded entry changed")
    _expect(set(Counter(_converted(run.entries)).values()) == {1}, "a step was recorded twice")
    _expect(run.head.status == "completed" and run.head.output == answer, "no answer is stored")
    return run


async def _replay(storage: Storage, workspace: Workspace, completed: RunSnapshot) -> None:
    begun_before = workspace.begun()
    answer = _answer(workspace)
    run = await _load(storage)
    _say("answer", answer)
    _say("begun", f"{len(workspace.begun()) - len(begun_before)} steps")
    _say("stored", "unchanged" if run == completed else "changed")
    _expect(workspace.begun() == begun_before and run == completed, "the third call did work")
    _expect(answer == completed.head.output, "the third call answered differently")


async def _rewind(storage: Storage) -> None:
    before = await storage.sessions.load(SESSION_ID)
    _say_transcript(before)
    undone = await storage.sessions.rewind(SESSION_ID, keep_entries=3)
    after = await storage.sessions.load(SESSION_ID)
    _say("rewound", f"{undone.removed_entries} entries removed, {len(after)} kept")
    _say_transcript(after)
    _expect(after == before[:3], "the rewind kept something else")


def _run_worker(workspace: Workspace, *, kill_at: str | None = None) -> _Ended:
    command = [sys.executable, "-m", "durably_runner.demo.worker", str(workspace.folder), RUN_ID]
    last = ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:  # noqa: S603 - ours
        for line in worker.stdout or ():
            last = line.strip()
            if last == kill_at:
                os.kill(worker.pid, signal.SIGKILL)
    return _Ended(worker.returncode, last)


def _answer(workspace: Workspace) -> object:
    ended = _run_worker(workspace)
    word, _, answer = ended.last_line.partition(" ")
    _expect(ended.returncode == 0 and word == "answer", "the worker gave no answer")
    return json.loads(answer)


async def _load(storage: Storage) -> RunSnapshot:
    run = await storage.checkpointer.load(RUN_ID)
    if run is None:
        sys.exit("durably: the demo failed: the run is not stored")
    return run


def _converted(entries: Sequence[Entry]) -> list[str]:
    """Return the steps whose result is recorded, by name."""
    return [entry.call_id for entry in entries if isinstance(entry, ToolResultEntry)]


def _title(text: str) -> None:
    _parts.append({"title": text, "facts": [], "transcripts": []})
    _console.print(f"\n{text}", style="bold")


def _say(what: str, fact: object) -> None:
    _parts[-1]["facts"].append([what, fact])
    _console.print(f"  {what:8} {fact}")


def _say_run(run: RunSnapshot) -> None:
    steps = len(_converted(run.entries))
    _say("stored", f"status {run.head.status}, {steps} of {FILES} steps recorded")
    _say("output", run.head.output)


def _say_transcript(entries: Sequence[Entry]) -> None:
    lines = [_line(entry) for entry in entries]
    _parts[-1]["transcripts"].append(lines)
    hidden = len(lines) - HEAD_LINES - 1
    if hidden > 1:
        lines = [*lines[:HEAD_LINES], f"… {hidden} more …", lines[-1]]
    for line in lines:
        _console.print(f"  | {line}")


def _line(entry: Entry) -> str:
    match entry:
        case InputEntry():
            return f"{entry.role}: {entry.content}"
        case AssistantTextEntry():
            return f"assistant: {entry.content}"
        case ToolCallEntry():
            return f"call {entry.name} {entry.arguments}"
        case ToolResultEntry():
            return f"result {entry.output}"
        case _:
            return type(entry).__name__


def _expect(fact: bool, complaint: str) -> None:  # noqa: FBT001 - a fact and what its absence means
    if not fact:
        sys.exit(f"durably: the demo failed: {complaint}")
