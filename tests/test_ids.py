"""Ids: how a refusal reads, and where a listing may start."""

import pytest

from durably import InvalidId, RunHead
from durably_conformance.hostile import HOSTILE_IDS, REFUSED_IDS


@pytest.fixture(params=REFUSED_IDS, ids=ascii)
def refused(request):
    """An id that no backend may store."""
    return request.param


async def test_a_page_may_start_after_any_hostile_id(storage):
    """A listing takes every hostile id as ``after``, exclusive, whether it exists or not."""
    await storage.checkpointer.append("foo", [], RunHead())
    for id_ in HOSTILE_IDS:
        page = await storage.checkpointer.runs(after=id_)
        expected = ["foo"] if id_.encode() < b"foo" else []
        assert [run.run_id for run in page.items] == expected, id_


async def test_a_listing_refuses_an_illegal_start(storage, refused):
    """A listing refuses an illegal ``after``; None and the empty text start at the beginning."""
    await storage.checkpointer.append("r", [], RunHead())
    if refused is None or refused == "":
        page = await storage.checkpointer.runs(after=refused)
        assert [run.run_id for run in page.items] == ["r"]
        return
    with pytest.raises(InvalidId):
        await storage.checkpointer.runs(after=refused)


async def test_an_error_shows_little_of_a_long_id(storage):
    """An InvalidId says why and keeps its message short."""
    with pytest.raises(InvalidId, match="it has 100000 bytes, the limit is 256") as caught:
        await storage.sessions.load("x" * 100_000)
    assert len(str(caught.value)) < 300
