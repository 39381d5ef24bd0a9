"""Issue a run whose store fails at its n-th call, then again without faults until it is completed.

A case is a line of JSON on stdin, the exit codes of its processes a line on stdout. Each is a fork
of this process, which has imported everything.
"""

import asyncio
import gc
import importlib
import json
import os
import sys
import traceback

import durably
from disturbed import Wrapper
from durably import Storage, Unavailable
from durably.logstore import ALL
from runner_job import (
    EARLIER,
    RUN_ID,
    SESSION_ID,
    Ledger,
    agents,
    do_run,
    stored_calls,
)

EXIT = 9
ATTEMPTS = 5


class Faulty(Wrapper):
    """Counts its calls, and at the n-th one exits before or after it, or loses its answer."""

    def __init__(self, store, mode: str, number: int) -> None:
        super().__init__(store)
        self.calls = 0
        self._mode = mode
        self._number = number

    async def _step(self, operation):
        self.calls += 1
        if self.calls != self._number:
            return await operation
        if self._mode == "before":
            os._exit(EXIT)
        answer = await operation
        if self._mode == "after":
            os._exit(EXIT)
        raise Unavailable(f"the answer {answer} was lost")

    async def append(self, log, batch):
        return await self._step(super().append(log, batch))

    async def read(self, log, span=ALL):
        return await self._step(super().read(log, span))

    async def rewrite(self, log, change):
        return await self._step(super().rewrite(log, change))

    async def delete(self, log, *, expected_revision=None):
        return await self._step(super().delete(log, expected_revision=expected_revision))

    async def list(self, kind, **options):
        return await self._step(super().list(kind, **options))


async def attempt(case, number: int) -> None:
    """Issue the run once; what it returns, and what is stored before, goes to the ledger."""
    ledger = Ledger(case["ledger"])
    async with durably.open(case["url"]) as plain:
        run = await plain.checkpointer.load(RUN_ID)
        ledger.note("attempt", str(number), *stored_calls(run.entries if run else []))
        await plain.sessions.append(SESSION_ID, EARLIER, run_id="earlier")
        store = Faulty(plain.log_store, case["mode"], number)
        agent, model = agents()
        storage = Storage(store)
        result = await do_run(storage, ledger, agent, drop=case["drop"])
        ledger.note("calls", str(store.calls))
        asked = len(model.requests)
        replayed = await do_run(storage, ledger, agent, drop=case["drop"])
        ledger.note("replay", str(len(model.requests) - asked), json.dumps(replayed.output))
        ledger.note(
            "answer",
            json.dumps([result.output, result.agent_name, result.usage.as_json(), result.turns]),
        )
        await storage.aclose()


def in_a_fork(case, number: int) -> int:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            asyncio.run(attempt(case, number))
            code = 0
        except Unavailable:
            code = 2
        except BaseException:  # noqa: BLE001 - the parent must not go on in a child
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


async def warm_up(url: str) -> None:
    """Find and import all that a child would have to."""
    if url.startswith("s3"):
        importlib.import_module("durably_s3._boto")
    async with durably.open(url):
        pass
    gc.freeze()


def main(url: str) -> None:
    asyncio.run(warm_up(url))
    for line in sys.stdin:
        case = json.loads(line)
        codes = [in_a_fork(case, case["number"])]
        while codes[-1] != 0 and len(codes) < ATTEMPTS:
            codes.append(in_a_fork(case, 0))
        sys.stdout.write(json.dumps(codes) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
