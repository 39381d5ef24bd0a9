"""Reading runs and threads back, and doing things at once, for checks of both."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from durably import Checkpoint, CheckpointSaver, RunHead, RunInfo, RunSnapshot, StateSnapshot
from durably.testing import Handle
from durably_conformance.context import T

__all__ = ["beside", "cancelled_after", "listed", "loaded", "plain", "timeless", "walked"]

PAGES = 60
"""More than any walk here takes; one that goes in circles ends there."""


async def loaded(t: T, handle: Handle, run_id: str = "r") -> RunSnapshot:
    """Return a run, which has to be there."""
    run = await handle.checkpointer.load(run_id)
    if run is None:
        t.fail(f"there is no run {run_id!r}")
    return run


def timeless(head: RunHead) -> RunHead:
    """Return a head without its times."""
    return head.replace(started_at=None, updated_at=None)


async def walked(t: T, handle: Handle, **options: Any) -> list[RunInfo]:  # noqa: ANN401 - of runs
    """Return all runs, page by page."""
    rows: list[RunInfo] = []
    after: str | None = None
    for _ in range(PAGES):
        page = await handle.checkpointer.runs(after=after, **options)
        limit = options.get("limit", 100)
        t.ok(len(page.items) <= limit, f"a page has at most {limit} runs")
        rows += page.items
        after = page.next
        if after is None:
            return rows
    return t.fail(f"the walk over runs does not end: {PAGES} pages, {len(rows)} rows")


async def listed(
    saver: CheckpointSaver,
    thread_id: str = "t",
    **options: Any,  # noqa: ANN401 - of list
) -> list[StateSnapshot]:
    """Return the snapshots of a listing."""
    return [plain(one) for one in await saver.list(thread_id, **options)]


def plain(one: Checkpoint) -> StateSnapshot:
    """Return a snapshot with its messages as a list, whatever sequence they came as."""
    return one.snapshot.replace(messages=list(one.snapshot.messages))


async def beside(work: Coroutine[Any, Any, None], look: Callable[[], Awaitable[None]]) -> None:
    """Do some work, and look again and again while it goes on; both have to let others run."""
    task = asyncio.create_task(work)
    try:
        while not task.done():
            await look()
            await asyncio.sleep(0)
        await task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def cancelled_after(steps: int, work: Coroutine[Any, Any, object]) -> bool:
    """Begin some work, let the loop turn so often, cancel it, and say whether that came in time."""
    task = asyncio.create_task(work)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        await task
    return task.cancelled()
