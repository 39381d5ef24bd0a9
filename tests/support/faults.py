"""Log stores that count what they return, fail at a chosen operation, or answer too little."""

import itertools

import msgspec

from disturbed import Wrapper
from durably import RevisionConflict, Storage, Unavailable
from durably.logstore import ALL, Page


class Metered(Wrapper):
    """Counts its operations, and the records and bytes that its reads return."""

    def __init__(self, store):
        super().__init__(store)
        self.reads = self.records = self.payload = 0

    async def read(self, log, span=ALL):
        stored = await super().read(log, span)
        self.reads += 1
        self.records += len(stored.records) if stored else 0
        self.payload += sum(len(one.data or b"") for one in stored.records) if stored else 0
        return stored

    async def moved(self, act):
        """Return what an awaitable answers, and how many records and bytes it took."""
        records, payload = self.records, self.payload
        answer = await act
        return answer, self.records - records, self.payload - payload


class FailsAt(Wrapper):
    """Fails at its n-th operation: instead of doing it, or with ``done``, after it."""

    def __init__(self, store, number, *, done=False, error=None):
        super().__init__(store)
        self._left = number
        self._done = done
        self._error = Unavailable("the line was cut") if error is None else error

    @property
    def has_failed(self):
        return self._left <= 0

    async def _step(self, operation):
        self._left -= 1
        fails = self._left == 0
        if fails and not self._done:
            operation.close()
            raise self._error
        answer = await operation
        if fails:
            raise self._error
        return answer

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


async def failures(place, prepare, act, **options):
    """Fail at each operation of ``act`` in turn, before and after it; give the storages left.

    Each is prepared afresh, in a namespace of its own, and given as a storage that works.
    """
    for done in (False, True):
        for number in itertools.count(1):
            namespace = f"{done} {number}"
            healthy = Storage(place.log_store(namespace=namespace), **options)
            failing = FailsAt(place.log_store(namespace=namespace), number, done=done)
            broken = Storage(failing, **options)
            try:
                await prepare(healthy)
                try:
                    await act(broken)
                except Unavailable:
                    assert failing.has_failed
                if failing.has_failed:
                    yield healthy
            finally:
                await broken.aclose()
                await healthy.aclose()
            if not failing.has_failed:
                break


class Stateless(Wrapper):
    """Lists logs without their states, asked for or not."""

    async def list(self, kind, **options):
        page = await super().list(kind, **options)
        items = tuple(msgspec.structs.replace(one, state=None) for one in page.items)
        return Page(items=items, next=page.next)


class Meddling(Wrapper):
    """Lets others in: runs ``meddle(log)`` before each delete of a log."""

    def __init__(self, store, meddle):
        super().__init__(store)
        self._meddle = meddle

    async def delete(self, log, *, expected_revision=None):
        await self._meddle(log)
        return await super().delete(log, expected_revision=expected_revision)


class Overtaken(Wrapper):
    """Refuses so many changes that expect a revision, as if somebody had been faster."""

    def __init__(self, store, times):
        super().__init__(store)
        self.times = times

    async def rewrite(self, log, change):
        if self.times > 0:
            self.times -= 1
            raise RevisionConflict(log, expected=change.expected_revision, actual=1)
        return await super().rewrite(log, change)
