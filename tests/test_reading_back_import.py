"""Imports over what is there: the same content is known, other content is another log."""

import asyncio
import contextlib
import json

import pytest

import durably
from builders import call, dump, plant, result, said, snapshot
from cli_runs import objects, run, url
from disturbed import Interposing, Wrapper
from durably import Copied, CopyConflict, InvalidExport, RunHead, Storage
from durably.logstore import Batch, LogId, NewRecord
from exports import STRANGE, fill, lines, plant_strange

SECRET = "hunter2"  # noqa: S105 - content that is put in by hand
RECORDS = 8
KINDS = ("session", "run", "thread", "archive")


@pytest.fixture
async def full(storage):
    """A storage with a log of each kind, of eight records, and two sessions around."""
    for name in ("a", "z"):
        await storage.sessions.append(name, said("other"), run_id="r")
    await storage.catalog.create("m", metadata={"k": 1})
    for number in range(RECORDS):
        entries = [*said(f"said {number}"), call("c"), result("c", f"{number}" * 900)]
        await storage.sessions.append("m", entries, run_id=f"r{number}")
        await storage.checkpointer.append("m", said(f"said {number}"), RunHead(turns=number))
        await storage.checkpoint_saver().append("m", snapshot(f"said {number}"))
        found = json.dumps({"type": "tool_result", "call_id": "c", "output": f"said {number}"})
        await storage.archive.store("m", [(f"c{number}", found.encode())])
    return storage


def _edited(found, kind, position):
    """Return the lines of an export in which a record of the log ``m`` says something else.

    Its key, its time and how many entries it has are the same.
    """
    changed = list(found)
    begin = next(
        number
        for number, line in enumerate(found)
        if {"kind": kind, "id": "m"}.items() <= json.loads(line).items()
    )
    number = begin + 1 + position
    changed[number] = found[number].replace(b"said ", b"dias ", 1)
    assert changed[number] != found[number]
    keep = ("key", "entries", "at")
    one, other = json.loads(changed[number]), json.loads(found[number])
    assert [one[name] for name in keep] == [other[name] for name in keep]
    return changed


@pytest.mark.parametrize("position", [0, 1, 4, RECORDS - 1])
@pytest.mark.parametrize("kind", KINDS)
async def test_an_edited_record_is_a_conflict(place, full, kind, position):
    """Wherever it stands, other content under a known key is refused, and not a byte changes."""
    edited = _edited(await lines(full), kind, position)
    before = dump(place)
    with pytest.raises(CopyConflict) as caught:
        await full.import_lines(edited)
    assert caught.value.log == LogId(kind=kind, id="m")
    assert dump(place) == before


@pytest.mark.parametrize("kind", KINDS)
async def test_what_follows_an_edited_record_is_not_stored(place, full, kind):
    """Of a log that differs nothing is stored from there on; all others of the export are."""
    edited = _edited(await lines(full), kind, 2)
    log = LogId(kind=kind, id="m")
    index = (await full.log_store.read(log)).records
    async with durably.open("memory://") as there:
        for one in index[:5]:
            record = NewRecord(key=one.key, data=one.data, entry_count=one.entry_count)
            batch = Batch(records=(record,), at=one.stored_at, head=None)
            await there.log_store.append(log, batch)
        before = await there.log_store.read(log)
        with pytest.raises(CopyConflict) as caught:
            await there.import_lines(edited)
        assert caught.value.log == log
        assert await there.log_store.read(log) == before
        others = [one for one in KINDS if one != kind]
        assert await lines(there, kinds=others) == await lines(full, kinds=others)
        assert await there.sessions.load("z") == said("other")


async def test_what_is_new_follows_what_is_known(full):
    """An export that has grown is compared as far as it is there, and the rest is stored."""
    async with durably.open("memory://") as there:
        await there.import_lines(await lines(full))
        for number in range(100):
            await full.sessions.append("m", said(f"new {number}"), run_id=f"new {number}")
        done = await there.import_lines(await lines(full))
        assert (done.records, done.known) == (100, 4 * RECORDS + 2)
        assert await lines(there) == await lines(full)


async def test_the_first_conflict_is_told_and_no_other_log_held_up(full):
    """Of several logs with other content the first is named; what comes between is stored."""
    found = await lines(full)
    async with durably.open("memory://") as there:
        for name in ("a", "z"):
            await there.sessions.append(name, said("of its own"), run_id="r")
        with pytest.raises(CopyConflict) as caught:
            await there.import_lines(found)
        assert caught.value.log == LogId(kind="session", id="a")
        assert await there.sessions.segments("m") == await full.sessions.segments("m")
        assert await there.sessions.load("a") == said("of its own")
        assert await there.sessions.load("z") == said("of its own")
        assert (await there.checkpointer.load("m")).head.turns == RECORDS - 1


async def test_no_progress_is_told_of_a_conflict(full):
    """Who is told of the logs that are done is not told of one that was refused."""
    told = []
    edited = _edited(await lines(full), "run", 3)
    with pytest.raises(CopyConflict):
        await full.import_lines(edited, progress=lambda log, _: told.append(log))
    assert LogId(kind="run", id="m") not in told
    assert LogId(kind="thread", id="m") in told


async def test_a_broken_line_behind_a_conflict_is_still_named(full):
    """What follows in a log that was refused is looked at all the same."""
    edited = _edited(await lines(full), "session", 1)
    number = edited.index(next(line for line in edited if b'"key":"r5"' in line))
    broken = [*edited[:number], b'{"key":"r5","entries":-1,"at":1.5,"data":{}}\n']
    with pytest.raises(InvalidExport) as caught:
        await full.import_lines([*broken, *edited[number + 1 :]])
    assert caught.value.line == number + 1


