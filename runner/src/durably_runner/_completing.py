"""How a run ends: its output, and the order in which it is stored.

First the checkpoint says that the run is completed, then the session gets it, then, where asked,
the checkpoint goes. After a crash between any two of them issuing the run again does the rest.
"""

import inspect
import time
import warnings
from collections.abc import Sequence
from typing import Any

import msgspec
import pydantic

from durably import (
    AssistantTextEntry,
    Entry,
    InputEntry,
    JsonValue,
    NotSerializable,
    RunHead,
    RunSnapshot,
    Segment,
    TextPart,
    ToolCallEntry,
    ToolResultEntry,
)
from durably.runs import segment_meta
from durably_runner._calls import to_json
from durably_runner._order import Order
from durably_runner._progress import Progress
from durably_runner._threads import save_turn_end
from durably_runner.agents import Agent, reachable
from durably_runner.errors import InvalidOutput
from durably_runner.events import RunCompleted
from durably_runner.results import RunResult
from durably_runner.usage import Usage

__all__ = ["complete", "is_answered", "replay", "snapshot_of", "waiting"]

_ASKING = InputEntry | ToolResultEntry


def last_answer(entries: Sequence[Entry]) -> list[Entry]:
    """Return what the model said after the last thing it was told."""
    asked = [place for place, entry in enumerate(entries) if isinstance(entry, _ASKING)]
    return list(entries[asked[-1] + 1 :] if asked else entries)


def is_answered(entries: Sequence[Entry]) -> bool:
    """Whether the model's last word needs no other: it said something, and called no tool."""
    answer = last_answer(entries)
    said = [entry for entry in answer if isinstance(entry, AssistantTextEntry)]
    return bool(said) and not any(isinstance(entry, ToolCallEntry) for entry in answer)


def _text(entries: Sequence[Entry]) -> str:
    said = [one.content for one in last_answer(entries) if isinstance(one, AssistantTextEntry)]
    return "".join(
        content
        if isinstance(content, str)
        else "".join(part.text for part in content if isinstance(part, TextPart))
        for content in said
    )


async def complete(
    order: Order, progress: Progress, agent: Agent, finish_reason: str | None
) -> RunResult:
    """Make the run's output, store the run as completed, and then in its session.

    Raises:
        InvalidOutput: the answer is not of the agent's ``output_type``.
    """
    output = await _output(order, progress, agent)
    stored, missing = _storable(agent, output)
    await save_turn_end(order, progress, status="finished")
    progress.is_ending = True
    await progress.save([], status="completed", output=stored, error=missing)
    await _keep(order, progress.snapshot(), finished_at=time.time())
    if progress.claim is not None and _deletes(order):
        await progress.claim.delete()
    result = _result(order, progress.snapshot(), finish_reason=finish_reason, value=output)
    return _announced(order, result)


async def _output(order: Order, progress: Progress, agent: Agent) -> Any:  # noqa: ANN401 - any type
    output: Any = _text(progress.entries)
    adapter = agent.output
    if adapter is not None:
        try:
            output = adapter.validate_json(output)
        except pydantic.ValidationError as error:
            faults = "; ".join(one["msg"] for one in error.errors(include_url=False))
            raise InvalidOutput(order.run_id, agent.name, faults) from error
    if agent.output_validator is not None:
        output = agent.output_validator(output)
        output = await output if inspect.isawaitable(output) else output
    return output


def _storable(agent: Agent, output: object) -> tuple[JsonValue, str | None]:
    """Return an output as JSON, or None and why that cannot be."""
    adapter = agent.output
    try:
        return to_json(output if adapter is None else _dumped(adapter, output)), None
    except NotSerializable as error:
        return None, f"the output is no JSON: {error.reason}"


def _dumped(adapter: "pydantic.TypeAdapter[Any]", output: object) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a validator may have returned another type
        return adapter.dump_python(output, mode="python")


async def _keep(order: Order, run: RunSnapshot, *, finished_at: float) -> None:
    """Append the run to its session; what the session has already stays as it is."""
    if order.session is None or order.session_id is None:
        return
    meta = segment_meta(run.head, finished_at=finished_at)
    if _deletes(order):
        head = run.head.replace(context_state=None)
        meta["run"] = msgspec.to_builtins(head)
    await order.session.append(order.session_id, run.entries, run_id=run.run_id, meta=meta)


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
    value = run.head.output if run.head.error is None else None
    result = _result(order, run, value=_revived(order, run, value), is_replay=True)
    return _announced(order, result)


def _revived(order: Order, run: RunSnapshot, stored: JsonValue) -> Any:  # noqa: ANN401 - any type
    """Return a stored output as what the agent makes of it; finished work outlives its agent."""
    agent = reachable(order.agent).get(run.head.agent_name)
    if agent is None:
        message = f"run {run.run_id!a} was completed by agent {run.head.agent_name!a}, gone since"
        warnings.warn(message, stacklevel=2)
        return stored
    adapter = agent.output
    if adapter is None or run.head.error is not None:
        return stored
    try:
        return adapter.validate_python(stored)
    except pydantic.ValidationError:
        message = f"the output of run {run.run_id!a} is not of the agent's output_type any more"
        warnings.warn(message, stacklevel=2)
        return stored


def waiting(order: Order, run: RunSnapshot) -> RunResult:
    """Return a run that waits for a person."""
    return _result(order, run)


def _result(
    order: Order,
    run: RunSnapshot,
    *,
    finish_reason: str | None = None,
    value: Any = None,  # noqa: ANN401 - the output
    is_replay: bool = False,
) -> RunResult:
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
        missing=run.head.error if is_completed and is_replay else None,
    )


def _announced(order: Order, result: RunResult) -> RunResult:
    """Let the caller's usage and listeners know of a completed run."""
    if order.parent_usage is not None:
        order.parent_usage.add(result.usage)
    order.emit(RunCompleted(result=result))
    return result


def snapshot_of(segment: Segment) -> RunSnapshot:
    """Return a run that only its session holds any more, as completed.

    What the runner did not put there, such as an abandoned run that was recorded as finished,
    has its last text as its output.
    """
    stored = (segment.meta or {}).get("run")
    if isinstance(stored, dict):
        head = msgspec.convert(stored, RunHead)
    else:
        head = RunHead(status="completed", output=_text(segment.entries))
    return RunSnapshot(run_id=segment.run_id, revision=0, head=head, entries=segment.entries)
