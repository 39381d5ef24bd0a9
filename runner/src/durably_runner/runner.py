"""``Runner``: run an agent so that the run can be issued again."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

from durably import Session
from durably.logstore import new_key
from durably_runner._loop import execute
from durably_runner._order import Input, Order, inputs
from durably_runner.agents import Agent
from durably_runner.events import Event
from durably_runner.interrupts import Decision
from durably_runner.options import CheckpointOptions, RunLimits, ThreadOptions
from durably_runner.results import RunResult
from durably_runner.usage import Usage

__all__ = ["Runner"]


class Runner:
    """Runs agents. It keeps nothing: all there is to keep is in the stores it is given.

    The transcript is what the session holds, then this run's own entries. With a ``checkpoint``
    every model answer is saved before a tool of it runs, and every tool result as it lands; issuing
    the same call again goes on from there, whatever ended the earlier one: results that are stored
    are never computed again, calls without one are executed again. A run that is completed is
    replayed: nothing runs, and its output is returned; the new input is ignored by a run that
    exists. When a run is completed, it is first stored as such, then appended to the session, and
    only then, with ``delete_on_success``, its checkpoint goes. A run that is interrupted is never
    appended to the session.

    A tool that raises ``Interrupt`` hands the run to a person: the result says what it waits for,
    and issuing the call again returns the same and runs nothing, until there is a ``decision``
    about it. With a ``thread`` snapshots of the whole conversation are saved as its options say.

    ``deps`` go to the tools and are never stored. ``parent_usage`` is told what the whole run used
    once it is completed, also by a replay.

    An exception ends the run and is raised; it is stored with the run's status: ``interrupted`` for
    a cancellation, a limit, a time-out, a connection error or a ``RetryableModelError``, else
    ``failed``. Either can be issued again. What a tool raises does not end the run: the model is
    told.
    """

    @staticmethod
    async def run(
        agent: Agent,
        input: Input,  # noqa: A002 - what it is
        *,
        session: Session | None = None,
        session_id: str | None = None,
        checkpoint: CheckpointOptions | None = None,
        thread: ThreadOptions | None = None,
        decision: Decision | None = None,
        deps: Any = None,  # noqa: ANN401 - the application's
        limits: RunLimits | None = None,
        parent_usage: Usage | None = None,
    ) -> RunResult:
        """Run an agent until its model calls no tool any more, or a tool asks for a person.

        Returns:
            The result, of a run that is completed or waits for a person.

        Raises:
            RunExists: the run is stored, and ``if_run_exists`` says it must not be.
            RunNotFound: it is not, and must be.
            RevisionConflict: another worker has the run; nothing was run, or nothing further.
            InvalidOptions: the arguments contradict each other.
            InvalidAgent: the agents cannot work together.
            AgentNotFound: the run is with an agent that cannot be reached any more.
            InvalidOutput: the final answer is not of the agent's ``output_type``.
            DecisionRefused: the decision is about something else than what the run waits for.
            LimitExceeded: the run reached one of its limits.
            TimeoutError: the time-out of ``limits`` passed.
        """
        order = _order(
            agent,
            input,
            emit=_ignore,
            session=session,
            session_id=session_id,
            checkpoint=checkpoint,
            thread=thread,
            decision=decision,
            deps=deps,
            limits=limits,
            parent_usage=parent_usage,
        )
        return await execute(order)

    @staticmethod
    async def stream(
        agent: Agent,
        input: Input,  # noqa: A002 - what it is
        *,
        session: Session | None = None,
        session_id: str | None = None,
        checkpoint: CheckpointOptions | None = None,
        thread: ThreadOptions | None = None,
        decision: Decision | None = None,
        deps: Any = None,  # noqa: ANN401 - the application's
        limits: RunLimits | None = None,
        parent_usage: Usage | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Run an agent as ``run`` does, and give its events as they happen.

        The last one is ``RunCompleted`` or ``RunInterrupted`` with the result; a replay gives that
        alone. An exception ends the stream, after the events before it. Closing the stream cancels
        the run, which is then stored as ``interrupted``: use ``contextlib.aclosing``.
        """
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        order = _order(
            agent,
            input,
            emit=events.put_nowait,
            session=session,
            session_id=session_id,
            checkpoint=checkpoint,
            thread=thread,
            decision=decision,
            deps=deps,
            limits=limits,
            parent_usage=parent_usage,
        )
        run = asyncio.ensure_future(execute(order))
        run.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await run
        finally:
            run.cancel()
            await asyncio.wait([run])
            _ = run.cancelled() or run.exception()  # it was raised, or the stream was closed


def _order(
    agent: Agent,
    given: Input,
    *,
    emit: Callable[[Event], object],
    session: Session | None,
    session_id: str | None,
    checkpoint: CheckpointOptions | None,
    thread: ThreadOptions | None,
    decision: Decision | None,
    deps: object,
    limits: RunLimits | None,
    parent_usage: Usage | None,
) -> Order:
    return Order(
        agent=agent,
        inputs=inputs(given),
        run_id=checkpoint.run_id if isinstance(checkpoint, CheckpointOptions) else new_key(),
        session=session,
        session_id=session_id,
        checkpoint=checkpoint,
        deps=deps,
        limits=RunLimits() if limits is None else limits,
        parent_usage=parent_usage,
        thread=thread,
        decision=decision,
        emit=emit,
    )


def _ignore(_: Event) -> None:
    """Nobody listens."""
