"""``Session``: what is appended comes back, in order, whole, from every handle."""

from typing import Any

from durably import CustomEntry, ReasoningEntry, TextPart
from durably_conformance.building import answer, call, result, said, shape
from durably_conformance.context import T
from durably_conformance.registry import check


@check("SES-APP-001", contract="session", reports=("openai/openai-agents-python#2426",))
async def segments_come_back(t: T) -> None:
    """A run's id, its entries of every kind and its meta come back as they were appended."""
    handle = await t.connect()
    entries = [
        *said("one", "two"),
        ReasoningEntry(provider="p", metadata={"steps": [1, 2.5]}),
        call("c", arguments='{"q": 1}'),
        result("c", "gone", is_error=True, raw={"rows": []}, parts=[TextPart(text="x")]),
        CustomEntry(kind="note", data=[None, {}]),
        answer("three"),
    ]
    meta: dict[str, Any] = {"a": [1, None, {"b": "c"}], "empty": {}}
    run_id = await handle.sessions.append("s", entries, run_id="r1", meta=meta)
    t.eq(run_id, "r1", "the run_id that append returns")
    await handle.sessions.append("s", said("four"), run_id="r2")
    segments = await (await t.connect()).sessions.segments("s")
    t.eq([one.run_id for one in segments], ["r1", "r2"], "run ids")
    t.exact(segments[0].entries, entries, "entries")
    t.exact([one.meta for one in segments], [meta, None], "meta, of a run without meta too")


@check(
    "SES-APP-002",
    contract="session",
    reports=("openai/openai-agents-python#1900", "google/adk-python#454"),
)
async def runs_are_in_the_order_of_appends(t: T) -> None:
    """Runs come back in the order in which they were appended, whatever clock and ids say."""
    one, other = await t.connect(), await t.connect()
    names = [f"run-{number}" for number in range(60)]
    t.random.shuffle(names)
    for number, name in enumerate(names):
        await (one, other)[number % 2].sessions.append("s", said(name), run_id=name)
        t.clock.advance(-60 * (number % 3))
    for handle in (one, other, await t.connect()):
        segments = await handle.sessions.segments("s")
        t.eq([one.run_id for one in segments], names, "run ids")
    t.eq(await other.sessions.load("s"), said(*names), "entries")


@check("SES-APP-003", contract="session")
async def empty_runs_are_kept(t: T) -> None:
    """A run without entries is kept where it was appended, with its meta."""
    handle, other = await t.connect(), await t.connect()
    for run_id, texts in (("a", []), ("b", ["x"]), ("c", []), ("d", ["y"]), ("e", [])):
        await handle.sessions.append("s", said(*texts), run_id=run_id, meta={"of": run_id})
    found = [(one.run_id, len(one.entries)) for one in await other.sessions.segments("s")]
    t.eq(found, [("a", 0), ("b", 1), ("c", 0), ("d", 1), ("e", 0)], "runs and their sizes")
    metas = [one.meta for one in await other.sessions.segments("s")]
    t.eq(metas, [{"of": run_id} for run_id in "abcde"], "meta")


@check("SES-APP-004", contract="session")
async def an_omitted_run_id_is_fresh(t: T) -> None:
    """A run appended without a run_id gets one that no other run has, and append returns it."""
    handles = [await t.connect(), await t.connect()]
    given = [
        await handles[number % 2].sessions.append("s", said(f"{number}")) for number in range(40)
    ]
    t.eq(len(set(given)), 40, "different run ids of 40 runs")
    segments = await handles[0].sessions.segments("s")
    t.same_set([one.run_id for one in segments], given, "run ids that are stored")
    t.same_set(await handles[1].sessions.load("s"), said(*map(str, range(40))), "entries")


