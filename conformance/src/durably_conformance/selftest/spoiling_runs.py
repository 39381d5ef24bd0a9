"""Checkpointers and claims that spoil one thing, for mutants of both."""

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from durably import (
    Checkpointer,
    Claim,
    DurablyError,
    Entry,
    RevisionConflict,
    RunHead,
    RunInfo,
    RunSnapshot,
)
from durably.logstore import LogId
from durably_conformance.selftest.delegating import CheckpointerMutation
from durably_conformance.selftest.mutating import CheckpointerWrap

__all__ = ["ClaimMutation", "SavingMutation", "claims", "conflict", "ghost", "peek"]


class SavingMutation(CheckpointerMutation):
    """Saves as ``save`` does; by itself that is the right thing. ``at`` is the revision."""

    async def save(
        self, run_id: str, entries: Sequence[Entry], head: RunHead, at: int | None
    ) -> int:
        """Append entries and set the head."""
        return await self.inner.append(run_id, entries, head, expected_revision=at)

    @override
    async def append(
        self,
        run_id: str,
        entries: Sequence[Entry],
        head: RunHead,
        *,
        expected_revision: int | None = None,
    ) -> int:
        return await self.save(run_id, entries, head, expected_revision)


class ClaimMutation(Claim):
    """Passes everything on to ``inner``, a claim of ``runs``."""

    def __init__(self, inner: Claim, runs: Checkpointer, shared: dict[str, Any]) -> None:
        self.inner = inner
        self.runs = runs
        self.shared = shared

    @property
    @override
    def run_id(self) -> str:
        return self.inner.run_id

    @property
    @override
    def snapshot(self) -> RunSnapshot | None:
        return self.inner.snapshot

    @property
    @override
    def revision(self) -> int:
        return self.inner.revision

    @override
    async def append(self, entries: Sequence[Entry], head: RunHead) -> int:
        return await self.inner.append(entries, head)

    @override
    async def delete(self) -> bool:
        return await self.inner.delete()


def claims(kind: type[ClaimMutation]) -> CheckpointerWrap:
    """Return a wrapper that makes claims of a kind."""

    class Claims(CheckpointerMutation):
        @override
        async def claim(self, run_id: str) -> Claim:
            return kind(await self.inner.claim(run_id), self.inner, self.shared)

    return Claims


def ghost(run_id: str) -> RunInfo:
    """Return the row of a run that is not there."""
    return RunInfo(run_id=run_id, revision=1, head=RunHead(), entry_count=0)


async def peek(checkpointer: Checkpointer, run_id: str) -> RunSnapshot | None:
    """Return a run, None also where it cannot be read."""
    try:
        return await checkpointer.load(run_id)
    except DurablyError:
        return None


def conflict(run_id: str, expected_revision: int | None) -> RevisionConflict:
    """Return the error of a save that is taken for stale."""
    return RevisionConflict(LogId(kind="run", id=run_id), expected=expected_revision or 0, actual=0)
