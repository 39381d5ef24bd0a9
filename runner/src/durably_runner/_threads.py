"""Snapshots of a thread, saved as a run goes on."""

import msgspec

from durably import JsonObject, MigrationError, Migrators, RunHead, StateSnapshot
from durably_runner._opening import open_calls
from durably_runner._order import Order
from durably_runner._progress import Progress
from durably_runner.events import ThreadSaved

__all__ = [
    "ensure_saved",
    "migrated",
    "progress_of",
    "save_before_acting",
    "save_turn_end",
    "save_turn_start",
    "state_of",
]

OURS = "durably_runner"
"""Under this name ``extra`` holds what a snapshot has no field for."""


def state_of(progress: Progress, *, version: int, status: str, extra: JsonObject) -> StateSnapshot:
    """Return a run and what was before it as a snapshot."""
    head = progress.head
    ours = {
        "run_id": progress.run_id,
        "earlier": len(progress.earlier),
        "agent_name": head.agent_name,
        "context_state": head.context_state,
    }
    return StateSnapshot(
        version=version,
        status=status,
        messages=progress.transcript,
        turn=head.turns,
        usage=progress.usage.as_json(),
        interrupt=head.interrupt,
        pending_handoff=head.pending_handoff,
        extra={**extra, OURS: ours},
    )


def _head_of(state: StateSnapshot, agent_name: str) -> RunHead:
    return RunHead(
        agent_name=agent_name,
        usage=state.usage,
        turns=state.turn,
        interrupt=state.interrupt,
        context_state=state.extra.get(OURS, {}).get("context_state"),
        pending_handoff=state.pending_handoff,
    )


def progress_of(state: StateSnapshot, agent_name: str, run_id: str) -> Progress:
    """Return a snapshot as a run that can go on; the names are for one that has none.

    What came before the run stays apart from it: no call in it is open, no decision in it counts.
    """
    ours = state.extra.get(OURS, {})
    before = ours.get("earlier", 0)
    return Progress(
        ours.get("run_id", run_id),
        _head_of(state, ours.get("agent_name", agent_name)),
        state.messages[before:],
        earlier=state.messages[:before],
    )


def migrated(state: StateSnapshot, migrators: Migrators, place: str) -> StateSnapshot:
    """Return a snapshot at the version of the migrators.

    Raises:
        SchemaTooNew: it is of a later one.
        MigrationError: a step is missing, or failed.
    """
    fields = {**msgspec.to_builtins(state), "version": state.version}
    advanced = migrators.migrate(fields, place=place)
    try:
        return msgspec.convert(advanced, StateSnapshot)
    except msgspec.ValidationError as error:
        found, wanted = state.version, migrators.version
        reason = f"what the steps returned is no snapshot: {error}"
        raise MigrationError(place, found=found, wanted=wanted, reason=reason) from error


async def save_turn_start(order: Order, progress: Progress) -> None:
    """Save a snapshot before the model is asked, if the thread wants one or a message must be."""
    must_save = order.steering.is_unsaved
    if order.thread is not None and (must_save or order.thread.save_on_turn_start):
        await _save(order, progress, "running")


async def save_before_acting(order: Order, progress: Progress) -> None:
    """Save the calls that were approved before they run, where no checkpoint holds them.

    A restored conversation then executes these very calls, under their idempotency keys.
    """
    if order.thread is None or progress.claim is not None:
        return
    if any(call.decision is not None for call in open_calls(progress)):
        await _save(order, progress, "running")


async def save_turn_end(order: Order, progress: Progress, *, status: str | None = None) -> None:
    """Save a snapshot after a turn, if the thread wants one or the run waits for a person."""
    must_save = progress.waits_for is not None
    if order.thread is not None and (must_save or order.thread.save_on_turn_end):
        await _save(order, progress, progress.head.status if status is None else status)


async def ensure_saved(order: Order, progress: Progress) -> None:
    """Save a snapshot of a run that waits, unless the thread's last one says so already."""
    if order.thread is None:
        return
    latest = await order.thread.saver.latest(order.thread.thread_id)
    if latest is None or latest.snapshot.interrupt != progress.head.interrupt:
        await _save(order, progress, "interrupted")


async def _save(order: Order, progress: Progress, status: str) -> None:
    if order.thread is None:
        return
    state = state_of(progress, version=order.state_version, status=status, extra=order.extra)
    seq = await order.thread.saver.append(order.thread.thread_id, state)
    order.steering.is_unsaved = False
    order.emit(ThreadSaved(seq=seq, status=status))
