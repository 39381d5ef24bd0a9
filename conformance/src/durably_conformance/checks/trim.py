"""``Session.trim_tool_results``: outputs get shorter for good, and nothing else changes."""

from durably import CustomEntry, Entry, Session, TextPart, ToolResultEntry
from durably_conformance.building import answer, call, result, said, shape
from durably_conformance.context import T
from durably_conformance.registry import check

LONG = "".join(chr(97 + number % 26) for number in range(1000))


async def _append(sessions: Session, *outputs: str, name: str = "s", run_id: str = "r") -> None:
    """Append a run of calls, each with its result."""
    pairs = ((call(f"{n}"), result(f"{n}", text)) for n, text in enumerate(outputs))
    await sessions.append(name, [entry for pair in pairs for entry in pair], run_id=run_id)


async def _results(sessions: Session, name: str = "s") -> list[ToolResultEntry]:
    return [one for one in await sessions.load(name) if isinstance(one, ToolResultEntry)]


async def _trim(sessions: Session, keep_chars: int, *, name: str = "s", keep_runs: int = 0) -> int:
    return await sessions.trim_tool_results(name, keep_chars=keep_chars, keep_runs=keep_runs)


@check("SES-TRIM-001", contract="session", requires=("trim",))
async def an_output_keeps_its_beginning(t: T) -> None:
    """A longer output becomes its first characters and a marker, and tells how many went."""
    one, other = await t.connect(), await t.connect()
    await _append(one.sessions, LONG, "short", LONG[:500])
    t.eq(await _trim(one.sessions, 100), 2, "results trimmed")
    for handle in (one, other):
        long, short, middle = await _results(handle.sessions)
        t.eq(short, result("1", "short"), "a result that is short enough")
        for found, gone in ((long, 900), (middle, 400)):
            t.eq(found.output[:100], LONG[:100], "the beginning of a trimmed output")
            t.differs(found.output, LONG[:100], "a trimmed output, and one without a marker")
            t.eq(found.trimmed_chars, gone, "trimmed_chars")


@check("SES-TRIM-002", contract="session", requires=("trim",))
async def trimming_again_does_nothing(t: T) -> None:
    """Trimming again to the same length, or to a greater one, changes nothing."""
    one, other = await t.connect(), await t.connect()
    for keep in (100, 99, 0):
        name = f"s{keep}"
        await _append(one.sessions, LONG, LONG[:500], "short", name=name, run_id=name)
        t.ok(await _trim(one.sessions, keep, name=name), f"something is trimmed to {keep}")
        before = await _results(other.sessions, name)
        for again in (keep, keep + 1, 10_000):
            count = await _trim(one.sessions, again, name=name)
            t.eq(count, 0, f"results trimmed to {again} after {keep}")
        t.eq(await _results(other.sessions, name), before, "results after trimming again")


@check("SES-TRIM-003", contract="session", requires=("trim",))
async def a_smaller_length_trims_further(t: T) -> None:
    """Trimming to a smaller length trims further, and trimmed_chars tells of all that went."""
    one, other = await t.connect(), await t.connect()
    await _append(one.sessions, LONG)
    length = len(LONG)
    for keep_chars in (500, 200, 0):
        t.eq(await _trim(one.sessions, keep_chars), 1, f"results trimmed to {keep_chars}")
        (found,) = await _results(other.sessions)
        t.eq(found.trimmed_chars, 1000 - keep_chars, f"trimmed_chars at {keep_chars}")
        t.ok(len(found.output) < length, f"the output is shorter at {keep_chars}")
        length = len(found.output)


@check("SES-TRIM-004", contract="session", requires=("trim",))
async def an_output_never_grows(t: T) -> None:
    """An output is never made longer, though a marker may be longer than what it stands for."""
    one, other = await t.connect(), await t.connect()
    await _append(one.sessions, *(LONG[:length] for length in range(0, 64, 7)))
    for keep_chars in (50, 30, 9, 0):
        before = [found.output for found in await _results(other.sessions)]
        trimmed = await _trim(one.sessions, keep_chars)
        after = [found.output for found in await _results(other.sessions)]
        grown = [new for old, new in zip(before, after, strict=True) if len(new) > len(old)]
        t.eq(grown, [], f"outputs that are longer after trimming to {keep_chars}")
        changed = sum(old != new for old, new in zip(before, after, strict=True))
        t.eq(trimmed, changed, f"results trimmed to {keep_chars}, and outputs that changed")


@check("SES-TRIM-005", contract="session", requires=("trim",))
async def raw_and_parts_go(t: T) -> None:
    """A trimmed result loses raw and parts, and one that is short enough keeps them."""
    one, other = await t.connect(), await t.connect()
    raw, parts = {"rows": [1, 2]}, [TextPart(text="x")]
    entries = [result("1", LONG, raw=raw, parts=parts), result("2", "short", raw=raw, parts=parts)]
    await one.sessions.append("s", entries, run_id="r")
    t.eq(await _trim(one.sessions, 100), 1, "results trimmed")
    trimmed, kept = await _results(other.sessions)
    t.eq((trimmed.raw, trimmed.parts), (None, None), "raw and parts of the trimmed one")
    t.exact(kept, entries[1], "the one that is short enough")


