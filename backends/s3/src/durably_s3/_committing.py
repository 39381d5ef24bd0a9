"""How one tip takes the place of another: once, and for certain.

Objects that a new tip names are written before it, and what nothing names any more is removed
after it. The conditional PUT of the tip is the moment of the change. Whoever loses reads the tip
again; one whose answer is lost looks for itself in it before anything is said. An answer that
needed no PUT, such as a conflict, holds only for a tip that was read since it was asked for.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from durably import DurablyError, StorageBusy, Unavailable
from durably.logstore import Applied, LogId
from durably_s3._area import Area, Seen, Vanished
from durably_s3._bucket import Lost, Unsure
from durably_s3._changing import Answer, Change, Plan
from durably_s3._patience import Patience
from durably_s3._reading import Retold

__all__ = ["Commit", "remove_chunks"]


class Commit:
    """One change on its way."""

    def __init__(self, area: Area, log: LogId, change: Change, patience: Patience) -> None:
        self._area = area
        self._log = log
        self._change = change
        self._patience = patience
        self._key = area.keys.tip(log)
        self._attempted: Sequence[Answer] = ()
        self._is_sure = True
        self._over: DurablyError | None = None
        self._doubt: DurablyError | None = None

    async def run(self) -> tuple[Sequence[Answer], Plan]:
        """Return the answers, and what was written.

        Raises:
            StorageBusy: others were always quicker; nothing was written.
            Unavailable: it is not known whether it was written.
        """
        retold = Retold(self._log)
        seen = self._area.memory.tip(self._key) if self._change.may_be_late else None
        is_fresh = seen is None
        if seen is None:
            seen = await self._look()
        while True:
            try:
                plan = await self._change.plan(self._area, self._log, seen, self._patience)
            except Vanished as vanished:
                if is_fresh:
                    await retold.wait(seen, vanished, self._patience)
                seen, is_fresh = await self._look(), True
                continue
            if plan.body is None and is_fresh:
                return self._answers(plan), plan
            if plan.body is not None and self._over is not None:
                raise self._over
            if plan.body is None:
                now: Seen | None = await self._look()
            else:
                now = await self._publish(plan, plan.body, seen)
            if now is None:
                return self._answers(plan), plan
            if plan.body is not None and not self._is_sure:
                self._attempted = self._answers(plan)
            seen, is_fresh = now, True

    async def _look(self) -> Seen:
        return await self._change.look(self._area, self._log, self._patience)

    def _answers(self, plan: Plan) -> Sequence[Answer]:
        """Return the answers; what an attempt did whose answer was lost is no repetition."""
        if len(self._attempted) != len(plan.answers):
            return plan.answers
        return [
            earlier if _is_same(answer, earlier) else answer
            for answer, earlier in zip(plan.answers, self._attempted, strict=True)
        ]

    async def _publish(self, plan: Plan, body: bytes, seen: Seen) -> Seen | None:
        """Write a plan, None if that is done; else return the tip that came in between."""
        await self._write_chunks(plan)
        self._is_sure = True
        while True:
            etag, error = await self._put(body, seen)
            if etag is None:
                now = await self._look_after(error)
                if now.data != body and now.etag != seen.etag:
                    await self._withdraw(plan, seen, now)
                    await self._rest(error)
                    return now
                etag = now.etag if now.data == body else None
            if etag is not None:
                found = Seen(tip=plan.tip, etag=etag, data=body)
                self._area.memory.keep_tip(self._key, found)
                return None
            await self._patience.rest(error)

    async def _look_after(self, error: DurablyError) -> Seen:
        """Look what is there after an attempt.

        Raises:
            Unavailable: it cannot be seen, and if the attempt is in doubt its ``error`` says so.
        """
        try:
            return await self._look()
        except Unavailable as unseen:
            if self._change.is_in_doubt:
                raise error from unseen
            raise

    async def _rest(self, error: DurablyError) -> None:
        """Wait a moment; where the time is over that is told only after a look at what is there.

        Library and server may have stored in secret what was answered by a lost condition.
        """
        try:
            await self._patience.rest(error)
        except DurablyError as over:
            self._over = over

    async def _write_chunks(self, plan: Plan) -> None:
        async def write(name: str, data: bytes) -> None:
            key = self._area.keys.chunk(self._log, name)
            await self._patience.insist(lambda: self._area.bucket.put(key, data, sealed=True))

        await asyncio.gather(*(write(name, data) for name, data in plan.chunks.items()))

    async def _put(self, body: bytes, seen: Seen) -> tuple[str | None, DurablyError]:
        """Return the ETag of what was put in the tip's place, or None and what to say at last."""
        busy = self._doubt or StorageBusy(
            f"others change {self._log} all the time; nothing was written"
        )
        absent = seen.etag is None
        try:
            put = self._area.bucket.put(self._key, body, match=seen.etag, absent=absent)
            return await put, busy
        except Lost as lost:
            self._is_sure = self._is_sure and lost.is_sure
            self._change.is_in_doubt |= not lost.is_sure
            return None, busy
        except Unsure as unsure:
            self._is_sure = False
            self._change.is_in_doubt = True
            self._doubt = unsure.error
            return None, unsure.error

    async def _withdraw(self, plan: Plan, seen: Seen, now: Seen) -> None:
        """Remove the chunks of a plan that came to nothing, where that is certain.

        A PUT whose answer was lost may still come true, and so may one that asks for an absent
        tip, once the log was deleted: what those name is left to the collection of garbage.
        """
        if not self._is_sure or seen.etag is None:
            return
        named = {chunk.name for chunk in now.tip.chunks} if now.tip else set[str]()
        names = [name for name in plan.chunks if name not in named]
        await remove_chunks(self._area, self._log, names)


async def remove_chunks(area: Area, log: LogId, names: Sequence[str]) -> None:
    """Remove chunks that nothing names, as far as that can be done now."""
    keys = [area.keys.chunk(log, name) for name in names]
    for key in keys:
        area.memory.forget_contents(key)
    if keys:
        with contextlib.suppress(DurablyError, Unsure):  # the collection of garbage will do it
            await area.bucket.delete_all(keys)


def _is_same(answer: Answer, earlier: Answer) -> bool:
    """Whether a repetition was answered as an attempt was to be."""
    return (
        isinstance(answer, Applied)
        and isinstance(earlier, Applied)
        and answer.duplicate
        and (answer.revision, answer.seq) == (earlier.revision, earlier.seq)
    )
