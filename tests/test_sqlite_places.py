"""Where a database lies and what becomes of it there: typed errors, pages, space, compression."""

import asyncio
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import zlib
from contextlib import closing
from pathlib import Path

import pytest

import durably
import recorded
from builders import call, result, user
from durably import (
    CorruptRecord,
    DurablyError,
    InvalidUrl,
    RunHead,
    StateSnapshot,
    StorageBusy,
    Unavailable,
    Unsupported,
)
from durably.logstore import NewRecord, Range, Rewrite
from durably_sqlite import SQLiteLogStore, _groups
from logs import LOG, batch, closing_all, keys, log, raw, state, tables, unkeyed, write_lock_is_free
from peers import peers
from sqlite_groups import assert_sound

SUPPORT = Path(__file__).parent / "support"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "storage.db"


@pytest.fixture
async def keep():
    async with closing_all() as keep:
        yield keep


def _run(script, *arguments):
    done = subprocess.run(
        [sys.executable, str(SUPPORT / script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    return json.loads(done.stdout)


def _obstruct(path):
    path.mkdir()
    return path.rmdir


def _lack_parent(path):
    path.parent.rmdir()
    return path.parent.mkdir


def _be_file(path):
    path.parent.rmdir()
    path.parent.touch()

    def clear():
        path.parent.unlink()
        path.parent.mkdir()

    return clear


def _dangle(path):
    path.symlink_to(path.parent / "missing" / "storage.db")
    return path.unlink


OBSTACLES = {
    "a directory": _obstruct,
    "no directory": _lack_parent,
    "a file as directory": _be_file,
    "a link to nowhere": _dangle,
}


@pytest.mark.parametrize("place", OBSTACLES.values(), ids=OBSTACLES.keys())
async def test_a_place_that_cannot_be_used_is_unavailable_until_it_can(tmp_path, keep, place):
    """A path that is no place for a file is named, with a remedy; remedied, the store works."""
    path = tmp_path / "folder" / "storage.db"
    path.parent.mkdir()
    remedy = place(path)
    store = keep(SQLiteLogStore(path))
    for _ in range(2):
        with pytest.raises(Unavailable, match=r"storage\.db") as caught:
            await store.append(LOG, batch("a"))
        assert caught.value.hint
    remedy()
    assert (await store.append(LOG, batch("a"))).seq == 1


@pytest.fixture
def open_folder():
    """A folder that everybody may enter, as those of pytest are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


FORBIDDEN = [
    # file, directory, journal mode, whether a read succeeds, a word of the remedy
    pytest.param(0o444, 0o777, "wal", True, "writable", id="read-only file"),
    pytest.param(0o444, 0o777, "delete", True, "writable", id="read-only file, delete mode"),
    pytest.param(0o444, 0o555, "delete", True, "writable", id="all read-only, delete mode"),
    pytest.param(0o444, 0o555, "wal", False, "directory", id="all read-only"),
    pytest.param(0o666, 0o555, "wal", False, "directory", id="read-only directory"),
    pytest.param(0o666, 0o555, "delete", True, "directory", id="read-only directory, delete mode"),
    pytest.param(0o000, 0o777, "wal", False, "", id="unreadable file"),
    pytest.param(None, 0o555, "wal", False, "directory", id="no file in a read-only directory"),
]


@pytest.mark.parametrize(("mode", "folder_mode", "journal", "is_read", "word"), FORBIDDEN)
async def test_what_is_forbidden_is_unavailable_with_a_remedy(
    open_folder, *, mode, folder_mode, journal, is_read, word
):
    """A user who may only read can do that where SQLite can, and an append says what is missing."""
    path = open_folder / "storage.db"
    if mode is not None:
        store = SQLiteLogStore(path, journal_mode=journal)
        await store.append(LOG, batch("a"))
        await store.aclose()
        path.chmod(mode)
    before = path.read_bytes() if mode else None
    open_folder.chmod(folder_mode)
    read, append = _run("sqlite_stranger.py", path)
    assert (read == "done") == is_read, read
    for outcome in [append] if is_read else [read, append]:
        kind, hint = outcome
        assert kind == "Unavailable"
        assert hint
        assert word in hint
    assert before is None or path.read_bytes() == before


@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.parametrize("limit", [1_000, 50_000, 400_000])
async def test_a_full_disk_loses_nothing_that_was_acknowledged(file, keep, mode, limit):
    """What finds no room is Unavailable with a remedy; what was acknowledged stays, and it goes on.

    The smallest limit is met while the file is made.
    """
    errors, acknowledged = _run("sqlite_full_disk.py", file, limit, mode)
    assert {kind for kind, _ in errors} == {"Unavailable"}
    assert all(hint for _, hint in errors)
    store = keep(SQLiteLogStore(file))
    wanted = [f"{number} {part}" for number in acknowledged for part in range(3)]
    assert await keys(store) == wanted
    assert (await state(store)).head == b"1000"
    assert_sound(file)


async def _filled(path, **options):
    store = SQLiteLogStore(path, **options)
    for number in range(40):
        await store.append(LOG, unkeyed(b"%d" % number * 900, head=b"%d" % number))
        await store.append(log(f"log {number}"), batch("a", "b"))
    await store.aclose()
    return path.read_bytes()


async def _attempts(path):
    """Return what every operation of a fresh store on a file comes to."""
    store = SQLiteLogStore(path)
    try:
        now = await asyncio.gather(store.read(LOG, Range(limit=0)), return_exceptions=True)
        known = now[0].state.revision if hasattr(now[0], "state") else 1
        attempts = [
            store.read(LOG),
            store.list("session", with_state=True),
            store.append(LOG, batch("c", "d", keep_last=5)),
            store.rewrite(LOG, Rewrite(expected_revision=known, drop_after=3)),
            store.delete(log("log 7")),
            store.maintain(),
            store.describe(),
        ]
        found = [(await asyncio.gather(one, return_exceptions=True))[0] for one in attempts]
        return [one for one in (*now, *found) if isinstance(one, BaseException)]
    finally:
        await store.aclose()


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
async def test_a_file_that_was_cut_off_is_corrupt(file, part):
    """Of a file without its end the operations that miss it are CorruptRecord, with a remedy."""
    whole = await _filled(file)
    os.truncate(file, int(len(whole) * part))
    errors = await _attempts(file)
    assert errors
    assert {type(one) for one in errors} <= {CorruptRecord}
    assert all("storage.db" in str(one) and one.hint for one in errors)


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_is_spoiled_in_a_file_only_our_errors_come_out(file, seed):
    """Bytes and pages that a disk spoiled lead to typed errors or to none, never to others."""
    dice = random.Random(seed)  # noqa: S311 - reproducible, no secret
    whole = bytearray(await _filled(file))
    for _ in range(dice.choice([1, 3, 30])):
        start = dice.randrange(100, len(whole))
        length = dice.choice([1, 1, 16, 4096])
        whole[start : start + length] = dice.randbytes(len(whole[start : start + length]))
    file.write_bytes(whole)
    file.with_name("storage.db-wal").unlink(missing_ok=True)
    errors = await _attempts(file)
    assert [one for one in errors if not isinstance(one, DurablyError)] == []


async def test_a_spoiled_schema_is_corrupt_whatever_its_bytes(file):
    """A schema that is no text any more is CorruptRecord, though SQLite's own words quote it."""
    whole = await _filled(file)
    file.write_bytes(whole.replace(b"name TEXT NOT NULL, app", b"name TEXT NOT NUL\x9b, app"))
    errors = await _attempts(file)
    assert errors
    assert {type(one) for one in errors} == {CorruptRecord}


async def test_an_eviction_that_meets_a_spoiled_count_is_corrupt(file, keep):
    """An append that would evict a record without a count is CorruptRecord, and stores nothing."""
    await _filled(file)
    with raw(file) as connection:
        connection.executescript(
            "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql ="
            " replace(sql, 'entry_count INTEGER NOT NULL', 'entry_count INTEGER')"
        )
    with raw(file) as connection:
        connection.execute("UPDATE durably_records SET entry_count = NULL WHERE key = 'a'")
    before = tables(file)
    store = keep(SQLiteLogStore(file))
    with pytest.raises(CorruptRecord) as caught:
        await store.append(log("log 7"), batch("c", keep_last=2))
    assert caught.value.log == log("log 7")
    assert tables(file) == before


async def test_a_wal_that_cannot_be_had_is_unsupported(file, monkeypatch):
    """Where SQLite answers that it stays in another mode, nothing is made and a remedy is named."""
    execute = _groups.Connection.execute

    def stubborn(self, sql, *parameters):
        return execute(self, sql.replace("journal_mode=wal", "journal_mode"), *parameters)

    with monkeypatch.context() as patch:
        patch.setattr(_groups.Connection, "execute", stubborn)
        store = SQLiteLogStore(file)
        with pytest.raises(Unsupported, match="journal_mode wal") as caught:
            await store.append(LOG, batch("a"))
        assert "local disk" in caught.value.hint
        await store.aclose()
    assert tables(file) == {}


def test_a_large_log_is_read_by_pages_in_little_memory(file):
    """Reading 120 MB in pages of 4 MB never holds more than some pages at once."""
    found, grown = _run("sqlite_memory.py", file, 120, 4)
    assert found == 120 * 999_996
    assert grown < 40_000_000


async def _pages(store, size=3):
    """Walk a log page by page, as a reader does."""
    after = 0
    while (stored := await store.read(LOG, Range(after=after, limit=size))).records:
        for record in stored.records:
            yield record.key
        after = stored.records[-1].seq


def _nobody_reads(path):
    """Whether no connection holds a read: then the log can be emptied, and the file locked."""
    with raw(path) as connection:
        if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
            return connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("ROLLBACK")
    return True


@pytest.mark.parametrize("mode", ["wal", "delete"])
async def test_a_reader_that_pauses_or_leaves_blocks_nobody(file, keep, mode):
    """An iterator over pages that is held, or left half way, keeps no read and no lock."""
    reader = keep(SQLiteLogStore(file, journal_mode=mode))
    writer = keep(SQLiteLogStore(file, busy_timeout=0))
    await reader.append(LOG, batch(*(f"{number}" for number in range(10))))
    paused, left = _pages(reader), _pages(reader)
    seen = [await anext(paused) for _ in range(4)]
    await anext(left)
    await left.aclose()
    page = await reader.read(LOG, Range(limit=2))
    await writer.append(LOG, batch("new", head=b"new"))
    assert _nobody_reads(file)
    assert [one.key for one in page.records] == ["0", "1"]
    seen += [key async for key in paused]
    assert seen == [*(f"{number}" for number in range(10)), "new"]


READS = {
    "all": Range(),
    "a page": Range(limit=2),
    "keys": Range(keys=frozenset({"2", "5"})),
    "entries": Range(entry_limit=2),
    "the newest": Range(newest=True, entry_limit=1),
    "without data": Range(with_data=False, limit=3),
}


@pytest.mark.parametrize("spoiled", [False, True], ids=["sound", "spoiled"])
@pytest.mark.parametrize("span", READS.values(), ids=READS.keys())
async def test_a_read_that_ended_early_or_failed_holds_nothing(file, keep, span, spoiled):
    """No kind of read, also one that met a spoiled record, leaves a statement open behind it."""
    store = keep(SQLiteLogStore(file))
    await store.append(LOG, batch(*(f"{number}" for number in range(10))))
    if spoiled:
        with raw(file) as connection:
            connection.execute("UPDATE durably_records SET stored_at = 'never'")
    held = await asyncio.gather(store.read(LOG, span), return_exceptions=True)
    assert (type(held[0]) is CorruptRecord) == spoiled
    assert _nobody_reads(file)
    assert write_lock_is_free(file)


async def test_a_process_that_is_stopped_after_a_read_blocks_nobody(file):
    """While a process that read the session is halted, others write and empty the log."""
    url = f"sqlite:///{file}"
    async with durably.open(f"{url}?busy_timeout=0") as storage, peers(url, 1) as [peer]:
        await storage.sessions.append("s", [user("a")], run_id="r1")
        assert len(await peer.call("segments", "s")) == 1
        peer._process.send_signal(signal.SIGSTOP)
        try:
            await storage.sessions.append("s", [user("b")], run_id="r2")
            assert _nobody_reads(file)
        finally:
            peer._process.send_signal(signal.SIGCONT)
        assert len(await peer.call("segments", "s")) == 2


def _bodies(path):
    """Return how many bodies lie plain and how many packed."""
    with raw(path) as connection:
        return connection.execute(
            "SELECT count(data), count(packed) FROM durably_records"
        ).fetchone()


async def test_compressed_and_plain_bodies_live_side_by_side(file, keep):
    """Handles with and without compression read and replace what the other one wrote."""
    plain = keep(SQLiteLogStore(file))
    packing = keep(SQLiteLogStore(file, compression="zlib"))
    bodies = [b"word " * 400, b"other " * 300, bytes(range(256)) * 20, b"short"]
    for number, body in enumerate(bodies * 2):
        await (plain, packing)[number % 2].append(LOG, unkeyed(body))
    assert _bodies(file) == (6, 2)
    for store in (plain, packing):
        assert [one.data for one in (await store.read(LOG)).records] == bodies * 2
        found = await store.read(LOG, Range(newest=True, entry_limit=3))
        assert [one.data for one in found.records] == bodies[1:]
    for store, seq in ((plain, 2), (packing, 1)):
        change = Rewrite(
            expected_revision=(await state(store)).revision,
            replace={seq: NewRecord(data=b"replaced " * 500)},
        )
        await store.rewrite(LOG, change)
    assert _bodies(file) == (6, 2)
    found = [one.data for one in (await plain.read(LOG)).records]
    assert found == [b"replaced " * 500] * 2 + (bodies * 2)[2:]
    assert_sound(file)


async def test_what_compression_does_not_help_is_stored_as_it_is(file, keep):
    """A short body and one without repetition are stored plain, and cost nothing to read."""
    store = keep(SQLiteLogStore(file, compression="zlib"))
    noise = random.Random(1).randbytes(5000)  # noqa: S311 - reproducible, no secret
    await store.append(LOG, unkeyed(b"", b"x" * 50, noise))
    assert _bodies(file) == (3, 0)
    assert [one.data for one in (await store.read(LOG)).records] == [b"", b"x" * 50, noise]


SPOILED = {
    "no zlib": b"spoiled",
    "cut off": zlib.compress(b"word " * 400)[:-6],
    "empty": b"",
    "a wrong checksum": zlib.compress(b"word " * 400)[:-1] + b"\x00",
    "text": "spoiled",
    "a number": 17,
}


@pytest.mark.parametrize("packed", SPOILED.values(), ids=SPOILED.keys())
async def test_a_spoiled_compressed_body_is_corrupt(file, keep, packed):
    """A compressed body that cannot be unpacked is CorruptRecord, naming its log, and only it."""
    store = keep(SQLiteLogStore(file, compression="zlib"))
    await store.append(LOG, unkeyed(b"word " * 400, b"other " * 400))
    await store.append(log("sound"), unkeyed(b"word " * 400))
    with raw(file) as connection:
        connection.execute("UPDATE durably_records SET packed = ? WHERE place & 255 = 2", (packed,))
    for span in (Range(), Range(entry_limit=9), Range(newest=True, limit=1)):
        with pytest.raises(CorruptRecord) as caught:
            await store.read(LOG, span)
        assert caught.value.log == LOG
    assert len((await store.read(LOG, Range(limit=1))).records) == 1
    assert len((await store.read(LOG, Range(with_data=False))).records) == 2
    assert (await store.read(log("sound"))).records[0].data == b"word " * 400


async def test_a_record_without_a_body_is_corrupt(file):
    """A record that has lost both of its bodies is CorruptRecord to who loads the session."""
    async with durably.open(f"sqlite:///{file}") as storage:
        await storage.sessions.append("s", [user("a")], run_id="r1")
        with raw(file) as connection:
            connection.execute("UPDATE durably_records SET data = NULL WHERE key = 'r1'")
        with pytest.raises(CorruptRecord) as caught:
            await storage.sessions.load("s")
    assert caught.value.log.id == "s"


async def _store_all(path, conversations, options=""):
    """Store conversations as sessions, and return the size of the file in bytes."""
    async with durably.open(f"sqlite:///{path}?synchronous=normal{options}") as storage:
        for number, conversation in enumerate(conversations):
            for entries in recorded.runs(conversation):
                await storage.sessions.append(f"session {number}", entries)
        await storage.log_store.maintain()
    return path.stat().st_size


@pytest.mark.parametrize("conversations", recorded.sources())
async def test_recorded_conversations_compress(tmp_path, conversations):
    """Compressed, recorded conversations take under three fifths of the file, and load the same."""
    conversations = conversations[:12]
    plain = await _store_all(tmp_path / "plain.db", conversations)
    packed = await _store_all(tmp_path / "packed.db", conversations, "&compression=zlib")
    async with (
        durably.open(f"sqlite:///{tmp_path}/plain.db") as one,
        durably.open(f"sqlite:///{tmp_path}/packed.db") as other,
    ):
        for number in range(len(conversations)):
            found = await other.sessions.load(f"session {number}")
            assert found == await one.sessions.load(f"session {number}")
    is_more_than_empty_tables = plain > 100_000
    assert packed < 0.6 * plain if is_more_than_empty_tables else packed <= plain


async def _use_everything(storage):
    """Use every contract, and delete all of it again."""
    long = [user("find"), call("c1"), result("c1", "found " * 900)]
    for run_id in ("r1", "r2", "r3"):
        await storage.sessions.append("x", long, run_id=run_id, meta={"secret": "geheim"})
    await storage.sessions.trim_tool_results("x", keep_chars=3)
    await storage.sessions.rewind("x", keep_entries=4)
    await storage.checkpointer.append("x", long, RunHead(agent_name="geheim"))
    claim = await storage.checkpointer.claim("x")
    await claim.append([user("geheim")], RunHead())
    saver = storage.checkpoint_saver(max_checkpoints_per_thread=2)
    for turn in range(5):
        await saver.append("x", StateSnapshot(messages=[*long, user("geheim")] * turn, turn=turn))
    await storage.sessions.clear("x")
    await storage.checkpointer.delete("x")
    await saver.delete("x")


async def test_a_deletion_leaves_no_row_in_any_table(file):
    """After everything of an id was deleted, every table holds the rows it held before."""
    async with durably.open(f"sqlite:///{file}") as storage:
        await storage.sessions.append("y", [user("kept")], run_id="r1")
        before = tables(file)
        await _use_everything(storage)
        assert tables(file) == before
    assert_sound(file)


@pytest.mark.parametrize("options", ["", "?compression=zlib", "?journal_mode=delete"])
async def test_maintaining_gives_the_space_of_what_was_deleted_back(file, options):
    """After a deletion maintain() makes the file small again, without a trace of the content."""
    async with durably.open(f"sqlite:///{file}{options}") as storage:
        await storage.sessions.append("y", [user("kept")], run_id="r1")
        await storage.log_store.maintain()
        small = file.stat().st_size
        for number in range(30):
            text = "geheim " + random.Random(number).randbytes(20_000).hex()  # noqa: S311
            await storage.sessions.append("x", [user(text)])
        await storage.log_store.maintain()
        assert file.stat().st_size > 10 * small
        await storage.sessions.clear("x")
        await storage.log_store.maintain()
        assert file.stat().st_size <= small + 4096
        content = b"".join(one.read_bytes() for one in file.parent.iterdir())
        assert b"geheim" not in content
        assert b"kept" in content
        assert await storage.sessions.load("y") == [user("kept")]
    assert_sound(file)


async def test_maintaining_leaves_the_tables_of_others_as_they_are(file, keep):
    """In a file with other tables nothing is moved, so that rows without a key keep their rowid."""
    store = keep(SQLiteLogStore(file))
    await store.append(LOG, unkeyed(bytes(100_000)))
    with raw(file) as connection:
        connection.executescript(
            "CREATE TABLE notes (body); INSERT INTO notes VALUES (1), (2), (3);"
            "DELETE FROM notes WHERE body = 2"
        )
    await store.delete(LOG)
    await store.maintain()
    with raw(file) as connection:
        assert connection.execute("SELECT rowid, body FROM notes").fetchall() == [(1, 1), (3, 3)]
    await store.append(LOG, batch("a"))
    assert_sound(file)


async def test_maintaining_beside_a_reader_and_a_writer(file, keep):
    """maintain() beside an open read succeeds; beside a held write lock it is StorageBusy."""
    store = keep(SQLiteLogStore(file, busy_timeout=0.1))
    await store.append(LOG, batch("kept"))
    await store.append(log("large"), unkeyed(bytes(200_000)))
    with raw(file) as connection:
        reading = connection.execute("SELECT * FROM durably_records")
        reading.fetchone()
        await store.delete(log("large"))
        await store.maintain()
        reading.close()
        await store.append(log("large"), unkeyed(bytes(200_000)))
        await store.delete(log("large"))
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageBusy):
            await store.maintain()
        connection.execute("ROLLBACK")
    await store.maintain()
    assert file.stat().st_size < 100_000
    assert await keys(store) == ["kept"]
    assert_sound(file)


@pytest.mark.parametrize("how", ["removed", "replaced"])
async def test_a_file_that_went_while_it_was_open_takes_no_change(tmp_path, keep, how):
    """A change to a file that was removed or replaced under its name is refused, not lost."""
    file, other = tmp_path / "storage.db", tmp_path / "other.db"
    for path in (file, other):
        store = SQLiteLogStore(path)
        await store.append(LOG, batch("first"))
        await store.aclose()
    store = keep(SQLiteLogStore(file))
    await store.append(LOG, batch("a"))
    if how == "removed":
        file.unlink()
    else:
        other.rename(file)
    for _ in range(2):
        with pytest.raises(Unavailable, match=r"removed or replaced.*open it again"):
            await store.append(LOG, batch("b"))


async def test_a_storage_that_must_be_there_is_not_created(file, keep):
    """With create=never a missing file is Unavailable, each time, and none appears."""
    store = keep(SQLiteLogStore(file, create="never"))
    for _ in range(2):
        with pytest.raises(Unavailable, match="there is no database at") as caught:
            await store.append(LOG, batch("a"))
        assert caught.value.hint
    assert [*file.parent.iterdir()] == []
    await keep(SQLiteLogStore(file)).append(LOG, batch("a"))
    assert (await store.append(LOG, batch("b"))).seq == 2
    assert await keys(store) == ["a", "b"]


@pytest.mark.parametrize("mode", ["wal", "delete"])
async def test_a_file_of_others_that_must_hold_a_storage_is_left_alone(file, keep, mode):
    """With create=never a file without our tables is Unavailable, and no byte of it changes."""
    with closing(sqlite3.connect(file)) as theirs:
        theirs.execute(f"PRAGMA journal_mode={mode}")
        theirs.execute("CREATE TABLE mine (a)")
        theirs.commit()
    before = file.read_bytes()
    store = keep(SQLiteLogStore(file, create="never"))
    with pytest.raises(Unavailable, match="holds nothing of durably's"):
        await store.read(LOG)
    assert file.read_bytes() == before
    assert [*file.parent.iterdir()] == [file]


async def test_create_says_nothing_to_a_database_in_memory(keep):
    """There is never one before, so it is created whatever is said."""
    for name in (None, "create-never"):
        store = keep(SQLiteLogStore(None, name=name, create="never"))
        assert (await store.append(LOG, batch("a"))).seq == 1


def test_create_has_two_values():
    """Any other is refused when the storage is made."""
    with pytest.raises(InvalidUrl, match="create must be one of if-missing, never"):
        durably.open("sqlite:///a.db?create=yes")


async def test_a_file_with_a_name_of_signs_is_found_when_it_must_be_there(tmp_path, keep):
    """Signs that mean something in a URI are part of the name."""
    path = tmp_path / "a b%20?mode=memory&x#y.db"
    await keep(SQLiteLogStore(path)).append(LOG, batch("a"))
    assert await keys(keep(SQLiteLogStore(path, create="never"))) == ["a"]
