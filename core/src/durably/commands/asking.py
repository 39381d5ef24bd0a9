"""Asking a person before something is removed or changed for good."""

import sys
from typing import Annotated, TypeAlias

import typer
from rich.prompt import Confirm
from rich.text import Text

from durably.commands.harmless import one_line
from durably.commands.output import complain, flush, stderr
from durably.errors import DurablyError

__all__ = ["Yes", "confirm"]

Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]


def confirm(question: str, *, yes: bool) -> None:
    """Go on if a person agrees, or has agreed already; it must not run in an event loop.

    Raises:
        DurablyError: there is nobody to be asked.
        typer.Exit: the answer is no.
    """
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise DurablyError(
            f"{question} There is no terminal to ask on, nothing was changed",
            hint="Say --yes to do it without asking",
        )
    flush()
    try:
        agreed = Confirm.ask(Text(one_line(question)), console=stderr, default=False)
    except EOFError:
        agreed = False
    if not agreed:
        complain("nothing was changed")
        raise typer.Exit(1)
