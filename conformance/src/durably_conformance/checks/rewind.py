"""``Session.rewind``: where it cuts, and what it leaves alone.

Sessions are written as their runs with the number of entries of each: ``a2 b0 c3``.
"""

from typing import NamedTuple

from durably import Entry, Rewound
from durably_conformance.building import answer, call, fill, result, runs, said, shape
from durably_conformance.context import T
from durably_conformance.registry import check


class Cut(NamedTuple):
    """A rewind: the session before it, how much it keeps, and what it leaves and tells."""

    before: str
    keep: int
    after: str
    removed: int
    gone: str = ""
    short: str | None = None


async def _cut(t: T, *cuts: Cut, metas: bool = False) -> None:
    """Make each rewind in a session of its own, and look at what is left through two handles."""
    one, other = await t.connect(), await t.connect()
    for number, cut in enumerate(cuts):
        name, what = f"s{number}", f"of {cut.before or 'nothing'!s} keeping {cut.keep}"
        await fill(one.sessions, name, cut.before)
        flat = await other.sessions.load(name) if cut.before else []
        done = await one.sessions.rewind(name, keep_entries=cut.keep)
        told = Rewound(
            removed_entries=cut.removed,
            removed_run_ids=tuple(cut.gone.split()),
            truncated_run_id=cut.short,
        )
        t.eq(done, told, f"{what}: what rewind returns")
        for handle in (one, other):
            t.eq(await shape(handle.sessions, name), runs(cut.after), f"{what}: the runs left")
        left = flat[: len(flat) - cut.removed]
        t.eq(await other.sessions.load(name), left, f"{what}: the entries left")
        if metas:
            found = {one.run_id: one.meta for one in await other.sessions.segments(name)}
            want = {i: None if i == cut.short else {"of": i} for i, _ in runs(cut.after)}
            t.eq(found, want, f"{what}: meta")


@check("SES-REW-001", contract="session", requires=("rewind",))
async def a_cut_between_runs(t: T) -> None:
    """A cut between two runs removes the later ones whole and touches none of the earlier."""
    await _cut(
        t,
        Cut("a2 b3 c1", 2, "a2", 4, "b c"),
        Cut("a1 b1 c1 d1", 2, "a1 b1", 2, "c d"),
        Cut("a1 b2 c3", 3, "a1 b2", 3, "c"),
        metas=True,
    )


@check("SES-REW-002", contract="session", requires=("rewind",))
async def a_cut_inside_a_run(t: T) -> None:
    """A run the cut lands inside is cut short: it keeps its run_id and loses its meta."""
    await _cut(
        t,
        Cut("a1 b3", 2, "a1 b1", 2, "", "b"),
        Cut("a2 b2 c1", 1, "a1", 4, "b c", "a"),
        Cut("a2 b3 c2", 4, "a2 b2", 3, "c", "b"),
        Cut("a3", 2, "a2", 1, "", "a"),
        metas=True,
    )


@check("SES-REW-003", contract="session", requires=("rewind",))
async def zero_removes_everything(t: T) -> None:
    """To keep no entries removes every run, those without entries too."""
    await _cut(
        t,
        Cut("a2 b0 c1", 0, "", 3, "a b c"),
        Cut("a0 b0", 0, "", 0, "a b"),
        Cut("", 0, "", 0),
    )


@check("SES-REW-004", contract="session", requires=("rewind",))
async def the_end_changes_nothing(t: T) -> None:
    """A count at or past the end changes nothing, runs without entries at the end included."""
    await _cut(
        t,
        Cut("a2 b0 c3 d0", 5, "a2 b0 c3 d0", 0),
        Cut("a2 b0 c3 d0", 6, "a2 b0 c3 d0", 0),
        Cut("a1 b0", 2**70, "a1 b0", 0),
        Cut("a0", 1, "a0", 0),
        Cut("", 3, "", 0),
    )


@check("SES-REW-005", contract="session", requires=("rewind",))
async def empty_runs_at_a_cut(t: T) -> None:
    """Of runs without entries those before the cut stay, and those after it go."""
    await _cut(
        t,
        Cut("a0 b1 c1", 1, "a0 b1", 1, "c"),
        Cut("a2 b0 c3 d0", 2, "a2", 3, "b c d"),
        Cut("a2 b0 c3 d0", 3, "a2 b0 c1", 2, "d", "c"),
        Cut("a2 b0 c0", 1, "a1", 1, "b c", "a"),
        Cut("a1 b0 c0 d1", 1, "a1", 1, "b c d"),
        Cut("a0 b0 c2", 1, "a0 b0 c1", 1, "", "c"),
    )


