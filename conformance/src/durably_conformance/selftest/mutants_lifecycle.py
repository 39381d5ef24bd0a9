"""Backends that close, cancel or change loops carelessly."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from typing_extensions import override

from durably import DurablyError, Entry, JsonObject, Session, StorageClosed, WrongLoop
from durably.testing import Clock, Handle
from durably_conformance.building import said
from durably_conformance.selftest.delegating import SessionMutation
from durably_conformance.selftest.mutating import Memory, MemoryMutant
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class ClosedIsEmpty(SessionMutation):
    """Reads nothing from a closed storage."""

    @override
    async def load(self, session_id: str) -> list[Entry]:
        try:
            return await self.inner.load(session_id)
        except StorageClosed:
            return []


class ClosesOnce(Memory):
    """Handles that cannot be closed while they close."""

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        handle = await super().connect(clock=clock, namespace=namespace)
        close, closing = handle.aclose, asyncio.Lock()

        async def aclose() -> None:
            if closing.locked():
                raise RuntimeError("it is being closed")
            async with closing:
                await asyncio.sleep(0)
                await close()

        vars(handle)["aclose"] = aclose
        return handle


class AcknowledgesAnyway(SessionMutation):
    """Says that an append is done whose storage was closed under it."""

    @override
    async def append(
        self,
        session_id: str,
        entries: Sequence[Entry],
        *,
        run_id: str | None = None,
        meta: JsonObject | None = None,
    ) -> str:
        await self.inner.revision(session_id)
        await asyncio.sleep(0)
        try:
            return await self.inner.append(session_id, entries, run_id=run_id, meta=meta)
        except StorageClosed:
            return "done"


class FlushesOnCancel(SessionMutation):
    """Stores what it has of an append that is cancelled."""

    @override
    async def append(
        self,
        session_id: str,
        entries: Sequence[Entry],
        *,
        run_id: str | None = None,
        meta: JsonObject | None = None,
    ) -> str:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            await self.inner.append(session_id, entries[:1])
            raise
        return await self.inner.append(session_id, entries, run_id=run_id, meta=meta)


class AnotherLoop(SessionMutation):
    """Says of another event loop what its driver says of it."""

    @override
    async def load(self, session_id: str) -> list[Entry]:
        try:
            return await self.inner.load(session_id)
        except WrongLoop:
            raise RuntimeError("attached to a different loop") from None


async def is_empty_when_closed(place: Tracked) -> bool:
    """Load after a close."""
    handle = await place.connect()
    await handle.aclose()
    try:
        return await handle.sessions.load("s") == []
    except StorageClosed:
        return False


async def cannot_close_twice(place: Tracked) -> bool:
    """Close twice at once."""
    handle = await place.connect()
    both = await asyncio.gather(handle.aclose(), handle.aclose(), return_exceptions=True)
    return any(one is not None for one in both)


async def started(sessions: Session) -> "asyncio.Task[str]":
    """Start an append of two entries, and give it one turn."""
    task = asyncio.ensure_future(sessions.append("s", said("a", "b")))
    await asyncio.sleep(0)
    return task


async def acknowledges_what_is_lost(place: Tracked) -> bool:
    """Close under an append."""
    handle, other = await place.connect(), await place.connect()
    task = await started(handle.sessions)
    await handle.aclose()
    with suppress(DurablyError):
        await task
        return await other.sessions.load("s") == []
    return False


async def stores_half(place: Tracked) -> bool:
    """Cancel an append."""
    sessions = (await place.connect()).sessions
    task = await started(sessions)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return len(await sessions.load("s")) == 1


async def talks_like_its_driver(place: Tracked) -> bool:
    """Load in another loop, of a thread that ends by itself."""
    sessions = (await place.connect()).sessions
    answers: list[type] = []
    await sessions.load("s")
    thread = threading.Thread(target=lambda: answers.append(outcome(sessions.load)))
    thread.start()
    await asyncio.to_thread(thread.join)
    return answers == [RuntimeError]


def outcome(load: Callable[[str], Awaitable[object]]) -> type:
    """Return the type of what comes of a load in an event loop of its own."""

    async def awaited() -> object:
        return await load("s")

    try:
        return type(asyncio.run(awaited()))
    except Exception as error:  # noqa: BLE001 - whatever it is
        return type(error)


MUTANTS = (
    Mutant(
        name="a closed storage is empty",
        says="After a close every operation is StorageClosed.",
        fails=frozenset({"LIFE-CLOSE-001"}),
        provenance="openai/openai-agents-python#4035",
        harness=lambda: MemoryMutant(sessions=ClosedIsEmpty),
        probe=is_empty_when_closed,
    ),
    Mutant(
        name="two closes at once",
        says="Closing again does nothing, also at the same time.",
        fails=frozenset({"LIFE-CLOSE-002"}),
        provenance="a flag that is set after the last await of close",
        harness=lambda: MemoryMutant(place=ClosesOnce),
        probe=cannot_close_twice,
    ),
    Mutant(
        name="a write that met a close is acknowledged",
        says="A write that meets a close is acknowledged and there, or refused.",
        fails=frozenset({"LIFE-CLOSE-003"}),
        provenance="a queue of writes that is dropped on close",
        harness=lambda: MemoryMutant(sessions=AcknowledgesAnyway),
        probe=acknowledges_what_is_lost,
    ),
    Mutant(
        name="a cancelled write is flushed",
        says="A cancelled write is there whole or not at all.",
        fails=frozenset({"LIFE-CANCEL-001"}),
        provenance="openai/openai-agents-python#4203",
        harness=lambda: MemoryMutant(sessions=FlushesOnCancel),
        probe=stores_half,
    ),
    Mutant(
        name="the driver's word on another loop",
        says="A second loop works, or is refused with WrongLoop.",
        fails=frozenset({"LIFE-LOOP-001"}),
        provenance="redis-developer/langgraph-redis#179",
        harness=lambda: MemoryMutant(sessions=AnotherLoop),
        probe=talks_like_its_driver,
    ),
)
