"""A small run that is cut off anywhere, and what must be true of it once it is issued again."""

from builders import model
from durably import ToolResultEntry, pending_tool_calls
from runner_scenes import calls, costly, run, scripted, stored

SCRIPT = [costly(*calls("a", "b")), costly(*calls("c")), costly(model("done"))]


def clerk():
    return scripted(*SCRIPT)


async def judge(storage, did):
    """Issue the run again, and check that it ends as if nothing had happened."""
    before = await stored(storage)
    kept = [] if before is None else before.entries
    known = {one.call_id for one in kept if isinstance(one, ToolResultEntry)}
    ran = list(did)
    ended = await run(clerk(), storage=storage, deps=did)
    again = did[len(ran) :]
    assert not known & set(again), "a call whose result was stored ran again"
    assert sorted(set(did)) == ["a", "b", "c"]
    assert max(did.count(one) for one in "abc") <= 2
    assert (ended.output, ended.turns, ended.usage.requests) == ("done", 3, 3)
    assert pending_tool_calls(ended.entries) == []
    assert len(ended.entries) == 8
    assert (await stored(storage)).entries == ended.entries
    assert [one.entries for one in await storage.sessions.segments("s")] == [ended.entries]
