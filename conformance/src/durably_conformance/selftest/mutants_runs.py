"""Wrong checkpointers: listing runs."""

from collections.abc import Sequence

import msgspec
from typing_extensions import override

from durably import Entry, Page, RunHead, RunInfo, RunStatus
from durably.logstore import Applied, Batch, LogId, Range
from durably_conformance.building import head, said
from durably_conformance.selftest.delegating import CheckpointerMutation, StoreMutation
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.noticing import logs_of
from durably_conformance.selftest.spoiling_runs import SavingMutation
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class RunsMutation(SavingMutation):
    """Lists what ``rows`` returns of each page; by itself that is the right thing."""

    def rows(self, page: Page[RunInfo]) -> Page[RunInfo]:
        """Return the page that is handed out."""
        return page

    @override
    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        idle_for: float | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[RunInfo]:
        return self.rows(
            await self.inner.runs(status=status, idle_for=idle_for, after=after, limit=limit)
        )


class CountsBatches(RunsMutation):
    """Counts the batches of a run in place of its entries."""

    @override
    async def save(
        self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int | None
    ) -> int:
        saved = await super().save(run_id, entries, head, at)
        self.shared[run_id] = self.shared.get(run_id, 0) + 1
        return saved

    @override
    def rows(self, page: Page[RunInfo]) -> Page[RunInfo]:
        counted = [
            msgspec.structs.replace(row, entry_count=self.shared.get(row.run_id, row.entry_count))
            for row in page.items
        ]
        return Page(items=tuple(counted), next=page.next)


class StopsAt100(RunsMutation):
    """Ends at its first hundred runs."""

    @override
    def rows(self, page: Page[RunInfo]) -> Page[RunInfo]:
        return Page(items=page.items) if len(page.items) == 100 else page


class CountsRows(CheckpointerMutation):
    """Goes on after so many rows of the listing as it is now."""

    @override
    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        idle_for: float | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[RunInfo]:
        ends: dict[str, int] = self.shared.setdefault("ends", {})
        if status is None and idle_for is None and str(after) in ends and 0 < limit <= 1000:
            done = ends[str(after)]
            before = await self.inner.runs(limit=done)
            page = await self.inner.runs(after=before.next, limit=limit)
            page = page if before.next is not None else Page(items=())
        else:
            page = await self.inner.runs(status=status, idle_for=idle_for, after=after, limit=limit)
            done = 0
        if page.next is not None:
            ends[page.next] = done + len(page.items)
        return page


class FiltersPages(CheckpointerMutation):
    """Takes a page of runs, and of that those of the status; what is left over ends the walk."""

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
        if status is None or idle_for is not None:
            return page
        whole = await self.inner.runs(after=after, limit=limit)
        found = tuple(row for row in whole.items if row.head.status == status)
        return Page(items=found, next=whole.next if len(found) == limit else None)


