"""The loop: ask the model, save its answer, execute what it calls, until it calls nothing."""

import asyncio
import inspect

import msgspec

from durably import RunSnapshot, ToolCallEntry
from durably_runner._calls import answer_calls
from durably_runner._completing import complete, replay, result_of, snapshot_of
from durably_runner._decisions import check_said
from durably_runner._graph import find_agent, reachable, specs
from durably_runner._order import Order
from durably_runner._outputs import adapter_of, is_answered
from durably_runner._progress import Progress, save_failure
from durably_runner._starting import (
    Earlier,
    Start,
    check_new,
    find_stored,
    finished_meanwhile,
    give_up,
    load_earlier,
    prepare,
    still_waits,
)
from durably_runner._threads import (
    ensure_saved,
    save_before_acting,
    save_turn_end,
    save_turn_start,
)
from durably_runner.agents import Agent
from durably_runner.errors import LimitExceeded
from durably_runner.events import (
    HandedOver,
    ModelAnswered,
    RunInterrupted,
    RunStarted,
    Steered,
    TurnStarted,
)
from durably_runner.models import ModelRequest, ModelTurn, respond
from durably_runner.results import RunResult
from durably_runner.usage import Usage

__all__ = ["execute", "go_on"]


async def execute(order: Order) -> RunResult:
    """Do what one call of the runner is to do."""
    reachable(order.agent)
    stored = await find_stored(order)
    if stored is not None and stored.snapshot.head.status == "completed":
        return await replay(order, stored.snapshot, is_held=True)
    earlier = await load_earlier(order)
    if stored is None or not stored.is_held:
        check_new(order, earlier)
    if earlier.own is not None:
        await give_up(order, stored)
        return await replay(order, snapshot_of(earlier.own), is_held=False)
    if stored is not None and still_waits(order, stored.snapshot):
        return await _still_waiting(order, stored.snapshot, earlier)
    return await _run(order, prepare(order, stored, earlier), is_new=stored is None)


async def _run(order: Order, start: Start, *, is_new: bool) -> RunResult:
    """Own the run, then go on with it; whatever ends it is stored."""
    progress = start.progress
    try:
        async with asyncio.timeout(order.limits.timeout):
            await progress.save(start.fresh)
            if is_new and (done := await finished_meanwhile(order, progress)) is not None:
                return await replay(order, snapshot_of(done), is_held=False)
            name = progress.head.agent_name
            order.emit(RunStarted(run_id=order.run_id, agent_name=name, is_resumed=not is_new))
            return await go_on(order, progress)
    except BaseException as error:
        await save_failure(progress, error)
        raise


async def _still_waiting(order: Order, run: RunSnapshot, earlier: Earlier) -> RunResult:
    """Hand a run back that waits, and see to it that its thread shows what it waits for."""
    progress = Progress(run.run_id, run.head, run.entries, earlier=earlier.entries)
    await ensure_saved(order, progress)
    return _handed_back(order, run)


async def go_on(order: Order, progress: Progress) -> RunResult:
    """Go on from wherever the run is; a resumed one first executes the calls left open."""
    agent = find_agent(order.agent, progress.head.agent_name, order.run_id)
    turn: ModelTurn | None = None
    is_in_turn = bool(progress.pending)
    while True:
        await save_before_acting(order, progress)
        await answer_calls(order, progress, agent)
        if progress.waits_for is not None:
            await save_turn_end(order, progress)
            return _handed_back(order, progress.snapshot())
        agent = _handed_over(order, progress, agent)
        if _is_over(progress, turn) and not order.steering:
            return await complete(order, progress, agent, turn.finish_reason if turn else None)
        if is_in_turn:
            await save_turn_end(order, progress)
        await _steer(order, progress)
        await save_turn_start(order, progress)
        turn = await _ask(order, progress, agent)
        is_in_turn = True


async def _steer(order: Order, progress: Progress) -> None:
    """Take messages that wait into the transcript."""
    messages = order.steering.next()
    if not messages:
        return
    entries = [entry for message in messages for entry in message]
    await progress.save(entries)
    order.steering.drop(messages)
    order.emit(Steered(entries=entries))


def _is_over(progress: Progress, turn: ModelTurn | None) -> bool:
    """Whether the model has said its last word: in this call, or in one that a crash ended."""
    if turn is None:
        return progress.head.turns > 0 and is_answered(progress.entries)
    return not any(isinstance(entry, ToolCallEntry) for entry in turn.entries)


def _handed_over(order: Order, progress: Progress, agent: Agent) -> Agent:
    """Complete a handoff that fired; the next save stores that it was."""
    name = progress.hands_over_to
    if name is None:
        return agent
    target = find_agent(order.agent, name, order.run_id)
    progress.head = progress.head.replace(agent_name=name, pending_handoff=None)
    progress.hands_over_to = None
    order.emit(HandedOver(from_agent=agent.name, to_agent=name))
    return target


async def _ask(order: Order, progress: Progress, agent: Agent) -> ModelTurn:
    """Ask the model, and save what it answers before anything is done about it."""
    turn = progress.head.turns + 1
    if turn - progress.turns_before > order.limits.max_turns:
        raise LimitExceeded(order.run_id, "max_turns", order.limits.max_turns)
    order.emit(TurnStarted(turn=turn, agent_name=agent.name))
    adapter = adapter_of(agent)
    request = ModelRequest(
        run_id=order.run_id,
        agent_name=agent.name,
        instructions=await _instructions(order, agent),
        entries=progress.transcript,
        tools=specs(agent),
        turn=turn,
        output_schema=None if adapter is None else adapter.json_schema(),
        context_state=progress.head.context_state,
    )
    answer = await respond(agent.model, request)
    check_said(answer.entries, f"the answer of agent {agent.name!a}")
    progress.usage.add(Usage(answer.input_tokens, answer.output_tokens, requests=1))
    changes = {"turns": turn, "last_input_tokens": answer.input_tokens or None}
    if answer.context_state is not msgspec.UNSET:
        changes["context_state"] = answer.context_state
    await progress.save(answer.entries, **changes)
    order.emit(ModelAnswered(turn=turn, answer=answer))
    return answer


async def _instructions(order: Order, agent: Agent) -> str:
    if isinstance(agent.instructions, str):
        return agent.instructions
    rendered = agent.instructions(order.deps)
    return await rendered if inspect.isawaitable(rendered) else rendered


def _handed_back(order: Order, run: RunSnapshot) -> RunResult:
    result = result_of(order, run)
    order.emit(RunInterrupted(result=result))
    return result
