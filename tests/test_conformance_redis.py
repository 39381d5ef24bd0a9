"""Redis, judged by the suite that judges a stranger's: a server by URL, a Cluster by its client."""

import pytest

from durably_conformance.pytest import suite

pytestmark = [pytest.mark.xdist_group("redis-conformance"), pytest.mark.timeout(120)]

TestRedis = suite("redis_harness:by_url")
TestCluster = suite("redis_harness:by_cluster_client")