@check("SES-TRIM-006", contract="session", requires=("trim",))
async def everything_else_stays(t: T) -> None:
    """Nothing but results is trimmed; order, count, call ids, is_error, run ids and meta stay."""
    one, other = await t.connect(), await t.connect()
    entries = [
        *(*said(LONG), answer(LONG), call("a", arguments=LONG), call("b")),
        *(result("b", LONG, is_error=True), result("a", LONG), call("a"), result("a", "")),
        *(CustomEntry(kind="tool_result", data={"output": LONG}), result("orphan", LONG)),
    ]
    await one.sessions.append("s", entries, run_id="r1", meta={"n": [1.0, None]})
    await one.sessions.append("s", said("last"), run_id="r2", meta={"output": LONG})
    t.eq(await _trim(one.sessions, 100), 3, "results trimmed")
    segments = await other.sessions.segments("s")
    found = [(one.run_id, one.meta) for one in segments]
    t.exact(found, [("r1", {"n": [1.0, None]}), ("r2", {"output": LONG})], "run ids and meta")
    t.eq([_plain(one) for one in segments[0].entries], [_plain(one) for one in entries], "entries")


def _plain(entry: Entry) -> Entry:
    """Return an entry, of a result only what a trim must leave alone."""
    if isinstance(entry, ToolResultEntry):
        return result(entry.call_id, "", is_error=entry.is_error)
    return entry


@check("SES-TRIM-007", contract="session", requires=("trim",))
async def the_last_runs_are_left(t: T) -> None:
    """The last runs, those without entries counted, are left: one by default, cut to 400 behind."""
    one, other = await t.connect(), await t.connect()
    for keep_runs, trimmed in ((0, 4), (2, 3), (4, 1), (5, 0), (99, 0), (None, 3)):
        name = f"s{keep_runs}".lower()
        for run_id in "abcde":
            outputs = () if run_id == "d" else (LONG,)
            await _append(one.sessions, *outputs, name=name, run_id=run_id)
        if keep_runs is None:
            count = await one.sessions.trim_tool_results(name)
        else:
            count = await _trim(one.sessions, 400, name=name, keep_runs=keep_runs)
        t.eq(count, trimmed, f"results trimmed with keep_runs={keep_runs}")
        gone = [found.trimmed_chars for found in await _results(other.sessions, name)]
        t.eq(gone, [600] * trimmed + [0] * (4 - trimmed), f"trimmed_chars, keep_runs={keep_runs}")
    t.eq(await one.sessions.trim_tool_results("none"), 0, "results of a session that is not there")


@check("SES-TRIM-008", contract="session", requires=("trim",))
async def characters_are_counted(t: T) -> None:
    """Lengths are in characters, not in bytes or in the units of another encoding."""
    one, other = await t.connect(), await t.connect()
    text = "\U0001f600\u00e9\u4e2d" * 100
    await _append(one.sessions, text)
    t.eq(await _trim(one.sessions, 6), 1, "results trimmed")
    (found,) = await _results(other.sessions)
    t.eq(found.output[:6], text[:6], "the beginning of the output")
    t.eq(found.trimmed_chars, 294, "trimmed_chars")


@check("SES-TRIM-009", contract="session", requires=("trim",))
async def a_marker_in_a_text_is_text(t: T) -> None:
    """A whole output that ends like a trimmed one, or is made of markers, is trimmed like any."""
    one, other = await t.connect(), await t.connect()
    await _append(one.sessions, LONG, name="model")
    await _trim(one.sessions, 400, name="model")
    (model,) = await _results(one.sessions, "model")
    marker = model.output[400:]
    outputs = [model.output, LONG + marker, marker * 500]
    await _append(one.sessions, *outputs, run_id="s")
    t.eq(await _trim(one.sessions, 50), 3, "results trimmed")
    gone = [found.trimmed_chars for found in await _results(other.sessions)]
    t.eq(gone, [len(text) - 50 for text in outputs], "trimmed_chars")


@check("SES-TRIM-010", contract="session", requires=("trim",))
async def a_retry_brings_nothing_back(t: T) -> None:
    """A trimmed run is still stored: to append it again brings no output back."""
    one, other = await t.connect(), await t.connect()
    await _append(one.sessions, LONG)
    await one.sessions.append("s", said("next"), run_id="s")
    await _trim(one.sessions, 0)
    await _append(one.sessions, LONG)
    t.eq([found.trimmed_chars for found in await _results(other.sessions)], [1000], "trimmed_chars")
    t.eq(await shape(other.sessions, "s"), [("r", 2), ("s", 1)], "runs and their sizes")
