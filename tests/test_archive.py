"""The archive of tool results: full before anything is shortened, and given back as it was."""

import pytest

from builders import call, plant, result, said
from durably import InvalidId, TextPart, ToolResultEntry
from faults import failures
from places import FakeClock

LONG = "".join(chr(97 + n % 26) for n in range(1000))


async def trim(storage, keep_chars=10, keep_runs=0, name="s"):
    return await storage.sessions.trim_tool_results(
        name, keep_chars=keep_chars, keep_runs=keep_runs, archive=storage.archive
    )


async def outputs(storage, name="s"):
    entries = await storage.sessions.load(name)
    return [one.output for one in entries if isinstance(one, ToolResultEntry)]


async def test_a_trimmed_result_is_recalled_whole(handles):
    """recall() gives every field of a result as it was before it was trimmed."""
    first, second = handles
    full = result("c", LONG, is_error=True, raw={"rows": [1, 2.0]}, parts=[TextPart(text="p")])
    await first.sessions.append("s", [call("c"), full])
    assert await trim(first) == 1
    assert (await outputs(second))[0] != LONG
    assert await second.archive.recall("s", "c") == [full]


async def test_what_was_not_trimmed_is_not_archived(storage):
    """Results that stay whole, in kept runs or short, do not go into the archive."""
    await storage.sessions.append("s", [result("short", "ok"), result("long", LONG)])
    await storage.sessions.append("s", [result("newest", LONG)])
    assert await trim(storage, keep_runs=1) == 1
    assert await storage.archive.recall("s", "long") == [result("long", LONG)]
    assert await storage.archive.recall("s", "short") == []
    assert await storage.archive.recall("s", "newest") == []


@pytest.mark.parametrize("archived", [False, True])
async def test_what_is_not_there_is_an_empty_list(storage, archived):
    """An unknown call, of a session with an archive or without, is []."""
    if archived:
        await storage.sessions.append("s", [result("c", LONG)])
        await trim(storage)
    assert await storage.archive.recall("s", "unknown") == []
    assert await storage.archive.recall("absent", "c") == []


async def test_trimming_without_an_archive_stores_nothing(storage):
    """A trim that was given no archive makes none."""
    await storage.sessions.append("s", [result("c", LONG)])
    await storage.sessions.trim_tool_results("s", keep_runs=0)
    assert (await storage.log_store.list("archive")).items == ()


async def test_results_that_share_an_id_all_come_back(storage):
    """Results of one call id, in one run or several, are recalled in order, each once."""
    full = [result("c", f"{n}{LONG}") for n in range(4)]
    await storage.sessions.append("s", [full[0], full[1]])
    await storage.sessions.append("s", [full[2], result("other", LONG)])
    assert await trim(storage) == 4
    await storage.sessions.append("s", [full[3]])
    assert await trim(storage) == 1
    assert await storage.archive.recall("s", "c") == full
    assert await storage.archive.recall("s", "other") == [result("other", LONG)]


async def test_trimming_again_keeps_the_original(storage):
    """A further trim archives nothing of what was shortened before."""
    await storage.sessions.append("s", [result("c", LONG)])
    assert await trim(storage, keep_chars=500) == 1
    assert await trim(storage, keep_chars=500) == 0
    assert await trim(storage, keep_chars=20) == 1
    assert await storage.archive.recall("s", "c") == [result("c", LONG)]


async def test_storing_again_changes_nothing(storage):
    """The same pairs stored twice, in any company, are there once."""
    pairs = [("c", b'{"type":"tool_result","call_id":"c","output":"%d"}' % n) for n in range(3)]
    await storage.archive.store("s", pairs[:2])
    await storage.archive.store("s", pairs[:2])
    await storage.archive.store("s", [*pairs, *pairs])
    assert [one.output for one in await storage.archive.recall("s", "c")] == ["0", "1", "2"]


async def test_nothing_to_store_makes_no_archive(storage):
    """Storing no results makes no log."""
    await storage.archive.store("s", [])
    assert (await storage.log_store.list("archive")).items == ()


