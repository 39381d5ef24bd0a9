"""The arguments that commands share, and how a storage is opened for one."""

from enum import StrEnum
from typing import Annotated, TypeAlias

import typer

from durably.config import StorageConfig, open_storage
from durably.storage import Storage
from durably.urls import StorageUrl

__all__ = ["AsJson", "Kind", "Url", "open_url", "read_url"]


class Kind(StrEnum):
    """What is listed and shown."""

    SESSION = "session"
    RUN = "run"
    THREAD = "thread"


Url: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="The storage, such as sqlite:///agent.db. '${NAME}' in it stands for an environment"
        " variable, so that a password need not stand on the command line.",
        show_default=False,
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


def open_url(url: str) -> Storage:
    """Return the storage a command was given, to be entered.

    Raises:
        DurablyError: whatever ``durably.open`` raises.
    """
    return open_storage({"url": url})
