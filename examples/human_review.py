"""A model wants to refund money; a person in another process decides; the refund is made once.

    python examples/human_review.py

needs no credentials: the model is a script. This process runs the conversation up to the request.
A second one is started with nothing but the URL and the thread id; it shows what is asked, takes
the answer from its input, and resumes.
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

import durably
from durably import ToolCallEntry
from durably_runner import (
    Agent,
    Conversation,
    Decision,
    ScriptedModel,
    ThreadOptions,
    ToolContext,
    tool,
)


@tool
async def refund(context: ToolContext, order: str, cents: int) -> str:
    """Refund an order, if a person approved exactly this."""
    decision = context.require_decision(f"refund {cents} cents of order {order}?")
    # A payment provider is given the key, so that a call made again after a crash pays once.
    print("REFUND", order, cents, "key", context.idempotency_key[:8])
    return f"refunded, approved by {decision.decided_by}"


def clerk() -> Agent:
    """Return the agent; behaviour is never stored, so each process makes its own."""

    def ask(call_id: str) -> ToolCallEntry:
        return ToolCallEntry(
            call_id=call_id, name="refund", arguments='{"order": "A-17", "cents": 4200}'
        )

    return Agent(
        name="clerk",
        model=ScriptedModel(ask("first"), ask("again"), "Order A-17 is refunded."),
        tools=[refund],
    )


async def conversation(storage: durably.Storage, thread_id: str) -> Conversation:
    """Return the conversation of a thread, as it was saved last."""
    thread = ThreadOptions(storage.checkpoint_saver(max_checkpoints_per_thread=20), thread_id)
    return Conversation(clerk(), thread=thread)


async def request(url: str, thread_id: str) -> None:
    """Run up to the moment a person is needed."""
    async with durably.open(url) as storage:
        talk = await conversation(storage, thread_id)
        result = await talk.run("Please refund order A-17.")
        print("first process: the run is", result.status)


async def review(url: str, thread_id: str) -> None:
    """Restore, show what is asked, decide, resume."""
    async with durably.open(url) as storage:
        talk = await conversation(storage, thread_id)
        await talk.restore_latest_checkpoint(thread_id)
        if talk.interrupted is None:
            print("second process: nothing is asked")
            return
        print("second process:", talk.interrupted.tool_name, "asks:", talk.interrupted.reason)
        is_approved = sys.stdin.readline().strip() == "yes"
        decision = Decision.on(talk.interrupted, approved=is_approved, decided_by="ann")
        result = await talk.resume(decision)
        print("second process:", result.output)


def main() -> None:
    """Play both parts, the second in a process of its own."""
    if len(sys.argv) > 1:
        asyncio.run(review(*sys.argv[1:]))
        return
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'agent.db'}"
        asyncio.run(request(url, "refund-17"))
        reviewer = [sys.executable, __file__, url, "refund-17"]
        for _ in range(2):  # decided once: the second time nothing is asked any more
            subprocess.run(reviewer, input="yes\n", text=True, check=True)


if __name__ == "__main__":
    main()
