"""The connection that runs operations, and how those that wait share a transaction.

Whatever waits when the thread is free is one group: its changes share one commit, and its reads
see one moment after it. Nobody waits for company, so a single caller pays nothing for it. A
change that fails after it wrote something undoes the group; it is run again with a savepoint
around each change, and where that does not do, one by one.
"""

import asyncio
import contextlib
import random
import sqlite3
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

from typing_extensions import override

from durably_sqlite._errors import is_busy
from durably_sqlite._jobs import Job, Kind, Queue
from durably_sqlite._tips import Tips

__all__ = ["Connection", "transaction"]

LARGEST_GROUP = 256
"""Jobs that share a transaction at most: more would make the first wait for the last."""

A_COMMIT = 0.01
LONGEST_NAP = 0.001
"""Seconds: who waits for one commit looks often, who waits for longer a little less so."""


class Connection(sqlite3.Connection):
    """A connection whose ``commit`` runs what waits for it.

    aiosqlite runs every method of its connection on the connection's own thread, so that
    ``await commit()`` is a whole operation in one hop, whatever number of statements it takes,
    or many that wait together. ``patience`` is how many seconds a job waits for others' locks.
    ``check_layout`` raises where another process migrated to a newer layout meanwhile,
    ``check_file`` where the path does not lead to the opened file any more. ``fault``
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
        self.check_file: Callable[[], object] = lambda: None

    @override
    def commit(self) -> None:
        jobs = self.queue.take()
        try:
            _run(self, jobs)
        finally:
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
    """Run jobs of one kind until each has its result or its error, or was cancelled."""
    isolated = False
    while jobs := [job for job in jobs if not job.cancelled]:
        try:
            _run_once(connection, jobs, isolated=isolated)
        except Exception as error:  # noqa: BLE001 - raised again where each job is awaited
            connection.tips.clear()
            if _is_busy(error):
                jobs = _wait(connection, jobs, error)
                continue
            if len(jobs) == 1:
                jobs[0].error = error
            elif not isolated and jobs[0].kind is not Kind.NO_TRANSACTION:
                isolated = True
                continue
            else:
                for job in jobs:
                    _run_together(connection, [job])
        return


def _wait(connection: Connection, jobs: Sequence[Job[Any]], error: Exception) -> Sequence[Job[Any]]:
    """Sleep a moment, or give up those jobs whose time is over; return the others.

    SQLite's own wait sleeps longer the longer it has waited, up to a tenth of a second, so that
    whoever came last is served first. These naps stay short.
    """
    now = time.monotonic()
    patient = [job for job in jobs if now - job.asked_at < connection.patience]
    for job in jobs:
        if job not in patient:
            job.error = error
    if patient:
        waited = now - min(job.asked_at for job in patient)
        longest = LONGEST_NAP if waited > A_COMMIT else LONGEST_NAP / 4
        time.sleep(random.uniform(longest / 4, longest))  # noqa: S311 - jitter, no secret
    return patient


def _run_once(connection: Connection, jobs: Sequence[Job[Any]], *, isolated: bool) -> None:
    """Run jobs in one transaction; raise what makes it impossible to keep."""
    kind = jobs[0].kind
    if kind is Kind.NO_TRANSACTION:
        _run_each(connection, jobs, isolated=False)
        return
    with transaction(connection, writing=kind is Kind.WRITE):
        if kind is Kind.WRITE:
            connection.check_file()
        if kind is Kind.READ or connection.tips.refresh(connection):
            connection.check_layout()
        _run_each(connection, jobs, isolated=isolated)


def _run_each(connection: Connection, jobs: Sequence[Job[Any]], *, isolated: bool) -> None:
    """Run jobs; raise an error of the engine's, or of one that had changed something.

    Isolated, each has a savepoint, and what it changed is undone alone.
    """
    for job in jobs:
        if isolated:
            connection.execute("SAVEPOINT job")
        before = connection.total_changes
        job.run(connection)
        spoiled = isinstance(job.error, sqlite3.Error) or connection.total_changes != before
        if job.error is not None and spoiled:
            if not isolated or _is_busy(job.error) or not connection.in_transaction:
                raise job.error
            connection.tips.clear()
            connection.execute("ROLLBACK TO job")
        if isolated:
            connection.execute("RELEASE job")


def _is_busy(error: BaseException) -> bool:
    return isinstance(error, sqlite3.Error) and is_busy(error)


@contextmanager
def transaction(connection: sqlite3.Connection, *, writing: bool = True) -> Generator[None]:
    """Run a block in one transaction, its write lock taken up front, undone on every error."""
    connection.execute("BEGIN IMMEDIATE" if writing else "BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
