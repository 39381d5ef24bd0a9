"""Wrong checkpointers: looking for runs, loading and deleting them."""

from collections.abc import Sequence

import msgspec
from typing_extensions import override

from durably import (
    Entry,
    Page,
    RunHead,
    RunInfo,
    RunSnapshot,
    RunStatus,
    ToolResultEntry,
    pending_tool_calls,
)
from durably_conformance.building import call, head, said
from durably_conformance.selftest.delegating import CheckpointerMutation
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.spoiling_runs import SavingMutation, ghost, peek
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class ListsWhatWasLookedFor(SavingMutation):
    """Makes an entry in its index for a run that is looked for."""

    @override
    async def save(
        self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int | None
    ) -> int:
        saved = await super().save(run_id, entries, head, at)
        self.shared[run_id] = "saved"
        return saved

    @override
    async def load(self, run_id: str) -> RunSnapshot | None:
        run = await self.inner.load(run_id)
        self.shared.setdefault(run_id, "seen")
        return run

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
        seen = [run_id for run_id, state in self.shared.items() if state == "seen"]
        ghosts = [ghost(run_id) for run_id in seen if not page.items]
        return page if page.items else Page(items=tuple(ghosts))


class ListsDeletedRuns(SavingMutation):
    """Keeps an index of its own runs in each handle, and hears of no delete by others."""

    @override
    async def save(
        self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int | None
    ) -> int:
        saved = await super().save(run_id, entries, head, at)
        self.own = {*getattr(self, "own", ()), run_id}
        return saved

    @override
    async def delete(self, run_id: str, *, expected_revision: int | None = None) -> bool:
        deleted = await self.inner.delete(run_id, expected_revision=expected_revision)
        self.own = {*getattr(self, "own", ())} - {run_id}
        return deleted

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
        if len(page.items) != 1 or after is not None:
            return page
        own: set[str] = getattr(self, "own", set())
        gone = [ghost(run_id) for run_id in own - {page.items[0].run_id}]
        return Page(items=(*page.items, *gone), next=page.next)


class AnswersCalls(CheckpointerMutation):
    """Gives every call without a result one, when a run is loaded."""

    @override
    async def load(self, run_id: str) -> RunSnapshot | None:
        run = await self.inner.load(run_id)
        if run is None:
            return None
        made = [
            ToolResultEntry(call_id=one.call_id, output="interrupted", is_error=True)
            for one in pending_tool_calls(run.entries)
        ]
        return msgspec.structs.replace(run, entries=[*run.entries, *made])


class RemembersTheStart(CheckpointerMutation):
    """Keeps when a run began, also when the run is deleted."""

    @override
    async def load(self, run_id: str) -> RunSnapshot | None:
        run = await self.inner.load(run_id)
        if run is None or run_id not in self.shared:
            return run
        return msgspec.structs.replace(run, head=run.head.replace(started_at=self.shared[run_id]))

    @override
    async def delete(self, run_id: str, *, expected_revision: int | None = None) -> bool:
        run = await peek(self.inner, run_id)
        deleted = await self.inner.delete(run_id, expected_revision=expected_revision)
        if deleted and run is not None:
            self.shared[run_id] = run.head.started_at
        return deleted


async def lists_a_missing_run(place: Tracked) -> bool:
    """Look for a run that is not there, and list."""
    checkpointer = (await place.connect()).checkpointer
    await checkpointer.load("r")
    return bool((await checkpointer.runs()).items)


async def lists_a_deleted_run(place: Tracked) -> bool:
    """Delete one run of two through another handle, and list."""
    checkpointer = (await place.connect()).checkpointer
    await checkpointer.append("r", said("a"), head())
    await checkpointer.append("kept", said("a"), head())
    await (await place.connect()).checkpointer.delete("r")
    return len((await checkpointer.runs()).items) == 2


async def answers_a_dangling_call(place: Tracked) -> bool:
    """Save a call without its result."""
    checkpointer = (await place.connect()).checkpointer
    await checkpointer.append("r", [call("c")], head())
    run = await checkpointer.load("r")
    return run is not None and len(run.entries) == 2


async def starts_in_a_former_life(place: Tracked) -> bool:
    """Delete a run and start it again, later."""
    now = [100.0]
    checkpointer = (await place.connect(clock=lambda: now[0])).checkpointer
    await checkpointer.append("r", said("a"), head())
    await checkpointer.delete("r")
    now[0] = 200.0
    await checkpointer.append("r", said("b"), head())
    run = await checkpointer.load("r")
    return run is not None and run.head.started_at == 100.0


MUTANTS = (
    Mutant(
        name="lists runs that were looked for",
        says="Looking for a run that nobody saved does not make one.",
        fails=frozenset({"CKP-LOAD-001"}),
        provenance="get_or_create on the path of a read",
        harness=lambda: MemoryMutant(checkpointer=ListsWhatWasLookedFor),
        probe=lists_a_missing_run,
    ),
    Mutant(
        name="answers dangling calls",
        says="Calls without a result come back as they were saved.",
        fails=frozenset({"CKP-LOAD-002"}),
        provenance="langchain-ai/langchain-aws#848",
        harness=lambda: MemoryMutant(checkpointer=AnswersCalls),
        probe=answers_a_dangling_call,
    ),
    Mutant(
        name="lists deleted runs",
        says="A deleted run is not listed any more.",
        fails=frozenset({"CKP-DEL-001"}),
        provenance="redis-developer/langgraph-redis#105",
        harness=lambda: MemoryMutant(checkpointer=ListsDeletedRuns),
        probe=lists_a_deleted_run,
    ),
    Mutant(
        name="remembers when a deleted run began",
        says="A run saved again after its delete has nothing of its former life.",
        fails=frozenset({"CKP-DEL-002"}),
        provenance="openai/openai-agents-python#3755",
        harness=lambda: MemoryMutant(checkpointer=RemembersTheStart),
        probe=starts_in_a_former_life,
    ),
)
