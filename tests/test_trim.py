"""Trimming: tool outputs get shorter, once and for good, and nothing else changes."""

import json

import msgspec
import pytest

from builders import call, dump, model, plant, records, result, said, shape, user
from durably import CorruptRecord, ImagePart, TextPart, ToolResultEntry

LONG = "".join(chr(97 + n % 26) for n in range(1000))


def marker(chars):
    return f"\n[{chars} characters trimmed]"


async def _run(storage, *outputs, run_id="r", **more):
    entries = [
        entry
        for n, text in enumerate(outputs)
        for entry in (call(f"{n}"), result(f"{n}", text, **more))
    ]
    await storage.sessions.append("s", entries, run_id=run_id)


async def _outputs(storage):
    entries = await storage.sessions.load("s")
    return [one.output for one in entries if isinstance(one, ToolResultEntry)]


async def _trim(storage, keep_chars, keep_runs=0):
    return await storage.sessions.trim_tool_results("s", keep_chars=keep_chars, keep_runs=keep_runs)


async def test_an_output_keeps_its_first_characters(handles):
    """A long output becomes its first keep_chars characters and a marker, and counts the rest."""
    first, second = handles
    await _run(first, LONG)
    assert await _trim(first, 100) == 1
    (_, trimmed) = await second.sessions.load("s")
    assert trimmed == result("0", LONG[:100] + marker(900), trimmed_chars=900)


async def test_the_defaults_keep_400_characters_and_the_last_run(storage):
    """Without arguments outputs keep 400 characters, and the last run is left alone."""
    await _run(storage, LONG, run_id="r1")
    await _run(storage, LONG, run_id="r2")
    assert await storage.sessions.trim_tool_results("s") == 1
    assert await _outputs(storage) == [LONG[:400] + marker(600), LONG]


@pytest.mark.parametrize("keep_chars", [0, 1, 399, 400, 401, 970])
async def test_trimming_again_to_the_same_length_does_nothing(place, keep_chars):
    """The second of two equal trims changes not a byte and returns 0."""
    async with place.open() as storage:
        await _run(storage, LONG, LONG[:500], "short")
        assert await _trim(storage, keep_chars) > 0
        before = dump(place)
        assert await _trim(storage, keep_chars) == 0
        assert await _trim(storage, keep_chars + 1) == 0
        assert await _trim(storage, 10_000) == 0
        assert dump(place) == before


async def test_a_smaller_length_trims_further(handles):
    """Trimming to ever smaller lengths ends where one trim to the smallest would have."""
    first, second = handles
    await _run(first, LONG)
    for keep_chars in (900, 500, 99, 10, 0):
        assert await _trim(first, keep_chars) == 1
        gone = 1000 - keep_chars
        (_, trimmed) = await second.sessions.load("s")
        assert (trimmed.output, trimmed.trimmed_chars) == (LONG[:keep_chars] + marker(gone), gone)


@pytest.mark.parametrize("length", range(0, 60, 3))
async def test_an_output_is_never_made_longer(storage, length):
    """Whatever its length, a trimmed output is not longer than it was, whatever is kept."""
    await _run(storage, LONG[:length])
    for keep_chars in (50, 30, 9, 1, 0):
        (before,) = await _outputs(storage)
        trimmed = await _trim(storage, keep_chars)
        (after,) = await _outputs(storage)
        assert len(after) <= len(before)
        assert after.startswith(LONG[: min(length, keep_chars)])
        assert bool(trimmed) == (after != before)


async def test_keep_chars_0_leaves_the_marker_alone(storage):
    """With keep_chars=0 only the marker is left."""
    await _run(storage, LONG)
    assert await _trim(storage, 0) == 1
    assert await _outputs(storage) == [marker(1000)]


