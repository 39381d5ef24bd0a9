"""Finish the runs that crashed workers left behind. Any number of sweepers may run at once.

    python examples/recover.py sqlite:///agent.db 60

takes what nobody has saved for 60 seconds. A worker says in its run's head which session the run
belongs to: ``RunHead(context_state={"session_id": "u1"})``.
"""

import asyncio
import sys

import durably


async def sweep(url: str, idle_for: float) -> None:
    """Record each abandoned run in its session, once; of several sweepers one gets it."""
    async with durably.open(url) as storage:
        after: str | None = ""
        while after is not None:
            page = await storage.checkpointer.runs(
                status="running", idle_for=idle_for, after=after or None
            )
            after = page.next
            for run in page.items:
                session_id = (run.head.context_state or {}).get("session_id")
                if session_id is not None:
                    try:
                        if await storage.finish(run.run_id, session_id):
                            print("finished", run.run_id)
                    except durably.RevisionConflict:
                        continue  # another sweeper has it, or its worker lives


if __name__ == "__main__":
    asyncio.run(sweep(sys.argv[1], float(sys.argv[2])))
