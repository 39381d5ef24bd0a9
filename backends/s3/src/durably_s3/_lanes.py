"""Changes to one log, one after the other; appends that wait meanwhile share one tip.

Nobody waits for company, so a single caller pays nothing for it. What was sent is carried out
in a task that no caller's cancellation reaches; who is cancelled before that leaves the queue.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from durably.logstore import Batch, LogId, Rewrite
from durably_s3._area import Area
from durably_s3._changing import Answer, Appending, Change, Deleting, Plan, Rewriting
from durably_s3._committing import Commit, remove_chunks
from durably_s3._patience import Patience

__all__ = ["Deletion", "Lane"]

LARGEST_GROUP = 256
LARGEST_BYTES = 8 * 1024 * 1024
"""Batches of so many bytes take no other with them."""


class Deletion(msgspec.Struct, frozen=True):
    """A deletion that was asked for."""

    expected_revision: int | None


class _Job:
    def __init__(self, change: Batch | Rewrite | Deletion) -> None:
        self.change = change
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def size(self) -> int:
        records = self.change.records if isinstance(self.change, Batch) else ()
        return sum(len(record.data) for record in records)

    def give(self, answer: Answer | BaseException) -> None:
        if self.answer.done():
            return
        if isinstance(answer, BaseException):
            self.answer.set_exception(answer)
            self.answer.exception()  # so that one nobody waits for any more is not reported
        else:
            self.answer.set_result(answer)


class Lane:
    """The changes to one log that wait, and the task that carries them out."""

    def __init__(self, area: Area, log: LogId, *, seconds: float, compress: bool) -> None:
        self._area = area
        self._log = log
        self._seconds = seconds
        self._compress = compress
        self._jobs: deque[_Job] = deque()
        self._task: asyncio.Task[None] | None = None

    @property
    def task(self) -> "asyncio.Task[None] | None":
        """What carries out the changes; None if nothing waits and nothing is under way."""
        return None if self._task is None or self._task.done() else self._task

    async def send(self, change: Batch | Rewrite | Deletion, done: Callable[[], object]) -> Answer:
        """Carry out a change, and return what it is told; call ``done`` when nothing is left."""
        job = _Job(change)
        self._jobs.append(job)
        if self.task is None:
            self._task = asyncio.ensure_future(self._run())
            self._task.add_done_callback(lambda _: done())
        return await job.answer

    async def _run(self) -> None:
        try:
            while group := self._take():
                await self._carry_out(group)
        except asyncio.CancelledError as error:
            for job in self._jobs:
                job.give(error)
            raise

    async def _carry_out(self, group: Sequence[_Job]) -> None:
        patience = Patience(self._seconds)
        try:
            commit = Commit(self._area, self._log, self._change(group), patience)
            answers, plan = await commit.run()
            if isinstance(group[0].change, Deletion):
                await self._clear(plan)
        except BaseException as error:
            self._area.memory.forget_tip(self._area.keys.tip(self._log))
            for job in group:
                job.give(error)
            if not isinstance(error, Exception):
                raise
            return
        for job, answer in zip(group, answers, strict=True):
            job.give(answer)
        if not isinstance(group[0].change, Deletion):
            await remove_chunks(self._area, self._log, plan.obsolete)

    def _take(self) -> list[_Job]:
        """Return the next jobs that can go together, if any; those nobody waits for are dropped."""
        group: list[_Job] = []
        size = 0
        while self._jobs and len(group) < LARGEST_GROUP:
            job = self._jobs[0]
            if job.answer.done():
                self._jobs.popleft()
                continue
            alone = not isinstance(job.change, Batch)
            size += job.size()
            if group and (alone or size > LARGEST_BYTES):
                break
            group.append(self._jobs.popleft())
            if alone:
                break
        return group

    def _change(self, group: Sequence[_Job]) -> Change:
        first = group[0].change
        if isinstance(first, Deletion):
            return Deleting(first.expected_revision)
        if isinstance(first, Rewrite):
            return Rewriting(first, compress=self._compress)
        batches = [job.change for job in group if isinstance(job.change, Batch)]
        return Appending(batches, compress=self._compress)

    async def _clear(self, plan: Plan) -> None:
        """Remove what a deleted log leaves: its chunks, then the tombstone in its tip's place."""
        key = self._area.keys.tip(self._log)
        tombstone = self._area.memory.tip(key)
        await remove_chunks(self._area, self._log, plan.obsolete)
        self._area.memory.forget_tip(key)
        if plan.body is None or tombstone is None or tombstone.etag is None:
            return
        await self._area.remove_tombstone(self._log, tombstone.etag)