async def test_large_archives_go_in_several_batches(storage):
    """Results of many megabytes are stored one after the other, and none is missing."""
    full = [result(f"c{n}", str(n) * 1_500_000) for n in range(7)]
    await storage.sessions.append("s", full[:4])
    await storage.sessions.append("s", full[4:])
    assert await trim(storage) == 7
    for one in full:
        assert await storage.archive.recall("s", one.call_id) == [one]


ODD_IDS = [
    "",
    "\x00",
    "a\x00b",
    "\ud800",
    "\udfff!",
    "x" * 100_000,
    "é",
    "e\u0301",
    "a:b",
    "%",
    " ",
]


async def test_any_text_can_be_a_call_id(storage):
    """Call ids may be any text, NUL, lone surrogates and 100,000 characters included."""
    full = [result(call_id, f"{n}{LONG}") for n, call_id in enumerate(ODD_IDS)]
    await storage.sessions.append("s", full)
    assert await trim(storage) == len(ODD_IDS)
    for one in full:
        assert await storage.archive.recall("s", one.call_id) == [one]


async def test_an_illegal_session_has_no_archive(storage):
    """The archive refuses session ids that no backend may store."""
    for act in (
        lambda: storage.archive.store("", [("c", b"{}")]),
        lambda: storage.archive.recall("\x00", "c"),
        lambda: storage.archive.delete("x" * 257),
    ):
        with pytest.raises(InvalidId):
            await act()


async def test_sessions_share_no_archive(storage):
    """One call id in two sessions is two archived results."""
    for name in ("s", "other"):
        await storage.sessions.append(name, [result("c", f"{name}{LONG}")])
        await trim(storage, name=name)
    assert await storage.archive.delete("other")
    assert not await storage.archive.delete("other")
    assert await storage.archive.recall("s", "c") == [result("c", f"s{LONG}")]
    assert await storage.archive.recall("other", "c") == []


@pytest.mark.parametrize("catalogued", [False, True])
@pytest.mark.parametrize("act", ["clear", "delete"])
async def test_an_archive_goes_with_its_session(handles, act, catalogued):
    """Clearing a session, or deleting it from the catalog, removes its archive."""
    first, second = handles
    if catalogued:
        await first.catalog.create("s")
    await first.sessions.append("s", [result("c", LONG)])
    await trim(first)
    await (second.sessions.clear("s") if act == "clear" else second.catalog.delete("s"))
    assert await first.archive.recall("s", "c") == []
    assert (await first.log_store.list("archive")).items == ()


async def test_fields_this_version_does_not_know_are_archived_and_back(place):
    """A result with unknown fields is archived with them, and recalled as what is known of it."""
    item = b'{"type":"tool_result","call_id":"c","vector":[1.50],"output":"%s"}' % LONG.encode()
    await plant(place, "session", "s", b'{"entries":[' + item + b"]}")
    async with place.open() as storage:
        assert await trim(storage) == 1
        assert await storage.archive.recall("s", "c") == [result("c", LONG)]
        page = await storage.log_store.list("archive")
    assert [info.id for info in page.items] == ["s"]


FULL = [result(f"c{n}", f"{n}{LONG}") for n in range(3)]


async def fill(storage):
    await storage.sessions.append("s", FULL[:2], run_id="r1")
    await storage.sessions.append("s", [FULL[2], *said("x")], run_id="r2")


async def test_no_output_is_ever_lost(place):
    """Whatever step of a trim fails, every output is whole in the session or in the archive."""
    states = set()
    steps = 0
    async for storage in failures(place, fill, trim, clock=FakeClock()):
        steps += 1
        left = await outputs(storage)
        recalled = [await storage.archive.recall("s", one.call_id) for one in FULL]
        for one, output, found in zip(FULL, left, recalled, strict=True):
            assert output == one.output or found == [one]
        states.add((left == [one.output for one in FULL], any(recalled)))
        await trim(storage)
        assert [await storage.archive.recall("s", one.call_id) for one in FULL] == [
            [one] for one in FULL
        ]
        assert await trim(storage) == 0
    assert steps >= 8
    assert states == {(True, False), (True, True), (False, True)}
