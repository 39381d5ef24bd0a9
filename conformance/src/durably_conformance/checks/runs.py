"""``Checkpointer.runs``: finding the runs there are, those that wait, and those that were left."""

from durably import RunStatus
from durably_conformance.building import head, said
from durably_conformance.context import T
from durably_conformance.reading_back import loaded, walked
from durably_conformance.registry import check


@check("CKP-RUNS-001", contract="checkpointer")
async def a_row_says_what_a_load_says(t: T) -> None:
    """A row of a listing has the run's revision and head, and how many entries it has."""
    one, other = await t.connect(), await t.connect()
    await one.checkpointer.append("r", said("a", "b"), head(turns=1, started_at=1.0))
    last = head(turns=2, status="failed", error="why", started_at=1.0)
    await one.checkpointer.append("r", said("c"), last)
    run = await loaded(t, one)
    rows = await walked(t, other)
    t.eq([row.run_id for row in rows], ["r"], "the runs listed")
    t.eq(rows[0].revision, run.revision, "revision")
    t.exact(rows[0].head, run.head, "head")
    t.eq(rows[0].entry_count, 3, "entry_count")


@check(
    "CKP-RUNS-002",
    contract="checkpointer",
    reports=("aws/bedrock-agentcore-sdk-python#206", "aws/bedrock-agentcore-sdk-python#346"),
)
async def pages_join_to_the_whole(t: T) -> None:
    """Pages of runs, of the default size or any other, join to all runs, none twice."""
    one, other = await t.connect(), await t.connect()
    names = [f"run-{number:03}" for number in range(104)]
    for name in reversed(names):
        await one.checkpointer.append(name, [], head())
    t.eq([row.run_id for row in await walked(t, other)], names, "ids, 100 a page at most")
    for limit in (26, 51, 1000):
        found = [row.run_id for row in await walked(t, other, limit=limit)]
        t.eq(found, names, f"ids, {limit} a page at most")
    after = await other.checkpointer.runs(after=names[-2])
    t.eq([row.run_id for row in after.items], names[-1:], "ids after the last but one")
    end = await other.checkpointer.runs(after=names[-1])
    t.eq((end.items, end.next), ((), None), "what is after the last")


@check("CKP-RUNS-003", contract="checkpointer")
async def a_walk_survives_changes(t: T) -> None:
    """A walk over runs finds each run that is there all along, once, whatever comes and goes."""
    one, other = await t.connect(), await t.connect()
    for name in "bcdefgh":
        await one.checkpointer.append(name, said("x"), head())
    page = await other.checkpointer.runs(limit=3)
    found = [row.run_id for row in page.items]
    t.ok(found, "the first page has runs")
    for name in found:
        await one.checkpointer.delete(name)
    for name in ("a", "a2"):
        await one.checkpointer.append(name, said("x"), head())
    rest = [row.run_id for row in await walked(t, other, limit=3)]
    t.eq(rest, sorted({"a", "a2", *"bcdefgh"} - set(found)), "a new walk")
    for _ in range(20):
        if page.next is None:
            break
        page = await other.checkpointer.runs(limit=3, after=page.next)
        found += [row.run_id for row in page.items]
    t.eq(found, list("bcdefgh"), "ids that the first walk found in all")


@check("CKP-RUNS-004", contract="checkpointer")
async def a_status_narrows(t: T) -> None:
    """A status narrows a listing to the runs whose last head has it, on pages of any size."""
    one, other = await t.connect(), await t.connect()
    states: list[RunStatus] = ["running", "interrupted", "completed", "failed"]
    wanted: dict[RunStatus, list[str]] = {status: [] for status in states}
    for number in range(17):
        name, last = f"run-{number:02}", states[(number * number) % 4 + number % 2]
        await one.checkpointer.append(name, said("x"), head(status=states[number % 4]))
        await one.checkpointer.append(name, said("y"), head(status=last))
        wanted[last].append(name)
    for status in states:
        for limit in (2, 100):
            rows = await walked(t, other, status=status, limit=limit)
            found = [row.run_id for row in rows]
            t.eq(found, wanted[status], f"ids that are {status}, {limit} a page at most")
            t.ok(all(row.head.status == status for row in rows), f"all of them are {status}")


@check("CKP-RUNS-005", contract="checkpointer")
async def idle_runs_are_found(t: T) -> None:
    """idle_for finds the runs whose last save is at least so many seconds ago."""
    one, other = await t.connect(), await t.connect()
    for name, seconds in (("a", 0), ("b", 0), ("c", 100)):
        t.clock.advance(seconds)
        await one.checkpointer.append(name, said("x"), head(started_at=1.0))
    t.clock.advance(50)
    await one.checkpointer.append("b", said("y"), head(status="completed"))
    t.clock.advance(50)
    wanted: dict[float, str] = {
        0: "abc",
        50: "abc",
        50.5: "ac",
        100: "ac",
        100.5: "a",
        200: "a",
        201: "",
    }
    for idle, names in wanted.items():
        rows = await walked(t, other, idle_for=idle)
        t.eq("".join(row.run_id for row in rows), names, f"runs idle for {idle} seconds")
    rows = await walked(t, other, idle_for=50, status="running", limit=1)
    t.eq([row.run_id for row in rows], ["a", "c"], "running ones idle for 50, one a page")


@check("CKP-RUNS-006", contract="checkpointer")
async def a_claimed_run_is_not_idle(t: T) -> None:
    """A claim counts as a save: a run that was just taken over is not idle."""
    one, other = await t.connect(), await t.connect()
    for name in ("left", "taken"):
        await one.checkpointer.append(name, said("x"), head())
    t.clock.advance(600)
    idle = [row.run_id for row in await walked(t, other, idle_for=300)]
    t.eq(idle, ["left", "taken"], "runs idle for 300 seconds, before the claim")
    await one.checkpointer.claim("taken")
    t.clock.advance(10)
    idle = [row.run_id for row in await walked(t, other, idle_for=300)]
    t.eq(idle, ["left"], "runs idle for 300 seconds, after it")
