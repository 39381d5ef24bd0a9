"""The worker process of the demo: ``python -m durably_runner.demo.worker FOLDER RUN_ID``."""

import asyncio
import json
import sys
from pathlib import Path

import durably
from durably_runner.demo.job import Workspace, work

__all__ = ["main"]


async def main(folder: str, run_id: str) -> None:
    """Do the job and print its answer as the last line."""
    workspace = Workspace(Path(folder))
    async with durably.open(workspace.url) as storage:
        answer = await work(storage, workspace, run_id)
    print(f"answer {json.dumps(answer)}", flush=True)  # noqa: T201 - the parent reads it


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
