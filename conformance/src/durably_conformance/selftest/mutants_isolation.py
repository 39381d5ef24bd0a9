"""Wrong isolation: a neighbour, another kind or another namespace is taken for the thing itself."""

import time
from collections.abc import Sequence

from typing_extensions import override

from durably import (
    Checkpoint,
    Entry,
    JsonObject,
    Rewound,
    StateSnapshot,
)
from durably.logstore import LogId
from durably.testing import Clock, Handle
from durably_conformance.building import fill, head, runs, said, shape, snapshot
from durably_conformance.selftest.delegating import (
    CheckpointerMutation,
    SaverMutation,
    StoreMutation,
)
from durably_conformance.selftest.mutating import Memory
from durably_conformance.selftest.noticing import NAMESPACES, logs_of
from durably_conformance.selftest.spoiling import SpoiledAppend, wrong
from durably_conformance.selftest.tracking import Tracked


class ClearsByPrefix(SpoiledAppend):
    """Clears every session whose id begins alike."""

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        self.shared.setdefault("ids", set()).add(session_id)
        return await super().put(session_id, entries, run_id, meta)

    @override
    async def clear(self, session_id: str) -> None:
        await self.inner.clear(session_id)
        for id_ in self.shared.get("ids", ()):
            if id_.startswith(session_id):
                await self.inner.clear(id_)


class RewindsByPrefix(ClearsByPrefix):
    """Rewinds every session whose id begins alike."""

    @override
    async def clear(self, session_id: str) -> None:
        await self.inner.clear(session_id)

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        done = await self.inner.rewind(
            session_id, keep_entries=keep_entries, expected_revision=expected_revision
        )
        for id_ in self.shared.get("ids", ()):
            if id_.startswith(session_id) and id_ != session_id:
                await self.inner.rewind(id_, keep_entries=keep_entries)
        return done


class DeletesRunsByPrefix(CheckpointerMutation):
    """Deletes every run whose id begins alike."""

    @override
    async def delete(self, run_id: str, *, expected_revision: int | None = None) -> bool:
        found = await self.inner.delete(run_id, expected_revision=expected_revision)
        for one in (await self.inner.runs(limit=1000)).items if found else ():
            if one.run_id.startswith(run_id):
                await self.inner.delete(one.run_id)
        return found


class DeletesThreadsByPrefix(SaverMutation):
    """Deletes every thread whose id begins alike."""

    @override
    async def append(self, thread_id: str, snapshot: StateSnapshot) -> int:
        seq = await self.inner.append(thread_id, snapshot)
        self.shared.setdefault("threads", set()).add(thread_id)
        return seq

    @override
    async def delete(self, thread_id: str) -> bool:
        found = await self.inner.delete(thread_id)
        for id_ in self.shared.get("threads", ()) if found else ():
            if id_.startswith(thread_id):
                await self.inner.delete(id_)
        return found


class DeletesByIdAlone(StoreMutation):
    """Deletes what has an id, of whatever kind it is."""

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        found = await self.inner.delete(log, expected_revision=expected_revision)
        kinds = ("session", "run", "thread")
        for kind in kinds if found and log.kind in kinds else ():
            await self.inner.delete(LogId(kind=kind, id=log.id))
        return found


class FoldsNamespaces(Memory):
    """Compares namespaces without regard to case and to spaces at their end."""

    @override
    async def connect(self, *, clock: Clock = time.time, namespace: str = "") -> Handle:
        return await super().connect(clock=clock, namespace=namespace.casefold().rstrip())


class RemembersThreads(SaverMutation):
    """Remembers threads by their id, whatever the namespace."""

    @override
    async def append(self, thread_id: str, snapshot: StateSnapshot) -> int:
        seq = await self.inner.append(thread_id, snapshot)
        kept = await self.inner.list(thread_id, limit=1)
        self.shared[f"thread {thread_id}"] = kept
        return seq

    @override
    async def list(
        self, thread_id: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Checkpoint]:
        found = await self.inner.list(thread_id, before=before, limit=limit)
        remembered: Sequence[Checkpoint] = self.shared.get(f"thread {thread_id}", ())
        return found if found or before is not None else remembered

    @override
    async def delete(self, thread_id: str) -> bool:
        self.shared.pop(f"thread {thread_id}", None)
        return await self.inner.delete(thread_id)


