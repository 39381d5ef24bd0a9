"""Tool calls: executed together, each result saved as it lands."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from durably import NotSerializable, RecordTooLarge, ToolCallEntry, ToolResultEntry
from durably_runner._decisions import reason_of
from durably_runner._executing import execute_call, told
from durably_runner._graph import handoff_target
from durably_runner._opening import Call, open_calls
from durably_runner._order import Order
from durably_runner._progress import Progress
from durably_runner._words import words_of
from durably_runner.agents import Agent
from durably_runner.events import ToolFinished, ToolStarted
from durably_runner.interrupts import Interrupt
from durably_runner.usage import Usage

__all__ = ["answer_calls"]


async def answer_calls(order: Order, progress: Progress, agent: Agent) -> None:
    """Execute the calls that have no result; return when all have one.

    They run at once, but for those that share an id: these run in order, since their results are
    paired with them by occurrence. Once a tool has asked for a person, a call that has not begun
    gets a result that says it was not executed.
    """
    groups: dict[str, list[Call]] = {}
    for call in open_calls(progress):
        groups.setdefault(call.entry.call_id, []).append(call)
    await _together([_in_order(order, progress, agent, calls) for calls in groups.values()])


async def _together(work: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Await all; the first to fail, or a cancellation, cancels the others and is raised."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _in_order(order: Order, progress: Progress, agent: Agent, calls: Sequence[Call]) -> None:
    for call in calls:
        await _answer(order, progress, agent, call)


async def _answer(order: Order, progress: Progress, agent: Agent, call: Call) -> None:
    """Execute one call and save its result."""
    entry = call.entry
    target = handoff_target(agent, entry.name)
    usage = Usage()
    changes: dict[str, Any] = {}
    if progress.waits_for is not None:
        result = told(entry, "Not executed: another call waits for a person.", is_error=True)
    elif target is None:
        order.emit(ToolStarted(call=entry))
        turn = progress.head.turns
        outcome = await execute_call(order, agent, call, turn=turn, usage=usage)
        if isinstance(outcome, Interrupt):
            result, changes = _asks(progress, entry, outcome)
        else:
            result = outcome
    elif progress.hands_over_to is not None:
        said = f"Not executed: the conversation goes to {progress.hands_over_to}."
        result = told(entry, said, is_error=True)
    else:
        progress.hands_over_to = changes["pending_handoff"] = target.name
        result = told(entry, f"Handed over to {target.name}.")
    progress.usage.add(usage)
    result = await _save(progress, entry, result, changes)
    order.emit(ToolFinished(call=entry, result=result))


def _asks(
    progress: Progress, entry: ToolCallEntry, asked: Interrupt
) -> tuple[ToolResultEntry, dict[str, Any]]:
    """Return what a call gets that asks for a person, and what the run's head then says.

    A run waits for one call: the first to ask.
    """
    if progress.waits_for is not None:
        said = "Not executed: it needs a person, and another call waits for one."
        return told(entry, said, is_error=True), {}
    try:
        reason = reason_of(entry, asked, progress.run_id)
    except NotSerializable as error:
        return told(entry, words_of(error), is_error=True), {}
    progress.waits_for = reason
    said = f"Not executed: it waits for a person. {reason.reason}"
    return told(entry, said), {"interrupt": reason, "status": "interrupted"}


async def _save(
    progress: Progress, entry: ToolCallEntry, result: ToolResultEntry, changes: Mapping[str, Any]
) -> ToolResultEntry:
    """Save a result, or say in its place that it is too large; return what is saved."""
    try:
        await progress.save([result], **changes)
    except RecordTooLarge as error:
        said = f"The {error.what} has {error.size} bytes, and {error.limit} is the most stored."
        result = told(entry, said, is_error=True)
        if "interrupt" in changes:
            progress.waits_for, changes = None, {}
        await progress.save([result], **changes)
    return result
