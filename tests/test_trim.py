"""Trimming: the exact text it leaves, and results of a shape it does not know."""

import json

import pytest

from builders import call, plant, records, result
from durably import ToolResultEntry

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


async def test_a_trimmed_run_is_still_strict_json(place):
    """What a trim writes parses as JSON, lone surrogates and all."""
    async with place.open() as storage:
        await _run(storage, "\ud800" * 500, LONG)
        assert await _trim(storage, 10) == 2
    (record,) = await records(place, "session", "s")
    assert len(json.loads(record.data.decode("utf-8"))["entries"]) == 4
