"""Agents, runs and stores in few words, for tests of the runner."""

import asyncio

from builders import call, model, result, user
from disturbed import Wrapper
from durably import InterruptReason, RunHead, Unavailable
from durably.logstore import ALL
from durably_runner import Agent, CheckpointOptions, Interrupt, ModelTurn, Runner, ScriptedModel
from durably_runner import tool as as_tool
from durably_runner.tools import ToolContext

RUN_ID = "r"
SESSION_ID = "s"
REASON = InterruptReason(call_id="a", tool_name="work", arguments_digest="d", reason="May I?")


@as_tool
async def work(context: ToolContext) -> str:
    """Note the call in the deps, if there are any, and say so."""
    if context.deps is not None:
        context.deps.append(context.call_id)
    await asyncio.sleep(0)
    return f"did {context.call_id}"


@as_tool
async def ask(context: ToolContext) -> str:
    """Ask for a person, always."""
    context.deps.append(context.call_id)
    raise Interrupt("May I?", {"amount": 3})


def calls(*ids, name="work"):
    """Return what a model says that calls a tool so many times."""
    return [call(one, name) for one in ids]


def scripted(*script, name="clerk", tools=(work, ask), **fields):
    """Return an agent whose model follows a script; ``agent.model.requests`` is what it heard."""
    return Agent(name=name, model=ScriptedModel(*script), tools=list(tools), **fields)


def turns(agent):
    """Return the turns an agent's model was asked for."""
    return [request.turn for request in agent.model.requests]


def costly(*entries, tokens=1):
    return ModelTurn(entries=list(entries), input_tokens=tokens, output_tokens=1)


async def run(agent, given="new", *, storage=None, session=True, run_id=RUN_ID, **options):
    """Run an agent, with a checkpoint and a session if there is a storage."""
    call_options = {
        name: options.pop(name)
        for name in ("deps", "limits", "parent_usage", "session_id")
        if name in options
    }
    if storage is not None:
        checkpoint = CheckpointOptions(storage.checkpointer, run_id, **options)
        call_options["checkpoint"] = checkpoint
        if session:
            call_options = {"session_id": SESSION_ID, **call_options, "session": storage.sessions}
    return await Runner.run(agent, given, **call_options)


HEADS = {
    "running": RunHead(agent_name="clerk", turns=1, usage={"requests": 1}),
    "interrupted": RunHead(agent_name="clerk", turns=1, status="interrupted", error="Gone"),
    "failed": RunHead(agent_name="clerk", turns=1, status="failed", error="ValueError"),
    "completed": RunHead(agent_name="clerk", turns=1, status="completed", output="stored"),
    "waiting": RunHead(agent_name="clerk", turns=1, status="interrupted", interrupt=REASON),
}
ENTRIES = {
    "completed": [user("old"), model("stored")],
    "waiting": [user("old"), call("a", "work"), result("a", "Not executed")],
}
UNDER_WAY = [user("old"), call("a", "work")]


async def plant(storage, state, entries=None, *, run_id=RUN_ID, **head):
    """Store a run as one is left in a state; ``nothing`` stores none. Return its snapshot."""
    if state == "nothing":
        return None
    entries = ENTRIES.get(state, UNDER_WAY) if entries is None else entries
    await storage.checkpointer.append(run_id, entries, HEADS[state].replace(**head))
    return await storage.checkpointer.load(run_id)


async def stored(storage, run_id=RUN_ID):
    return await storage.checkpointer.load(run_id)


async def segments(storage, session_id=SESSION_ID):
    """Return the run_ids of a session."""
    return [one.run_id for one in await storage.sessions.segments(session_id)]


class _Each(Wrapper):
    """Lets a subclass stand around every operation: ``_step(name, log, operation)``."""

    async def append(self, log, batch):
        return await self._step("append", log, super().append(log, batch))

    async def read(self, log, span=ALL):
        return await self._step("read", log, super().read(log, span))

    async def rewrite(self, log, change):
        return await self._step("rewrite", log, super().rewrite(log, change))

    async def delete(self, log, *, expected_revision=None):
        operation = super().delete(log, expected_revision=expected_revision)
        return await self._step("delete", log, operation)


class Tape(_Each):
    """Writes down every operation on runs and sessions, such as ``append run``."""

    def __init__(self, store):
        super().__init__(store)
        self.calls = []

    async def _step(self, name, log, operation):
        if log.kind != "meta":
            self.calls.append(f"{name} {log.kind}")
        return await operation


class Dies(_Each):
    """Is gone from its n-th operation on runs and sessions on: instead of it, or after it."""

    def __init__(self, store, number, *, done=False, for_ever=True, error=None):
        super().__init__(store)
        self.seen = 0
        self._number = number
        self._done = done
        self._for_ever = for_ever
        self._error = Unavailable("the line was cut") if error is None else error

    @property
    def has_died(self):
        return self.seen >= self._number

    async def _step(self, _, log, operation):
        if log.kind == "meta":
            return await operation
        self.seen += 1
        if self.seen == self._number and self._done:
            await operation
            raise self._error
        if self.seen == self._number or (self.has_died and self._for_ever):
            operation.close()
            raise self._error
        return await operation


class Cancels(_Each):
    """Cancels a task at its n-th operation on runs and sessions: before it, or after it."""

    def __init__(self, store, number, *, done=False):
        super().__init__(store)
        self.seen = 0
        self.task = None
        self._number = number
        self._done = done

    async def _step(self, _, log, operation):
        self.seen += log.kind != "meta"
        if log.kind == "meta" or self.seen != self._number:
            return await operation
        answer = await operation if self._done else None
        self.task.cancel()
        try:
            await asyncio.sleep(0.01)
        finally:
            operation.close()
        return answer


class Slow(_Each):
    """Takes a step of the event loop before and after each operation."""

    async def _step(self, _, __, operation):
        try:
            await asyncio.sleep(0)
        except BaseException:
            operation.close()
            raise
        answer = await operation
        await asyncio.sleep(0)
        return answer
