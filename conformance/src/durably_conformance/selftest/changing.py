"""Contracts that change what passes through them: values, entries, heads and snapshots."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
from typing_extensions import override

from durably import Entry, InputEntry, JsonObject, RunHead, StateSnapshot
from durably_conformance.selftest.delegating import (
    CheckpointerMutation,
    SaverMutation,
    SessionMutation,
)

__all__ = ["ChangingRuns", "ChangingSessions", "ChangingThreads", "changed", "spoken"]


class ChangingSessions(SessionMutation):
    """Appends what ``entries`` and ``meta`` make of it; by themselves they change nothing."""

    @override
    async def append(
        self,
        session_id: str,
        entries: Sequence[Entry],
        *,
        run_id: str | None = None,
        meta: JsonObject | None = None,
    ) -> str:
        usual = isinstance(entries, list | tuple)
        changed = self.entries(entries) if usual else self.odd(entries)
        return await self.inner.append(session_id, changed, run_id=run_id, meta=self.meta(meta))

    def entries(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return what is appended instead of some entries."""
        return entries

    def odd(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Return what is appended instead of what is neither a list nor a tuple."""
        return entries

    def meta(self, meta: JsonObject | None) -> JsonObject | None:
        """Return what is appended instead of a meta."""
        return meta


class ChangingRuns(CheckpointerMutation):
    """Saves the head that ``head`` makes of one; by itself it changes nothing."""

    @override
    async def append(
        self,
        run_id: str,
        entries: Sequence[Entry],
        head: RunHead,
        *,
        expected_revision: int | None = None,
    ) -> int:
        changed = self.head(head) if type(head) is RunHead else head
        return await self.inner.append(
            run_id, entries, changed, expected_revision=expected_revision
        )

    def head(self, head: RunHead) -> RunHead:
        """Return what is saved instead of a head."""
        return head


class ChangingThreads(SaverMutation):
    """Saves the snapshot that ``snapshot`` makes of one; by itself it changes nothing."""

    @override
    async def append(self, thread_id: str, snapshot: StateSnapshot) -> int:
        legal = type(snapshot) is StateSnapshot and isinstance(snapshot.messages, list | tuple)
        return await self.inner.append(thread_id, self.snapshot(snapshot) if legal else snapshot)

    def snapshot(self, snapshot: StateSnapshot) -> StateSnapshot:
        """Return what is saved instead of a snapshot."""
        return snapshot


def changed(fields: Any, change: Callable[[Any], object]) -> Any:  # noqa: ANN401 - JSON
    """Return an object with each value directly in it changed; anything else as it is."""
    if type(fields) is not dict:
        return fields
    return {key: change(value) for key, value in cast("JsonObject", fields).items()}


def spoken(entry: Entry, change: Callable[[str], str]) -> Entry:
    """Return an entry with its text changed, if it is an input of nothing else."""
    if type(entry) is InputEntry and type(entry.content) is str:
        return msgspec.structs.replace(entry, content=change(entry.content))
    return entry
