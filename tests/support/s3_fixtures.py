"""Fixtures of the tests on S3: servers that live as long as their xdist worker.

Test files name this module as their plugin, and isolate themselves by prefixes. SeaweedFS is one
for all workers: tests that ask for it carry ``@pytest.mark.xdist_group("seaweedfs")``.
"""

import pytest

from s3_servers import Moto, Seaweed


@pytest.fixture(scope="session")
def moto():
    """A quick server, whose conditional requests are one step each."""
    with Moto() as server:
        yield server


@pytest.fixture(scope="session")
def seaweed(tmp_path_factory):
    """A real server, that checks signatures and lists a folder's content beside the folder."""
    with Seaweed(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server
