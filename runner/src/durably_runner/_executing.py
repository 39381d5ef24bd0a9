"""One tool call: executed, whatever the tool does; what it raises ends no run."""

import asyncio
from typing import cast

import msgspec

from durably import Entry, ToolCallEntry, ToolResultEntry
from durably.codec import Codec
from durably_runner._graph import specs
from durably_runner._opening import Call
from durably_runner._order import Order
from durably_runner._words import json_of, plain_text, to_json, words_of
from durably_runner.agents import Agent
from durably_runner.interrupts import Interrupt
from durably_runner.tools import ToolContext
from durably_runner.usage import Usage

__all__ = ["execute_call", "told"]

_entry: Codec[Entry] = Codec(Entry)


async def execute_call(
    order: Order, agent: Agent, call: Call, *, turn: int, usage: Usage
) -> ToolResultEntry | Interrupt:
    """Run the tool; return its result, what the model is told instead, or that it asks a person."""
    entry = call.entry
    tool = next((tool for tool in agent.tools if tool.name == entry.name), None)
    if tool is None:
        known = ", ".join(spec.name for spec in specs(agent)) or "none"
        said = f"There is no tool named {entry.name!r}. There are: {known}."
        return told(entry, said, is_error=True)
    context = ToolContext(
        deps=order.deps,
        run_id=order.run_id,
        session_id=order.session_id,
        agent_name=agent.name,
        call=entry,
        occurrence=call.occurrence,
        turn=turn,
        usage=usage,
        decision=call.decision,
    )
    try:
        arguments = tool.read_arguments(entry.arguments)
        return _result(entry, await tool.run(context, arguments))
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return told(entry, words_of(error), is_error=True)
    except Exception as error:  # noqa: BLE001 - the model decides what a failed tool means
        return _interrupt_in(error) or told(entry, words_of(error), is_error=True)


def _interrupt_in(error: BaseException) -> Interrupt | None:
    """Return the request for a person that an exception is, or the first one in a group."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return next((found for one in group.exceptions if (found := _interrupt_in(one))), None)
    return error if isinstance(error, Interrupt) else None


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
        return told(entry, returned)
    raw = to_json(returned)
    return ToolResultEntry(call_id=entry.call_id, output=json_of(raw), raw=raw)


def told(entry: ToolCallEntry, output: str, *, is_error: bool = False) -> ToolResultEntry:
    """Return a result that tells the model something."""
    return ToolResultEntry(call_id=entry.call_id, output=plain_text(output), is_error=is_error)
