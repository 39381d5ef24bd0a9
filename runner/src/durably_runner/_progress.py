"""A run under way: its head and its own entries, saved through a claim as they come."""

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from durably import (
    Claim,
    Entry,
    RevisionConflict,
    RunHead,
    RunSnapshot,
    Unavailable,
    pending_tool_calls,
)
from durably.codec import Codec
from durably.entries import ToolCallEntry
from durably_runner._words import words_of
from durably_runner.errors import LimitExceeded
from durably_runner.usage import Usage

__all__ = ["Progress", "save_failure"]

logger = logging.getLogger("durably_runner")

_entry: Codec[Entry] = Codec(Entry)

LONGEST_ERROR = 2_000
"""Characters of an exception's text that are stored with a run."""

_RESUMABLE = (LimitExceeded, TimeoutError, ConnectionError)
"""What leaves a run ``interrupted``; any other exception leaves it ``failed``."""


class Progress:
    """What is known of a run, and was acknowledged by the store where there is one.

    Without a claim nothing is stored. Saves come one after another, also those of tools that run
    at once. ``waits_for`` and ``hands_over_to`` are what the head's interrupt and pending_handoff
    are, or become with a save on its way. ``has_begun`` says that a save was made, or may have
    been, and ``is_ending`` that one completes the run. ``earlier`` is the transcript before the
    run; ``turns_before`` of its turns count in no limit.
    """

    def __init__(
        self,
        run_id: str,
        head: RunHead,
        entries: Sequence[Entry],
        *,
        earlier: Sequence[Entry] = (),
        claim: Claim | None = None,
    ) -> None:
        self.run_id = run_id
        self.head = head
        self.entries = list(entries)
        self.earlier = list(earlier)
        self.usage = Usage.from_json(head.usage)
        self.claim = claim
        self.turns_before = 0
        self.waits_for = head.interrupt
        self.hands_over_to = head.pending_handoff
        self.has_begun = False
        self.is_ending = False
        self._saving = asyncio.Lock()
        self._failure: BaseException | None = None

    async def save(self, entries: Sequence[Entry], **changes: Any) -> None:  # noqa: ANN401 - the head's fields
        """Append entries and change fields of the head, together.

        After a save whose outcome is not known no other is begun.

        Raises:
            RevisionConflict: another worker took the run over.
            NotSerializable: an entry or the head holds what JSON cannot give back exactly.
        """
        async with self._saving:
            if self._failure is not None:
                raise self._failure
            await self._save(entries, changes)

    async def end(self, status: str, error: str) -> None:
        """Save how the run ended, after a save whose outcome is not known, too."""
        async with self._saving:
            await self._save([], {"status": status, "error": error})

    async def _save(self, entries: Sequence[Entry], changes: Mapping[str, Any]) -> None:
        head = self.head.replace(usage=self.usage.as_json(), **changes)
        try:
            if self.claim is not None:
                await self.claim.append(entries, head)
            else:
                for index, entry in enumerate(entries):
                    _entry.encode(entry, f"entries[{index}]")
        except (Unavailable, asyncio.CancelledError) as failure:
            # It may be stored; the claim makes sure that it is before it stores anything else.
            self._failure = failure
            self._adopt(head, entries)
            raise
        self._adopt(head, entries)

    def _adopt(self, head: RunHead, entries: Sequence[Entry]) -> None:
        self.has_begun = True
        self.head = head
        self.entries += entries

    @property
    def transcript(self) -> list[Entry]:
        """What the model is to see: what was before the run, and the run."""
        return [*self.earlier, *self.entries]

    @property
    def pending(self) -> list[ToolCallEntry]:
        """The calls that have no result yet."""
        return pending_tool_calls(self.entries)

    def snapshot(self) -> RunSnapshot:
        """Return the run as it was saved last."""
        revision = 0 if self.claim is None else self.claim.revision
        return RunSnapshot(
            run_id=self.run_id, revision=revision, head=self.head, entries=self.entries
        )


async def save_failure(progress: Progress, error: BaseException) -> None:
    """Save how a run ended that an exception ended, whatever cancels this meanwhile.

    A failure to do so is logged: the first error is what the caller must see. A run that another
    worker took over is left alone, and so is one that was never begun, or whose completion may have
    been stored.
    """
    is_ours = progress.has_begun and not isinstance(error, RevisionConflict)
    if progress.is_ending or not is_ours:
        return
    is_resumable = isinstance(error, _RESUMABLE) or not isinstance(error, Exception)
    status = "interrupted" if is_resumable else "failed"
    await _shielded(_save_status(progress, status, words_of(error)))


async def _save_status(progress: Progress, status: str, error: str) -> None:
    try:
        await progress.end(status, error[:LONGEST_ERROR])
    except Exception:
        logger.exception("run %a could not be saved as %s", progress.run_id, status)


async def _shielded(work: Coroutine[Any, Any, None]) -> None:
    """Await some work to its end, also if cancelled; the caller has an error to raise anyway."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            continue