@check("SES-APP-005", contract="session")
async def load_joins_the_segments(t: T) -> None:
    """``load`` gives the entries of all runs one after the other, equal ones each time."""
    handle, other = await t.connect(), await t.connect()
    for run_id, texts in (("a", "xy"), ("b", "yx"), ("c", "xx")):
        await handle.sessions.append("s", said(*texts), run_id=run_id)
    t.eq(await other.sessions.load("s"), said(*"xyyxxx"), "entries")
    segments = await other.sessions.segments("s")
    joined = [entry for one in segments for entry in one.entries]
    t.eq(joined, said(*"xyyxxx"), "entries of the segments")


@check(
    "SES-APP-006",
    contract="session",
    reports=("agno-agi/agno#9450", "nexu-io/open-design#5490"),
)
async def an_append_needs_no_load(t: T) -> None:
    """A handle that read a session earlier appends to what is there by then."""
    one, other = await t.connect(), await t.connect()
    await one.sessions.append("s", said("0"), run_id="r0")
    await one.sessions.load("s")
    await other.sessions.append("s", said("1"), run_id="r1")
    await one.sessions.append("s", said("2"), run_id="r2")
    await other.sessions.append("s", said("3"), run_id="r3")
    wanted = [(f"r{number}", 1) for number in range(4)]
    for handle in (one, other):
        t.eq(await shape(handle.sessions, "s"), wanted, "runs and their sizes")


@check("SES-APP-007", contract="session")
async def entries_are_any_sequence(t: T) -> None:
    """Entries may be appended as any sequence, a tuple as well as a list."""
    handle = await t.connect()
    await handle.sessions.append("s", tuple(said("a", "b")), run_id="r1")
    await handle.sessions.append("s", (), run_id="r2")
    t.eq(await shape(handle.sessions, "s"), [("r1", 2), ("r2", 0)], "runs and their sizes")
    t.eq(await handle.sessions.load("s"), said("a", "b"), "entries")


@check(
    "SES-APP-008",
    contract="session",
    reports=("aws/bedrock-agentcore-sdk-python#206", "aws/bedrock-agentcore-sdk-python#346"),
)
async def all_is_all(t: T) -> None:
    """However many entries and runs a session has, all of them come back."""
    handle, other = await t.connect(), await t.connect()
    await handle.sessions.append("long", said(*map(str, range(1_001))), run_id="r")
    names = [f"{number:03}" for number in range(101)]
    for name in names:
        await handle.sessions.append("s", said(name), run_id=name)
    t.eq(await other.sessions.load("long"), said(*map(str, range(1_001))), "entries of one run")
    t.same_set([one.run_id for one in await other.sessions.segments("s")], names, "runs")
    t.eq(len(await other.sessions.load("s")), 101, "entries of as many runs")


@check("SES-NONE-001", contract="session", reports=("agno-agi/agno#7879",))
async def nothing_is_empty(t: T) -> None:
    """A session that nobody appended to is empty, and looking at it or clearing it makes none."""
    handle, other = await t.connect(), await t.connect()
    await handle.sessions.append("t", said("a"), run_id="r")
    t.eq(await handle.sessions.load("s"), [], "entries")
    t.eq(await handle.sessions.segments("s"), [], "segments")
    await handle.sessions.clear("s")
    for one in (handle, other):
        t.eq(await one.sessions.revision("s"), 0, "revision")
        t.eq(await one.sessions.segments("s"), [], "segments after that")
    t.eq(await other.sessions.load("t"), said("a"), "entries of the session that is there")


@check("SES-CLR-001", contract="session", reports=("openai/openai-agents-python#3755",))
async def a_cleared_session_starts_anew(t: T) -> None:
    """A cleared session is empty, and its run ids are free again."""
    handle, other = await t.connect(), await t.connect()
    await handle.sessions.append("s", said("old", "older"), run_id="r1")
    await handle.sessions.append("s", said("old"), run_id="r2")
    await other.sessions.clear("s")
    t.eq(await shape(handle.sessions, "s"), [], "runs after the clear")
    await handle.sessions.append("s", said("new"), run_id="r1")
    t.eq(await shape(other.sessions, "s"), [("r1", 1)], "runs after an append")
    t.eq(await other.sessions.load("s"), said("new"), "entries after an append")