async def test_strange_content_is_compared_byte_for_byte(place):
    """Content that is no JSON, or that nobody understands, is known again as it is."""
    await plant_strange(place)
    async with place.open() as storage:
        found = await lines(storage)
        before = dump(place)
        done = await storage.import_lines(found)
        assert done == Copied(logs=4 * len(STRANGE), known=4 * len(STRANGE))
        assert dump(place) == before


@pytest.mark.parametrize(
    ("there", "here"), [(b'{"a":1}', b'{"a": 1}'), (b"{}", b""), (b"", b"null"), (b"\xff", b"\xfe")]
)
async def test_content_is_the_same_only_byte_for_byte(place, tmp_path, there, here):
    """Other spaces, nothing instead of something, other bytes that are no JSON: all are other."""
    await plant(place, "session", "s", there)
    async with place.open() as storage, durably.open("memory://") as other:
        (theirs,) = (await storage.log_store.read(LogId(kind="session", id="s"))).records
        batch = Batch(records=(NewRecord(key="r1", data=here),), at=theirs.stored_at)
        await other.log_store.append(LogId(kind="session", id="s"), batch)
        with pytest.raises(CopyConflict):
            await storage.import_lines(await lines(other))


async def test_a_thread_that_keeps_more_is_compared_where_both_have_it(storage):
    """What a thread here kept that its source evicted is no difference; an edit behind it is."""
    saver = storage.checkpoint_saver(max_checkpoints_per_thread=3)
    async with durably.open("memory://") as there:
        for turn in range(9):
            await saver.append("m", snapshot(f"said {turn}", turn=turn))
            await there.import_lines(await lines(storage))
        assert len(await there.checkpoint_saver().list("m")) == 9
        edited = _edited(await lines(storage), "thread", 1)
        with pytest.raises(CopyConflict):
            await there.import_lines(edited)
        assert (await there.import_lines(await lines(storage))).records == 0


async def test_what_was_trimmed_since_is_other_content(full):
    """A session that was trimmed since its export is refused, and stays trimmed; a copy knows it.

    Its archive is imported all the same.
    """
    found = await lines(full)
    async with durably.open("memory://") as there:
        await full.copy_to(there)
        await there.sessions.trim_tool_results("m", archive=there.archive)
        trimmed = await there.sessions.segments("m")
        with pytest.raises(CopyConflict) as caught:
            await there.import_lines(found, progress=lambda *_: None)
        assert caught.value.log == LogId(kind="session", id="m")
        assert (await full.copy_to(there, kinds=["session"])).records == 0
        assert await there.sessions.segments("m") == trimmed


async def test_two_imports_at_once_are_one(full, place):
    """What another import stores between two parts of this one is known here, and compared."""
    for number in range(150):
        await full.sessions.append("m", said(f"more {number}"), run_id=f"more {number}")
    found = await lines(full)
    inner = durably.MemoryLogStore()
    store = Interposing(inner)
    async with Storage(inner) as there, contextlib.aclosing(Storage(store)) as target:
        store.interpose("append", 30, lambda: there.import_lines(found))
        await target.import_lines(found)
        assert await lines(there) == found


async def test_what_is_rewound_while_it_is_compared_is_a_conflict(full):
    """A session that loses runs between two looks at it is refused, and not filled up again."""
    found = await lines(full)
    inner = durably.MemoryLogStore()
    store = Interposing(inner)
    async with Storage(inner) as there, contextlib.aclosing(Storage(store)) as target:
        await target.import_lines(found)
        logs = [json.loads(line) for line in found if b'"kind":"session"' in line]
        assert [one["id"] for one in logs] == ["a", "m", "z"]
        # Of "a" there is an index and its record; of "m" an index, its first record, four more.
        store.interpose("read", 5, lambda: there.sessions.rewind("m", keep_entries=9))
        with pytest.raises(CopyConflict) as caught:
            await target.import_lines(found)
        assert caught.value.log == LogId(kind="session", id="m")
        assert len(await there.sessions.segments("m")) == 3


class Unread(Wrapper):
    """Refuses to read content."""

    async def read(self, log, span=durably.logstore.ALL):
        assert not span.with_data or span.limit == 0 or log.kind == "meta"
        return await super().read(log, span)


async def test_what_is_not_there_is_not_read(full):
    """An import into an empty storage reads no content of it."""
    store = Unread(durably.MemoryLogStore())
    async with Storage(store) as there:
        assert (await there.import_lines(await lines(full))).known == 0


def test_the_command_says_which_log_differs(tmp_path):
    """An edited export is one line on stderr and exit code 1; the session stays as it is."""
    path = tmp_path / "a.db"

    async def write():
        async with durably.open(url(path)) as storage:
            await fill(storage)

    asyncio.run(write())
    file = tmp_path / "a.jsonl"
    assert run("export", url(path), file).returncode == 0
    before = objects(run("history", url(path), "plain", "--json"))
    text = file.read_text()
    assert text.count('"x"') == 6
    file.write_text(text.replace('"x"', f'"{SECRET}"'))
    told = run("import", file, url(path))
    assert (told.returncode, told.stdout, told.stderr.count("\n")) == (1, "", 1)
    assert "session 'catalogued' is there with other content" in told.stderr
    assert SECRET not in told.stderr
    assert objects(run("history", url(path), "plain", "--json")) == before
