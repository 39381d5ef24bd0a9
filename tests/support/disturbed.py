"""Log stores around a log store: they restrict, count, delay, interrupt or lose answers."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import msgspec

from durably import Limits, LogStore, RevisionConflict, Unavailable
from durably.logstore import ALL


class Wrapper(LogStore):
    """Passes everything on."""

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self.capabilities = store.capabilities
        self.limits = store.limits

    async def append(self, log, batch):
        return await self.store.append(log, batch)

    async def read(self, log, span=ALL):
        return await self.store.read(log, span)

    async def rewrite(self, log, change):
        return await self.store.rewrite(log, change)

    async def delete(self, log, *, expected_revision=None):
        return await self.store.delete(log, expected_revision=expected_revision)

    async def list(self, kind, **options):
        return await self.store.list(kind, **options)

    async def aclose(self):
        await self.store.aclose()


class Small(Wrapper):
    """Accepts little, so that limits are reached quickly."""

    def __init__(self, store: LogStore, *, record_bytes: int, head_bytes: int) -> None:
        super().__init__(store)
        self.limits = Limits(record_bytes=record_bytes, head_bytes=head_bytes)


class Recorder(Wrapper):
    """Counts the bytes of what is appended and rewritten, and names what is called."""

    def __init__(self, store: LogStore) -> None:
        super().__init__(store)
        self.written = 0
        self.calls: list[tuple[str, str]] = []

    async def append(self, log, batch):
        self.calls.append(("append", log.kind))
        self.written += sum(len(record.data) for record in batch.records) + len(batch.head or b"")
        return await super().append(log, batch)

    async def read(self, log, span=ALL):
        self.calls.append(("read", log.kind))
        return await super().read(log, span)

    async def rewrite(self, log, change):
        self.calls.append(("rewrite", log.kind))
        self.written += sum(len(record.data) for record in change.replace.values())
        return await super().rewrite(log, change)


class Conflicting(Wrapper):
    """Has always been changed by somebody else between reading and writing."""

    async def append(self, log, batch):
        if batch.expected_revision is None:
            return await super().append(log, batch)
        raise RevisionConflict(log, expected=batch.expected_revision, actual=1)

    async def rewrite(self, log, change):
        raise RevisionConflict(log, expected=change.expected_revision, actual=1)


class LosesRecords(Wrapper):
    """Has lost the last record of every log of a kind that it is asked for."""

    def __init__(self, store: LogStore, kind: str) -> None:
        super().__init__(store)
        self.kind = kind

    async def read(self, log, span=ALL):
        stored = await super().read(log, span)
        if stored is None or log.kind != self.kind:
            return stored
        return msgspec.structs.replace(stored, records=stored.records[:-1])


class LosesAnswers(Wrapper):
    """Does what an append asks and then, while ``losing`` is above 0, loses the answer."""

    losing = 0

    async def append(self, log, batch):
        applied = await super().append(log, batch)
        if self.losing > 0:
            self.losing -= 1
            raise Unavailable("the answer was lost")
        return applied


class Yielding(Wrapper):
    """Lets other tasks run around every operation, a seeded number of times."""

    def __init__(self, store: LogStore, seed: int) -> None:
        super().__init__(store)
        self._random = random.Random(seed)  # noqa: S311 - a seeded schedule

    async def _pause(self) -> None:
        for _ in range(self._random.randrange(6)):
            await asyncio.sleep(0)

    async def append(self, log, batch):
        await self._pause()
        applied = await super().append(log, batch)
        await self._pause()
        return applied

    async def read(self, log, span=ALL):
        await self._pause()
        found = await super().read(log, span)
        await self._pause()
        return found

    async def rewrite(self, log, change):
        await self._pause()
        return await super().rewrite(log, change)


class Interposing(Wrapper):
    """Runs an action before the n-th call of an operation."""

    def __init__(self, store: LogStore) -> None:
        super().__init__(store)
        self._actions: dict[tuple[str, int], Callable[[], Awaitable[object]]] = {}
        self._counts: dict[str, int] = {}

    def interpose(self, name: str, number: int, action: Callable[[], Awaitable[object]]) -> None:
        """Run an action before the n-th call of an operation from now on; 1 is the next."""
        self._actions[name, self._counts.get(name, 0) + number] = action

    async def _count(self, name: str) -> None:
        self._counts[name] = self._counts.get(name, 0) + 1
        action = self._actions.pop((name, self._counts[name]), None)
        if action is not None:
            await action()

    async def append(self, log, batch):
        await self._count("append")
        return await super().append(log, batch)

    async def read(self, log, span=ALL):
        await self._count("read")
        return await super().read(log, span)

    async def rewrite(self, log, change):
        await self._count("rewrite")
        return await super().rewrite(log, change)
