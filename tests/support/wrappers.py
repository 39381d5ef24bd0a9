"""Log stores that wrap another one, to bring about what cannot be had otherwise."""

from durably import Limits, RevisionConflict
from durably.logstore import LogStore


class ForwardingLogStore(LogStore):
    """Passes every operation on."""

    def __init__(self, inner):
        self.inner = inner
        self.capabilities = inner.capabilities
        self.limits = inner.limits

    async def append(self, log, batch):
        return await self.inner.append(log, batch)

    async def read(self, log, *args):
        return await self.inner.read(log, *args)

    async def rewrite(self, log, change):
        return await self.inner.rewrite(log, change)

    async def delete(self, log, **options):
        return await self.inner.delete(log, **options)

    async def list(self, kind, **options):
        return await self.inner.list(kind, **options)

    async def aclose(self):
        await self.inner.aclose()


class ConflictingLogStore(ForwardingLogStore):
    """Has always been changed by somebody else between reading and writing."""

    async def append(self, log, batch):
        if batch.expected_revision is None:
            return await super().append(log, batch)
        raise RevisionConflict(log, expected=batch.expected_revision, actual=1)

    async def rewrite(self, log, change):
        raise RevisionConflict(log, expected=change.expected_revision, actual=1)


class SmallLogStore(ForwardingLogStore):
    """Accepts 4,000 bytes a record and 1,000 a head."""

    def __init__(self, inner):
        super().__init__(inner)
        self.limits = Limits(record_bytes=4_000, head_bytes=1_000)
