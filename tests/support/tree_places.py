"""Places on Redis and on S3 for trees and states, that know how many bytes came back from them."""

import asyncio

from durably import Storage
from durably_s3 import S3LogStore, Settings
from durably_s3.testing import MemoryBucket, Shelf
from redis_servers import namespace

__all__ = ["OnBucket", "OnRedis", "OnSite"]


class _Elsewhere:
    def open(self, **options) -> Storage:
        return Storage(self.log_store(), **options)


class OnRedis(_Elsewhere):
    """Namespaces of a server."""

    def __init__(self, server) -> None:
        self._server = server
        self._name = namespace()

    def log_store(self, *, namespace=""):
        return self._server.store(namespace=f"{self._name} {namespace}")

    def received(self) -> int:
        with self._server.client() as client:
            return client.info("stats")["total_net_output_bytes"]


class OnSite(_Elsewhere):
    """A site on a server of S3, whose proxy counts."""

    def __init__(self, site) -> None:
        self._site = site

    def log_store(self, *, namespace=""):
        return S3LogStore(self._site.settings(), namespace=namespace)

    def received(self) -> int:
        return sum(one.received for one in self._site.proxy.log)


class _CountingBucket(MemoryBucket):
    """Counts what it gives, and lets others come between any two requests."""

    def __init__(self, shelf) -> None:
        super().__init__(shelf)
        self.received = 0

    async def get(self, key, **options):
        await asyncio.sleep(0)
        found = await super().get(key, **options)
        self.received += 0 if found is None else len(found.data)
        return found

    async def put(self, key, data, **options):
        await asyncio.sleep(0)
        etag = await super().put(key, data, **options)
        await asyncio.sleep(0)
        return etag


class OnBucket(_Elsewhere):
    """A bucket in memory."""

    def __init__(self) -> None:
        self._shelf = Shelf()
        self._buckets = []

    def log_store(self, *, namespace=""):
        self._buckets.append(_CountingBucket(self._shelf))
        settings = Settings(bucket="bucket", prefix="some/where")
        return S3LogStore(settings, bucket=self._buckets[-1], namespace=namespace)

    def received(self) -> int:
        return sum(one.received for one in self._buckets)