@pytest.mark.parametrize(
    "output",
    [
        LONG[:400] + marker(600),
        marker(10) * 40,
        LONG + marker(0),
        marker(600) + LONG,
        LONG + "\n[-5 characters trimmed]",
    ],
)
async def test_text_that_looks_like_a_marker_deceives_nobody(storage, output):
    """An output that ends with, or is made of, the marker's text is trimmed like any other."""
    await _run(storage, output)
    assert await _trim(storage, 50) == 1
    gone = len(output) - 50
    (_, trimmed) = await storage.sessions.load("s")
    assert trimmed == result("0", output[:50] + marker(gone), trimmed_chars=gone)
    assert await _trim(storage, 50) == 0


async def test_characters_are_counted_and_not_bytes(storage):
    """keep_chars counts characters; emoji and lone surrogates are one each."""
    output = "\U0001f600\u00e9\ud800" * 100
    await _run(storage, output)
    assert await _trim(storage, 7) == 1
    assert await _outputs(storage) == [output[:7] + marker(293)]
    assert await _trim(storage, 5) == 1
    assert await _outputs(storage) == [output[:5] + marker(295)]


async def test_raw_and_parts_of_a_trimmed_result_go(storage):
    """A trimmed result loses raw and parts; one that is short enough keeps them."""
    more = {"raw": {"rows": [1, 2]}, "parts": [TextPart(text="x"), ImagePart(url="u")]}
    await _run(storage, LONG, "short", **more)
    assert await _trim(storage, 100) == 1
    (_, trimmed, _, kept) = await storage.sessions.load("s")
    assert (trimmed.raw, trimmed.parts) == (None, None)
    assert kept == result("1", "short", **more)


async def test_everything_else_stays(handles):
    """Order, count, call ids, is_error, other entries, run ids and meta stay as they were."""
    first, second = handles
    entries = [
        *(user(LONG), call("a"), call("b"), result("b", LONG, is_error=True), result("a", LONG)),
        *(call("a"), result("a", ""), model(LONG), result("orphan", LONG)),
    ]
    await first.sessions.append("s", entries, run_id="r", meta={"n": [1.0, None]})
    await first.sessions.append("s", [], run_id="empty")
    assert await _trim(first, 100) == 3
    (segment, empty) = await second.sessions.segments("s")
    assert (segment.run_id, segment.meta, empty.run_id) == ("r", {"n": [1.0, None]}, "empty")
    short = {"output": LONG[:100] + marker(900), "trimmed_chars": 900}
    assert segment.entries == [
        msgspec.structs.replace(entry, **short)
        if isinstance(entry, ToolResultEntry) and entry.output
        else entry
        for entry in entries
    ]


@pytest.mark.parametrize(
    ("keep_runs", "trimmed"), [(0, 4), (1, 3), (2, 3), (4, 1), (5, 0), (99, 0)]
)
async def test_the_last_runs_are_left_alone(storage, keep_runs, trimmed):
    """keep_runs counts runs from the end, empty ones included, and returns what was trimmed."""
    await _run(storage, LONG, run_id="a")
    await _run(storage, LONG, run_id="b")
    await _run(storage, LONG, run_id="c")
    await storage.sessions.append("s", [], run_id="d")
    await _run(storage, LONG, run_id="e")
    assert await _trim(storage, 100, keep_runs) == trimmed
    lengths = [len(output) for output in await _outputs(storage)]
    assert lengths == [100 + len(marker(900))] * trimmed + [1000] * (4 - trimmed)


async def test_the_count_is_of_results_trimmed_by_this_call(storage):
    """The number returned counts results, over all runs, that this call shortened."""
    await _run(storage, LONG, LONG, "short", run_id="a")
    await _run(storage, LONG, run_id="b")
    assert await _trim(storage, 100, keep_runs=1) == 2
    assert await _trim(storage, 100, keep_runs=0) == 1
    assert await _trim(storage, 50, keep_runs=0) == 3
    assert await storage.sessions.trim_tool_results("missing") == 0


async def test_run_ids_stay_taken_and_a_retry_brings_nothing_back(storage):
    """Appending a trimmed run again is the no-op it was before."""
    await _run(storage, LONG)
    await _trim(storage, 0)
    await _run(storage, LONG)
    assert await _outputs(storage) == [marker(1000)]
    assert await shape(storage.sessions, "s") == [("r", 2)]


