"""Fixtures: the same tests run on every backend, through two handles."""

import pytest

from places import BACKENDS, Place
from tree_places import OnBucket, OnRedis

EVERYWHERE = (*BACKENDS, "redis", "bucket")


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc):
    """Let a module that says so have its places on a server of Redis and in a bucket, too."""
    is_everywhere = getattr(metafunc.module, "ON_EVERY_BACKEND", False)
    if is_everywhere and "place" in metafunc.fixturenames:
        metafunc.definition.add_marker(pytest.mark.parametrize("place", EVERYWHERE, indirect=True))


@pytest.fixture(params=BACKENDS)
def place(request, tmp_path):
    """One fresh storage area on each backend."""
    if request.param == "redis":
        return OnRedis(request.getfixturevalue("server"))
    return OnBucket() if request.param == "bucket" else Place(request.param, tmp_path)


@pytest.fixture
async def handles(place):
    """Two storages opened apart onto one place: two connections, where there are any."""
    async with place.open() as first, place.open() as second:
        assert first is not second
        yield first, second


@pytest.fixture
async def storage(handles):
    """The first of the two handles, for facts that one handle shows."""
    return handles[0]


def pytest_terminal_summary(terminalreporter):
    """Print what tests counted, also where they ran in other processes."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "counted":
                terminalreporter.write_line(f"{report.nodeid}: {value}")
