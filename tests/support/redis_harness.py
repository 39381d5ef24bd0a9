"""Redis as the suite sees it: a server that asks for a password, and a Cluster by its client.

The servers start with the first place and end with the process.
"""

import atexit
import functools
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from typing_extensions import override

import durably
from durably import Storage
from durably.testing import Handle, Harness, Place
from durably_redis import RedisLogStore
from redis_servers import HOST, Cluster, Server, dump, namespace

PASSWORD = "correct-horse"  # noqa: S105 - of a server that ends with these tests


def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="durably-redis-"))


@functools.cache
def _server() -> Server:
    server = Server(_folder(), "--requirepass", PASSWORD)
    atexit.register(server.stop)
    return server


@functools.cache
def _cluster() -> Cluster:
    cluster = Cluster(_folder())
    atexit.register(cluster.close)
    return cluster


class _RedisPlace(Place):
    """Namespaces of a server that begin with a name of their own."""

    def __init__(self) -> None:
        self._name = namespace()

    @property
    @override
    def url(self) -> str:
        return self._url("")

    def _url(self, namespace: str) -> str:
        base = f"redis://:{PASSWORD}@{HOST}:{_server().port}/0"
        return f"{base}?namespace={quote(f'{self._name}.{namespace}', safe='')}"

    @override
    async def connect(self, *, clock=time.time, namespace="") -> Handle:
        return durably.open(self._url(namespace), clock=clock)

    @override
    async def dump(self) -> dict[str, bytes]:
        with _server().client(password=PASSWORD) as client:
            found = dump(client)
        mine = quote(f"{self._name}.", safe="").encode()
        return {repr(name): repr(value).encode() for name, value in found.items() if mine in name}


class _ClusterPlace(Place):
    """The same on a Cluster, for which there is no URL yet."""

    def __init__(self) -> None:
        self._name = namespace()

    @property
    @override
    def url(self) -> None:
        return None

    @override
    async def connect(self, *, clock=time.time, namespace="") -> Handle:
        client = _cluster().client()
        return _OwnedStorage(client, f"{self._name}.{namespace}", clock)


class _OwnedStorage(Storage):
    """A storage that closes its client, too."""

    def __init__(self, client, namespace, clock) -> None:
        super().__init__(RedisLogStore(client=client, namespace=namespace), clock=clock)
        self._client = client

    @override
    async def aclose(self) -> None:
        await super().aclose()
        await self._client.aclose()


class _RedisHarness(Harness):
    def __init__(self, name, make) -> None:
        self.name = name
        self.capabilities = RedisLogStore.capabilities
        self.limits = RedisLogStore.limits
        self._make = make

    @override
    def place(self) -> Place:
        return self._make()


by_url = _RedisHarness("redis", _RedisPlace)
by_cluster_client = _RedisHarness("redis-cluster", _ClusterPlace)
