"""Operations on their way to the connection's thread, and how those that wait share a transaction.

Whatever waits when the thread is free is one group: its changes share one commit, and its reads
see one moment after it. Nobody waits for company, so a single caller pays nothing for it. A change
that fails after it wrote something undoes the group, and each is done again on its own.
"""

import asyncio
import contextlib
import random
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any, Generic, TypeVar

from typing_extensions import override

from durably_sqlite._errors import is_busy
from durably_sqlite._tips import Tips

__all__ = ["Connection", "Job", "Kind", "Patience", "Queue", "transaction"]

T = TypeVar("T")

LARGEST_GROUP = 256
"""Jobs that share a transaction at most: more would make the first wait for the last."""


A_COMMIT = 0.01
LONGEST_NAP = 0.001
"""Seconds: who waits for one commit looks often, who waits for longer a little less so."""


class Kind(Enum):
    """What a job needs around it, in the order in which a group is run.

    Reads come last: one that was asked for after a change, even a cancelled one, must see it.
    """

    NO_TRANSACTION = "no transaction"
    WRITE = "write"
    READ = "read"


class Job(Generic[T]):
    """An operation and what came of it.

    ``done`` is the future its caller waits on where another caller went to the thread for it.
    """

    def __init__(self, work: Callable[["Connection"], T], kind: Kind) -> None:
        self.work = work
        self.kind = kind
        self.done: asyncio.Future[None] | None = None
        self.error: BaseException | None = None
        self._results: list[T] = []

    def run(self, connection: "Connection") -> None:
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


class Patience:
    """Waiting for a lock in short naps, for so many seconds in all.

    SQLite's own wait sleeps longer the longer it has waited, up to a tenth of a second, so that
    whoever came last is served first. These naps stay short.
    """

    def __init__(self, seconds: float) -> None:
        self._start = time.monotonic()
        self._seconds = seconds

    def nap(self) -> bool:
        """Sleep a moment; False if the time is over."""
        waited = time.monotonic() - self._start
        if waited >= self._seconds:
            return False
        longest = LONGEST_NAP if waited > A_COMMIT else LONGEST_NAP / 4
        time.sleep(random.uniform(longest / 4, longest))  # noqa: S311 - jitter, no secret
        return True


class Connection(sqlite3.Connection):
    """A connection whose ``commit`` runs what waits for it.

    aiosqlite runs every method of its connection on the connection's own thread, so that
    ``await commit()`` is a whole operation in one hop, whatever number of statements it takes,
    or many that wait together. ``patience`` is how many seconds to wait for others' locks.
    ``check_layout`` raises where another process migrated to a newer layout meanwhile. ``fault``
    is why the database could not be opened: aiosqlite leaves its thread behind where
    its connector raises, so the error is kept and raised by the first operation.
    """

    queue: Queue
    loop: asyncio.AbstractEventLoop
    patience: float
    fault: Exception | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - sqlite3.connect's own
        super().__init__(*args, **kwargs)
        self.tips = Tips()
        self.check_layout: Callable[[], object] = lambda: None

    @override
    def commit(self) -> None:
        jobs = self.queue.take()
        _run(self, jobs)
        _wake(self.loop, jobs)


def _run(connection: Connection, jobs: Iterable[Job[Any]]) -> None:
    for kind in Kind:
        alike = [job for job in jobs if job.kind is kind]
        for first in range(0, len(alike), LARGEST_GROUP):
            _run_together(connection, alike[first : first + LARGEST_GROUP])


def _wake(loop: asyncio.AbstractEventLoop, jobs: Iterable[Job[Any]]) -> None:
    """Tell those who wait for the future of a job that it is done."""
    waiting = [job.done for job in jobs if job.done is not None]
    if waiting:
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nobody waits
            loop.call_soon_threadsafe(_set, waiting)


def _set(waiting: Iterable["asyncio.Future[None]"]) -> None:
    for done in waiting:
        if not done.done():
            done.set_result(None)


def _run_together(connection: Connection, jobs: Sequence[Job[Any]]) -> None:
    patience = Patience(connection.patience)
    while True:
        try:
            _run_once(connection, jobs, patience)
        except Exception as error:  # noqa: BLE001 - raised again where each job is awaited
            connection.tips.clear()
            if _is_busy(error) and patience.nap():
                continue
            if len(jobs) == 1 or _is_busy(error):
                _fail(jobs, error)
            else:
                for job in jobs:
                    _run_together(connection, [job])
        return


def _run_once(connection: Connection, jobs: Sequence[Job[Any]], patience: Patience) -> None:
    """Run jobs in one transaction; raise what makes it impossible to keep."""
    kind = jobs[0].kind
    if kind is Kind.NO_TRANSACTION:
        _run_each(connection, jobs)
        return
    with transaction(connection, writing=kind is Kind.WRITE, patience=patience):
        if kind is Kind.WRITE and connection.tips.refresh(connection):
            connection.check_layout()
        _run_each(connection, jobs)


def _run_each(connection: Connection, jobs: Sequence[Job[Any]]) -> None:
    """Run jobs; raise an error of the engine's, or of one that had changed something."""
    for job in jobs:
        before = connection.total_changes
        job.run(connection)
        spoiled = isinstance(job.error, sqlite3.Error) or connection.total_changes != before
        if job.error is not None and spoiled:
            raise job.error


def _is_busy(error: BaseException) -> bool:
    return isinstance(error, sqlite3.Error) and is_busy(error)


def _fail(jobs: Iterable[Job[Any]], error: BaseException) -> None:
    for job in jobs:
        job.error = error


@contextmanager
def transaction(
    connection: sqlite3.Connection, *, writing: bool = True, patience: Patience | None = None
) -> Generator[None]:
    """Run a block in one transaction, its write lock taken up front, undone on every error."""
    connection.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
    try:
        yield
        _commit(connection, patience)
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _commit(connection: sqlite3.Connection, patience: Patience | None) -> None:
    """Commit; outside of WAL that waits until no other connection reads."""
    while True:
        try:
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if is_busy(error) and connection.in_transaction and patience and patience.nap():
                continue
            raise
        return