@check("SES-REW-006", contract="session", requires=("rewind",))
async def run_ids_after_a_rewind(t: T) -> None:
    """Run ids of removed runs are free, others taken, and new runs follow what was kept."""
    one, other = await t.connect(), await t.connect()
    await fill(one.sessions, "s", "a1 b2 c1 d1")
    await one.sessions.rewind("s", keep_entries=2)
    for run_id in ("a", "b", "c", "d"):
        await one.sessions.append("s", said(f"new {run_id}"), run_id=run_id)
    wanted = [("a", 1), ("b", 1), ("c", 1), ("d", 1)]
    for handle in (one, other):
        t.eq(await shape(handle.sessions, "s"), wanted, "runs after appends of all four")
    t.eq(await one.sessions.load("s"), said("a0", "b0", "new c", "new d"), "entries")


CALLS: tuple[tuple[list[Entry], int, list[Entry]], ...] = (
    # entries of the run, how many are kept, and what is left of them
    ([answer("q"), call("1"), result("1"), answer("a")], 2, [answer("q")]),
    (
        [answer("q"), call("1"), result("1"), answer("a")],
        3,
        [answer("q"), call("1"), result("1")],
    ),
    # of calls made together those without a result go, and what follows them stays
    ([call("1"), call("2"), result("2"), result("1")], 3, [call("2"), result("2")]),
    ([call("1"), answer("wait"), result("1")], 2, [answer("wait")]),
    # ids that repeat are paired in order
    (
        [call("1", "first"), call("1", "second"), result("1"), result("1")],
        3,
        [call("1", "first"), result("1")],
    ),
    ([call("1"), result("1"), call("1"), result("1")], 3, [call("1"), result("1")]),
    # a result pairs with no call that follows it, and may be there alone
    ([result("1"), call("1"), answer("q")], 2, [result("1")]),
    ([result("9"), answer("q"), answer("r")], 2, [result("9"), answer("q")]),
)


@check(
    "SES-REW-007",
    contract="session",
    requires=("rewind",),
    reports=("openai/openai-agents-python#4322", "langchain-ai/langgraph#4289"),
)
async def calls_without_a_result(t: T) -> None:
    """A run cut short loses every tool call whose result is not in what is left of it."""
    one, other = await t.connect(), await t.connect()
    for number, (entries, keep, left) in enumerate(CALLS):
        name, what = f"s{number}", f"{len(entries)} entries cut to {keep} (row {number})"
        before: list[Entry] = [result("1"), call("2")]
        await one.sessions.append(name, before, run_id="r1")
        await one.sessions.append(name, entries, run_id="r2")
        done = await one.sessions.rewind(name, keep_entries=2 + keep)
        t.eq(done.removed_entries, len(entries) - len(left), f"{what}: entries removed")
        t.eq(done.truncated_run_id, "r2", f"{what}: the run cut short")
        t.eq(await other.sessions.load(name), [*before, *left], f"{what}: the entries left")


@check("SES-REW-008", contract="session", requires=("rewind",))
async def a_run_cut_to_nothing(t: T) -> None:
    """A run of which nothing would be left goes, and counts as removed."""
    one, other = await t.connect(), await t.connect()
    entries: list[Entry] = [call("1"), call("2"), result("1"), result("2")]
    for kept in (1, 2):
        name = f"s{kept}"
        await fill(one.sessions, name, "a1 b0")
        await one.sessions.append(name, entries, run_id="c")
        await one.sessions.append(name, said("y"), run_id="d")
        done = await one.sessions.rewind(name, keep_entries=1 + kept)
        want = Rewound(removed_entries=5, removed_run_ids=("c", "d"))
        t.eq(done, want, "what rewind returns")
        t.eq(await shape(other.sessions, name), [("a", 1), ("b", 0)], "runs left")
    await one.sessions.append("only", [call("1"), result("1")], run_id="a")
    await one.sessions.rewind("only", keep_entries=1)
    t.eq(await other.sessions.segments("only"), [], "runs left where it was the only one")


@check(
    "SES-REW-009",
    contract="session",
    requires=("rewind",),
    reports=("langchain-ai/langchain-aws#848",),
)
async def other_runs_are_not_repaired(t: T) -> None:
    """A run the cut does not land inside keeps its tool calls without a result."""
    one, other = await t.connect(), await t.connect()
    kept = [call("1"), *said("a"), *said("b"), call("2")]
    await one.sessions.append("s", kept[:2], run_id="r1")
    await one.sessions.append("s", kept[2:], run_id="r2")
    await one.sessions.append("s", said("c", "d"), run_id="r3")
    done = await one.sessions.rewind("s", keep_entries=5)
    t.eq(done, Rewound(removed_entries=1, truncated_run_id="r3"), "what rewind returns")
    t.eq(await other.sessions.load("s"), [*kept, *said("c")], "entries after a cut in the third")
    done = await one.sessions.rewind("s", keep_entries=4)
    t.eq(done, Rewound(removed_entries=1, removed_run_ids=("r3",)), "what rewind returns")
    t.eq(await other.sessions.load("s"), kept, "entries after a cut behind the second")
