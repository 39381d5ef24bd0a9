"""The ``durably-conformance`` command: what it takes, and how it ends."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import NoReturn, TypeAlias

from typing_extensions import override

from durably.commands.harmless import sentence
from durably_conformance import commands
from durably_conformance.targets import CannotRun

__all__ = ["main"]

PROG = "durably-conformance"
WRONG_USAGE = 2
INTERRUPTED = 130

EXIT_CODES = """\
exit codes:
  0  the backend conforms (run); nothing became worse (diff); the suite is proved (selftest)
  1  it does not conform; something became worse; it is not proved
  2  wrong usage, or a harness or backend that cannot be imported, opened or reached
  3  incomplete: something that the verdict needs did not run
"""

Command: TypeAlias = Callable[[argparse.Namespace], int]


class _Parser(argparse.ArgumentParser):
    """Complains in one line."""

    @override
    def error(self, message: str) -> NoReturn:
        raise CannotRun(f"{message}. Try: {self.prog} --help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; a complaint is one line without secrets."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        given = _parser().parse_args(arguments)
        command: Command = given.command
        code = command(given)
        sys.stdout.flush()
    except CannotRun as error:
        sys.stderr.write(f"{sentence(f'{PROG}: {error}')}\n")
        return WRONG_USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # its reader had what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=PROG,
        description="Judge whether a storage backend keeps every promise of durably's contracts.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = f"{PROG} {metadata.version('durably-conformance')}"
    parser.add_argument("--version", action="version", version=version)
    group = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, command: Command, text: str) -> argparse.ArgumentParser:
        one = group.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            epilog=EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        one.set_defaults(command=command)
        return one

    _take_run(add("run", commands.run, "judge a backend"))
    _take_explain(add("explain", commands.explain, "say what a check asks for, and why"))
    _take_list(add("list", commands.list_, "list the checks and their rules"))
    _take_matrix(add("matrix", commands.matrix_, "put reports side by side, as a Markdown page"))
    _take_diff(add("diff", commands.diff, "say what became worse from one report to the next"))
    add("selftest", commands.selftest, "prove the suite by backends that are wrong on purpose")
    return parser


def _take_run(one: argparse.ArgumentParser) -> None:
    one.add_argument(
        "url",
        nargs="?",
        metavar="URL",
        help="of any installed backend, as mydb://localhost/test; ${NAME} in it stands for an"
        " environment variable, so that a password need not stand here",
    )
    one.add_argument(
        "--harness",
        metavar="pkg.testing:harness",
        help="instead of a URL: a durably.testing.Harness, or a function that returns one",
    )
    one.add_argument(
        "--profile",
        choices=("quick", "full"),
        default="quick",
        help="quick, the default, takes seconds; full runs every family of checks. A check that"
        " hangs is given up, but nothing can interrupt a backend that blocks the event loop",
    )
    one.add_argument(
        "--only",
        nargs="+",
        action="extend",
        metavar="ID",
        help="checks, or patterns such as 'SES-*'; the verdict is then incomplete",
    )
    one.add_argument("--seed", type=int, default=0, help="of what checks choose at random")
    one.add_argument("--json", metavar="FILE", help="where to write the report")


def _take_explain(one: argparse.ArgumentParser) -> None:
    one.add_argument("id", metavar="ID", help="such as SES-APP-001")


def _take_list(one: argparse.ArgumentParser) -> None:
    one.add_argument("--markdown", action="store_true", help="as a page of documentation")


def _take_matrix(one: argparse.ArgumentParser) -> None:
    one.add_argument("reports", nargs="+", metavar="REPORT", help="written by run --json")
    _take_different(one)


def _take_diff(one: argparse.ArgumentParser) -> None:
    one.add_argument("old", metavar="OLD", help="a report, written by run --json")
    one.add_argument("new", metavar="NEW", help="a later one")
    _take_different(one)


def _take_different(one: argparse.ArgumentParser) -> None:
    one.add_argument(
        "--different-checks",
        action="store_true",
        help="also where the reports come from different checks, as of two versions of the suite",
    )
