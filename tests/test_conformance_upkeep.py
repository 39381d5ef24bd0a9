"""Checks of what a storage has beside the contracts: a handle may do without."""

from types import SimpleNamespace

import pytest

from durably import Unsupported
from durably.testing import MemoryPlace
from durably_conformance import UrlHarness, all_checks, run

BESIDE = (
    "CAT-001",
    "CAT-007",
    "PRN-001",
    "SES-ARC-001",
    "SES-ARC-002",
    "COPY-001",
    "COPY-005",
    "REC-001",
    "REC-002",
)
PARTS = ("catalog", "archive", "prune", "export", "fork", "rewind", "finish")


class Bare(MemoryPlace):
    """A place whose handles have the contracts and nothing else."""

    async def connect(self, **options):
        storage = await super().connect(**options)
        return SimpleNamespace(
            sessions=storage.sessions,
            checkpointer=storage.checkpointer,
            checkpoint_saver=storage.checkpoint_saver,
            log_store=storage.log_store,
            aclose=storage.aclose,
        )


class Refusing:
    """A storage that refuses what it has beside the contracts, as one without a log store."""

    def __init__(self, storage):
        self._storage = storage

    def __getattr__(self, name):
        if name in PARTS:
            raise Unsupported(f"there is no {name}")
        return getattr(self._storage, name)


class Native(MemoryPlace):
    """A place of such storages."""

    async def connect(self, **options):
        return Refusing(await super().connect(**options))


@pytest.mark.parametrize("place", [Bare, Native])
@pytest.mark.parametrize("id_", BESIDE)
def test_a_handle_may_do_without(id_, place, monkeypatch):
    """What a handle does not have is not judged, and the report names it."""
    harness = UrlHarness("memory://")
    chosen = [one for one in all_checks() if one.id == id_]
    assert run(harness, checks=chosen).checks[0].status == "passed"
    monkeypatch.setattr(harness, "place", place)
    [found] = run(harness, checks=chosen).checks
    assert found.status == "unsupported"
    assert found.reason in {f"its handles have no {name}" for name in PARTS}
