"""Agents with scripted models, and tools that ask a person before they do anything."""

import asyncio
import json

from durably import InputEntry, ToolCallEntry, ToolResultEntry
from durably_runner import (
    Agent,
    CheckpointOptions,
    Interrupt,
    Runner,
    ScriptedModel,
    ThreadOptions,
    ToolContext,
    tool,
)

RUN_ID = "the run"
THREAD_ID = "the thread"
REASON = "a payment"


class Notes(list):
    """What tools did, where no other process is to see it."""

    def note(self, *words):
        self.append(words)


@tool
async def pay(context: ToolContext, amount: int, to: str = "bob") -> str:
    """Pay, once a person has approved it."""
    decision = context.require_decision(REASON, {"amount": amount, "to": to})
    context.deps.note("paid", str(amount), context.idempotency_key, decision.decided_by)
    return f"paid {amount}"


@tool
async def work(context: ToolContext) -> str:
    """Begin, let others run for a while, finish."""
    context.deps.note("begun", context.call_id)
    for _ in range(20):
        await asyncio.sleep(0)
    context.deps.note("finished", context.call_id)
    return f"did {context.call_id}"


@tool
async def ask(context: ToolContext) -> str:
    """Ask a person at once, about anything but a decision."""
    context.deps.note("asked", context.call_id)
    raise Interrupt("a question", {"of": context.call_id, "more": [1, None, {"deep": "ü"}]})


@tool
def ask_blocking(context: ToolContext) -> str:
    """Ask a person from a thread."""
    raise Interrupt("a question", {"of": context.call_id})


TOOLS = (pay, work, ask, ask_blocking)


def call(call_id, name, /, **arguments):
    return ToolCallEntry(call_id=call_id, name=name, arguments=json.dumps(arguments))


def agent_of(*script, name="clerk", tools=TOOLS, **more):
    """Return an agent, and its model."""
    model = ScriptedModel(*script)
    return Agent(name=name, model=model, tools=tools, **more), model


def paying(*, amount=5):
    """Return an agent that asks to pay, asks again once it is decided, and says so."""
    first, again = (call(call_id, "pay", amount=amount) for call_id in ("c1", "c2"))
    return agent_of([first], [again], "Done.")


async def issue(storage, agent, notes, *, run_id=RUN_ID, said="pay 5 to bob", **more):
    """Issue a run; every call is the same but for its decision."""
    checkpoint = CheckpointOptions(storage.checkpointer, run_id)
    return await Runner.run(agent, said, checkpoint=checkpoint, deps=notes, **more)


def thread_of(storage, *, thread_id=THREAD_ID, bound=None, **more):
    saver = storage.checkpoint_saver(max_checkpoints_per_thread=bound)
    return ThreadOptions(saver, thread_id, **more)


def results(entries):
    """Return what each call got: its output, and whether that is an error."""
    found = [entry for entry in entries if isinstance(entry, ToolResultEntry)]
    return [(one.call_id, one.output, one.is_error) for one in found]


def texts(entries):
    """Return what users said among some entries."""
    return [entry.content for entry in entries if isinstance(entry, InputEntry)]


def paid(notes):
    return [words for words in notes if words[0] == "paid"]