async def clears_neighbours(place: Tracked) -> bool:
    """Clear a session beside one whose id begins alike."""
    sessions = (await place.connect()).sessions
    for id_ in ("foo", "foobar"):
        await sessions.append(id_, said("a"))
    await sessions.clear("foo")
    return await sessions.load("foobar") == []


async def rewinds_neighbours(place: Tracked) -> bool:
    """Rewind a session beside one whose id begins alike."""
    sessions = (await place.connect()).sessions
    for id_ in ("foo", "foobar"):
        await fill(sessions, id_, "a2")
    await sessions.rewind("foo", keep_entries=1)
    return await shape(sessions, "foobar") == runs("a1")


async def deletes_neighbouring_runs(place: Tracked) -> bool:
    """Delete a run beside one whose id begins alike."""
    checkpointer = (await place.connect()).checkpointer
    for id_ in ("foo", "foobar"):
        await checkpointer.append(id_, [], head())
    await checkpointer.delete("foo")
    return await checkpointer.load("foobar") is None


async def deletes_neighbouring_threads(place: Tracked) -> bool:
    """Delete a thread beside one whose id begins alike."""
    saver = (await place.connect()).checkpoint_saver()
    for id_ in ("foo", "foobar"):
        await saver.append(id_, snapshot("a"))
    await saver.delete("foo")
    return await saver.latest("foobar") is None


async def deletes_another_kind(place: Tracked) -> bool:
    """Clear a session of the same id as a run."""
    handle = await place.connect()
    await handle.sessions.append("a", said("a"))
    await handle.checkpointer.append("a", said("a"), head())
    await handle.sessions.clear("a")
    return await handle.checkpointer.load("a") is None


async def mixes_namespaces(place: Tracked) -> bool:
    """Write in one namespace and read in another."""
    one, other = await place.connect(namespace="a"), await place.connect(namespace="A")
    await one.sessions.append("s", said("a"))
    return await other.sessions.load("s") != []


async def finds_the_thread_of_another(place: Tracked) -> bool:
    """Save in one namespace and list in another."""
    one, other = await place.connect(namespace="a"), await place.connect(namespace="b")
    await one.checkpoint_saver().append("t", snapshot("a"))
    return len(await other.checkpoint_saver().list("t")) == 1


PATTERN = "langchain-ai/langgraph#8300"


MUTANTS = (
    wrong(
        "clears by prefix",
        "Clearing a session clears no other.",
        "SES-ISO-001",
        PATTERN,
        clears_neighbours,
        sessions=ClearsByPrefix,
    ),
    wrong(
        "rewinds by prefix",
        "Rewinding a session rewinds no other.",
        "SES-ISO-002",
        PATTERN,
        rewinds_neighbours,
        sessions=RewindsByPrefix,
    ),
    wrong(
        "deletes runs by prefix",
        "Deleting a run deletes no other.",
        "CKP-ISO-001",
        PATTERN,
        deletes_neighbouring_runs,
        checkpointer=DeletesRunsByPrefix,
    ),
    wrong(
        "deletes threads by prefix",
        "Deleting a thread deletes no other.",
        "CKS-ISO-001",
        PATTERN,
        deletes_neighbouring_threads,
        saver=DeletesThreadsByPrefix,
    ),
    wrong(
        "deletes by id alone",
        "One id as a session, a run and a thread is three things.",
        "ISO-001",
        "microsoft/agent-framework#7471",
        deletes_another_kind,
        store=DeletesByIdAlone,
        wrapped=logs_of("session", "run", "thread"),
    ),
    wrong(
        "folds namespaces",
        "Two namespaces share nothing, however alike they look.",
        "ISO-002 LOG-NS-002 STA-008",
        "a namespace that becomes a part of a file name",
        mixes_namespaces,
        place=FoldsNamespaces,
        wrapped=frozenset({NAMESPACES}),
    ),
    wrong(
        "remembers threads",
        "The same ids in two namespaces are different things.",
        "ISO-002",
        "google/adk-python-community#180",
        finds_the_thread_of_another,
        saver=RemembersThreads,
    ),
)
