"""One run of the command line: from its arguments to its exit code."""

from collections.abc import Sequence
from importlib import metadata
from typing import Annotated, Protocol, cast

import typer

from durably.commands.output import complain, flush, use_streams
from durably.commands.registry import add_command, load_command, offered_commands
from durably.errors import DurablyError

__all__ = ["run"]

INTERRUPTED = 130

_COMPLAINTS = tuple(
    one
    for one in typer.BadParameter.__mro__
    if issubclass(one, Exception) and one.__name__ == "ClickException"
)
"""What typer raises for wrong usage; it has no public name for the base of it."""


class _Complaint(Protocol):
    exit_code: int

    def format_message(self) -> str: ...


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    use_streams()
    try:
        code = _invoke(arguments)
        flush()
    except typer.Exit as end:
        return end.exit_code
    except typer.Abort:
        return INTERRUPTED
    except DurablyError as error:
        complain(str(error))
        return 1
    except _COMPLAINTS as error:
        return _refuse(cast("_Complaint", error))
    return code


def _invoke(arguments: Sequence[str]) -> int:
    command = typer.main.get_command(_app(arguments))
    returned = command(list(arguments) or ["--help"], prog_name="durably", standalone_mode=False)
    return returned if type(returned) is int else 0


def _refuse(error: _Complaint) -> int:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "durably"
    said = error.format_message().strip().replace(": Value error, ", ": ", 1)
    end = "" if said.endswith((".", "?")) else "."
    complain(f"{said}{end} Try: {path} --help")
    return error.exit_code


def _app(arguments: Sequence[str]) -> typer.Typer:
    """Return the app with the one command that is asked for, or with every one there is."""
    app = typer.Typer(
        pretty_exceptions_enable=False,
        add_completion=False,
        callback=_durably,
        rich_markup_mode="markdown",
    )
    claims = offered_commands()
    asked = arguments[0] if arguments else ""
    if asked in claims:
        add_command(app, asked, load_command(claims[asked]))
        return app
    for name, offers in claims.items():
        try:
            command = load_command(offers)
        except DurablyError as error:
            complain(str(error))
        else:
            add_command(app, name, command)
    return app


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - as typer calls it
    if wanted:
        typer.echo(f"durably {metadata.version('durably')}")
        raise typer.Exit


def _durably(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Keep what an LLM agent must not lose, on the storage you already run."""
