"""The arguments that commands share, and how a storage is opened for one."""

import re
from enum import StrEnum
from typing import Annotated, TypeAlias

import typer

from durably.config import StorageConfig, open_storage
from durably.errors import DurablyError
from durably.logstore import LogId, Range
from durably.storage import Storage
from durably.urls import StorageUrl

__all__ = [
    "AsJson",
    "Kind",
    "Kinds",
    "SessionId",
    "TransferKind",
    "Url",
    "absent",
    "missing",
    "open_url",
    "read_duration",
    "read_url",
]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(?P<number>\d{1,12}(\.\d{1,9})?)(?P<unit>[smhdw])", re.ASCII)


class Kind(StrEnum):
    """What is listed and shown."""

    SESSION = "session"
    RUN = "run"
    THREAD = "thread"
    STATE = "state"
    TREE = "tree"


class TransferKind(StrEnum):
    """What is copied and exported."""

    SESSION = "session"
    RUN = "run"
    THREAD = "thread"
    STATE = "state"
    TREE = "tree"
    ARCHIVE = "archive"


LISTERS = {"state": "durably states URL", "tree": "durably tree URL"}
SHOWERS = {Kind.STATE: "durably states URL {}", Kind.TREE: "durably tree URL {}"}
"""Commands for one kind alone; ``durably ls`` and ``show`` do for any."""

Url: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="The storage, such as sqlite:///agent.db. '${NAME}' in it stands for an environment"
        " variable, so that a password need not stand on the command line.",
        show_default=False,
    ),
]

SessionId: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="SESSION_ID",
        help="Its id; put -- before one that begins with a dash.",
        show_default=False,
    ),
]

Kinds: TypeAlias = Annotated[
    list[TransferKind] | None,
    typer.Option(
        "--kind", help="Only this kind; may be given more than once.", show_default="all of them"
    ),
]

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def read_url(url: str) -> StorageUrl:
    """Take apart what a command was given; its text shows no secret.

    Raises:
        InvalidUrl: it is no storage URL.
        InvalidConfig: an environment variable it names is not set.
    """
    return StorageConfig.from_mapping({"url": url}).storage_url()


def open_url(url: str, *, create: bool = False) -> Storage:
    """Return the storage a command was given, to be entered.

    A command that stores what was not there says ``create``; for any other, a backend that can
    refuses a storage that is not there, so that a mistyped URL makes none.

    Raises:
        DurablyError: whatever ``durably.open`` raises.
    """
    return open_storage({"url": url}, must_exist=not create)


def read_duration(text: str) -> float:
    """Return the seconds of a duration such as 90s, 15m, 12h, 30d or 8w.

    Raises:
        typer.BadParameter: it is none.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{text!a} is no duration such as 90s, 15m, 12h, 30d or 8w")
    return float(found["number"]) * _UNITS[found["unit"]]


def absent(kind: str, id_: str) -> DurablyError:
    """Return the error of an id that names nothing."""
    lister = LISTERS.get(kind, f"durably ls URL --kind {kind}")
    return DurablyError(f"there is no {kind} {id_!a}", hint=f"List what there is with: {lister}")


async def missing(
    storage: Storage, kind: str, id_: str, *, has_kind_option: bool = True
) -> DurablyError:
    """Return the error of an id that names nothing of a kind, but maybe something of another.

    It looks once for each other kind, at no content. Where the command has no option for the
    kind, the error names the command that shows what there is.
    """
    for other in Kind:
        if other == kind:
            continue
        log = LogId(kind=other.value, id=id_)
        if await storage.log_store.read(log, Range(limit=0)) is None:
            continue
        command = SHOWERS.get(other, "durably show URL {} --kind " + other.value).format(ascii(id_))
        use = f"use --kind {other.value}" if has_kind_option else f"see {command}"
        return DurablyError(
            f"there is no {kind} {id_!a}", hint=f"There is a {other.value} {id_!a}: {use}"
        )
    return absent(kind, id_)
