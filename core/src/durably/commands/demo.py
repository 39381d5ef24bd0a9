"""``durably demo``."""

from pathlib import Path
from typing import Annotated

import typer

from durably.demo import run_demo

__all__ = ["demo"]


def demo(
    directory: Annotated[
        Path | None,
        typer.Option(help="Work in this new directory and keep it; else in a temporary one."),
    ] = None,
) -> None:
    """Kill a worker half-way through its job, and watch it end the job without repeating it."""
    run_demo(directory)