class IdleForMore(CheckpointerMutation):
    """Finds the runs that are idle for more than so many seconds."""

    @override
    async def runs(
        self,
        *,
        status: RunStatus | None = None,
        idle_for: float | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[RunInfo]:
        seconds = idle_for + 1e-6 if type(idle_for) is float or idle_for == 50 else idle_for
        return await self.inner.runs(status=status, idle_for=seconds, after=after, limit=limit)


class ClaimsInSilence(StoreMutation):
    """Leaves a run's time as it is where a save changes nothing in it."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        stored = await self.inner.read(log, Range(limit=0)) if log.kind == "run" else None
        if stored and not batch.records and batch.head == stored.state.head:
            batch = msgspec.structs.replace(batch, at=stored.state.updated_at)
        return await self.inner.append(log, batch)


async def _saved(place: Tracked, *names: str) -> list[str]:
    """Save runs a second apart, the last one as completed, and return what pages of one list."""
    runs = (await place.connect(clock=lambda: 100.0)).checkpointer
    for name in names:
        await runs.append(name, said("a", "b"), head(status=_status(name)))
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = await runs.runs(status="completed", after=after or None, limit=1)
        found += [row.run_id for row in page.items]
        after = page.next
    return found


def _status(name: str) -> str:
    return "completed" if name in "cz" else "running"


async def counts_batches(place: Tracked) -> bool:
    """Save two entries in one batch, and list."""
    runs = (await place.connect()).checkpointer
    await runs.append("r", said("a", "b"), head())
    return (await runs.runs()).items[0].entry_count == 1


async def stops_at_100(place: Tracked) -> bool:
    """List one run more than a page holds."""
    runs = (await place.connect()).checkpointer
    for number in range(101):
        await runs.append(f"{number:03}", [], head())
    return (await runs.runs()).next is None


async def skips_after_a_delete(place: Tracked) -> bool:
    """Delete the run a page ended with, and go on."""
    runs = (await place.connect()).checkpointer
    for name in "abc":
        await runs.append(name, [], head())
    page = await runs.runs(limit=1)
    await runs.delete("a")
    return (await runs.runs(after=page.next, limit=1)).items[0].run_id != "b"


async def ends_at_a_short_page(place: Tracked) -> bool:
    """Look for completed runs behind one that runs."""
    return await _saved(place, "a", "c", "z") != ["c", "z"]


async def misses_the_boundary(place: Tracked) -> bool:
    """Look for a run that is idle for exactly so long."""
    now = [100.0]
    runs = (await place.connect(clock=lambda: now[0])).checkpointer
    await runs.append("r", said("a"), head())
    now[0] += 50
    return not (await runs.runs(idle_for=50)).items


async def claims_in_silence(place: Tracked) -> bool:
    """Claim a run, and look whether it is idle."""
    now = [100.0]
    runs = (await place.connect(clock=lambda: now[0])).checkpointer
    await runs.append("r", said("a"), head())
    now[0] += 50
    await runs.claim("r")
    return bool((await runs.runs(idle_for=50)).items)


MUTANTS = (
    Mutant(
        name="counts batches in place of entries",
        says="A row of a listing says how many entries a run has.",
        fails=frozenset({"CKP-RUNS-001"}),
        provenance="COUNT(*) over rows that hold several entries each",
        harness=lambda: MemoryMutant(checkpointer=CountsBatches),
        probe=counts_batches,
    ),
    Mutant(
        name="ends at the hundredth run",
        says="Pages of runs join to all runs.",
        fails=frozenset({"CKP-RUNS-002"}),
        provenance="aws/bedrock-agentcore-sdk-python#206",
        harness=lambda: MemoryMutant(checkpointer=StopsAt100),
        probe=stops_at_100,
    ),
    Mutant(
        name="counts rows for its cursor",
        says="A walk over runs finds each that is there all along, whatever comes and goes.",
        fails=frozenset({"CKP-RUNS-003"}),
        provenance="LIMIT … OFFSET …",
        harness=lambda: MemoryMutant(checkpointer=CountsRows),
        probe=skips_after_a_delete,
    ),
    Mutant(
        name="filters pages of runs",
        says="A status narrows a listing to the runs that have it, on pages of any size.",
        fails=frozenset({"CKP-RUNS-004"}),
        provenance="openai/openai-agents-python#3174",
        harness=lambda: MemoryMutant(checkpointer=FiltersPages),
        probe=ends_at_a_short_page,
    ),
    Mutant(
        name="is idle for more only",
        says="idle_for finds the runs whose last save is at least so many seconds ago.",
        fails=frozenset({"CKP-RUNS-005"}),
        provenance="'<' for '<='",
        harness=lambda: MemoryMutant(checkpointer=IdleForMore),
        probe=misses_the_boundary,
    ),
    Mutant(
        name="claims in silence",
        says="A claim counts as a save: a run that was just taken over is not idle.",
        fails=frozenset({"CKP-RUNS-006"}),
        provenance="a trigger that stamps a row only where a column changed",
        harness=lambda: MemoryMutant(store=ClaimsInSilence, wrapped=logs_of("run")),
        probe=claims_in_silence,
    ),
)
