"""Another process on one storage: takes a command a line on stdin, answers each on stdout."""

import asyncio
import json
import sys

import durably
from durably import InputEntry, RevisionConflict, RunHead


class Peer:
    def __init__(self, storage: durably.Storage) -> None:
        self._storage = storage
        self._claims = {}

    async def append(self, session_id, run_id, *texts):
        said = [InputEntry(role="user", content=text) for text in texts]
        return await self._storage.sessions.append(session_id, said, run_id=run_id)

    async def append_many(self, session_id, prefix, count):
        for number in range(count):
            await self.append(session_id, f"{prefix} {number}", f"{prefix} {number}")

    async def segments(self, session_id):
        found = await self._storage.sessions.segments(session_id)
        return [[one.run_id, *(entry.content for entry in one.entries)] for one in found]

    async def rewind(self, session_id, keep_entries):
        return (await self._storage.sessions.rewind(session_id, keep_entries=keep_entries)) and None

    async def claim(self, run_id):
        try:
            self._claims[run_id] = await self._storage.checkpointer.claim(run_id)
        except RevisionConflict:
            self._claims.pop(run_id, None)
        return run_id in self._claims

    async def save(self, run_id, text):
        if run_id not in self._claims:
            return False
        said = [InputEntry(role="user", content=text)]
        try:
            await self._claims[run_id].append(said, RunHead(agent_name=text))
        except RevisionConflict:
            return False
        return True

    async def run(self, run_id):
        found = await self._storage.checkpointer.load(run_id)
        return [found.head.agent_name, *(entry.content for entry in found.entries)]


async def main(url: str) -> None:
    async with durably.open(url) as storage:
        peer = Peer(storage)
        while line := await asyncio.to_thread(sys.stdin.readline):
            name, *arguments = json.loads(line)
            answer = await getattr(peer, name)(*arguments)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


asyncio.run(main(sys.argv[1]))
