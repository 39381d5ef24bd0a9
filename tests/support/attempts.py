"""What the killed workers attempt: content that only their number and step decide."""

import hashlib
import random

import msgspec

from durably import Entry, InputEntry, RunHead, ToolCallEntry, ToolResultEntry

STEPS = 120
SESSION = "the one session"


def run_id(worker: int, step: int) -> str:
    return f"worker {worker} step {step}"


def entries(worker: int, step: int) -> list[Entry]:
    """Return the entries of one step, some small and some of many pages."""
    dice = random.Random(worker * 1000 + step)  # noqa: S311 - reproducible, no secret
    output = f"{worker} {step} " * dice.choice([1, 10, 100, 2000])
    return [
        InputEntry(role="user", content=f"step {step}"),
        ToolCallEntry(call_id=f"c{step}", name="work", arguments="{}"),
        ToolResultEntry(call_id=f"c{step}", output=output),
    ]


def head(worker: int, step: int) -> RunHead:
    return RunHead(agent_name=f"worker {worker}", turns=step + 1, context_state={"step": step})


def digest(found: list[Entry]) -> str:
    return hashlib.sha256(msgspec.json.encode(found)).hexdigest()
