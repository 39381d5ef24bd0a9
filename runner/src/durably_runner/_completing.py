"""How a run ends: its output, and the order in which it is stored.

First the checkpoint says that the run is completed, then the session gets it, then, where asked,
the checkpoint goes. After a crash between any two of them issuing the run again does the rest.
"""

import inspect
import time
import warnings
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pydantic

from durably import (
    AssistantTextEntry,
    Entry,
    InputEntry,
    JsonObject,
    JsonValue,
    NotSerializable,
    ReasoningEntry,
    RecordTooLarge,
    RunHead,
    RunSnapshot,
    Segment,
    TextPart,
    ToolCallEntry,
    ToolResultEntry,
)
from durably.codec import Codec
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

_json: Codec[Any] = Codec(Any)

_ASKING = InputEntry | ToolResultEntry


def last_answer(entries: Sequence[Entry]) -> list[Entry]:
    """Return what the model said after the last thing it was told."""
    asked = [place for place, entry in enumerate(entries) if isinstance(entry, _ASKING)]
    return list(entries[asked[-1] + 1 :] if asked else entries)


def is_answered(entries: Sequence[Entry]) -> bool:
    """Whether the model's last word needs no other: it said something, and called no tool."""
    answer = last_answer(entries)
    said = [one for one in answer if isinstance(one, AssistantTextEntry | ReasoningEntry)]
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
    await save_turn_end(order, progress, status="finished")
    await _store_completed(progress, agent, output)
    await _keep(order, progress.snapshot(), finished_at=time.time())
    if progress.claim is not None and _deletes(order):
        await progress.claim.delete()
    result = _result(order, progress.snapshot(), finish_reason=finish_reason, value=output)
    return _announced(order, result)


async def _store_completed(progress: Progress, agent: Agent, output: object) -> None:
    stored, missing = _storable(agent, output)
    progress.is_ending = True
    try:
        await progress.save([], status="completed", output=stored, error=missing)
    except RecordTooLarge as error:
        missing = f"with it the head has {error.size} bytes, and {error.limit} is the most"
        await progress.save([], status="completed", output=None, error=missing)


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
    """Return an output as JSON, or None and why that cannot be.

    What no ``output_type`` brings back must be JSON as it is.
    """
    adapter = agent.output
    try:
        if adapter is not None:
            return to_json(_dumped(adapter, output)), None
        _json.encode(output, "output")
    except NotSerializable as error:
        return None, f"the output is no JSON: {error.reason}"
    return output, None


def _dumped(adapter: "pydantic.TypeAdapter[Any]", output: object) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a validator may have returned another type
        return adapter.dump_python(output, by_alias=True, round_trip=True)


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
    if run.head.output != _text(run.entries):
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
    value, missing = _revived(order, run)
    return _announced(order, _result(order, run, value=value, missing=missing, is_replay=True))


def _revived(order: Order, run: RunSnapshot) -> tuple[Any, str | None]:
    """Return a stored output as what the agent makes of it, or why there is none.

    Finished work outlives its agent.
    """
    head = run.head
    agent = reachable(order.agent).get(head.agent_name)
    if agent is None and head.agent_name:
        message = f"run {run.run_id!a} was completed by agent {head.agent_name!a}, gone since"
        warnings.warn(message, stacklevel=2)
    if head.error is None:
        return _typed(agent, run), None
    if agent is not None and agent.output_type is None and agent.output_validator is None:
        return _text(run.entries), None
    return None, head.error


def _typed(agent: Agent | None, run: RunSnapshot) -> Any:  # noqa: ANN401 - any type
    stored = run.head.output
    adapter = None if agent is None else agent.output
    if adapter is None:
        return stored
    try:
        return adapter.validate_json(_json.encode(stored, "output"))
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
    missing: str | None = None,
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
    output = fields.get("output", _text(segment.entries))
    head = msgspec.convert({**fields, "status": "completed", "output": output}, RunHead)
    return RunSnapshot(run_id=segment.run_id, revision=0, head=head, entries=segment.entries)
