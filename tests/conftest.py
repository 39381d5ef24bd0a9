"""Fixtures: the same tests run on every backend, through two handles."""

import pytest

from places import BACKENDS, Place


@pytest.fixture(params=BACKENDS)
def place(request, tmp_path):
    """One fresh storage area on each backend."""
    return Place(request.param, tmp_path)


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
