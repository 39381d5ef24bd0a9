"""A process that knows a URL and ids: begins, looks at what is asked, or decides it.

It does so both ways: by issuing the run again, and by restoring the thread. What it tells is a
line of JSON on stdout; what the tool does goes to a ledger for each way.
"""

import asyncio
import json
import os
import sys

import msgspec

import durably
from durably_runner import Conversation, ConversationState, Decision
from review_job import THREAD_ID, issue, paying, thread_of
from runner_job import Ledger


class ByRun:
    """The run is issued again, whatever is to be done."""

    def __init__(self, storage, ledger):
        self._storage, self._ledger = storage, ledger
        self.result = None

    async def do(self, agent, decision=None):
        thread = thread_of(self._storage, thread_id="the run's thread")
        self.result = await issue(
            self._storage, agent, self._ledger, thread=thread, decision=decision
        )
        return self.result.interrupt

    look = begin = do


class ByThread:
    """The thread is restored, and its conversation goes on."""

    def __init__(self, storage, ledger):
        self._storage, self._ledger = storage, ledger
        self.result = None

    def _conversation(self, agent):
        return Conversation(agent, thread=thread_of(self._storage), deps=self._ledger)

    async def begin(self, agent):
        self.result = await self._conversation(agent).run("pay 5 to bob")
        return self.result.interrupt

    async def look(self, agent):
        conversation = self._conversation(agent)
        await conversation.restore_latest_checkpoint(THREAD_ID)
        for attempt in (conversation.run("again"), conversation.continue_()):
            try:
                await attempt
            except ConversationState:
                continue
            raise AssertionError("it went on without a decision")
        return conversation.interrupted

    async def do(self, agent, decision):
        conversation = self._conversation(agent)
        await conversation.restore_latest_checkpoint(THREAD_ID)
        self.result = await conversation.resume(decision)
        return self.result.interrupt


async def begin(way):
    agent, asked = paying()
    interrupt = await way.begin(agent)
    told = {"status": way.result.status, "asked": len(asked.requests)}
    return {**told, "interrupt": msgspec.to_builtins(interrupt)}


async def look(way):
    looks = []
    for _ in range(10):
        agent, asked = paying()
        interrupt = await way.look(agent)
        looks.append([msgspec.to_builtins(interrupt), len(asked.requests)])
    return {"looks": looks}


async def decide(way):
    agent, asked = paying()
    interrupt = await way.look(agent)
    decision = Decision.on(interrupt, approved=True, decided_by="ann")
    await way.do(agent, decision)
    return {"output": way.result.output, "asked": len(asked.requests)}


WAYS = {"run": ByRun, "thread": ByThread}
STEPS = {"begin": begin, "look": look, "decide": decide}


async def main(url, path, step):
    told = {"pid": os.getpid()}
    async with durably.open(url) as storage:
        for name, way in WAYS.items():
            told[name] = await STEPS[step](way(storage, Ledger(f"{path}-{name}")))
    sys.stdout.write(json.dumps(told) + "\n")


asyncio.run(main(*sys.argv[1:]))
