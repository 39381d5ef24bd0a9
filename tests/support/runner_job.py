"""A run of eight turns with parallel tools and a handoff, whose tools write down what they do."""

import asyncio
import os
from collections import Counter
from pathlib import Path

from durably import AssistantTextEntry, InputEntry, ToolCallEntry, ToolResultEntry
from durably_runner import Agent, CheckpointOptions, ModelTurn, Runner, ScriptedModel, tool
from durably_runner.tools import ToolContext

RUN_ID = "the run"
SESSION_ID = "the session"
EARLIER = [InputEntry(role="user", content="hello"), AssistantTextEntry(content="Hello.")]
TRANSFER = "transfer_to_specialist"
ANSWER = "All is done."
TURNS = [
    ["work a1", "work a2", "work a3"],
    ["work b1", "block b2"],
    ["work c1", f"{TRANSFER} t1", "work c2"],
    ["work d1", "work d2", "work d3"],
    ["block e1"],
    ["work f1", "work f1", "work a1"],  # ids that repeat, within a turn and across turns
    ["work g1", "work g2"],
]
CALLS = ["a1/0", "a2/0", "a3/0", "b1/0", "b2/0", "c1/0", "c2/0", "d1/0", "d2/0", "d3/0"]
CALLS += ["e1/0", "f1/0", "f1/1", "a1/1", "g1/0", "g2/0"]
USAGE = {"input_tokens": 360, "output_tokens": 8, "requests": 8}


class Ledger:
    """Lines in a file that survive the process that writes them."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, *words: str) -> None:
        os.write(self._file, "\t".join(words).encode() + b"\n")
        os.fsync(self._file)


def read_ledger(path: Path) -> list[list[str]]:
    """Return the lines of a ledger, each as its words."""
    return [line.split("\t") for line in path.read_text("utf-8").splitlines()]


def identity(context: ToolContext) -> str:
    return f"{context.call_id}/{context.occurrence}"


@tool
async def work(context: ToolContext) -> str:
    """Write down that the call begins, and a moment later that it is finished."""
    context.deps.note("begun", identity(context))
    await asyncio.sleep(0)
    context.deps.note("finished", identity(context))
    return f"did {identity(context)}"


@tool
def block(context: ToolContext) -> str:
    """Do the same in a thread."""
    context.deps.note("begun", identity(context))
    context.deps.note("finished", identity(context))
    return f"did {identity(context)}"


def _turn(number: int, calls: list[str]) -> ModelTurn:
    entries = [
        ToolCallEntry(call_id=call.split()[1], name=call.split()[0], arguments="{}")
        for call in calls
    ]
    said = entries or [AssistantTextEntry(content=ANSWER)]
    return ModelTurn(entries=said, input_tokens=number * 10, output_tokens=1)


def script() -> list[ModelTurn]:
    return [_turn(number, calls) for number, calls in enumerate([*TURNS, []], start=1)]


def agents() -> tuple[Agent, ScriptedModel]:
    """Return the entry agent, and the model that both it and its specialist ask."""
    model = ScriptedModel(*script())
    specialist = Agent(name="specialist", model=model, tools=[work, block])
    return Agent(name="clerk", model=model, tools=[work, block], handoffs=[specialist]), model


async def do_run(storage, ledger, agent, *, drop: bool, run_id: str = RUN_ID):
    """Issue the run; every call is the same."""
    return await Runner.run(
        agent,
        "Do it.",
        session=storage.sessions,
        session_id=SESSION_ID,
        checkpoint=CheckpointOptions(storage.checkpointer, run_id, delete_on_success=drop),
        deps=ledger,
    )


def stored_calls(entries) -> list[str]:
    """Return which calls of tools have a result among some entries."""
    seen: Counter[str] = Counter()
    found = []
    for entry in entries:
        if isinstance(entry, ToolResultEntry):
            found.append(f"{entry.call_id}/{seen[entry.call_id]}")
            seen[entry.call_id] += 1
    return found
