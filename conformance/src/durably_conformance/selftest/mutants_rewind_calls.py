"""Wrong rewinds: what becomes of tool calls that the cut leaves without a result."""

import msgspec
from typing_extensions import override

from durably import (
    Rewound,
    Segment,
    ToolCallEntry,
    drop_dangling_tool_calls,
)
from durably_conformance.building import call, result, said, shape
from durably_conformance.selftest.spoiling import SpoiledRewind, wrong
from durably_conformance.selftest.tracking import Tracked


class KeepsCalls(SpoiledRewind):
    """Leaves the first call of a run that it cut short, whatever became of its result."""

    @override
    def left(
        self, before: list[Segment], after: list[Segment], done: Rewound, keep: int
    ) -> list[Segment]:
        first = {one.run_id: one.entries[:1] for one in before}
        if not done.truncated_run_id or not after:
            return after
        last = after[-1]
        calls = [one for one in first[last.run_id] if isinstance(one, ToolCallEntry)]
        entries = [*(one for one in calls if one not in last.entries), *last.entries]
        return [*after[:-1], msgspec.structs.replace(last, entries=entries)]


class CutsAtTheCall(SpoiledRewind):
    """Drops everything from the first call without a result on."""

    @override
    def left(
        self, before: list[Segment], after: list[Segment], done: Rewound, keep: int
    ) -> list[Segment]:
        old = next((one for one in before if one.run_id == done.truncated_run_id), None)
        if old is None or not after:
            return after
        last = after[-1]
        same = [
            entry for entry, other in zip(last.entries, old.entries, strict=False) if entry == other
        ]
        return [*after[:-1], msgspec.structs.replace(last, entries=same or last.entries)]


class KeepsAnEmptyRun(SpoiledRewind):
    """Keeps a run of which nothing is left as one without entries."""

    @override
    def left(
        self, before: list[Segment], after: list[Segment], done: Rewound, keep: int
    ) -> list[Segment]:
        seen = 0
        for one in before:
            seen += len(one.entries)
            if seen > keep > 0 and one.run_id in done.removed_run_ids and not done.truncated_run_id:
                nothing = seen - len(one.entries) < keep
                empty = msgspec.structs.replace(one, entries=[], meta=None)
                return [*after, empty] if nothing else after
        return after


class RepairsEveryRun(SpoiledRewind):
    """Drops calls without a result from every run it keeps."""

    @override
    def left(
        self, before: list[Segment], after: list[Segment], done: Rewound, keep: int
    ) -> list[Segment]:
        last = {one.run_id for one in after[-1:]} - {done.truncated_run_id}
        if not done.removed_run_ids:
            return after
        return [
            msgspec.structs.replace(one, entries=drop_dangling_tool_calls(one.entries))
            if one.run_id in last
            else one
            for one in after
        ]


async def keeps_a_call(place: Tracked) -> bool:
    """Cut between a call and its result."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", [call("1"), *said("a"), result("1")])
    await sessions.rewind("s", keep_entries=2)
    return call("1") in await sessions.load("s")


async def drops_what_follows_a_call(place: Tracked) -> bool:
    """Cut between a call and its result, with something before and after the call."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", [*said("a"), call("1"), *said("b"), result("1")])
    await sessions.rewind("s", keep_entries=3)
    return await sessions.load("s") == said("a")


async def keeps_nothing_of_a_run(place: Tracked) -> bool:
    """Cut a run of which nothing can be left."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", said("a"))
    await sessions.append("s", [call("1"), result("1")], run_id="r")
    await sessions.rewind("s", keep_entries=2)
    return ("r", 0) in await shape(sessions, "s")


async def repairs_a_whole_run(place: Tracked) -> bool:
    """Cut behind a run with a call without a result."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", [call("1")])
    await sessions.append("s", said("a"))
    await sessions.rewind("s", keep_entries=1)
    return await sessions.load("s") == []


MUTANTS = (
    wrong(
        "drops what follows a call",
        "Of a run cut short only the calls without a result go.",
        "SES-REW-007",
        "a history cut back to the last point where no call was open",
        drops_what_follows_a_call,
        sessions=CutsAtTheCall,
    ),
    wrong(
        "keeps calls without a result",
        "A tool call left without its result by the cut goes.",
        "SES-REW-007",
        "openai/openai-agents-python#4322",
        keeps_a_call,
        sessions=KeepsCalls,
    ),
    wrong(
        "keeps an empty run",
        "A run of which nothing would be left goes.",
        "SES-REW-008",
        "repair as a second step, after the runs to be removed were chosen",
        keeps_nothing_of_a_run,
        sessions=KeepsAnEmptyRun,
    ),
    wrong(
        "repairs every run",
        "A run the cut does not land inside keeps its calls.",
        "SES-REW-009",
        "langchain-ai/langchain-aws#848",
        repairs_a_whole_run,
        sessions=RepairsEveryRun,
    ),
)
