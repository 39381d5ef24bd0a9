"""Operations on their way to the connection's thread, and what came of them."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, TypeVar

__all__ = ["Job", "Kind", "Queue"]

T = TypeVar("T")


class Kind(Enum):
    """What a job needs around it, in the order in which a group is run.

    Reads come last: one that was asked for after a change must see it.
    """

    NO_TRANSACTION = "no transaction"
    WRITE = "write"
    READ = "read"


class Job(Generic[T]):
    """An operation and what came of it.

    ``done`` is the future its caller waits on where another caller went to the thread for it.
    One that is ``cancelled`` before it began is dropped.
    """

    def __init__(self, work: Callable[[Any], T], kind: Kind) -> None:
        self.work = work
        self.kind = kind
        self.asked_at = time.monotonic()
        self.cancelled = False
        self.done: asyncio.Future[None] | None = None
        self.error: BaseException | None = None
        self._results: list[T] = []

    def run(self, connection: object) -> None:
        """Do the work, and keep its result or its error."""
        self.error = None
        try:
            self._results = [self.work(connection)]
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            self.error = error

    def result(self) -> T:
        """Return the result or raise the error."""
        if self.error is not None:
            raise self.error
        if not self._results:
            raise RuntimeError("an operation was not run, and nobody said why")
        return self._results[0]


class Queue:
    """The jobs that wait, filled by the event loop and emptied by the connection's thread.

    One caller goes to the thread for all that wait; ``_called`` says that somebody is on the
    way. It is set by the loop alone. The thread clears it before it takes the jobs, so whoever
    still finds it set after adding a job will have it taken.
    """

    def __init__(self) -> None:
        self._jobs: deque[Job[Any]] = deque()
        self._called = False

    def add(self, job: Job[Any], loop: asyncio.AbstractEventLoop) -> bool:
        """Add a job; say whether its caller is to go, else it waits for ``job.done``."""
        if self._called:
            job.done = loop.create_future()
        self._jobs.append(job)
        if self._called:
            return False
        job.done = None
        self._called = True
        return True

    def take(self) -> list[Job[Any]]:
        """Return the jobs that wait now."""
        self._called = False
        return [self._jobs.popleft() for _ in range(len(self._jobs))]
