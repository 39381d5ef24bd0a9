"""S3, judged by the suite that judges a stranger's: all of it in memory, a part on real servers.

The whole takes minutes on a server: ``nox -s conformance_s3``. Here each server gets the checks
whose outcome hangs on it: conditions where writers meet, what is listed in which order, ids in
names of objects, what a deletion leaves, closing, and logs of many objects. What is made of a
log's bytes is the same over any bucket, and judged in memory.
"""

import fnmatch

import pytest

from durably_conformance import all_checks
from durably_conformance.pytest import suite
from s3_harness import url

pytest_plugins = ["s3_fixtures"]
pytestmark = pytest.mark.timeout(120)

OF_SERVERS = (
    "CAT-003",
    "HAR-*",
    "DEL-RES-*",
    "LIFE-C*",
    "LOG-ATOM-*",
    "LOG-CONC-*",
    "LOG-DEL-*",
    "LOG-FENCE-004",
    "LOG-ISO-*",
    "LOG-LIST-00*",
    "LOG-LONG-*",
    "LOG-NS-*",
    "LOG-REV-002",
    "LOG-TIDY-*",
    "PRN-004",
    "SES-IDEM-004",
    "SES-ID-002",
)
URL = "DURABLY_TEST_S3"


@pytest.fixture
def on_moto(moto, aws):
    """Name a storage on moto, and give the right to use it."""
    aws({**moto.environment, URL: url(moto)})


@pytest.fixture
def on_seaweed(seaweed, aws):
    """The same on SeaweedFS."""
    aws({**seaweed.environment, URL: url(seaweed)})


TestMemory = suite("s3_harness:in_memory")


@pytest.mark.xdist_group("moto")
@pytest.mark.usefixtures("on_moto")
class TestMoto(suite(f"${{{URL}}}", only=OF_SERVERS)):
    """A quick server."""


@pytest.mark.xdist_group("seaweedfs")
@pytest.mark.usefixtures("on_seaweed")
class TestSeaweed(suite(f"${{{URL}}}", only=OF_SERVERS)):
    """A strict one."""


@pytest.mark.parametrize("pattern", OF_SERVERS)
def test_each_pattern_names_a_check(pattern):
    """No part of what servers are judged by has gone without notice."""
    assert fnmatch.filter([one.id for one in all_checks()], pattern)
