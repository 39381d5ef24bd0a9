"""``Engine``: sessions by id, over the catalog of one storage."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import durably
from durably import RunNotFound, SessionExists, SessionId, Storage
from durably.checks import check_id
from durably.history import HistoryFilter, HistoryPage
from durably.logstore import new_key
from durably_runner._graph import reachable
from durably_runner._lock import DirectoryLock
from durably_runner._order import Input
from durably_runner._words import digest
from durably_runner.agents import Agent
from durably_runner.errors import AgentNotAttached, InvalidOptions
from durably_runner.interrupts import Decision
from durably_runner.options import CheckpointOptions, IfRunExists, RunLimits
from durably_runner.results import RunResult
from durably_runner.runner import Runner

__all__ = ["Engine", "EngineSession"]


class _Seat:
    """What an engine knows of one session: who is attached, and whose turn it is.

    ``is_new`` says that it is still to be put into the catalog, ``is_begun`` that this was tried.
    """

    def __init__(self, agent: Agent, *, is_new: bool) -> None:
        self.agent = agent
        self.is_new = is_new
        self.is_begun = False
        self.turn = asyncio.Lock()
        self.storing = asyncio.Lock()


class Engine:
    """Creates sessions, and resumes those that are in the catalog.

    Without a storage it is volatile: its sessions go with it. A storage that is given stays open;
    ``Engine.local`` keeps its sessions in a directory. What a session does comes from the agent
    attached to it in this engine, never from what is stored.
    """

    def __init__(self, storage: Storage | None = None) -> None:
        self._storage = durably.open("memory://") if storage is None else storage
        self._owns_storage = storage is None
        self._lock: DirectoryLock | None = None
        self._seats: dict[str, _Seat] = {}

    @classmethod
    def local(cls, directory: str | os.PathLike[str]) -> Self:
        """Return an engine whose sessions are kept in a directory, made if it is not there.

        They are in ``sessions.db`` there. It is for one process at a time, and needs
        durably-sqlite.

        Raises:
            DirectoryInUse: another engine has it; it is free once that is closed, or killed.
            BackendNotInstalled: durably-sqlite is not there.
            InvalidOptions: there is a file of that name, or the directory cannot be made.
        """
        folder = Path(directory).absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidOptions(f"{folder} cannot be a directory: {error.strerror}") from error
        lock = DirectoryLock.take(folder)
        try:
            engine = cls(durably.open(f"sqlite:///{quote(str(folder / 'sessions.db'))}"))
        except BaseException:
            lock.release()
            raise
        engine._owns_storage = True
        engine._lock = lock
        return engine

    @property
    def storage(self) -> Storage:
        """Where everything is kept."""
        return self._storage

    def create(self, agent: Agent, session_id: str | None = None) -> "EngineSession":
        """Return a new session; nothing is stored before its first async operation.

        That operation raises ``SessionExists`` if the id was given and is in the catalog.

        Raises:
            InvalidAgent: the agents cannot work together.
            InvalidId: ``session_id`` is not legal as an id.
            SessionExists: this engine has a session of that id.
        """
        reachable(agent)
        session_id = SessionId(new_key() if session_id is None else session_id)
        check_id("session", session_id)
        if session_id in self._seats:
            raise SessionExists(session_id)
        seat = self._seats[session_id] = _Seat(agent, is_new=True)
        return EngineSession(self._storage, session_id, seat)

    async def attach(self, session_id: str, agent: Agent) -> None:
        """Say which agent a session of the catalog is with, in place of one attached before.

        Raises:
            SessionNotFound: it is not in the catalog; records of it alone do not count.
            InvalidAgent: the agents cannot work together.
        """
        reachable(agent)
        await self._storage.catalog.get(session_id)
        seat = self._seats.setdefault(session_id, _Seat(agent, is_new=False))
        seat.agent = agent

    async def resume(self, session_id: str) -> "EngineSession":
        """Return a session of the catalog, with the agent attached to it.

        Raises:
            SessionNotFound: it is not in the catalog; records of it alone do not count.
            AgentNotAttached: it was neither created by this engine nor attached to an agent.
        """
        info = await self._storage.catalog.get(session_id)
        seat = self._seats.get(session_id)
        if seat is None:
            raise AgentNotAttached(session_id)
        return EngineSession(self._storage, info.session_id, seat)

    async def aclose(self) -> None:
        """Close the storage, unless it was given, and give the directory free."""
        try:
            if self._owns_storage:
                await self._storage.aclose()
        finally:
            if self._lock is not None:
                self._lock.release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()


class EngineSession:
    """One session of an engine; it is in the catalog from its first async operation on.

    Its runs' ids begin with what tells them from those of every other session.
    """

    def __init__(self, storage: Storage, session_id: SessionId, seat: _Seat) -> None:
        self._storage = storage
        self._session_id = session_id
        self._seat = seat
        self._prefix = f"{digest(session_id)[:16]}-"

    @property
    def session_id(self) -> SessionId:
        """The id to resume it by."""
        return self._session_id

    async def send(
        self,
        message: Input,
        *,
        idempotency_key: str | None = None,
        deps: Any = None,  # noqa: ANN401 - the application's
        limits: RunLimits | None = None,
    ) -> RunResult:
        """Say something, and run the agent; the run joins the session when it is completed.

        Runs of one session come one after another, through whichever handle of this engine. With
        an ``idempotency_key``, any text of this session's own, the same call may be issued again,
        whatever became of the first: it is the same run, also with another message.

        Raises:
            SessionExists: the session was given an id that was in the catalog before.
            SessionNotFound: the session was deleted.
            What ``Runner.run`` raises, with the run's id in a note.
        """
        key = new_key() if idempotency_key is None else digest(idempotency_key)
        run_id = f"{self._prefix}{key}"
        await self._store()
        return await self._run(message, run_id, "resume", deps=deps, limits=limits)

    async def resume(
        self,
        run_id: str,
        decision: Decision | None = None,
        *,
        deps: Any = None,  # noqa: ANN401 - the application's
        limits: RunLimits | None = None,
    ) -> RunResult:
        """Go on with a run that was cut off, or that waits for a person who decided now.

        Raises:
            RunNotFound: this session has no such run.
            SessionNotFound: the session was deleted.
            DecisionRefused: the decision is about something else.
            What else ``Runner.run`` raises.
        """
        await self._store()
        if not run_id.startswith(self._prefix):
            raise RunNotFound(run_id)
        return await self._run(
            [], run_id, "resume_only", decision=decision, deps=deps, limits=limits
        )

    async def _run(
        self,
        message: Input,
        run_id: str,
        policy: IfRunExists,
        **options: Any,  # noqa: ANN401 - those of Runner.run
    ) -> RunResult:
        checkpointer = self._storage.checkpointer
        checkpoint = CheckpointOptions(checkpointer, run_id, policy, delete_on_success=True)
        try:
            async with self._seat.turn:
                return await Runner.run(
                    self._seat.agent,
                    message,
                    session=self._storage.sessions,
                    session_id=self._session_id,
                    checkpoint=checkpoint,
                    **options,
                )
        except BaseException as error:
            error.add_note(f"run {run_id!a} of session {self._session_id!a}")
            raise

    async def history(
        self,
        *,
        limit: int = 100,
        after: str | None = None,
        types: HistoryFilter | None = "messages",
    ) -> HistoryPage:
        """Read a page of what was said, as ``sessions.history`` does."""
        await self._store()
        sessions = self._storage.sessions
        return await sessions.history(self._session_id, limit=limit, after=after, types=types)

    async def pages(
        self, *, limit: int = 100, types: HistoryFilter | None = "messages"
    ) -> AsyncIterator[HistoryPage]:
        """Walk over all of it, page after page, as ``sessions.pages`` does."""
        await self._store()
        async for page in self._storage.sessions.pages(self._session_id, limit=limit, types=types):
            yield page

    async def _store(self) -> None:
        """Put a new session into the catalog; one that is not new must be there."""
        seat = self._seat
        if not seat.is_new:
            await self._storage.catalog.get(self._session_id)
            return
        async with seat.storing:
            if seat.is_new:
                await self._create(seat)

    async def _create(self, seat: _Seat) -> None:
        was_begun, seat.is_begun = seat.is_begun, True
        try:
            await self._storage.catalog.create(self._session_id)
        except SessionExists:
            if not was_begun:  # else by a call whose answer was lost, or that was cancelled
                seat.is_begun = False
                raise
        seat.is_new = False
