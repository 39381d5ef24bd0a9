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
    "STA-001",
    "STA-006",
    "MIG-001",
    "MIG-007",
    "TREE-001",
    "TREE-LIST-001",
    "TREE-STATE-001",
)
PARTS = (
    "catalog",
    "archive",
    "prune",
    "export",
    "fork",
    "rewind",
    "finish",
    "states",
    "state_store",
    "tree",
    "trees",
    "tree_states",
)


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


class Older(MemoryPlace):
    """A place whose handles have savers that take no migrators, and states that are no trees."""

    async def connect(self, **options):
        storage = await super().connect(**options)

        def checkpoint_saver(*, max_checkpoints_per_thread=None):
            return storage.checkpoint_saver(max_checkpoints_per_thread=max_checkpoints_per_thread)

        return SimpleNamespace(
            sessions=storage.sessions,
            checkpointer=storage.checkpointer,
            checkpoint_saver=checkpoint_saver,
            log_store=storage.log_store,
            states=storage.states,
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


def test_a_saver_may_take_no_migrators(monkeypatch):
    """Where savers take no migrators, they are not judged by any."""
    assert judged("MIG-006", Older, monkeypatch) == ("unsupported", "its savers take no migrators")


def test_states_may_be_kept_in_one_way(monkeypatch):
    """A handle with states, and none that are kept as trees, is judged by the former."""
    assert judged("STA-003", Older, monkeypatch) == ("passed", None)


def judged(id_, place, monkeypatch):
    """Return what became of a check in such a place, and why."""
    harness = UrlHarness("memory://")
    monkeypatch.setattr(harness, "place", place)
    [found] = run(harness, checks=[one for one in all_checks() if one.id == id_]).checks
    return found.status, found.reason
