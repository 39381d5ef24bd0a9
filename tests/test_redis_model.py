"""Any sequence of changes and reads gives the same on Redis as on memory, whatever the client."""

import pytest
from redis.asyncio import Redis

from durably_redis import RedisLogStore
from log_machine import LogStores, agree
from redis_servers import HOST, namespace

pytest_plugins = ["redis_fixtures"]
pytestmark = [pytest.mark.xdist_group("redis"), pytest.mark.timeout(120)]


def _machine(open_store):
    """Return a machine over stores of ``open_store(namespace)``, each with what else to close."""

    class OnRedis(LogStores):
        def open_others(self):
            if not hasattr(self, "namespace"):
                self.namespace = namespace()
            opened = [open_store(self.namespace) for _ in range(2)]
            self.others = [store for store, _ in opened]
            self.clients = [client for _, client in opened if client is not None]

        def close_others(self):
            for one in (*self.others, *self.clients):
                self.twins.run(one.aclose())

    return OnRedis


def test_redis_agrees_with_memory(server):
    """Random batches, rewrites, deletes and reads, sent again at will, agree with memory."""

    def open_store(namespace):
        return server.store(namespace=namespace), None

    agree(_machine(open_store), examples=40)


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_client_that_decodes_agrees_with_memory(server, protocol):
    """A client of the user's with decode_responses=True, of either protocol, agrees too."""

    def open_store(namespace):
        client = Redis(host=HOST, port=server.port, decode_responses=True, protocol=protocol)
        return RedisLogStore(client=client, namespace=namespace), client

    agree(_machine(open_store), examples=12)


@pytest.mark.xdist_group("redis-cluster")
@pytest.mark.parametrize("decoded", [False, True])
def test_a_cluster_agrees_with_memory(cluster, decoded):
    """Three nodes through a RedisCluster of the user's agree with memory."""

    def open_store(namespace):
        client = cluster.client(decode_responses=decoded)
        return RedisLogStore(client=client, namespace=namespace), client

    agree(_machine(open_store), examples=12)
