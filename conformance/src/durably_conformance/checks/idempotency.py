"""``Session``: one run is stored once, whoever sends it how often, and nobody sees half of it."""

import asyncio

from durably import Entry
from durably_conformance.building import call, delayed, result, said, shape
from durably_conformance.context import T
from durably_conformance.registry import check


@check("SES-IDEM-001", contract="session", reports=("google/adk-python#4506",))
async def the_first_write_wins(t: T) -> None:
    """A second append under a stored run_id changes nothing, whatever it carries."""
    handle = await t.connect()
    await handle.sessions.append("s", [], run_id="e")
    await handle.sessions.append("s", said("first"), run_id="r", meta={"n": 1})
    again = await handle.sessions.append("s", said("second", "third"), run_id="r", meta={"n": 2})
    t.eq(again, "r", "the run_id that the second append returns")
    await handle.sessions.append("s", [], run_id="r")
    await handle.sessions.append("s", said("late"), run_id="e")
    segments = await handle.sessions.segments("s")
    found = [(one.run_id, one.entries, one.meta) for one in segments]
    want = [("e", said(), None), ("r", said("first"), {"n": 1})]
    t.eq(found, want, "runs after the second appends")


@check("SES-IDEM-002", contract="session")
async def every_handle_knows_the_runs(t: T) -> None:
    """A run is known as stored to every handle, also to one that never read or wrote it."""
    handle, early = await t.connect(), await t.connect()
    await handle.sessions.append("s", said("first"), run_id="r")
    await early.sessions.append("s", said("second"), run_id="r")
    t.eq(await handle.sessions.load("s"), said("first"), "entries after an append by another")
    await handle.aclose()
    late = await t.connect()
    await late.sessions.append("s", said("third"), run_id="r")
    t.eq(await late.sessions.load("s"), said("first"), "entries after an append by a later one")


@check("SES-IDEM-003", contract="session")
async def run_ids_are_of_one_session(t: T) -> None:
    """The same run_id in two sessions is two runs."""
    handle, other = await t.connect(), await t.connect()
    await handle.sessions.append("s", said("one"), run_id="r")
    await handle.sessions.append("t", said("two"), run_id="r")
    t.eq(await other.sessions.load("s"), said("one"), "entries of the first session")
    t.eq(await other.sessions.load("t"), said("two"), "entries of the second session")


@check("SES-IDEM-004", contract="session", reports=("google/adk-python#5723",))
async def one_run_at_once_is_stored_once(t: T) -> None:
    """Of 20 appends of one run_id at once through four handles one is stored, whole."""
    handles = [await t.connect() for _ in range(4)]
    given = await asyncio.gather(
        *(
            delayed(
                number // 4,
                handles[number % 4].sessions.append(
                    "s", said(*[f"{number}"] * 5), run_id="r", meta={"n": number}
                ),
            )
            for number in range(20)
        )
    )
    t.eq(given, ["r"] * 20, "the run ids that the appends return")
    segments = await handles[0].sessions.segments("s")
    t.eq([one.run_id for one in segments], ["r"], "run ids")
    won = (segments[0].meta or {}).get("n")
    t.eq(segments[0].entries, said(*[f"{won}"] * 5), "entries, by the meta of the same append")


@check(
    "SES-CONC-001",
    contract="session",
    reports=("agno-agi/agno#7479", "openai/openai-agents-python#2843"),
)
async def appends_at_once_lose_nothing(t: T) -> None:
    """Of many runs appended at once through four handles each is stored, whole and once."""
    handles = [await t.connect() for _ in range(4)]
    names = [f"r{number:02}" for number in range(24)]
    await asyncio.gather(
        *(
            delayed(
                number % 3,
                handles[number % 4].sessions.append("s", said(*[name] * 3), run_id=name),
            )
            for number, name in enumerate(names)
        )
    )
    segments = await (await t.connect()).sessions.segments("s")
    t.same_set([one.run_id for one in segments], names, "run ids")
    torn = [one.run_id for one in segments if one.entries != said(*[one.run_id] * 3)]
    t.eq(torn, [], "runs that are not whole")


@check(
    "SES-ATOM-001",
    contract="session",
    reports=("PostHog/posthog#34648", "openai/openai-agents-python#4203"),
)
async def a_run_is_seen_whole(t: T) -> None:
    """A reader sees all entries of a run or none, also while it is being appended."""
    handle, other = await t.connect(), await t.connect()
    entries: list[Entry] = said(*[f"{number}" for number in range(30)])

    async def append() -> None:
        for number in range(5):
            await delayed(1, handle.sessions.append("s", entries, run_id=f"r{number}"))

    appending = asyncio.create_task(append())
    seen: set[int] = set()
    try:
        while not appending.done():
            seen |= {size for _, size in await delayed(1, shape(other.sessions, "s"))}
    finally:
        await appending
    t.eq(sorted(seen - {30}), list[int](), "sizes of parts of runs that were seen")
    t.eq(await shape(other.sessions, "s"), [(f"r{n}", 30) for n in range(5)], "runs in the end")


@check("SES-REV-001", contract="session", reports=("google/adk-python#3717",))
async def the_revision_moves_with_changes(t: T) -> None:
    """The revision changes with every change and with nothing else, and never comes back."""
    handle, other = await t.connect(), await t.connect()
    seen = [0]
    for life in ("a", "b"):
        t.eq(await other.sessions.revision("s"), 0, "revision where there is no session")
        for number in range(2):
            await handle.sessions.append("s", said("a"), run_id=f"{life}{number}")
            seen.append(await other.sessions.revision("s"))
            t.eq(len(set(seen)), len(seen), "different revisions, of as many states")
        await handle.sessions.append("s", said("again"), run_id=f"{life}0")
        await handle.sessions.segments("s")
        await handle.sessions.load("s")
        t.eq(await handle.sessions.revision("s"), seen[-1], "revision after what changes nothing")
        await handle.sessions.clear("s")


@check("SES-REV-002", contract="session", requires=("rewind", "trim"))
async def maintenance_moves_the_revision(t: T) -> None:
    """A rewind or trim that changes something moves the revision, one that does not leaves it."""
    handle, other = await t.connect(), await t.connect()
    await handle.sessions.append("s", [call("c"), result("c", "x" * 900)], run_id="r1")
    await handle.sessions.append("s", said("a"), run_id="r2")
    seen = [await other.sessions.revision("s")]
    t.eq(await handle.sessions.trim_tool_results("s", keep_chars=10), 1, "results trimmed")
    seen.append(await other.sessions.revision("s"))
    t.eq((await handle.sessions.rewind("s", keep_entries=2)).removed_entries, 1, "entries removed")
    seen.append(await other.sessions.revision("s"))
    t.eq(len(set(seen)), 3, "different revisions, of three states")
    await handle.sessions.trim_tool_results("s", keep_chars=10, keep_runs=0)
    await handle.sessions.rewind("s", keep_entries=2)
    t.eq(await other.sessions.revision("s"), seen[-1], "revision after what changes nothing")
