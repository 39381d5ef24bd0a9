"""Checks that plant odd records: they take no layout for granted."""

from types import SimpleNamespace

import pytest

from durably.testing import MemoryPlace
from durably_conformance import UrlHarness, all_checks, run

PLANTING = ("SES-REW-014", "SES-REW-015", "SES-TRIM-013", "SES-TRIM-014")


class Native(MemoryPlace):
    """A log store beside sessions that do not lie in it."""

    def __init__(self):
        super().__init__()
        self._elsewhere = MemoryPlace()

    async def connect(self, **options):
        logs, native = await super().connect(**options), await self._elsewhere.connect(**options)

        async def aclose():
            await logs.aclose()
            await native.aclose()

        return SimpleNamespace(log_store=logs.log_store, sessions=native.sessions, aclose=aclose)


@pytest.mark.parametrize("id_", PLANTING)
def test_sessions_may_lie_elsewhere(id_, monkeypatch):
    """A backend whose sessions are no logs is not judged by what lies in its log store."""
    harness = UrlHarness("memory://")
    chosen = [one for one in all_checks() if one.id == id_]
    assert run(harness, checks=chosen).checks[0].status == "passed"
    monkeypatch.setattr(harness, "place", Native)
    [found] = run(harness, checks=chosen).checks
    assert (found.status, found.reason) == (
        "unsupported",
        "its sessions do not lie in its log store",
    )
