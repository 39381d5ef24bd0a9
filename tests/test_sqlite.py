"""The SQLite file: its settings, its mode, whose it is, and how it is spoken to."""

import asyncio
import hashlib
import sqlite3

import aiosqlite
import pytest

import durably
from durably import ForeignData, InputEntry, InvalidUrl, SchemaTooNew, Unavailable, Unsupported
from durably.logstore import Batch, LogId, NewRecord, Range, Rewrite
from durably_sqlite import SQLiteLogStore
from logs import LOG, batch, closing_all, keys, log, raw, tables, unkeyed

SAID = [InputEntry(role="user", content="hello")]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "storage.db"


@pytest.fixture
async def keep():
    async with closing_all() as keep:
        yield keep


async def _pragma(store, name):
    """Read a pragma on the store's own connection."""
    row = await (await store._engine._database.execute(f"PRAGMA {name}")).fetchone()
    return row[0]


async def test_a_fresh_file_is_in_wal_mode_and_fully_synchronous(file, keep):
    """By default journal_mode is wal and synchronous is 2."""
    store = keep(SQLiteLogStore(file))
    await store.append(LOG, batch("a"))
    assert await _pragma(store, "journal_mode") == "wal"
    assert await _pragma(store, "synchronous") == 2
    with raw(file) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("mode", ["wal", "delete", "truncate", "persist"])
@pytest.mark.parametrize(("synchronous", "level"), [("normal", 1), ("full", 2), ("extra", 3)])
async def test_options_of_the_url_are_honoured(file, mode, synchronous, level):
    """journal_mode, synchronous and busy_timeout of a URL are what the connection uses."""
    options = f"journal_mode={mode}&synchronous={synchronous}&busy_timeout=1.5"
    async with durably.open(f"sqlite:///{file}?{options}") as storage:
        await storage.sessions.append("s", SAID)
        store = storage._log_store._store
        assert await _pragma(store, "journal_mode") == mode
        assert await _pragma(store, "synchronous") == level
        assert (await store.describe())["busy_timeout"] == "1.5 s"
        assert await storage.sessions.load("s") == SAID


WRONG_OPTIONS = [
    *(f"journal_mode={mode}" for mode in ("off", "memory", "wal;DROP", "")),
    *(f"synchronous={level}" for level in ("off", "0", "")),
    *(f"busy_timeout={time}" for time in ("x", "-1", "nan", "inf", "")),
    "sinchronous=full",
    "name=x",
]


@pytest.mark.parametrize("options", WRONG_OPTIONS)
def test_a_wrong_option_is_refused_before_a_file_is_made(file, options):
    """An option or value that SQLite could not keep its promises with is an InvalidUrl."""
    with pytest.raises(InvalidUrl):
        durably.open(f"sqlite:///{file}?{options}")
    assert not file.exists()


async def test_the_files_are_for_their_owner_alone(file, keep):
    """A new database has mode 0600, and so have its -wal and -shm files."""
    store = keep(SQLiteLogStore(file))
    await store.append(LOG, batch("a"))
    modes = {one.name: one.stat().st_mode & 0o777 for one in file.parent.iterdir()}
    names = {"storage.db", "storage.db-wal", "storage.db-shm"}
    assert modes == dict.fromkeys(names, 0o600)


async def test_an_existing_file_keeps_its_mode(file, keep):
    """The mode of a file that was there before is its owner's business."""
    file.touch()
    file.chmod(0o640)
    store = keep(SQLiteLogStore(file))
    await store.append(LOG, batch("a"))
    assert file.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("where", [".", "missing/storage.db", "storage.db/below.db"])
async def test_a_path_that_cannot_be_a_file_is_unavailable(tmp_path, where):
    """A directory, a missing directory and a file as directory are Unavailable, with a remedy."""
    (tmp_path / "storage.db").write_bytes(b"")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(Unavailable) as caught:
        async with durably.open(f"sqlite:///{tmp_path / where}"):
            pass
    assert caught.value.hint
    assert sorted(tmp_path.iterdir()) == before


