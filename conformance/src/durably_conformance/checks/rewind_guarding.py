"""``Session.rewind`` against others and against what it cannot read."""

import asyncio
from typing import Any

from durably import CorruptRecord, Entry, InvalidLimit, RevisionConflict, Rewound, Segment
from durably.logstore import LogId
from durably_conformance.building import call, delayed, fill, runs, said, shape
from durably_conformance.context import T
from durably_conformance.keeping import SESSIONS
from durably_conformance.planting import encoded, plant
from durably_conformance.registry import check

WRONG: tuple[Any, ...] = (-1, -(2**70), True, 1.0, "1")


@check("SES-REW-010", contract="session", requires=("rewind",), reports=("google/adk-python#5085",))
async def a_rewind_at_a_revision(t: T) -> None:
    """A rewind is done at the expected revision, and at another one refused, even as a no-op."""
    one, other = await t.connect(), await t.connect()
    await fill(one.sessions, "s", "a2 b2")
    stale = await one.sessions.revision("s")
    await other.sessions.append("s", said("x"), run_id="c")
    current = await other.sessions.revision("s")
    for keep in (0, 1, 2, 5, 100):
        call = one.sessions.rewind("s", keep_entries=keep, expected_revision=stale)
        error = await t.raises(RevisionConflict, call, f"a rewind to {keep} at an old revision")
        t.eq((error.expected, error.actual), (stale, current), "revisions that the error names")
        call = one.sessions.rewind("missing", keep_entries=keep, expected_revision=stale)
        await t.raises(RevisionConflict, call, "a rewind where there is no session")
        call = one.sessions.rewind("s", keep_entries=keep, expected_revision=0)
        await t.raises(RevisionConflict, call, "a rewind of a session that must not exist")
    t.eq(await shape(other.sessions, "s"), runs("a2 b2 c1"), "runs after the refusals")
    done = await one.sessions.rewind("s", keep_entries=1, expected_revision=current)
    t.eq(done.removed_entries, 4, "entries removed at the expected revision")
    t.eq(await shape(other.sessions, "s"), runs("a1"), "runs left")
    done = await one.sessions.rewind("missing", keep_entries=3, expected_revision=0)
    t.eq(done, Rewound(), "what rewind returns where there is no session, as expected")


@check(
    "SES-REW-011",
    contract="session",
    requires=("rewind",),
    reports=("openai/openai-agents-python#4994",),
)
async def counts_of_a_rewind(t: T) -> None:
    """What to keep, and the revision, are integers of at least 0; all else is an InvalidLimit."""
    one, other = await t.connect(), await t.connect()
    await fill(one.sessions, "s", "a2 b2")
    counts: tuple[Any, ...] = (*WRONG, None)
    for wrong in counts:
        call = one.sessions.rewind("s", keep_entries=wrong)
        await t.raises(InvalidLimit, call, f"keep_entries={wrong!r}")
    for wrong in WRONG:
        call = one.sessions.rewind("s", keep_entries=1, expected_revision=wrong)
        await t.raises(InvalidLimit, call, f"expected_revision={wrong!r}")
    t.eq(await shape(other.sessions, "s"), runs("a2 b2"), "runs after the refusals")


def _plain(segments: list[Segment]) -> list[tuple[str, list[Entry]]]:
    return [(one.run_id, one.entries) for one in segments]


@check("SES-REW-012", contract="session", requires=("rewind",), reports=("agno-agi/agno#7479",))
async def a_rewind_beside_an_append(t: T) -> None:
    """An append at the same time is ordered before a rewind, and subject to it, or after it."""
    one, other = await t.connect(), await t.connect()
    after = Rewound(removed_entries=1, truncated_run_id="b")
    kept = [("a", said("a0", "a1")), ("b", said("b0"))]
    for turns in range(8):
        name = f"s{turns}"
        before = Rewound(removed_entries=3, removed_run_ids=(name,), truncated_run_id="b")
        await fill(one.sessions, name, "a2 b2")
        done, run_id = await asyncio.gather(
            delayed(max(0, turns - 4), one.sessions.rewind(name, keep_entries=3)),
            delayed(max(0, 4 - turns), other.sessions.append(name, said("x", "y"), run_id=name)),
        )
        t.eq(run_id, name, "what append returns")
        t.ok(done in (before, after), "rewind tells of the append, or of all but the append")
        want = kept if done == before else [*kept, (name, said("x", "y"))]
        for handle in (one, other):
            found = await handle.sessions.segments(name)
            t.eq(_plain(found), want, f"runs, where rewind removed {done.removed_entries} entries")


