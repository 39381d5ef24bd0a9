"""``Storage``: one opened backend, and all the contracts over it."""

import time
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Self

from durably._gate import FORMAT_LOG, Gate
from durably.capabilities import Capabilities, Limits
from durably.checkpointer import LogCheckpointer
from durably.checkpoints import LogCheckpointSaver
from durably.contracts import Checkpointer, CheckpointSaver, Session
from durably.logstore import LogStore, Range
from durably.sessions import LogSession

__all__ = ["Storage"]


class Storage:
    """One storage: an async context manager that closes its log store on leaving.

    A log store connects with its first operation, so a storage can be made before an event
    loop runs; that operation binds it to its process and event loop. ``clock`` gives epoch
    seconds; it stamps times and never decides an order.
    """

    def __init__(self, log_store: LogStore, *, clock: Callable[[], float] = time.time) -> None:
        gate = log_store if isinstance(log_store, Gate) else Gate(log_store, clock=clock)
        self._log_store = gate
        self._owner = gate is not log_store
        self._clock = clock
        self._sessions = LogSession(self._log_store, clock=clock)
        self._checkpointer = LogCheckpointer(self._log_store, clock=clock)

    @property
    def sessions(self) -> Session:
        """Conversations across runs."""
        return self._sessions

    @property
    def checkpointer(self) -> Checkpointer:
        """Progress within runs."""
        return self._checkpointer

    def checkpoint_saver(self, *, max_checkpoints_per_thread: int | None = None) -> CheckpointSaver:
        """Return a saver of threads' snapshots, unbounded unless asked.

        Raises:
            InvalidLimit: ``max_checkpoints_per_thread`` is not an integer of at least 1.
        """
        return LogCheckpointSaver(
            self._log_store,
            max_checkpoints_per_thread=max_checkpoints_per_thread,
            clock=self._clock,
        )

    @property
    def log_store(self) -> LogStore:
        """The log store behind all of it, for tools that list, move and repair logs."""
        return self._log_store

    @property
    def capabilities(self) -> Capabilities:
        """What this backend declares about itself."""
        return self._log_store.capabilities

    @property
    def limits(self) -> Limits:
        """The largest sizes this backend accepts."""
        return self._log_store.limits

    def scoped(self, namespace: str) -> "Storage":
        """Return the same storage in another namespace; the two share a connection, and no data.

        It is closed with this one; closing it closes nothing else.

        Raises:
            InvalidId: the namespace is neither empty nor legal as an id.
            Unsupported: the backend has no namespaces.
        """
        return Storage(self._log_store.scoped(namespace), clock=self._clock)

    async def ping(self) -> None:
        """Make one round trip to the storage.

        Raises:
            Unavailable: the storage cannot be reached.
            StorageBusy: others held it for longer than the time-out.
            StorageClosed: it is closed.
        """
        await self._log_store.read(FORMAT_LOG, Range(limit=0))

    def __del__(self) -> None:
        """Warn of a storage that was used and never closed."""
        if getattr(self, "_owner", False) and self._log_store.is_in_use:
            warnings.warn(
                "a durably.Storage was not closed: use 'async with' or await aclose()",
                ResourceWarning,
                source=self,
                stacklevel=1,
            )

    async def aclose(self) -> None:
        """Close the log store; every later operation raises ``StorageClosed``.

        Closing twice does nothing.
        """
        await self._log_store.aclose()

    async def __aenter__(self) -> Self:
        """Connect, and refuse a storage this version cannot read.

        Raises:
            Unavailable: the storage cannot be reached.
            StorageBusy: others held it for longer than the time-out.
            SchemaTooNew: a newer version wrote it.
            ForeignData: something else has our names there.
            StorageClosed: this object was closed before.
            WrongLoop: it was first used in another event loop.
            WrongProcess: it was first used in another process.
        """
        try:
            await self._log_store.check()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
