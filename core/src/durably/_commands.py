"""The commands of ``durably``."""

from pathlib import Path
from typing import Annotated

import typer

from durably.demo import run_demo

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)


@app.callback()
def durably() -> None:
    """Keep what an LLM agent must not lose, on the storage you already run."""


@app.command()
def demo(
    directory: Annotated[
        Path | None,
        typer.Option(help="Work in this new directory and keep it; else in a temporary one."),
    ] = None,
) -> None:
    """Kill a worker half-way through its job, and watch it end the job without repeating it."""
    run_demo(directory)
