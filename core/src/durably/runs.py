"""What the contracts hand out: segments, heads, snapshots, and what they are made of."""

from collections.abc import Sequence
from typing import Any, Literal, Self, TypeAlias

import msgspec

from durably.entries import Entry, JsonObject, JsonValue

__all__ = [
    "RUN_STATUSES",
    "SNAPSHOT_STATUSES",
    "Checkpoint",
    "InterruptReason",
    "Rewound",
    "RunHead",
    "RunInfo",
    "RunSnapshot",
    "RunStatus",
    "Segment",
    "SnapshotStatus",
    "StateSnapshot",
    "segment_meta",
]

RunStatus: TypeAlias = Literal["running", "interrupted", "completed", "failed"]
SnapshotStatus: TypeAlias = Literal["idle", "running", "finished", "error", "interrupted"]

RUN_STATUSES: tuple[RunStatus, ...] = ("running", "interrupted", "completed", "failed")
SNAPSHOT_STATUSES: tuple[SnapshotStatus, ...] = (
    "idle",
    "running",
    "finished",
    "error",
    "interrupted",
)


class _Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    def replace(self, **changes: Any) -> Self:  # noqa: ANN401 - the fields' own types
        """Return a copy with some fields changed: ``head.replace(turns=head.turns + 1)``."""
        return msgspec.structs.replace(self, **changes)


class Segment(_Value, frozen=True, kw_only=True):
    """One run's entries in a session, whole, with the ``meta`` they were appended with."""

    run_id: str
    entries: list[Entry]
    meta: JsonObject | None = None


class Rewound(_Value, frozen=True, kw_only=True):
    """What a rewind removed: how many entries, which runs, and which run it cut short."""

    removed_entries: int = 0
    removed_run_ids: tuple[str, ...] = ()
    truncated_run_id: str | None = None


class InterruptReason(_Value, frozen=True, kw_only=True):
    """Why a run waits for a person, bound to the call it waits for.

    ``arguments_digest`` identifies the arguments the person saw, so that a decision cannot be
    carried over to another call.
    """

    call_id: str
    tool_name: str
    arguments_digest: str
    reason: str
    data: JsonValue = None


class RunHead(_Value, frozen=True, kw_only=True):
    """The small mutable side of a run: where it stands, without its entries.

    ``status`` is one of ``RUN_STATUSES``; a newer version may have stored another one. Times
    are epoch seconds. The store stamps ``updated_at`` on every save, and ``started_at``
    where the caller left it None.
    """

    agent_name: str = ""
    usage: JsonObject = {}
    turns: int = 0
    status: str = "running"
    output: JsonValue = None
    error: str | None = None
    interrupt: InterruptReason | None = None
    last_input_tokens: int | None = None
    context_state: JsonValue = None
    pending_handoff: str | None = None
    started_at: float | None = None
    updated_at: float | None = None


def segment_meta(head: RunHead, *, finished_at: float) -> JsonObject:
    """Return the ``meta`` of the segment that a run becomes in its session.

    ``timing`` is when the run began and ended, in epoch seconds; ``context_state`` is carried to
    the session's next run, where there is one.
    """
    meta: JsonObject = {"timing": {"started_at": head.started_at, "finished_at": finished_at}}
    if head.context_state is not None:
        meta["context_state"] = head.context_state
    return meta


class RunSnapshot(_Value, frozen=True, kw_only=True):
    """One run as it was at ``revision``: its head and all of its entries."""

    run_id: str
    revision: int
    head: RunHead
    entries: list[Entry]


class RunInfo(_Value, frozen=True, kw_only=True):
    """One row of a listing of runs: no entries, only how many there are."""

    run_id: str
    revision: int
    head: RunHead
    entry_count: int


class StateSnapshot(_Value, frozen=True, kw_only=True):
    """The whole state of a conversation at one moment; ``extra`` is the application's own.

    ``status`` is one of ``SNAPSHOT_STATUSES``; a newer version may have stored another one.
    """

    version: int = 1
    status: str = "idle"
    messages: Sequence[Entry] = []
    turn: int = 0
    usage: JsonObject = {}
    interrupt: InterruptReason | None = None
    pending_handoff: str | None = None
    extra: JsonObject = {}


class Checkpoint(_Value, frozen=True, kw_only=True):
    """One snapshot of a thread; ``stored_at`` is epoch seconds and says nothing about order."""

    thread_id: str
    seq: int
    stored_at: float
    snapshot: StateSnapshot
