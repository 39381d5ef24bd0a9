"""How far a long command is: on stderr, and only where that is a terminal."""

import time
from types import TracebackType
from typing import Self

from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from durably.commands.output import stderr

__all__ = ["Meter"]


class Meter:
    """A bar over a file's bytes or a number of things, how many a second, and the time left."""

    def __init__(self, size: int | None, noun: str = "sessions") -> None:
        self._progress = Progress(
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[done]} " + noun + ", {task.fields[rate]:.0f} a second, left"),
            TimeRemainingColumn(),
            console=stderr,
            transient=True,
        )
        self._task = self._progress.add_task("", total=size, done=0, rate=0.0)
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        if stderr.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if stderr.is_terminal:
            self._progress.stop()

    def show(self, position: int, done: int) -> None:
        """Show how far it is, and how many things are done."""
        rate = done / max(time.monotonic() - self._began, 0.001)
        self._progress.update(self._task, completed=position, done=done, rate=rate)