async def _refused(file, error, keep):
    """Check that every operation of a store refuses a file and changes nothing of it."""
    before = hashlib.sha256(file.read_bytes()).digest()
    rewrite = Rewrite(expected_revision=1, drop_after=0)
    store = keep(SQLiteLogStore(file))
    for attempt in (
        lambda: store.read(LOG),
        lambda: store.append(LOG, batch("a")),
        lambda: store.rewrite(LOG, rewrite),
        lambda: store.delete(LOG),
        lambda: store.list("session"),
    ):
        with pytest.raises(error):
            await attempt()
    await store.aclose()
    assert hashlib.sha256(file.read_bytes()).digest() == before
    assert [one.name for one in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("content", [b"hello", b"hello\n" * 2000, bytes(5000)])
async def test_a_file_that_is_not_sqlite_is_foreign(file, content, keep):
    """A file of something else is ForeignData and keeps its bytes."""
    file.write_bytes(content)
    await _refused(file, ForeignData, keep)


@pytest.mark.parametrize(
    "statements",
    [
        "CREATE TABLE durably_logs (x)",
        "CREATE TABLE durably_records (x)",
        "CREATE TABLE durably_schema (x)",
        "CREATE TABLE durably_schema (version)",
        "CREATE TABLE durably_schema (version); INSERT INTO durably_schema VALUES ('one')",
        "CREATE TABLE durably_schema (version); INSERT INTO durably_schema VALUES (1), (1)",
        "CREATE TABLE durably_schema (version); INSERT INTO durably_schema VALUES (0)",
        "CREATE TABLE durably_schema (version); INSERT INTO durably_schema VALUES (-1)",
        "CREATE TABLE durably_schema (version); INSERT INTO durably_schema VALUES (1)",
        "CREATE VIEW durably_logs AS SELECT 1 AS x",
    ],
)
async def test_tables_of_our_names_that_are_not_ours_are_foreign(file, statements, keep):
    """Tables named as ours without our marker are ForeignData and keep their bytes."""
    with raw(file) as connection:
        connection.executescript(statements)
    await _refused(file, ForeignData, keep)


@pytest.mark.parametrize("mode", ["wal", "delete"])
async def test_a_newer_layout_is_refused_and_left_alone(file, mode, keep):
    """A database of a newer version is SchemaTooNew, says what to upgrade, keeps its bytes."""
    store = keep(SQLiteLogStore(file, journal_mode=mode))
    await store.append(LOG, batch("a"))
    await store.aclose()
    with raw(file) as connection:
        connection.execute("INSERT INTO durably_schema VALUES (2, 'later', 0.0)")
    await _refused(file, SchemaTooNew, keep)
    with pytest.raises(SchemaTooNew, match="durably-sqlite") as caught:
        await keep(SQLiteLogStore(file)).read(LOG)
    assert (caught.value.found, caught.value.supported) == (2, 1)


async def test_a_layout_that_became_newer_meanwhile_takes_no_change(file, keep):
    """A store that was open when another process migrated the file refuses to change it."""
    store = keep(SQLiteLogStore(file))
    await store.append(LOG, batch("a"))
    with raw(file) as connection:
        connection.executescript(
            "INSERT INTO durably_schema VALUES (2, 'later', 0.0);"
            " ALTER TABLE durably_records ADD COLUMN later"
        )
    before = tables(file)
    for _ in range(2):
        with pytest.raises(SchemaTooNew, match="durably-sqlite"):
            await store.append(LOG, batch("b"))
    assert tables(file) == before


async def test_a_table_that_others_make_meanwhile_is_theirs(file, keep):
    """A store goes on when another process adds a table of its own to the file."""
    store = keep(SQLiteLogStore(file))
    await store.append(LOG, batch("a"))
    with raw(file) as connection:
        connection.execute("CREATE TABLE notes (x)")
    await store.append(LOG, batch("b"))
    assert await keys(store) == ["a", "b"]


async def test_other_peoples_tables_are_none_of_our_business(file, keep):
    """A file with other tables takes ours beside them and leaves theirs as they were."""
    with raw(file) as connection:
        connection.executescript(
            "CREATE TABLE notes (id TEXT PRIMARY KEY, body BLOB);"
            "INSERT INTO notes VALUES ('a', x'00ff'), ('b', NULL);"
            "CREATE TABLE logs (x); CREATE TABLE session (id); CREATE INDEX records ON notes (body)"
        )
    before = tables(file)
    store = keep(SQLiteLogStore(file))
    await store.append(LOG, batch("a", "b"))
    await store.delete(LOG)
    assert await keys(store) == []
    await store.aclose()
    after = tables(file)
    assert {name: rows for name, rows in after.items() if not name.startswith("durably_")} == before


async def test_a_database_in_utf16_is_unsupported(file, keep):
    """A database that its owner made in UTF-16, which orders ids otherwise, is left as it is."""
    with raw(file) as connection:
        connection.executescript("PRAGMA encoding = 'UTF-16le'; CREATE TABLE notes (x)")
    await _refused(file, Unsupported, keep)


HOSTILE = [
    "'; DROP TABLE durably_logs; --",
    '" OR 1=1 --',
    "%",
    "_",
    "*",
    "?1",
    ":id",
    "a\nb",
    "\\",
]


@pytest.mark.parametrize("text", HOSTILE)
async def test_no_text_of_a_caller_becomes_sql(file, text, keep):
    """Text that looks like SQL is stored, found, listed and deleted as the text it is."""
    store, other = keep(SQLiteLogStore(file, namespace=text)), keep(SQLiteLogStore(file))
    await other.append(log("x"), batch("a"))
    await store.append(log(text), batch(text, "b"))
    assert await keys(store, log(text), Range(keys=frozenset({text}))) == [text]
    page = await store.list("session", prefix=text, after="\x01")
    assert [row.id for row in page.items] == [text]
    assert (await store.list(text)).items == ()
    now = (await store.read(log(text))).state
    await store.rewrite(
        log(text), Rewrite(expected_revision=now.revision, replace={1: NewRecord(data=b"new")})
    )
    assert await store.delete(log(text))
    assert await keys(other, log("x")) == ["a"]


async def test_a_private_database_in_memory_is_private():
    """Two ``sqlite://`` storages share nothing, and neither makes a file."""
    async with durably.open("sqlite://") as first, durably.open("sqlite://") as second:
        await first.sessions.append("s", SAID)
        assert await first.sessions.load("s") == SAID
        assert await second.sessions.load("s") == []


async def test_a_named_database_in_memory_is_shared_in_the_process():
    """Storages of one ``?name=`` see each other's appends, those of another name do not."""
    shared, other = "sqlite://?name=this%2Fis%20%26%20that", "sqlite://?name=that"
    async with durably.open(shared) as first, durably.open(shared) as second:
        stores = [first, second] * 20
        ids = [f"run {number}" for number in range(40)]
        sent = zip(stores, ids, strict=True)
        await asyncio.gather(*(one.sessions.append("s", SAID, run_id=run) for one, run in sent))
        assert sorted(one.run_id for one in await second.sessions.segments("s")) == sorted(ids)
        async with durably.open(other) as third:
            assert await third.sessions.load("s") == []


async def test_an_operation_is_one_hop_to_the_connections_thread(file, monkeypatch, keep):
    """Each operation of a connected store goes to the connection's thread exactly once."""
    hops = []
    execute = aiosqlite.Connection._execute

    def counting(self, function, *args, **options):
        hops.append(function)
        return execute(self, function, *args, **options)

    store = keep(SQLiteLogStore(file))
    await store.append(LOG, unkeyed(b"1", b"2", b"3"))
    monkeypatch.setattr(aiosqlite.Connection, "_execute", counting)
    now = (await store.append(LOG, unkeyed(*[b"x"] * 50, head=b"h", keep_last=20))).revision
    for operation in (
        lambda: store.read(LOG, Range(newest=True, keys=frozenset({"a", "b"}))),
        lambda: store.append(LOG, Batch(head=b"h")),
        lambda: store.rewrite(LOG, Rewrite(expected_revision=now + 1, drop=frozenset({50, 51}))),
        lambda: store.list("session", with_state=True),
        lambda: store.delete(LOG),
        lambda: store.read(LOG),
    ):
        before = len(hops)
        await operation()
        assert len(hops) == before + 1


async def test_no_operation_scans_a_table(file, keep):
    """Every statement of every operation finds its rows by an index, however many there are."""
    store = keep(SQLiteLogStore(file))
    await store.append(LOG, batch("a", "b", "c"))
    statements = set()
    await store._engine._database.set_trace_callback(statements.add)
    await store.append(LOG, batch("b", "d", head=b"h", keep_last=3))
    await store.read(LOG, Range(newest=True, limit=1))
    await store.read(LOG, Range(keys=frozenset("bd")))
    await store.list("session", prefix="a", with_state=True)
    now = (await store.read(LOG)).state.revision
    await store.rewrite(
        LOG, Rewrite(expected_revision=now, drop_after=3, replace={2: NewRecord(data=b"")})
    )
    await store.delete(LOG)
    await store._engine._database.set_trace_callback(None)
    with raw(file) as connection:
        connection.create_function("durably_unpack", 1, bytes)
        plans = {
            row[3]
            for statement in statements
            for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}")
        }
    assert any("durably_records" in plan for plan in plans)
    assert [plan for plan in plans if plan.startswith("SCAN durably")] == []


