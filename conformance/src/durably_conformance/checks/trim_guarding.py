"""``Session.trim_tool_results`` against others and against what it does not know."""

import asyncio
from typing import Any

from durably import CorruptRecord, Entry, InvalidLimit
from durably.logstore import LogId
from durably_conformance.building import call, delayed, result, said, shape
from durably_conformance.context import T
from durably_conformance.keeping import SESSIONS
from durably_conformance.logs import datas_in
from durably_conformance.planting import encoded, plant
from durably_conformance.registry import check

LONG = "long" * 250
WRONG: tuple[Any, ...] = (-1, -(2**70), True, 1.0, "1", None)


@check(
    "SES-TRIM-011",
    contract="session",
    requires=("trim",),
    reports=("openai/openai-agents-python#4994",),
)
async def counts_of_a_trim(t: T) -> None:
    """What to keep are integers of at least 0, all else is an InvalidLimit and trims nothing."""
    one, other = await t.connect(), await t.connect()
    entries: list[Entry] = [call("c"), result("c", LONG)]
    await one.sessions.append("s", entries, run_id="r")
    for wrong in WRONG:
        trim = one.sessions.trim_tool_results("s", keep_chars=wrong, keep_runs=0)
        await t.raises(InvalidLimit, trim, f"keep_chars={wrong!r}")
        trim = one.sessions.trim_tool_results("s", keep_chars=1, keep_runs=wrong)
        await t.raises(InvalidLimit, trim, f"keep_runs={wrong!r}")
    t.eq(await other.sessions.load("s"), entries, "entries after the refusals")


@check("SES-TRIM-012", contract="session", requires=("trim",), reports=("agno-agi/agno#9450",))
async def a_trim_beside_an_append(t: T) -> None:
    """A trim loses nothing that others append at the same time."""
    one, other = await t.connect(), await t.connect()
    for turns in range(8):
        name = f"s{turns}"
        await one.sessions.append(name, [call("c"), result("c", LONG)], run_id=name)
        trimmed, run_id = await asyncio.gather(
            delayed(max(0, turns - 4), one.sessions.trim_tool_results(name, keep_runs=0)),
            delayed(
                max(0, 4 - turns), other.sessions.append(name, said("x", "y"), run_id=f"x{turns}")
            ),
        )
        t.eq((trimmed, run_id), (1, f"x{turns}"), "results trimmed, and what append returns")
        for handle in (one, other):
            t.eq(
                await shape(handle.sessions, name), [(name, 2), (f"x{turns}", 2)], "runs and sizes"
            )
        t.eq((await other.sessions.load(name))[2:], said("x", "y"), "entries of the second run")


UNKNOWN = (
    b'{"type":"hologram", "output":"%s","is":"not a tool_result"}' % LONG.encode(),
    b'{"type":"input","role":"user","content":"tool_result","n":1.0E2}',
)
NEWER = (
    b'{"type":"tool_result","call_id":"c","output":"%s","vector":[1.50, 2E0],"name":"\xc3\xa9"}'
    % LONG.encode()
)


@check(
    "SES-TRIM-013",
    contract="session",
    requires=("trim", "log_store"),
    reports=("peters/horizon#397", "pydantic/pydantic-ai#2792"),
)
async def a_trim_keeps_what_is_unknown(t: T) -> None:
    """Entries and fields that this version does not know keep their bytes beside a trimmed one."""
    one, other = await t.connect(), await t.connect()
    entries = said("0", "1", "2")
    odd = (UNKNOWN[0], NEWER, UNKNOWN[1])
    swaps = [(encoded(old), new) for old, new in zip(entries, odd, strict=True)]
    await plant(t, one, SESSIONS, entries, *swaps, more=b'"shape": 1.0e1,')
    log = LogId(kind="session", id="x")
    before = await datas_in(other.log_store, log)
    trimmed = await one.sessions.trim_tool_results("x", keep_chars=100, keep_runs=0)
    t.eq(trimmed, 1, "results trimmed")
    stored = await other.log_store.read(log)
    t.eq([one.entry_count for one in stored.records] if stored else [], [3], "entries")
    left = (stored.records[0].data if stored else None) or b""
    t.ok(len(left) < len(before[0] or b"") - 800, "what is stored is shorter")
    for kept in (*UNKNOWN, b"1.0e1", b"[1.50, 2E0]", b'"\xc3\xa9"'):
        t.ok(kept in left, f"{kept[:60]!r} is stored as it was")


@check("SES-TRIM-014", contract="session", requires=("trim", "log_store"))
async def a_broken_run_stops_a_trim(t: T) -> None:
    """A trim that meets a run it cannot read says so, and trims no run by halves."""
    one, other = await t.connect(), await t.connect()
    await one.sessions.append("x", [call("c"), result("c", LONG)], run_id="a")
    key = await plant(t, one, SESSIONS, said("0"), spoiled=b'{"entries":[')
    await one.sessions.append("x", said("last"), run_id="c")
    before = await other.log_store.read(LogId(kind="session", id="x"))
    trim = one.sessions.trim_tool_results("x", keep_chars=10)
    error = await t.raises(CorruptRecord, trim, "a trim of a run that is cut off")
    t.eq(error.record, key, "the run that the error names")
    after = await other.log_store.read(LogId(kind="session", id="x"))
    t.eq(after, before, "what is stored after the refusal")
