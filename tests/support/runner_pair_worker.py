"""One of two workers on one storage: takes a run_id a line, and waits before its first write.

It says ``loaded`` when it has loaded the run and is about to write, goes on at the next line, and
then tells how the run ended for it.
"""

import asyncio
import json
import sys

import durably
from disturbed import Wrapper
from durably import RevisionConflict, Storage
from durably_runner import CheckpointOptions, Runner
from runner_job import Ledger
from runner_pairs import agent


def say(word) -> None:
    sys.stdout.write(json.dumps(word) + "\n")
    sys.stdout.flush()


class Barrier(Wrapper):
    """Waits for the parent before the first append to a run."""

    waits = False

    async def append(self, log, batch):
        if self.waits and log.kind == "run":
            self.waits = False
            say("loaded")
            await asyncio.to_thread(sys.stdin.readline)
        return await super().append(log, batch)


async def work(storage, run_id, ledger) -> list:
    """Issue the run, and return how it ended and how often the model was asked."""
    clerk, model = agent()
    try:
        result = await Runner.run(
            clerk, "again", checkpoint=CheckpointOptions(storage.checkpointer, run_id), deps=ledger
        )
    except RevisionConflict:
        return ["RevisionConflict", len(model.requests)]
    return [result.output, len(model.requests)]


async def main(url: str, name: str, path: str) -> None:
    ledger = Ledger(path)
    async with durably.open(url) as plain:
        store = Barrier(plain.log_store)
        storage = Storage(store)
        say("ready")
        while run_id := (await asyncio.to_thread(sys.stdin.readline)).strip():
            store.waits = True
            ledger.note("run", run_id, name)
            say(await work(storage, run_id, ledger))
        await storage.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
