"""Tool calls: executed together, each result saved as it lands."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import msgspec
import pydantic
import pydantic_core

from durably import Entry, NotSerializable, RecordTooLarge, ToolCallEntry, ToolResultEntry
from durably.codec import Codec
from durably_runner._order import Order
from durably_runner._progress import Progress
from durably_runner.agents import Agent, handoff_target
from durably_runner.events import ToolFinished, ToolStarted
from durably_runner.interrupts import Decision, Interrupt, decisions, reason_of
from durably_runner.tools import ToolContext

__all__ = ["answer_calls", "to_json"]

_json: Codec[Any] = Codec(Any)
_entry: Codec[Entry] = Codec(Entry)


class _Call(msgspec.Struct, frozen=True):
    """A call, how many of the same id came before it in the run, and what was decided of it."""

    entry: ToolCallEntry
    occurrence: int
    decision: Decision | None


async def answer_calls(order: Order, progress: Progress, agent: Agent) -> None:
    """Execute the calls that have no result; return when all have one.

    They run at once, but for those that share an id: these run in order, since their results are
    paired with them by occurrence. Once a tool has asked for a person, a call that has not begun
    gets a result that says it was not executed.
    """
    groups: dict[str, list[_Call]] = {}
    for call in _pending(progress):
        groups.setdefault(call.entry.call_id, []).append(call)
    await _together([_in_order(order, progress, agent, calls) for calls in groups.values()])


def _pending(progress: Progress) -> list[_Call]:
    calls = [entry for entry in progress.entries if isinstance(entry, ToolCallEntry)]
    totals: dict[str, int] = {}
    for entry in calls:
        totals[entry.call_id] = totals.get(entry.call_id, 0) + 1
    decided = decisions(progress.entries)
    pending: list[_Call] = []
    for entry in reversed(progress.pending):
        occurrence = totals[entry.call_id] = totals[entry.call_id] - 1
        pending.append(_Call(entry, occurrence, decided.get((entry.call_id, occurrence))))
    return pending[::-1]


async def _together(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Await all; the first to fail, or a cancellation, cancels the others and is raised."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _in_order(order: Order, progress: Progress, agent: Agent, calls: Sequence[_Call]) -> None:
    for call in calls:
        await _answer(order, progress, agent, call)


async def _answer(order: Order, progress: Progress, agent: Agent, call: _Call) -> None:
    """Execute one call and save its result."""
    entry = call.entry
    changes: dict[str, Any] = {}
    target = handoff_target(agent, entry.name)
    if progress.waits_for is not None:
        result = _told(entry, "Not executed: another call waits for a person.", is_error=True)
    elif target is None:
        order.emit(ToolStarted(call=entry))
        try:
            result = await _execute(order, progress, agent, call)
        except Interrupt as interrupt:
            result, changes = _interrupted(progress, entry, interrupt)
    elif progress.hands_over_to is not None:
        said = f"Not executed: the conversation goes to {progress.hands_over_to}."
        result = _told(entry, said, is_error=True)
    else:
        progress.hands_over_to = changes["pending_handoff"] = target.name
        result = _told(entry, f"Handed over to {target.name}.")
    await _save(progress, result, changes)
    order.emit(ToolFinished(call=entry, result=result))


def _interrupted(
    progress: Progress, entry: ToolCallEntry, interrupt: Interrupt
) -> tuple[ToolResultEntry, dict[str, Any]]:
    """Return what a call gets that asks for a person, and what the run's head then says.

    A run waits for one call: the first to ask.
    """
    if progress.waits_for is not None:
        said = "Not executed: it needs a person, and another call waits for one."
        return _told(entry, said, is_error=True), {}
    progress.waits_for = reason_of(entry, interrupt)
    said = f"Not executed: it waits for a person. {interrupt.reason}"
    return _told(entry, said), {"interrupt": progress.waits_for, "status": "interrupted"}


async def _save(progress: Progress, result: ToolResultEntry, changes: Mapping[str, Any]) -> None:
    try:
        await progress.save([result], **changes)
    except RecordTooLarge as error:
        said = f"The result has {error.size} bytes, and {error.limit} is the most that is stored."
        told = ToolResultEntry(call_id=result.call_id, output=said, is_error=True)
        await progress.save([told], **changes)


async def _execute(order: Order, progress: Progress, agent: Agent, call: _Call) -> ToolResultEntry:
    """Run the tool; whatever it raises becomes a result that tells the model."""
    entry = call.entry
    tool = next((tool for tool in agent.tools if tool.name == entry.name), None)
    if tool is None:
        return _told(entry, f"There is no tool named {entry.name!r}.", is_error=True)
    context = ToolContext(
        deps=order.deps,
        run_id=order.run_id,
        session_id=order.session_id,
        agent_name=agent.name,
        call=entry,
        occurrence=call.occurrence,
        turn=progress.head.turns,
        usage=progress.usage,
        decision=call.decision,
    )
    try:
        arguments = tool.read_arguments(entry.arguments)
    except pydantic.ValidationError as error:
        return _told(entry, f"Invalid arguments: {_faults(error)}", is_error=True)
    try:
        return _result(entry, await tool.run(context, arguments))
    except Interrupt:
        raise
    except ExceptionGroup as group:
        if (asked := _interrupt_in(group)) is not None:
            raise asked from None
        return _told(entry, f"{type(group).__name__}: {group}", is_error=True)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return _told(entry, "CancelledError: something the tool waited for", is_error=True)
    except Exception as error:  # noqa: BLE001 - the model decides what a failed tool means
        return _told(entry, f"{type(error).__name__}: {error}", is_error=True)


def _interrupt_in(group: BaseExceptionGroup[BaseException]) -> Interrupt | None:
    """Return the first request for a person among exceptions that were raised together."""
    for error in group.exceptions:
        found = _interrupt_in(error) if isinstance(error, BaseExceptionGroup) else error  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(found, Interrupt):
            return found
    return None


def _faults(error: pydantic.ValidationError) -> str:
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    places = (".".join(map(str, one["loc"])) for one in faults)
    said = zip(places, (one["msg"] for one in faults), strict=True)
    return "; ".join(f"{place}: {what}" if place else what for place, what in said)


def _result(entry: ToolCallEntry, returned: object) -> ToolResultEntry:
    """Return a result of what a tool returned.

    Raises:
        NotSerializable: it cannot be stored.
    """
    if isinstance(returned, ToolResultEntry):
        result = msgspec.structs.replace(returned, call_id=entry.call_id)
        _entry.encode(result, "result")
        return result
    if isinstance(returned, str):
        return _told(entry, returned)
    raw = to_json(returned)
    return ToolResultEntry(
        call_id=entry.call_id, output=_json.encode(raw, "result").decode(), raw=raw
    )


def to_json(value: object) -> Any:  # noqa: ANN401 - JSON
    """Return what pydantic makes of a value in JSON.

    Raises:
        NotSerializable: it cannot be made JSON, or JSON cannot give it back exactly.
    """
    try:
        made = pydantic_core.to_jsonable_python(value, inf_nan_mode="constants")
    except (pydantic_core.PydanticSerializationError, ValueError) as error:
        raise NotSerializable(type(value).__name__, str(error)) from error
    _json.encode(made, type(value).__name__)
    return made


def _told(entry: ToolCallEntry, output: str, *, is_error: bool = False) -> ToolResultEntry:
    return ToolResultEntry(call_id=entry.call_id, output=output, is_error=is_error)
