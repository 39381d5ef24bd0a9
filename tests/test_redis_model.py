"""Any sequence of changes and reads gives the same on Redis as on memory, whatever the client."""

import pytest
from redis.asyncio import Redis

from durably_redis import RedisLogStore
from redis_machine import agree
from redis_servers import HOST

pytest_plugins = ["redis_fixtures"]
pytestmark = [pytest.mark.xdist_group("redis"), pytest.mark.timeout(120)]


def test_redis_agrees_with_memory(server):
    """Random batches, rewrites, deletes and reads, sent again at will, agree with memory."""

    def open_store(namespace):
        return server.store(namespace=namespace), None

    agree(open_store, examples=40)


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_client_that_decodes_agrees_with_memory(server, protocol):
    """A client of the user's with decode_responses=True, of either protocol, agrees too."""

    def open_store(namespace):
        client = Redis(host=HOST, port=server.port, decode_responses=True, protocol=protocol)
        return RedisLogStore(client=client, namespace=namespace), client

    agree(open_store, examples=12)


@pytest.mark.xdist_group("redis-cluster")
@pytest.mark.parametrize("decoded", [False, True])
def test_a_cluster_agrees_with_memory(cluster, decoded):
    """Three nodes through a RedisCluster of the user's agree with memory."""

    def open_store(namespace):
        client = cluster.client(decode_responses=decoded)
        return RedisLogStore(client=client, namespace=namespace), client

    agree(open_store, examples=12)
