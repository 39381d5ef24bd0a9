"""Odd log stores that break no rule: everything above them, and every check, has to bear them."""

import asyncio
import random

from typing_extensions import override

from durably import Page
from durably.logstore import ALL, Applied, Batch, Log, LogId, LogInfo, Range, Rewrite
from durably_conformance.selftest.altering import Renumbered
from durably_conformance.selftest.delegating import StoreMutation
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.sparing import PerNamespace
from durably_conformance.selftest.table import Variant


class Gaps(Renumbered):
    """Begins at 4,096 and leaves gaps of any size between seqs."""

    @override
    def number(self, log: LogId, present: list[int], last: int) -> int:
        dice: random.Random = self.shared.setdefault("dice", random.Random(7))  # noqa: S311
        return max(last, 4095) + dice.choice((1, 1, 7, 300))


class Slow(StoreMutation):
    """Lets everybody else go first, before and after each operation."""

    async def _rest(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        await self._rest()
        answer = await self.inner.append(log, batch)
        await self._rest()
        return answer

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        await self._rest()
        found = await self.inner.read(log, span)
        await self._rest()
        return found

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        await self._rest()
        answer = await self.inner.rewrite(log, change)
        await self._rest()
        return answer

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        await self._rest()
        done = await self.inner.delete(log, expected_revision=expected_revision)
        await self._rest()
        return done


class ShortPages(StoreMutation):
    """Lists fewer logs than the limit, and says that there are more."""

    @override
    async def list(
        self,
        kind: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int = 100,
        with_state: bool = False,
    ) -> Page[LogInfo]:
        return await self.inner.list(
            kind, prefix=prefix, after=after, limit=min(limit, 2), with_state=with_state
        )


class EmptyPages(StoreMutation):
    """Ends every walk with a page that is empty, and begins some with one."""

    @override
    async def list(
        self,
        kind: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int = 100,
        with_state: bool = False,
    ) -> Page[LogInfo]:
        page = await self.inner.list(
            kind, prefix=prefix, after=after, limit=limit, with_state=with_state
        )
        if not page.items:
            return page
        first = page.items[0].id
        if len(first) > 1 and after < first[:-1] and prefix <= first[:-1]:
            return Page(items=(), next=first[:-1])
        return Page(items=page.items, next=page.items[-1].id)


VARIANTS = (
    Variant(
        name="gaps between seqs",
        says="Seqs begin anywhere and have gaps of any size.",
        harness=lambda: MemoryMutant(store=Gaps, place=PerNamespace),
    ),
    Variant(
        name="slow",
        says="Every operation takes some turns of the event loop.",
        harness=lambda: MemoryMutant(store=Slow),
    ),
    Variant(
        name="short pages",
        says="A page has fewer rows than its limit, and a next.",
        harness=lambda: MemoryMutant(store=ShortPages),
    ),
    Variant(
        name="empty pages",
        says="A page is empty and has a next, at the beginning or the end of a walk.",
        harness=lambda: MemoryMutant(store=EmptyPages),
    ),
)
