"""Fixtures of the tests on S3: servers that live as long as their xdist worker.

Test files name this module as their plugin, and isolate themselves by prefixes. SeaweedFS is one
for all workers: tests that ask for it carry ``@pytest.mark.xdist_group("seaweedfs")``. Those that
ask for moto are in two groups, so that two workers share them. No test is in more than one group:
xdist would make a third of the two.
"""

import pytest
from botocore.retries.standard import ExponentialBackoff

from logs import closing_all
from s3_proxy import Proxy
from s3_servers import Moto, Seaweed
from s3_stores import Site


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


@pytest.fixture
def aws(monkeypatch, tmp_path):
    """Leave of the machine's own configuration nothing; give a function that sets variables."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no credentials"))
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)

    def use(variables) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return use


@pytest.fixture
def quick_retries(monkeypatch):
    """Let boto3 try again after a moment, and not after up to a second."""
    monkeypatch.setattr(ExponentialBackoff, "delay_amount", lambda *_: 0.02)


@pytest.fixture
async def keep():
    """Close stores in the end."""
    async with closing_all() as keep:
        yield keep


@pytest.fixture
def bare_site(moto, aws, keep):
    """A site on moto, with nothing in it."""
    aws(moto.environment)
    with Proxy(moto) as proxy:
        yield Site(proxy, keep)


@pytest.fixture
def site(bare_site):
    """A site on moto, with its layout in it."""
    bare_site.mark()
    return bare_site


@pytest.fixture
def real_site(seaweed, aws, keep):
    """A site on SeaweedFS, with nothing in it."""
    aws(seaweed.environment)
    with Proxy(seaweed) as proxy:
        yield Site(proxy, keep)


@pytest.fixture(
    params=[
        pytest.param("bare_site", id="moto", marks=pytest.mark.xdist_group("moto-2")),
        pytest.param("real_site", id="seaweedfs", marks=pytest.mark.xdist_group("seaweedfs")),
    ]
)
def either_site(request):
    """A site on each of the servers, one after the other."""
    return request.getfixturevalue(request.param)
