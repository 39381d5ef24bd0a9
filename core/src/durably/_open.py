"""``durably.open``: light to import, since configuration and plugins come with its first call."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from durably.storage import Storage

if TYPE_CHECKING:
    from durably.config import StorageConfig

__all__ = ["open"]


def open(  # noqa: A001 - as documented: durably.open
    source: "str | StorageConfig | Mapping[str, Any] | None" = None,
    *,
    clock: Callable[[], float] = time.time,
) -> Storage:
    """Return the storage of a URL or configuration, to be entered with ``async with``.

    ``memory://`` is private to the storage, ``memory://name`` shared in the process;
    ``sqlite:///relative.db`` and ``sqlite:////absolute.db`` are files. Every URL takes
    ``?namespace=``: two namespaces share nothing. A mapping is what ``StorageConfig`` takes;
    without a source the environment variable ``DURABLY_URL`` gives the URL. Entering connects.
    ``clock`` gives epoch seconds.

    Raises:
        InvalidUrl: the URL or one of its options cannot be read, or there is none.
        InvalidConfig: the configuration cannot be read.
        UnknownScheme: no backend answers to the URL's scheme.
        BackendNotInstalled: the backend, or something it requires, is not installed.
        BackendConflict: two distributions offer the scheme.
        BackendBroken: the backend cannot be imported or describes itself wrongly.
        ContractMismatch: the backend was made for another contract.
    """
    from durably.config import open_storage  # noqa: PLC0415 - pluggy and pydantic come with it

    return open_storage(source, clock=clock)
