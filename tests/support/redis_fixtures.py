"""Fixtures of the tests on Redis: servers that live as long as their xdist worker.

Test files name this module as their plugin, and isolate themselves by namespaces.
"""

import pytest

from logs import closing_all
from redis_servers import ALWAYS, Cluster, Server


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server that keeps everything in memory alone."""
    with Server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="session")
def durable_server(tmp_path_factory):
    """A server with ``appendonly yes`` and ``appendfsync always``."""
    with Server(tmp_path_factory.mktemp("redis-aof"), *ALWAYS) as server:
        yield server


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Three servers that are one Cluster."""
    cluster = Cluster(tmp_path_factory.mktemp("redis-cluster"))
    yield cluster
    cluster.close()


@pytest.fixture
def own_server(tmp_path):
    """Start servers of a test's own, with options of its own; they end with the test."""
    servers = []

    def start(*options):
        servers.append(Server(tmp_path / f"redis-{len(servers)}", *options))
        return servers[-1]

    yield start
    for one in servers:
        one.stop()


@pytest.fixture
async def keep():
    """Close stores and clients in the end."""
    async with closing_all() as keep:
        yield keep


@pytest.fixture
def store(server, keep):
    """A store in a namespace of its own."""
    return keep(server.store())
