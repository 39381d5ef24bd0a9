"""What the commands print: text and tables for people, JSON for programs, complaints."""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NoReturn, TextIO

import typer
from rich.console import Console
from rich.containers import Lines
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from durably._typing import override
from durably.commands.harmless import block, one_line, sentence

__all__ = [
    "can_print",
    "complain",
    "count",
    "flush",
    "moment",
    "plain",
    "print_block",
    "print_facts",
    "print_hanging",
    "print_json",
    "print_line",
    "print_raw",
    "print_table",
    "stderr",
    "stdout",
    "use_streams",
]

WIDE = 2000
"""Columns where there is no terminal: a table is not folded in a file."""

NARROW = 20
"""Columns that are left to content, however much is drawn before it."""


class _Output(Console):
    """Stdout; the command ends quietly when its reader is gone."""

    @override
    def on_broken_pipe(self) -> None:
        _end_quietly()


class _Complaints(Console):
    """Stderr; the command goes on when its reader is gone."""

    @override
    def on_broken_pipe(self) -> None:
        self.quiet = True
        _discard(sys.stderr)


stdout = _Output(markup=False, highlight=False, emoji=False, soft_wrap=True)
stderr = _Complaints(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)


def _end_quietly() -> NoReturn:
    """End with 0: the reader had what it wanted."""
    _discard(sys.stdout)
    raise typer.Exit(0)


def _discard(stream: TextIO) -> None:
    """Let what is still buffered for a reader that is gone go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def use_streams() -> None:
    """Let the streams escape what their encoding lacks instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    if not stdout.is_terminal:
        stdout.width = WIDE


def flush() -> None:
    """Write what is buffered while a reader that is gone can still be met quietly."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _end_quietly()


def print_json(value: object) -> None:
    """Print a value as one line of ASCII JSON."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False).replace("\x7f", "\\u007f")
    try:
        sys.stdout.write(f"{text}\n")
    except BrokenPipeError:
        _end_quietly()


def print_raw(data: bytes) -> None:
    """Print bytes as they are; not for a terminal."""
    try:
        sys.stdout.buffer.write(data)
    except BrokenPipeError:
        _end_quietly()


def print_line(text: str, *, style: str = "") -> None:
    """Print one line, made harmless."""
    stdout.print(Text(one_line(text), style))


def print_block(text: str) -> None:
    """Print content, made harmless and indented, so that it cannot pose as one of our lines."""
    shown = Text(block(text))
    if stdout.is_terminal:
        stdout.print(Padding(shown, (0, 0, 0, 2)), soft_wrap=False)
    else:
        for line in shown.split("\n", allow_blank=True):
            stdout.print(Text("  ") + line if line else "")


def print_hanging(text: str, *, first: str, rest: str, style: str = "", cut: bool = False) -> None:
    """Print content, made harmless, behind what is drawn before its first line and the others.

    On a terminal it is folded, or cut, to the width that is left: so it cannot pose as drawn.
    """
    shown = Text(block(text), style)
    width = max(NARROW, stdout.width - len(first))
    lines = shown.split("\n", allow_blank=True)
    if stdout.is_terminal and cut:
        shown.truncate(width, overflow="ellipsis")
        lines = Lines([shown])
    elif stdout.is_terminal:
        lines = shown.wrap(stdout, width)
    for number, line in enumerate(lines):
        stdout.print(Text(rest if number else first) + line)


def can_print(text: str) -> bool:
    """Whether the encoding of stdout has all of a text."""
    try:
        text.encode(stdout.encoding)
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table, its cells made harmless."""
    table = Table(*headings, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*(Text(one_line(cell), overflow="fold") for cell in row))
    stdout.print(table, soft_wrap=False)


def print_facts(facts: Mapping[str, str]) -> None:
    """Print names and what they stand for, a line each."""
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        print_line(f"{name:{width}}  {value}")


def count(number: int, one: str, many: str) -> str:
    """Return a number with its noun."""
    return f"{number} {one if number == 1 else many}"


def moment(seconds: float) -> str:
    """Return a time as a person reads it; a clock may have said anything."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return f"{seconds:.0f}"


def plain(value: Any) -> str:  # noqa: ANN401 - JSON is any value
    """Return JSON as a person reads it."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def complain(message: str) -> None:
    """Say on stderr, in one harmless line without secrets, what is wrong."""
    stderr.print(Text(sentence(f"durably: {message}")))
