"""Log stores that alter one thing on its way in or out: a batch, a log that was read, a number."""

from collections.abc import Callable
from typing import Any

import msgspec
from typing_extensions import override

from durably import Page, RevisionConflict
from durably.logstore import ALL, Applied, Batch, Log, LogId, LogInfo, LogState, Range, Rewrite
from durably_conformance.selftest.sparing import ScopedMutation

__all__ = [
    "AlteredBatch",
    "AlteredLog",
    "AlteredRange",
    "AlteredState",
    "Renumbered",
    "Retokened",
    "altered",
]

NO_REVISION = 2**53 - 1
"""A token that fits no log."""

altered = msgspec.structs.replace


class AlteredBatch(ScopedMutation):
    """Appends another batch than it was given: what ``alter`` makes of it."""

    async def alter(self, log: LogId, batch: Batch) -> Batch:  # noqa: ARG002 - for others
        """Return the batch to append."""
        return batch

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        return await self.inner.append(log, await self.alter(log, batch))


class AlteredLog(ScopedMutation):
    """Gives a log that was read otherwise than it is: as ``alter`` makes it."""

    def alter(self, found: Log, span: Range) -> Log:  # noqa: ARG002 - for others
        """Return what a read gives."""
        return found

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        found = await self.inner.read(log, span)
        return None if found is None else self.alter(found, span)


class AlteredRange(ScopedMutation):
    """Reads another range than it was asked for."""

    def alter(self, span: Range) -> Range:
        """Return the range to read."""
        return span

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        return await self.inner.read(log, self.alter(span))


class AlteredState(ScopedMutation):
    """Gives another state than a log has, wherever it is read: what ``alter`` makes of it."""

    def alter(self, log: LogId, state: LogState) -> LogState:  # noqa: ARG002 - for others
        """Return the state that a reader sees."""
        return state

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        found = await self.inner.read(log, span)
        return None if found is None else altered(found, state=self.alter(log, found.state))

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
        rows = [
            altered(row, state=row.state and self.alter(LogId(kind=kind, id=row.id), row.state))
            for row in page.items
        ]
        return altered(page, items=tuple(rows))


class Renumbered(AlteredState):
    """Gives records other seqs than they have, as ``number`` says, and translates them back."""

    def number(self, log: LogId, present: list[int], last: int) -> int:  # noqa: ARG002 - for others
        """Return the seq of one more record, after those present and the last ever given."""
        return last + 1

    def seqs(self, log: LogId) -> dict[int, int]:
        """Return the seq that each record of a log was given, by the one it has."""
        books: dict[LogId, dict[int, int]] = self.shared.setdefault("seqs", {})
        return books.setdefault(log, {})

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        book, before = self.seqs(log), await self.inner.read(log, Range(with_data=False))
        if before is None:
            book.clear()
        present = [book[record.seq] for record in before.records] if before else []
        answer = await self.inner.append(log, batch)
        after = await self.inner.read(log, Range(with_data=False))
        for record in after.records if after else ():
            if record.seq not in book:
                last = max(book.values(), default=0)
                book[record.seq] = self.number(log, present, last)
                present.append(book[record.seq])
        return altered(answer, seq=book.get(answer.seq, 0))

    @override
    def alter(self, log: LogId, state: LogState) -> LogState:
        return altered(state, next_seq=max(self.seqs(log).values(), default=0) + 1)

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        book = self.seqs(log)
        until = None if span.until is None else _bound(book, span.until)
        found = await super().read(log, altered(span, after=_bound(book, span.after), until=until))
        if found is None:
            return None
        records = tuple(altered(record, seq=book[record.seq]) for record in found.records)
        return altered(found, records=records)

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        book = self.seqs(log)
        inner = {given: seq for seq, given in book.items()}
        own = altered(
            change,
            drop_after=None if change.drop_after is None else _bound(book, change.drop_after),
            drop=frozenset(inner[seq] for seq in change.drop if seq in inner),
            replace={inner[seq]: new for seq, new in change.replace.items() if seq in inner},
        )
        return await self.inner.rewrite(log, own)


def _bound(book: dict[int, int], bound: int) -> int:
    return max((seq for seq, given in book.items() if given <= bound), default=0)


class Retokened(AlteredState):
    """Gives logs other revisions than they have, as ``token`` says, and translates them back."""

    def token(self, previous: int, change: Batch | Rewrite, revision: int) -> int:  # noqa: ARG002 - for others
        """Return the revision after a change; ``previous`` is 0 for a new log."""
        return revision

    def tokens(self, log: LogId) -> dict[int, int]:
        """Return the revision that each change of a log's life was given, by the one it has."""
        books: dict[LogId, dict[int, int]] = self.shared.setdefault("tokens", {})
        return books.setdefault(log, {0: 0})

    def _meant(self, log: LogId, token: int | None) -> int | None:
        if token is None:
            return None
        return max((r for r, t in self.tokens(log).items() if t == token), default=NO_REVISION)

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        before = await self.inner.read(log, Range(limit=0))
        if before is None:
            self.tokens(log).clear()
            self.tokens(log)[0] = 0
        own = altered(batch, expected_revision=self._meant(log, batch.expected_revision))
        return await self._change(log, batch, lambda: self.inner.append(log, own))

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        meant = self._meant(log, change.expected_revision)
        own = altered(change, expected_revision=meant or NO_REVISION)
        return await self._change(log, change, lambda: self.inner.rewrite(log, own))

    async def _change(
        self, log: LogId, change: Batch | Rewrite, make: Callable[[], Any]
    ) -> Applied:
        book = self.tokens(log)
        try:
            answer: Applied = await make()
        except RevisionConflict as error:
            expected = change.expected_revision or 0
            raise RevisionConflict(log, expected=expected, actual=book[error.actual]) from error
        if not answer.duplicate:
            book[answer.revision] = self.token(book[max(book)], change, answer.revision)
        return altered(answer, revision=book[answer.revision])

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        try:
            return await self.inner.delete(
                log, expected_revision=self._meant(log, expected_revision)
            )
        except RevisionConflict as error:
            actual = self.tokens(log)[error.actual]
            expected = expected_revision or 0
            raise RevisionConflict(log, expected=expected, actual=actual) from error

    @override
    def alter(self, log: LogId, state: LogState) -> LogState:
        book = self.tokens(log)
        return altered(state, revision=book[state.revision], epoch=book[state.epoch])

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        found = await super().read(log, span)
        if found is None:
            return None
        book = self.tokens(log)
        records = tuple(altered(one, revision=book[one.revision]) for one in found.records)
        return altered(found, records=records)
