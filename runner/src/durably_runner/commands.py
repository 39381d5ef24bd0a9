"""``durably demo``."""

from pathlib import Path
from typing import Annotated

import typer

from durably.commands.arguments import AsJson
from durably_runner.demo import run_demo

__all__ = ["demo"]


def demo(
    directory: Annotated[
        Path | None,
        typer.Option(help="Work in this new directory and keep it; else in a temporary one."),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Kill a worker half-way through its job, and watch it end the job without repeating it.

    With --json: an array of parts, each with its title, its facts (a name and a value each) and
    its transcripts (lists of lines).
    """
    run_demo(directory, as_json=as_json)
