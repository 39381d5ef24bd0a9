"""The ``durably`` command; needs the ``cli`` extra."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line; exit with 1 for an error of ours, 2 for wrong usage."""
    try:
        from durably.commands.running import run  # noqa: PLC0415 - the extra may be missing
    except ModuleNotFoundError as error:
        if error.name not in ("rich", "typer"):
            raise
        sys.exit('durably: the command line needs: pip install "durably[cli]"')
    sys.exit(run(sys.argv[1:]))
