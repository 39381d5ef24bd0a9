"""``Conversation``: one agent's conversation in memory, saved to a thread and restored from it."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from durably import (
    Checkpoint,
    CheckpointNotFound,
    Entry,
    InterruptReason,
    JsonObject,
    Migrators,
    RunHead,
    StateSnapshot,
    StateStore,
)
from durably.logstore import new_key
from durably_runner._decisions import check_decision, entries_of, is_recorded
from durably_runner._graph import reachable
from durably_runner._loop import go_on
from durably_runner._order import Input, Order, inputs
from durably_runner._outputs import is_answered
from durably_runner._progress import Progress
from durably_runner._steering import Steering
from durably_runner._threads import migrated, progress_of, state_of
from durably_runner.agents import Agent
from durably_runner.errors import ConversationState, DecisionRefused, InvalidOptions
from durably_runner.events import Event
from durably_runner.interrupts import Decision
from durably_runner.options import RunLimits, ThreadOptions
from durably_runner.results import RunResult

__all__ = ["Conversation"]


class Conversation:
    """A conversation as its host holds it: messages, turn, usage, and what it waits for.

    With a ``thread`` its snapshots are saved as the options say; another process restores the
    latest and goes on. ``steer_all`` says whether a turn takes all steered messages, or one.
    ``listen`` is told of every event. ``migrators`` bring snapshots of older versions up to the
    version they have, which is what this conversation saves; one stored without any version is
    told apart from version 1 only by a saver or state store that has them, too.

    One call runs at a time; steering is always possible. ``extra`` is the application's own JSON,
    saved and restored with the conversation. ``listen`` must not raise.

    Raises:
        InvalidAgent: the agents cannot work together.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        thread: ThreadOptions | None = None,
        states: StateStore | None = None,
        deps: Any = None,  # noqa: ANN401 - the application's
        limits: RunLimits | None = None,
        steer_all: bool = True,
        migrators: Migrators | None = None,
        listen: Callable[[Event], object] = lambda _: None,
    ) -> None:
        reachable(agent)
        self._agent = agent
        self._thread = thread
        self._states = states
        self._deps = deps
        self._limits = RunLimits() if limits is None else limits
        self._migrators = migrators
        self._listen = listen
        self._steering = Steering(takes_all=steer_all)
        self._running = asyncio.Lock()
        self._status = "idle"
        run_id = new_key() if thread is None else thread.thread_id
        self._progress = Progress(run_id, RunHead(agent_name=agent.name), [])
        self.extra: JsonObject = {}

    @property
    def state(self) -> StateSnapshot:
        """The conversation as it is now, as it would be saved."""
        return state_of(
            self._progress, version=self._version, status=self._status, extra=self.extra
        )

    @property
    def interrupted(self) -> InterruptReason | None:
        """What the conversation waits for a person to decide; None if it does not."""
        return self._progress.head.interrupt

    @property
    def _version(self) -> int:
        return 1 if self._migrators is None else self._migrators.version

    def steer(self, message: Input) -> None:
        """Queue a message for the next turn, of a run under way or of one to come.

        It is part of the conversation, and saved with a thread, before the model is asked next.

        Raises:
            InvalidOptions: it would pass for a decision.
            NotSerializable: it is no JSON.
        """
        self._steering.add(inputs(message, "the message"))

    async def run(self, input: Input) -> RunResult:  # noqa: A002 - what it is
        """Say something, and run until the model calls no tool any more.

        Calls that an error left without a result are executed first; what was steered before comes
        after the input, where the turn begins.

        Returns:
            The result; its ``entries`` are those that came with this call.

        Raises:
            ConversationState: it runs, or waits for a person: then ``resume`` goes on.
            InvalidOptions: the input would pass for a decision.
            NotSerializable: the input is no JSON; nothing was changed.
            What else ``Runner.run`` raises.
        """
        said = inputs(input)
        self._check_free("run")
        if self.interrupted is not None:
            raise ConversationState(
                "the conversation waits for a person, and cannot be run",
                hint="Say it with steer(), and resume()",
            )
        if not self._progress.pending and not is_answered(said):
            return await self._go_on(said)
        self._steering.add(said)
        return await self._go_on([])

    async def continue_(self) -> RunResult:
        """Go on with the conversation as it is, after an error or with what was steered.

        Raises:
            ConversationState: it runs, waits for a person, or there is nothing to go on with.
            What else ``Runner.run`` raises.
        """
        self._check_free("continue")
        if self.interrupted is not None:
            raise ConversationState(
                "the conversation waits for a person, and cannot be continued", hint="resume() it"
            )
        has_more = bool(self._steering) or bool(self._progress.pending)
        if self._status in {"idle", "finished"} and not has_more:
            raise ConversationState(
                f"the conversation is {self._status}: there is nothing to continue",
                hint="run(input), or steer(message) first",
            )
        return await self._go_on([])

    async def resume(self, decision: Decision | None = None) -> RunResult:
        """Go on after a person was asked; the operation that asked is not executed by that.

        A ``decision`` is recorded for the tool to find; without one the question is dropped, and
        the model goes on with what was steered.

        Raises:
            ConversationState: it runs, or waits for nobody.
            DecisionRefused: the decision is about something else.
            What else ``Runner.run`` raises.
        """
        self._check_free("resume")
        waits_for = self.interrupted
        if waits_for is None:
            raise ConversationState(
                "the conversation waits for nobody, and cannot be resumed",
                hint="run(input), or continue_()",
            )
        fresh: list[Entry] = []
        if decision is not None:
            run_id = self._progress.run_id
            if is_recorded(decision, self._progress.entries):
                raise DecisionRefused(run_id, decision.call_id, "it was given before")
            check_decision(decision, run_id, waits_for)
            fresh = entries_of(decision)
        return await self._go_on(fresh)

    async def save_checkpoint(self) -> int:
        """Save the conversation as it is as the thread's latest snapshot.

        Returns:
            Its seq.

        Raises:
            InvalidOptions: the conversation has no thread.
        """
        thread = self._its_thread()
        return await thread.saver.append(thread.thread_id, self.state)

    async def restore_latest_checkpoint(self, thread_id: str | None = None) -> Checkpoint:
        """Become what a thread's latest snapshot says; no model is called, and no tool.

        It is the conversation's own thread by default; in that one it goes on saving, whichever it
        was restored from.

        Returns:
            The checkpoint.

        Raises:
            CheckpointNotFound: the thread has none.
            SchemaTooNew: it is of a later version than the migrators.
            MigrationError: a step of the migrators is missing, or failed.
            ConversationState: it runs.
            InvalidOptions: the conversation has no thread, and so no saver.
        """
        self._check_free("restore")
        thread = self._its_thread()
        thread_id = thread.thread_id if thread_id is None else thread_id
        found = await thread.saver.latest(thread_id)
        if found is None:
            raise CheckpointNotFound(thread_id)
        self._become(found.snapshot, thread_id)
        return found

    async def save_state(self, key: str) -> None:
        """Save the conversation as it is under a key of the state store.

        Raises:
            InvalidOptions: the conversation has no state store.
        """
        await self._its_states().save(key, self.state)

    async def load_state(self, key: str) -> StateSnapshot:
        """Become what is saved under a key; no model is called, and no tool.

        Raises:
            StateNotFound: there is nothing under it.
            SchemaTooNew: it is of a later version than the migrators.
            MigrationError: a step of the migrators is missing, or failed.
            ConversationState: it runs.
            InvalidOptions: the conversation has no state store.
        """
        self._check_free("load")
        state = await self._its_states().load(key)
        self._become(state, key)
        return state

    def _become(self, state: StateSnapshot, run_id: str) -> None:
        self._check_free("restore")
        if self._migrators is not None:
            state = migrated(state, self._migrators, f"the snapshot of {run_id!a}")
        self._progress = progress_of(state, self._agent.name, run_id)
        self._status = state.status
        self.extra = dict(state.extra)

    async def _go_on(self, fresh: list[Entry]) -> RunResult:
        """Run from where the conversation is; whatever comes of it is kept."""
        async with self._running:
            progress = self._progress
            before = len(progress.entries)
            await progress.save(fresh, status="running", error=None, output=None, interrupt=None)
            progress.waits_for = None
            progress.turns_before = progress.head.turns
            progress.is_ending = False
            self._status = "running"
            order = self._order()
            try:
                async with asyncio.timeout(self._limits.timeout):
                    result = await go_on(order, progress)
            except BaseException:
                self._status = "error"
                raise
            self._status = "interrupted" if result.interrupt else "finished"
            return msgspec.structs.replace(result, entries=result.entries[before:])

    def _order(self) -> Order:
        return Order(
            agent=self._agent,
            inputs=[],
            run_id=self._progress.run_id,
            session=None,
            session_id=None,
            checkpoint=None,
            deps=self._deps,
            limits=self._limits,
            parent_usage=None,
            thread=self._thread,
            decision=None,
            emit=self._listen,
            steering=self._steering,
            state_version=self._version,
            extra=self.extra,
        )

    def _check_free(self, verb: str) -> None:
        if self._running.locked():
            raise ConversationState(
                f"the conversation is running, and cannot {verb}",
                hint="steer() it, or wait for the call that runs it",
            )

    def _its_thread(self) -> ThreadOptions:
        if self._thread is None:
            raise InvalidOptions("the conversation has no thread", hint="Give it ThreadOptions")
        return self._thread

    def _its_states(self) -> StateStore:
        if self._states is None:
            raise InvalidOptions("the conversation has no state store", hint="Give it states=")
        return self._states
