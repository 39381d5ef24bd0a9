"""How a run ends: its output, and the order in which it is stored.

First the checkpoint says that the run is completed, then the session gets it, then, where asked,
the checkpoint goes. After a crash between any two of them issuing the run again does the rest.
"""

import time
from typing import Any, cast

import msgspec

from durably import (
    JsonObject,
    RecordTooLarge,
    RunHead,
    RunSnapshot,
    Segment,
)
from durably.runs import segment_meta
from durably_runner._graph import reachable
from durably_runner._order import Order
from durably_runner._outputs import make_output, revived, storable, text_of
from durably_runner._progress import Progress
from durably_runner._threads import save_turn_end
from durably_runner.agents import Agent
from durably_runner.events import RunCompleted
from durably_runner.results import RunResult
from durably_runner.usage import Usage

__all__ = ["complete", "replay", "result_of", "snapshot_of"]


async def complete(
    order: Order, progress: Progress, agent: Agent, finish_reason: str | None
) -> RunResult:
    """Make the run's output, store the run as completed, and then in its session.

    Raises:
        InvalidOutput: the answer is not of the agent's ``output_type``.
    """
    output = await make_output(agent, progress.entries, order.run_id)
    await save_turn_end(order, progress, status="finished")
    await _store_completed(progress, agent, output)
    await _keep(order, progress.snapshot(), finished_at=time.time())
    if progress.claim is not None and _deletes(order):
        await progress.claim.delete()
    result = result_of(order, progress.snapshot(), finish_reason=finish_reason, value=output)
    return _announced(order, result)


async def _store_completed(progress: Progress, agent: Agent, output: object) -> None:
    stored, missing = storable(agent, output)
    progress.is_ending = True
    try:
        await progress.save([], status="completed", output=stored, error=missing)
    except RecordTooLarge as error:
        missing = f"with it the head has {error.size} bytes, and {error.limit} is the most"
        await progress.save([], status="completed", output=None, error=missing)


async def _keep(order: Order, run: RunSnapshot, *, finished_at: float) -> None:
    """Append the run to its session; what the session has already stays as it is."""
    if order.session is None or order.session_id is None:
        return
    meta = segment_meta(run.head, finished_at=finished_at)
    if order.checkpoint is not None:
        meta["run"] = _head_in_meta(run)
    await order.session.append(order.session_id, run.entries, run_id=run.run_id, meta=meta)


def _head_in_meta(run: RunSnapshot) -> JsonObject:
    """Return what a replay needs of the head, should the checkpoint go; see ``snapshot_of``."""
    fields: JsonObject = msgspec.to_builtins(run.head.replace(context_state=None, output=None))
    if run.head.output != text_of(run.entries):
        fields["output"] = run.head.output
    return fields


def _deletes(order: Order) -> bool:
    return order.checkpoint is not None and order.checkpoint.delete_on_success


async def replay(order: Order, run: RunSnapshot, *, is_held: bool) -> RunResult:
    """Return what a completed run returned: no model, no tool, no validator is called.

    What a crash left undone of its completion is done.
    """
    if is_held:
        finished_at = run.head.updated_at
        await _keep(order, run, finished_at=time.time() if finished_at is None else finished_at)
        options = order.checkpoint
        if _deletes(order) and options is not None and options.checkpointer is not None:
            await options.checkpointer.delete(run.run_id, expected_revision=run.revision)
    agent = reachable(order.agent).get(run.head.agent_name)
    value, missing = revived(agent, run)
    return _announced(order, result_of(order, run, value=value, missing=missing, is_replay=True))


def result_of(
    order: Order,
    run: RunSnapshot,
    *,
    finish_reason: str | None = None,
    value: Any = None,  # noqa: ANN401 - the output
    missing: str | None = None,
    is_replay: bool = False,
) -> RunResult:
    """Return what the caller gets of a run that is completed, or waits for a person."""
    is_completed = run.head.status == "completed"
    return RunResult(
        run_id=run.run_id,
        session_id=order.session_id,
        status="completed" if is_completed else "interrupted",
        agent_name=run.head.agent_name,
        entries=run.entries,
        usage=Usage.from_json(run.head.usage),
        turns=run.head.turns,
        finish_reason=finish_reason,
        interrupt=run.head.interrupt,
        is_replay=is_replay,
        value=value,
        missing=missing,
    )


def _announced(order: Order, result: RunResult) -> RunResult:
    """Let the caller's usage and listeners know of a completed run."""
    if order.parent_usage is not None:
        order.parent_usage.add(result.usage)
    order.emit(RunCompleted(result=result))
    return result


def snapshot_of(segment: Segment) -> RunSnapshot:
    """Return a run that only its session holds any more, as completed.

    Without another output it has its last text; and so has what the runner did not put there, such
    as an abandoned run that was recorded as finished.
    """
    stored = (segment.meta or {}).get("run")
    fields = cast("JsonObject", stored) if isinstance(stored, dict) else {}
    output = fields.get("output", text_of(segment.entries))
    head = msgspec.convert({**fields, "status": "completed", "output": output}, RunHead)
    return RunSnapshot(run_id=segment.run_id, revision=0, head=head, entries=segment.entries)