@check("SES-REW-013", contract="session", requires=("rewind",))
async def a_rewind_is_seen_whole(t: T) -> None:
    """A reader sees a session as it was before a rewind or as it is after it, nothing between."""
    one, other = await t.connect(), await t.connect()
    for number in range(3):
        await fill(one.sessions, f"s{number}", "a2 b3 c2")
    seen: list[list[tuple[str, int]]] = []
    for number in range(3):
        name = f"s{number}"
        rewinding = asyncio.create_task(delayed(1, one.sessions.rewind(name, keep_entries=3)))
        try:
            while not rewinding.done():
                seen.append(await delayed(1, shape(other.sessions, name)))
        finally:
            await rewinding
        t.eq(await shape(other.sessions, name), runs("a2 b1"), "runs in the end")
    torn = [one for one in seen if one not in (runs("a2 b3 c2"), runs("a2 b1"))]
    t.eq(torn, [], "what was seen between")


KEPT = (
    b'{"type":"hologram", "x":1.0E2,"y":"\xc3\xa9\\u00e9"}',
    b'{"type":"input","role":"user","content":"q","since":"v9","n":12345678901234567890.5}',
)


@check(
    "SES-REW-014",
    contract="session",
    requires=("rewind", "log_store"),
    reports=("openai/openai-agents-python#2502", "pydantic/pydantic-ai#2792"),
)
async def a_rewind_keeps_what_is_unknown(t: T) -> None:
    """Entries and fields that this version does not know keep their bytes in a run cut short."""
    one, other = await t.connect(), await t.connect()
    entries = [*said("0", "1"), call("c"), *said("3")]
    odd = (*KEPT, b'{"type":"z"}')
    swaps = [(encoded(entries[at]), new) for at, new in zip((0, 1, 3), odd, strict=True)]
    key = await plant(t, one, SESSIONS, entries, *swaps, more=b'"vector":[1.50, 2e0],')
    done = await one.sessions.rewind("x", keep_entries=3)
    t.eq(done, Rewound(removed_entries=2, truncated_run_id=key), "what rewind returns")
    stored = await other.log_store.read(LogId(kind="session", id="x"))
    t.eq([one.entry_count for one in stored.records] if stored else [], [2], "entries left")
    left = (stored.records[0].data if stored else None) or b""
    t.ok(b",".join(KEPT) in left, "the entries kept have the bytes they had")
    t.ok(b'"vector":[1.50, 2e0]' in left, "the field kept has the bytes it had")


@check("SES-REW-015", contract="session", requires=("rewind", "log_store"))
async def a_broken_run_is_not_cut(t: T) -> None:
    """A rewind that would cut short a run it cannot read is refused and changes nothing."""
    one, other = await t.connect(), await t.connect()
    await fill(one.sessions, "x", "a1")
    key = await plant(t, one, SESSIONS, said("0", "1"), spoiled=b"\xff not json")
    await fill(one.sessions, "x", "c1")
    before = await other.log_store.read(LogId(kind="session", id="x"))
    rewind = one.sessions.rewind("x", keep_entries=2)
    error = await t.raises(CorruptRecord, rewind, "a rewind into a run that is not JSON")
    t.eq(error.record, key, "the run that the error names")
    after = await other.log_store.read(LogId(kind="session", id="x"))
    t.eq(after, before, "what is stored after the refusal")
