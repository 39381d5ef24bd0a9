"""What the backend needs of an object store; ``_boto`` gives it, and tests give it in memory."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from durably import DurablyError

__all__ = ["Bucket", "Found", "Listing", "Lost", "Named", "Unsure"]

T = TypeVar("T")


class Found(msgspec.Struct, frozen=True):
    """An object, or the part of it that was asked for."""

    data: bytes
    etag: str


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """An object in a listing; ``modified`` in epoch seconds by the server's clock."""

    key: str
    size: int
    modified: float


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Some objects in the server's order; ``now`` is the time there, in epoch seconds.

    ``token`` is what to ask for the next ones with, None at the end.
    """

    objects: tuple[Named, ...]
    token: str | None
    now: float


class Lost(Exception):
    """The condition of a request did not hold, or somebody else's was in the way.

    Unless it ``is_sure``, the request was sent more than once, and may have been carried out.
    """

    def __init__(self, *, is_sure: bool = True) -> None:
        super().__init__()
        self.is_sure = is_sure


class Unsure(Exception):
    """Nobody said whether a request was carried out; ``error`` is for a user who asks no more."""

    def __init__(self, error: DurablyError) -> None:
        super().__init__(str(error))
        self.error = error


class Bucket(Protocol):
    """Objects by key, in one bucket.

    Every call may raise ``Unsure``, after which it can be repeated, or one of durably's errors,
    after which that is of no use.
    """

    async def get(
        self, key: str, *, span: tuple[int, int] | None = None, unless: str | None = None
    ) -> Found | None:
        """Return an object, None if there is none.

        ``span`` is the first byte wanted and the one after the last; fewer come where the object
        ends before. With ``unless`` an object of that ETag comes without its data.
        """
        ...

    async def put(
        self,
        key: str,
        data: bytes,
        *,
        match: str | None = None,
        absent: bool = False,
        sealed: bool = False,
    ) -> str:
        """Store an object and return its ETag; one that is ``sealed`` will never change.

        Raises:
            Lost: there is none of the ETag ``match``, or one where it must be ``absent``.
        """
        ...

    async def delete(self, key: str, *, match: str) -> None:
        """Remove an object of an ETag.

        Raises:
            Lost: there is another one.
        """
        ...

    async def delete_all(self, keys: Sequence[str]) -> None:
        """Remove objects, as far as they are there."""
        ...

    async def list(
        self, prefix: str, *, after: str = "", token: str | None = None, limit: int = 1000
    ) -> Listing:
        """List what begins with a prefix, after a key or from where an earlier page ended."""
        ...

    async def work(self, task: Callable[[], T]) -> T:
        """Do what takes the processor's time where it holds up nobody."""
        ...

    async def aclose(self) -> None:
        """Release everything."""
        ...
