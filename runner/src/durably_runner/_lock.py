"""A directory for one process at a time: the lock goes with the process, however it ends."""

import fcntl
import os
import weakref
from pathlib import Path

from durably_runner.errors import DirectoryInUse

__all__ = ["DirectoryLock"]


_held: "weakref.WeakSet[DirectoryLock]" = weakref.WeakSet()


def _forget() -> None:
    """Let go of what a forked child got from its parent, whose lock it is."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_forget)


class DirectoryLock:
    """An exclusive lock on a file in the directory, held until it is released."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        _held.add(self)

    @classmethod
    def take(cls, folder: Path) -> "DirectoryLock":
        """Take the lock.

        Raises:
            DirectoryInUse: another one has it, in this process or another.
        """
        descriptor = os.open(folder / "engine.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise DirectoryInUse(str(folder)) from None
        return cls(descriptor)

    def release(self) -> None:
        """Give it free; a second call does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