async def test_other_sessions_are_untouched(storage):
    """A trim touches its own session alone."""
    await storage.sessions.append("s", [result("c", LONG)])
    await storage.sessions.append("t", [result("c", LONG)])
    await _trim(storage, 0)
    assert await storage.sessions.load("t") == [result("c", LONG)]


FUTURE = (
    b'{"type":"tool_result","call_id":"c","output":"%s","vector":[1.50, 2E0],"name":"\xc3\xa9"}'
    % LONG.encode()
)


async def _trim_planted(place, *items, keep_chars=100):
    data = b'{"shape": 1.0e1,"entries":[' + b",".join(items) + b'],"meta":{"a": 1}}'
    await plant(place, "session", "s", data, entry_count=len(items))
    async with place.open() as storage:
        trimmed = await _trim(storage, keep_chars)
    (record,) = await records(place, "session", "s")
    assert record.entry_count == len(items)
    return trimmed, record.data


async def test_what_this_version_does_not_know_keeps_its_bytes(place):
    """Unknown entry types, and unknown fields around trimmed results, keep their bytes."""
    unknown = b'{"type":"hologram", "output":"%s","is":"not a tool_result"}' % LONG.encode()
    known = b'{"type":"input","role":"user","content":"tool_result","n":1.0E2}'
    trimmed, data = await _trim_planted(place, unknown, FUTURE, known)
    assert trimmed == 1
    assert data.startswith(b'{"shape":1.0e1,"entries":[' + unknown)
    assert data.endswith(known + b'],"meta":{"a": 1}}')


async def test_unknown_fields_of_a_trimmed_result_keep_their_bytes(place):
    """Fields this version does not know stay in a trimmed result, byte for byte."""
    trimmed, data = await _trim_planted(place, FUTURE)
    assert trimmed == 1
    fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    (item,) = msgspec.json.decode(fields["entries"], type=list[dict[str, msgspec.Raw]])
    assert bytes(item["vector"]) == b"[1.50, 2E0]"
    assert bytes(item["name"]) == b'"\xc3\xa9"'


async def test_a_number_beyond_floats_in_an_unknown_field_is_kept(place):
    """A number that Python's float cannot hold does not stop a trim and is not changed."""
    item = FUTURE.replace(b"[1.50, 2E0]", b"1e400")
    trimmed, data = await _trim_planted(place, item)
    assert trimmed == 1
    assert b'"vector":1e400' in data


@pytest.mark.parametrize(
    "item",
    [
        b'{"type":"tool_result","call_id":"c","output":null}',
        b'{"type":"tool_result","call_id":"c"}',
        b'{"type":"tool_result","output":["%s"]}' % LONG.encode(),
        b'{"type":"tool_result","output":"%s","trimmed_chars":"9"}' % LONG.encode(),
        b'["tool_result"]',
        b'"tool_result"',
    ],
)
async def test_a_result_of_an_unknown_shape_is_left_alone(place, item):
    """What is no tool result of the known shape keeps its bytes, beside one that is trimmed."""
    trimmed, data = await _trim_planted(place, item, FUTURE)
    assert trimmed == 1
    assert b'"entries":[' + item + b"," in data


async def test_a_broken_run_is_named_and_nothing_is_trimmed(place):
    """A run that cannot be read is a CorruptRecord, and no other run is trimmed by halves."""
    async with place.open() as storage:
        await _run(storage, LONG, run_id="a")
        await plant(place, "session", "s", b'{"entries":[', key="broken")
        await storage.sessions.append("s", said("last"), run_id="z")
        before = dump(place)
        with pytest.raises(CorruptRecord) as caught:
            await _trim(storage, 10)
        assert caught.value.record == "broken"
        assert dump(place) == before


async def test_a_trimmed_run_is_still_strict_json(place):
    """What a trim writes parses as JSON, lone surrogates and all."""
    async with place.open() as storage:
        await _run(storage, "\ud800" * 500, LONG)
        assert await _trim(storage, 10) == 2
    (record,) = await records(place, "session", "s")
    assert len(json.loads(record.data.decode("utf-8"))["entries"]) == 4
