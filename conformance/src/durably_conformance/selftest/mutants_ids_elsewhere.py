"""Wrong ids of runs and threads: two are taken for one, and none for one."""

from collections.abc import Sequence

from typing_extensions import override

from durably import (
    Checkpoint,
    InvalidId,
    Page,
    RunInfo,
    RunSnapshot,
    RunStatus,
    StateSnapshot,
)
from durably_conformance.building import head, said, snapshot
from durably_conformance.selftest.delegating import (
    CheckpointerMutation,
    SaverMutation,
)
from durably_conformance.selftest.mutants_ids import is_text
from durably_conformance.selftest.spoiling import wrong
from durably_conformance.selftest.tracking import Tracked


class LoadsWithoutCase(CheckpointerMutation):
    """Loads the first run whose id differs in case at most."""

    @override
    async def load(self, run_id: str) -> RunSnapshot | None:
        if is_text(run_id):
            for one in (await self.inner.runs(limit=1000)).items:
                if one.run_id.casefold() == run_id.casefold():
                    return await self.inner.load(one.run_id)
        return await self.inner.load(run_id)


class HasADefaultRun(CheckpointerMutation):
    """Takes no run_id for that of a default run."""

    @override
    async def load(self, run_id: str) -> RunSnapshot | None:
        return await self.inner.load(run_id or "default")


class SortsByAnotherEncoding(CheckpointerMutation):
    """Lists runs in the order of their ids' UTF-16."""

    @override
    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        idle_for: float | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[RunInfo]:
        page = await self.inner.runs(status=status, idle_for=idle_for, after=after, limit=limit)
        items = sorted(page.items, key=lambda run: run.run_id.encode("utf-16-be"))
        return Page(items=tuple(items), next=page.next)


class FoldsThreads(SaverMutation):
    """Compares thread ids without regard to case."""

    @override
    async def append(self, thread_id: str, snapshot: StateSnapshot) -> int:
        return await self.inner.append(
            thread_id.casefold() if is_text(thread_id) else thread_id, snapshot
        )

    @override
    async def list(
        self, thread_id: str, *, before: int | None = None, limit: int = 100
    ) -> Sequence[Checkpoint]:
        used = thread_id.casefold() if is_text(thread_id) else thread_id
        return await self.inner.list(used, before=before, limit=limit)


class HasADefaultThread(SaverMutation):
    """Takes no thread_id for that of a default thread."""

    @override
    async def append(self, thread_id: str, snapshot: StateSnapshot) -> int:
        return await self.inner.append(thread_id or "default", snapshot)


async def loads_another_run(place: Tracked) -> bool:
    """Save two runs whose ids differ in case."""
    checkpointer = (await place.connect()).checkpointer
    for id_ in ("foo", "FOO"):
        await checkpointer.append(id_, said(id_), head())
    run = await checkpointer.load("foo")
    return run is not None and run.entries == said("FOO")


async def loads_without_an_id(place: Tracked) -> bool:
    """Load without a run_id."""
    try:
        await (await place.connect()).checkpointer.load("")
    except InvalidId:
        return False
    return True


async def lists_in_another_order(place: Tracked) -> bool:
    """List two runs whose order depends on the encoding."""
    checkpointer = (await place.connect()).checkpointer
    for id_ in ("\ufffd", "\U0001f600"):
        await checkpointer.append(id_, [], head())
    return (await checkpointer.runs()).items[0].run_id == "\U0001f600"


async def mixes_threads(place: Tracked) -> bool:
    """Save to two threads whose ids differ in case."""
    saver = (await place.connect()).checkpoint_saver()
    await saver.append("foo", snapshot("a"))
    await saver.append("FOO", snapshot("b"))
    return len(await saver.list("foo")) > 1


async def saves_without_an_id(place: Tracked) -> bool:
    """Save without a thread_id."""
    try:
        await (await place.connect()).checkpoint_saver().append("", snapshot("a"))
    except InvalidId:
        return False
    return True


MUTANTS = (
    wrong(
        "loads runs without case",
        "Every legal run_id names a run of its own.",
        "CKP-ID-001",
        "WHERE run_id LIKE ?",
        loads_another_run,
        checkpointer=LoadsWithoutCase,
    ),
    wrong(
        "has a default run",
        "An empty run_id is refused.",
        "CKP-ID-002",
        "run_id or 'default'",
        loads_without_an_id,
        checkpointer=HasADefaultRun,
    ),
    wrong(
        "sorts by UTF-16",
        "Runs are listed in the order of their ids' UTF-8 bytes.",
        "CKP-ID-003",
        "a database, or a language, whose text is UTF-16",
        lists_in_another_order,
        checkpointer=SortsByAnotherEncoding,
    ),
    wrong(
        "folds the case of threads",
        "Every legal thread_id names a thread of its own.",
        "CKS-ID-001",
        "a column with COLLATE NOCASE",
        mixes_threads,
        saver=FoldsThreads,
    ),
    wrong(
        "has a default thread",
        "An empty thread_id is refused.",
        "CKS-ID-002",
        "thread_id or 'default'",
        saves_without_an_id,
        saver=HasADefaultThread,
    ),
)
