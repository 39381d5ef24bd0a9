"""Fixtures of what is to be true on Redis and S3, too: one place on each backend in turn.

A test file that asks for them names the plugins of both as its own.
"""

import pytest

import durably
from places import Place
from redis_servers import namespace


class ServerPlace:
    """A place on a server; whoever has its URL and this process's environment can open it."""

    def __init__(self, backend: str, url: str) -> None:
        self.backend = backend
        self.url = url

    def open(self, **options) -> durably.Storage:
        return durably.open(self.url, **options)


@pytest.fixture
def moto_url(moto, aws):
    aws(moto.environment)
    return f"s3://{moto.shared}/{namespace().replace(' ', '-')}?endpoint_url={moto.endpoint}"


def _place(request, folder):
    if request.param == "redis":
        url = request.getfixturevalue("server").url
        return ServerPlace("redis", f"{url}?namespace={namespace().replace(' ', '-')}")
    if request.param == "s3":
        return ServerPlace("s3", request.getfixturevalue("moto_url"))
    return Place(request.param, folder)


ON_S3 = pytest.param("s3", marks=pytest.mark.xdist_group("moto-2"))


@pytest.fixture(params=["memory", "sqlite", "redis", ON_S3])
def anywhere(request, tmp_path):
    """One fresh storage area on each backend."""
    return _place(request, tmp_path)


@pytest.fixture(params=["sqlite", "redis", ON_S3])
def outside(request, tmp_path):
    """One on each backend that outlives a process."""
    return _place(request, tmp_path)