async def test_what_an_append_writes_does_not_grow_with_the_log(file, keep):
    """The 400th append to a log writes as many bytes to the WAL as the 100th, or fewer than 2x."""
    store = keep(SQLiteLogStore(file, synchronous="normal"))
    await store.append(LOG, batch("first"))
    await (await store._engine._database.execute("PRAGMA wal_autocheckpoint = 0")).close()
    wal = file.with_name("storage.db-wal")
    grown = []
    for number in range(400):
        before = wal.stat().st_size
        await store.append(LOG, unkeyed(b"%04d" % number * 500))
        grown.append(wal.stat().st_size - before)
    assert 0 < sum(grown[300:]) < 2 * sum(grown[:100])


async def test_a_log_reads_the_same_after_the_file_was_copied(file, tmp_path, keep):
    """A backup made by SQLite itself is a storage with the same logs."""
    store = keep(SQLiteLogStore(file))
    await store.append(LogId(kind="run", id="r"), batch("a", "b", head=b"h"))
    with raw(file) as source, raw(tmp_path / "copy.db") as target:
        source.backup(target)
    copy = keep(SQLiteLogStore(tmp_path / "copy.db"))
    assert await copy.read(LogId(kind="run", id="r")) == await store.read(LogId(kind="run", id="r"))
    await copy.aclose()


def test_sqlite_itself_is_new_enough_for_these_tests():
    """The SQLite underneath is at least 3.35, as the backend asks."""
    assert sqlite3.sqlite_version_info >= (3, 35, 0)
