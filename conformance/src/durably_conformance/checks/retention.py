"""``prune`` and ``ResultArchive``: what is kept for how long, and what can be called back."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from durably import InvalidFilter, InvalidLimit, TextPart
from durably.testing import Handle
from durably_conformance.building import call, delayed, for_each, result, said
from durably_conformance.context import T
from durably_conformance.keeping import SESSIONS, Keeper, keepers
from durably_conformance.offering import upkeep_of
from durably_conformance.registry import check

LONG = "abcdefghij" * 60


async def _aged(t: T, handle: Handle, keeper: Keeper = SESSIONS, names: str = "abcde") -> None:
    """Write one thing after the other, the next ones ten seconds later each; now is the last."""
    for number, name in enumerate(names):
        t.clock.advance(10 if number else 0)
        await keeper.write(handle, name, said(name))


async def _left(handle: Handle, keeper: Keeper = SESSIONS, names: str = "abcde") -> str:
    return "".join([name for name in names if await keeper.read(handle, name)])


@check("PRN-001", contract="storage")
async def what_is_old_goes(t: T) -> None:
    """What was last changed longer ago than asked for goes, of one kind alone, and is named."""
    one, other = await t.connect(), await t.connect()
    upkeep = upkeep_of(one, "prune")
    for keeper in keepers(t):
        await _aged(t, one, keeper)
        await keeper.write(other, "b", said("again"))
        kind: Any = keeper.kind
        told = await upkeep.prune(kind, older_than=20.5)
        t.eq((told.ids, told.examined), (("a",), 5), f"what a prune of {kind}s tells")
        t.eq(await _left(other, keeper), "bcde", f"{kind}s that are left of those after 20.5 s")
        told = await upkeep.prune(kind, older_than=5)
        t.eq((told.ids, told.examined), (("c", "d"), 4), f"what a second prune of {kind}s tells")
    for keeper in keepers(t):
        t.eq(await _left(other, keeper), "be", f"{keeper.kind}s that are left in the end")


@check("PRN-002", contract="storage", requires=("sessions",))
async def the_newest_stay(t: T) -> None:
    """As many as asked for stay, those changed last; what is young stays with them."""
    one, other = await t.connect(), await t.connect()
    await _aged(t, one, names="edcba")
    upkeep = upkeep_of(one, "prune")
    told = await upkeep.prune("session", keep_last=4)
    t.eq(told.ids, ("e",), "what goes where four stay")
    told = await upkeep.prune("session", older_than=5, keep_last=3)
    t.eq(told.ids, ("d",), "what goes where three stay and what is young")
    told = await upkeep.prune("session", older_than=15, keep_last=1)
    t.eq(told.ids, ("c",), "what goes where what is young stays, and one")
    t.eq(await _left(other), "ab", "sessions that are left")
    t.eq((await upkeep.prune("session", keep_last=0)).ids, ("a", "b"), "what goes in the end")


@check("PRN-003", contract="storage", requires=("sessions",))
async def a_dry_run_removes_nothing(t: T) -> None:
    """A dry run tells what would go, and removes nothing."""
    one, other = await t.connect(), await t.connect()
    await _aged(t, one)
    heard: list[str] = []
    upkeep = upkeep_of(one, "prune")
    dry = await upkeep.prune("session", keep_last=3, dry_run=True, progress=heard.append)
    t.eq(dry.ids, ("a", "b"), "what would go")
    t.eq(heard, ["a", "b"], "what progress was told of")
    t.eq(await _left(other), "abcde", "sessions after a dry run")
    t.eq(await upkeep.prune("session", keep_last=3), dry, "what a prune tells, and a dry run")


@check("PRN-004", contract="storage", requires=("sessions",))
async def what_is_changed_meanwhile_stays(t: T) -> None:
    """No append that was acknowledged while others are pruned is lost with what was old."""
    one, other = await t.connect(), await t.connect()
    names = "abcdefgh"
    upkeep = upkeep_of(one, "prune")
    await _aged(t, one, names=names)
    t.clock.advance(1000)

    async def act(name: str) -> object:
        if name == "prune":
            return await upkeep.prune("session", older_than=500)
        turns = 3 * names.index(name)
        return await delayed(turns, other.sessions.append(name, said(name), run_id=f"new {name}"))

    await for_each(act, ["prune", *names])
    for name in names:
        last = [run.run_id for run in await other.sessions.segments(name)][-1:]
        t.eq(last, [f"new {name}"], f"the last run of {name}")


@check("PRN-005", contract="storage", requires=("sessions",))
async def prunes_not_understood(t: T) -> None:
    """A prune that says nothing of what to keep, or what none can be, is refused, all staying."""
    handle = await t.connect()
    await SESSIONS.write(handle, "a", said("a"))
    t.clock.advance(1000)
    prune: Callable[..., Awaitable[object]] = upkeep_of(handle, "prune").prune
    kinds: tuple[Any, ...] = ("sessions", "", "meta", "archive")
    for kind in kinds:
        what = f"a prune of the kind {kind!r}"
        await t.raises(InvalidFilter, partial(prune, kind, keep_last=0), what)
    await t.raises(InvalidFilter, lambda: prune("session"), "a prune that keeps nothing")
    counts: tuple[object, ...] = (-1, True, 1.5, "1")
    ages: tuple[object, ...] = (-1, float("nan"), True, "1")
    bad = [{"keep_last": count} for count in counts] + [{"older_than": age} for age in ages]
    for options in bad:
        await t.raises(InvalidLimit, partial(prune, "session", **options), f"{options}")
    t.eq(await _left(handle, names="a"), "a", "sessions after refusals")


@check("SES-ARC-001", contract="session", requires=("trim",))
async def full_results_come_back(t: T) -> None:
    """What a trim into an archive shortened comes back whole, also after it is trimmed further."""
    one, other = await t.connect(), await t.connect()
    raw, parts = {"rows": [1, 1.0]}, [TextPart(text="x")]
    full = result("1", LONG, raw=raw, parts=parts, is_error=True)
    shared = [result("2", LONG + "a"), result("2", LONG + "b"), result("3", "short")]
    await one.sessions.append("s", [call("1"), full, *shared], run_id="r")
    for keep in (200, 100, 100):
        archive = upkeep_of(one, "archive").archive
        await one.sessions.trim_tool_results("s", keep_chars=keep, keep_runs=0, archive=archive)
    archive = upkeep_of(other, "archive").archive
    t.exact(await archive.recall("s", "1"), [full], "a result")
    t.exact(await archive.recall("s", "2"), shared[:2], "results of calls that share an id")
    t.eq(await archive.recall("s", "3"), [], "results that were short enough")
    t.eq(await archive.recall("other", "1"), [], "results of another session")


@check("SES-ARC-002", contract="session", requires=("trim",))
async def an_archive_goes_with_its_session(t: T) -> None:
    """The archive of a session goes with it: by a clear, a delete or a prune."""
    one, other = await t.connect(), await t.connect()
    archive = upkeep_of(one, "archive", "catalog", "prune").archive
    upkeep = upkeep_of(other, "archive", "catalog", "prune")
    ways: dict[str, Callable[[], Awaitable[object]]] = {
        "cleared": lambda: other.sessions.clear("cleared"),
        "deleted": lambda: upkeep.catalog.delete("deleted"),
        "pruned": lambda: upkeep.prune("session", older_than=15),
    }
    for name in (*ways, "zz"):
        await one.sessions.append(name, [call("1"), result("1", LONG + name)], run_id=name)
        trimmed = await one.sessions.trim_tool_results(name, keep_runs=0, archive=archive)
        t.eq((trimmed, len(await archive.recall(name, "1"))), (1, 1), "results in the archive")
        t.clock.advance(10)
    for name, remove in ways.items():
        await remove()
        t.eq(await archive.recall(name, "1"), [], f"results of a session that was {name}")
        t.eq(len(await archive.recall("zz", "1")), 1, "results of one that is there")
