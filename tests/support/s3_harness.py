"""S3 as the suite sees it: a bucket in memory, and by URL a server.

As a program it judges the backend on moto or SeaweedFS: ``s3_harness.py moto --profile full``.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from typing_extensions import override

from durably import Storage
from durably.testing import Handle, Harness, Place
from durably_s3 import S3LogStore, Settings
from durably_s3.testing import MemoryBucket, Shelf
from s3_servers import Moto, Seaweed, Server


class _SlowBucket(MemoryBucket):
    """A bucket whose requests each take turns of the event loop, so that others come between."""

    @override
    async def get(self, key, **options):
        await asyncio.sleep(0)
        return await super().get(key, **options)

    @override
    async def put(self, key, data, **options):
        await asyncio.sleep(0)
        etag = await super().put(key, data, **options)
        await asyncio.sleep(0)
        return etag

    @override
    async def delete(self, key, *, match):
        await asyncio.sleep(0)
        await super().delete(key, match=match)

    @override
    async def delete_all(self, keys):
        await asyncio.sleep(0)
        await super().delete_all(keys)

    @override
    async def list(self, prefix, **options):
        await asyncio.sleep(0)
        return await super().list(prefix, **options)


class _ShelfPlace(Place):
    """Objects in memory."""

    def __init__(self) -> None:
        self._shelf = Shelf()

    @property
    @override
    def url(self) -> None:
        return None

    @override
    async def connect(self, *, clock=time.time, namespace="") -> Handle:
        bucket = _SlowBucket(self._shelf)
        store = S3LogStore(Settings(bucket="memory"), bucket=bucket, namespace=namespace)
        return Storage(store, clock=clock)

    @override
    async def dump(self) -> dict[str, bytes]:
        return self._shelf.dump()


class _ShelfHarness(Harness):
    name = "s3-memory"
    capabilities = S3LogStore.capabilities
    limits = S3LogStore.limits

    @override
    def place(self) -> Place:
        return _ShelfPlace()


in_memory = _ShelfHarness()


def url(server: Server) -> str:
    """Return the URL of a storage on a server; its ``environment`` gives the credentials."""
    return f"s3://{server.shared}/conformance?endpoint_url={server.endpoint}"


def main(name: str, *arguments: str) -> int:
    """Judge the backend on a server of its own, as a stranger does, and return the exit code."""
    with (
        tempfile.TemporaryDirectory(prefix="durably-s3-") as folder,
        Moto() if name == "moto" else Seaweed(Path(folder)) as server,
    ):
        command = ["durably-conformance", "run", url(server), *arguments]
        environment = {**os.environ, **server.environment}
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
