"""Layout versions: older files are brought up to date, newer and foreign ones left as they are."""

import asyncio
import hashlib
import json
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

import durably
from durably import DurablyError, ForeignData, MigrationError, SchemaTooNew
from durably_sqlite import SQLiteLogStore, _layout
from logs import LOG, batch, closing_all, keys, log, raw, tables, unkeyed, write_lock_is_free
from sqlite_groups import assert_sound
from sqlite_steps import NEW, OLD, SECOND, THIRD, later, upgrade

SUPPORT = Path(__file__).parent / "support"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "storage.db"


@pytest.fixture
async def keep():
    async with closing_all() as keep:
        yield keep


async def _fill(path, **options):
    """Make a storage of this version, closed."""
    store = SQLiteLogStore(path, **options)
    await store.append(LOG, batch("a", "b", "c", head=b"head"))
    await store.append(log("large"), unkeyed(*[b"%d" % one * 3000 for one in range(9)]))
    await store.scoped("other").append(LOG, batch("x"))
    await store.aclose()


def _run(script, *arguments):
    done = subprocess.run(
        [sys.executable, str(SUPPORT / script), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    return done


@contextmanager
def _written(path, statements, *, end):
    """Let another process execute statements, and be dead or still connected in the block."""
    command = [sys.executable, str(SUPPORT / "sqlite_writer.py"), str(path), end, statements]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdout.readline() == b"written\n"
        if end == "die":
            assert process.wait(20) == -9
        yield
        process.stdin.close()


def _schema(path):
    """Return what tables and so on a database has, and which steps it records."""
    with raw(path) as connection:
        made = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
        steps = connection.execute("SELECT version, name FROM durably_schema").fetchall()
    return sorted(map(str, made)), steps


def _rows(path):
    """Return the rows of our first layout, as far as they have its columns."""
    with raw(path) as connection:
        logs = connection.execute(
            "SELECT number, namespace, kind, id, revision, epoch, next_seq, record_count,"
            " entry_count, head, created_at, updated_at, changes FROM durably_logs"
        ).fetchall()
        return logs, connection.execute("SELECT * FROM durably_records").fetchall()


def _files(folder):
    """Return every file of a folder with the hash of its content."""
    return {
        one.name: hashlib.sha256(one.read_bytes()).hexdigest()
        for one in sorted(folder.iterdir())
        if one.is_file()
    }


def test_the_steps_of_this_version_are_numbered_without_a_gap():
    """The steps are 1, 2, 3 and so on, and the last of them is this version's layout."""
    assert [one.version for one in _layout.MIGRATIONS] == list(range(1, _layout.VERSION + 1))


@pytest.mark.parametrize("step", later(), ids=lambda step: step.name)
def test_a_step_is_split_into_all_of_its_statements(step):
    """What a step executes is all of its script, each statement whole."""
    statements = list(step.statements())
    assert "".join(statements) == step.script
    assert all(one.rstrip().endswith(";") for one in statements)


@pytest.mark.parametrize("mode", ["wal", "delete"])
async def test_an_older_file_is_migrated_and_keeps_its_rows(file, keep, monkeypatch, mode):
    """The first operation of a later version brings the layout up to date, every row kept."""
    await _fill(file, journal_mode=mode)
    before = _rows(file)
    upgrade(monkeypatch.setattr)
    store = keep(SQLiteLogStore(file))
    assert await keys(store) == ["a", "b", "c"]
    assert _rows(file) == before
    assert _schema(file)[1] == [(1, "logs"), (2, "notes"), (3, "index")]
    found = tables(file)
    assert [row[-1] for row in found["durably_logs"]] == ["SESSION"] * 3
    assert {note for _, note in found["durably_notes"]} == {"a note; on a log", "a note; on large"}
    assert (await store.append(LOG, batch("d"))).seq == 4
    with raw(file) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == (mode,)
    assert_sound(file)


async def test_a_migration_is_one_transaction(file, keep, monkeypatch):
    """All the steps that are due, and what records them, lie between one BEGIN and one COMMIT."""
    await _fill(file)
    upgrade(monkeypatch.setattr)
    statements = []
    migrate = _layout.migrate

    def traced(connection, settings):
        connection.set_trace_callback(statements.append)
        migrate(connection, settings)
        connection.set_trace_callback(None)

    monkeypatch.setattr(_layout, "migrate", traced)
    await keys(keep(SQLiteLogStore(file)))
    assert (statements[0], statements[-1]) == ("BEGIN IMMEDIATE", "COMMIT")
    between = "\n".join(statements[1:-1])
    assert "BEGIN IMMEDIATE" not in between
    assert "COMMIT" not in between
    assert between.count("INSERT INTO durably_schema") == 2
    assert "CREATE TABLE durably_notes" in between


async def test_a_migrated_file_and_a_fresh_one_have_one_schema(file, tmp_path, keep, monkeypatch):
    """A later version makes the same tables of an older file and of nothing."""
    await _fill(file)
    upgrade(monkeypatch.setattr)
    await keys(keep(SQLiteLogStore(file)))
    await keys(keep(SQLiteLogStore(tmp_path / "fresh.db")))
    assert _schema(tmp_path / "fresh.db") == _schema(file)


async def test_versions_follow_each_other(file, keep, monkeypatch):
    """A file that went from 1 to 2 goes on to 3, and only the step that is due is taken."""
    await _fill(file)
    for steps in ((SECOND,), (SECOND, THIRD)):
        with monkeypatch.context() as patch:
            upgrade(patch.setattr, *steps)
            store = SQLiteLogStore(file)
            assert await keys(store) == ["a", "b", "c"]
            await store.aclose()
    assert [version for version, _ in _schema(file)[1]] == [1, 2, 3]
    with pytest.raises(SchemaTooNew) as caught:
        await keep(SQLiteLogStore(file)).read(LOG)
    assert (caught.value.found, caught.value.supported) == (NEW, OLD)


async def test_eight_stores_migrate_a_file_together(file, keep, monkeypatch):
    """Eight stores of a later version whose first operations meet an older file all succeed."""
    await _fill(file)
    upgrade(monkeypatch.setattr)
    stores = [keep(SQLiteLogStore(file, backup="before-migration")) for _ in range(8)]
    answers = await asyncio.gather(
        *(store.append(LOG, batch(f"{number}")) for number, store in enumerate(stores))
    )
    assert sorted(one.seq for one in answers) == list(range(4, 12))
    assert _schema(file)[1] == [(1, "logs"), (2, "notes"), (3, "index")]
    assert_sound(file)


async def test_eight_processes_migrate_a_file_together(tmp_path):
    """Eight processes of a later version that open an older file at once end with one schema."""
    paths = [tmp_path / f"{number}.db" for number in range(3)]
    for path in paths:
        await _fill(path)
    for path, line in zip(paths, _run("sqlite_crowd.py", "later", 8, *paths).stdout.splitlines()):  # noqa: B905 - the lines are counted below
        answers = json.loads(line)
        assert sorted(seq for _, seq in answers) == list(range(4, 12)), answers
        assert _schema(path)[1] == [(1, "logs"), (2, "notes"), (3, "index")]
        assert_sound(path)
    assert len(answers) == 8


FAILING = {
    "no such table": "INSERT INTO durably_absent VALUES (1);\n",
    "not SQL": "MAKE IT SO;\n",
    "a constraint": "INSERT INTO durably_notes SELECT log, note FROM durably_notes;\n",
    "a table that is there": "CREATE TABLE durably_logs (x);\n",
}


@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.parametrize("statement", FAILING.values(), ids=FAILING.keys())
async def test_a_step_that_fails_leaves_the_file_as_it_was(file, monkeypatch, statement, mode):
    """A step that fails after others wrote is a MigrationError, and not a byte is changed."""
    await _fill(file, journal_mode=mode)
    before = _files(file.parent)
    broken = _layout.Migration(version=3, name="broken", script=THIRD.script + statement)
    with monkeypatch.context() as patch:
        upgrade(patch.setattr, SECOND, broken)
        store = SQLiteLogStore(file)
        for _ in range(2):
            with pytest.raises(MigrationError) as caught:
                await store.append(LOG, batch("d"))
            assert caught.value.wanted == 3
            assert caught.value.reason
            assert write_lock_is_free(file)
        await store.aclose()
    assert _files(file.parent) == before
    store = SQLiteLogStore(file)
    assert await keys(store) == ["a", "b", "c"]
    await store.aclose()


async def test_a_migration_that_finds_no_room_leaves_the_file_as_it_was(file, monkeypatch):
    """A step for which the database has no room is a typed error, and every row stays."""
    await _fill(file)
    before = tables(file)
    growing = _layout.Migration(
        version=2,
        name="growing",
        script="PRAGMA max_page_count = 1;\n"
        "CREATE TABLE durably_copies AS SELECT * FROM durably_records, durably_logs;\n",
    )
    with monkeypatch.context() as patch:
        upgrade(patch.setattr, growing)
        store = SQLiteLogStore(file)
        with pytest.raises(MigrationError, match="full"):
            await store.read(LOG)
        await store.aclose()
    assert tables(file) == before
    assert_sound(file)


async def test_a_backup_holds_what_was_there_before_the_migration(file, keep, monkeypatch):
    """Where asked, a copy of the older file, for its owner alone, opens with the older version."""
    await _fill(file)
    before = tables(file)
    url = f"sqlite:///{file}?backup=before-migration"
    backup = file.with_name("storage.db.layout-1.backup")
    with monkeypatch.context() as patch:
        upgrade(patch.setattr)
        async with durably.open(url) as storage:
            await storage.sessions.append("s", [])
    assert backup.stat().st_mode & 0o777 == 0o600
    assert tables(backup) == before
    store = keep(SQLiteLogStore(backup))
    assert await keys(store) == ["a", "b", "c"]
    assert (await store.append(LOG, batch("d"))).seq == 4
    assert_sound(backup)


async def test_a_backup_holds_what_only_the_log_of_a_killed_writer_has(file, monkeypatch):
    """What is committed, but not yet written back into the file, is in the backup too."""
    await _fill(file)
    with _written(file, "UPDATE durably_logs SET head = x'77616c'", end="die"):
        pass
    assert file.with_name("storage.db-wal").stat().st_size > 0
    upgrade(monkeypatch.setattr)
    store = SQLiteLogStore(file, backup="before-migration")
    await store.read(LOG)
    await store.aclose()
    backup = tables(file.with_name("storage.db.layout-1.backup"))
    assert {row[9] for row in backup["durably_logs"]} == {b"wal"}
    assert sorted(one.name for one in file.parent.iterdir()) == [
        "storage.db",
        "storage.db.layout-1.backup",
    ]


@pytest.mark.parametrize("backup", ["never", "before-migration"])
async def test_no_backup_is_made_unless_asked_for_and_needed(file, tmp_path, monkeypatch, backup):
    """A fresh file and one of the current layout get no backup; without the option none does."""
    for _ in range(2):
        store = SQLiteLogStore(file, backup=backup)
        await store.append(LOG, batch("a"))
        await store.aclose()
    assert [one.name for one in tmp_path.iterdir()] == ["storage.db"]
    if backup == "never":
        upgrade(monkeypatch.setattr)
        store = SQLiteLogStore(file, backup=backup)
        assert await keys(store) == ["a"]
        await store.aclose()
        assert [one.name for one in tmp_path.iterdir()] == ["storage.db"]


async def test_the_rest_of_a_backup_that_was_cut_off_is_replaced(file, monkeypatch):
    """Half a backup, left by a process that was killed, is in nobody's way."""
    await _fill(file)
    before = tables(file)
    rest = file.with_name("storage.db.layout-1.backup.unfinished")
    rest.write_bytes(b"half of a backup" * 1000)
    upgrade(monkeypatch.setattr)
    store = SQLiteLogStore(file, backup="before-migration")
    await store.read(LOG)
    await store.aclose()
    assert not rest.exists()
    assert tables(file.with_name("storage.db.layout-1.backup")) == before


@pytest.mark.parametrize("suffix", ["", ".unfinished"])
async def test_a_backup_that_cannot_be_made_stops_the_migration(file, monkeypatch, suffix):
    """Where the copy cannot be written the error is a typed one, and the file is as it was."""
    await _fill(file)
    before = file.read_bytes()
    file.with_name(f"storage.db.layout-1.backup{suffix}").mkdir()
    with monkeypatch.context() as patch:
        upgrade(patch.setattr)
        store = SQLiteLogStore(file, backup="before-migration")
        with pytest.raises(DurablyError) as caught:
            await store.read(LOG)
        await store.aclose()
    assert caught.value.hint
    assert file.read_bytes() == before
    assert write_lock_is_free(file)


@pytest.mark.parametrize("mode", ["wal", "delete"])
async def test_a_migration_killed_at_any_statement_is_whole_or_absent(tmp_path, monkeypatch, mode):
    """SIGKILL before each statement of an opening in turn leaves the old layout or the new one."""
    template = tmp_path / "template.db"
    await _fill(template, journal_mode=mode)
    old, rows, content = _schema(template), _rows(template), tables(template)
    copies = tmp_path / "copies"
    copies.mkdir()
    survivor = int(_run("sqlite_migrating.py", template, copies).stdout)
    upgrade(monkeypatch.setattr)
    new = None
    seen = []
    for number in reversed(range(survivor + 1)):
        path = copies / f"{number}.db"
        found = _schema(path)
        new = found if new is None else new
        assert found in (old, new)
        seen.append(found == new)
        assert _rows(path) == rows
        backup = path.with_name(f"{path.name}.layout-1.backup")
        if found == new or backup.exists():
            assert tables(backup) == content
        store = SQLiteLogStore(path)
        assert await keys(store) == ["a", "b", "c"]
        assert (await store.append(LOG, batch("d"))).seq == 4
        await store.aclose()
        assert _schema(path) == new
        assert_sound(path)
    assert seen == sorted(seen, reverse=True)
    assert 2 < sum(seen) < survivor - 10


NEWER = "INSERT INTO durably_schema VALUES (2, 'later', 0.0);"
FOREIGN = "DELETE FROM durably_schema; UPDATE durably_logs SET head = x'ff';"
REFUSED = [
    pytest.param(NEWER, SchemaTooNew, id="newer"),
    pytest.param(FOREIGN, ForeignData, id="foreign"),
]


async def _refuse(path, error, folder):
    """Check that nothing can be done with a file, and that nothing is done to it."""
    before = _files(folder)
    for operation in (
        lambda store: store.read(LOG),
        lambda store: store.append(LOG, batch("d")),
        lambda store: store.list("session"),
        lambda store: store.maintain(),
    ):
        store = SQLiteLogStore(path, busy_timeout=0.5, backup="before-migration")
        with pytest.raises(error):
            await operation(store)
        assert _files(folder) == before
        await store.aclose()
        assert _files(folder) == before
    with pytest.raises(error):
        async with durably.open(f"sqlite:///{quote(str(path))}"):
            pass
    assert _files(folder) == before


@pytest.mark.parametrize("mode", ["wal", "delete", "truncate", "persist"])
@pytest.mark.parametrize(("statements", "error"), REFUSED)
async def test_a_closed_file_that_is_refused_keeps_every_byte(file, statements, error, mode):
    """A newer or foreign file that nobody has open is refused, and no file appears beside it."""
    await _fill(file, journal_mode=mode)
    with raw(file) as connection:
        connection.executescript(statements)
    await _refuse(file, error, file.parent)


@pytest.mark.parametrize(("statements", "error"), REFUSED)
async def test_a_refused_file_of_a_killed_writer_keeps_every_byte(file, statements, error):
    """A file whose newer half lies in the log of a killed writer keeps file, -wal and -shm."""
    await _fill(file)
    with _written(file, statements, end="die"):
        pass
    assert set(_files(file.parent)) == {"storage.db", "storage.db-shm", "storage.db-wal"}
    await _refuse(file, error, file.parent)


@pytest.mark.parametrize(("statements", "error"), REFUSED)
async def test_a_refused_file_that_another_process_has_open_keeps_every_byte(
    file, statements, error
):
    """A newer or foreign file that is open elsewhere keeps its bytes, -wal and -shm included."""
    await _fill(file)
    with _written(file, statements, end="wait"):
        assert set(_files(file.parent)) == {"storage.db", "storage.db-shm", "storage.db-wal"}
        await _refuse(file, error, file.parent)


@pytest.mark.parametrize(("statements", "error"), REFUSED)
async def test_a_refused_file_that_is_being_written_keeps_every_byte(file, statements, error):
    """A newer or foreign file whose write lock another process holds keeps its bytes."""
    await _fill(file)
    with _written(file, f"{statements} BEGIN IMMEDIATE;", end="wait"):
        await _refuse(file, error, file.parent)


@pytest.mark.parametrize(("statements", "error"), REFUSED)
async def test_a_refused_copy_without_its_shm_keeps_every_byte(file, tmp_path, statements, error):
    """A file that was copied with its -wal, but without -shm, is refused with both unchanged.

    SQLite cannot read it without making a -shm, which is nobody's content.
    """
    await _fill(file)
    with _written(file, statements, end="die"):
        pass
    copies = tmp_path / "copies"
    copies.mkdir()
    for name in ("storage.db", "storage.db-wal"):
        shutil.copy(file.with_name(name), copies / name)
    before = _files(copies)
    store = SQLiteLogStore(copies / "storage.db")
    with pytest.raises(error):
        await store.append(LOG, batch("d"))
    await store.aclose()
    assert before.items() <= _files(copies).items()


@pytest.mark.parametrize(("statements", "error"), REFUSED)
async def test_a_refused_file_behind_a_link_keeps_every_byte(file, tmp_path, statements, error):
    """A link to the file of a killed writer is looked through: file, -wal and -shm stay."""
    await _fill(file)
    with _written(file, statements, end="die"):
        pass
    links = tmp_path / "links"
    links.mkdir()
    (links / "link.db").symlink_to(file)
    await _refuse(links / "link.db", error, file.parent)
    assert [one.name for one in links.iterdir()] == ["link.db"]


@pytest.mark.parametrize(("statements", "error"), REFUSED)
async def test_a_refused_file_with_a_hot_journal_keeps_every_row(file, statements, error):
    """A file whose writer was killed within a transaction of rollback mode keeps what it committed.

    Whoever looks at such a file, be it SQLite's own shell, rolls the unfinished half back.
    """
    await _fill(file, journal_mode="delete")
    with raw(file) as connection:
        connection.executescript(statements)
    before = tables(file)
    half = "PRAGMA cache_size = 1; BEGIN; UPDATE durably_records SET data = randomblob(9000);"
    with _written(file, half, end="die"):
        pass
    assert set(_files(file.parent)) == {"storage.db", "storage.db-journal"}
    store = SQLiteLogStore(file)
    with pytest.raises(error):
        await store.append(LOG, batch("d"))
    await store.aclose()
    assert tables(file) == before


NAMES = ["a b?c#d%41.db", "ü.db", "a&mode=rwc.db", "'.db"]


@pytest.mark.parametrize("name", NAMES)
async def test_a_refused_file_of_any_name_keeps_every_byte(tmp_path, name):
    """A name that means something in a URI is a name: the file is found, refused and kept."""
    path = tmp_path / name
    await _fill(path)
    with _written(path, NEWER, end="die"):
        pass
    await _refuse(path, SchemaTooNew, tmp_path)


async def test_a_refused_file_whose_path_begins_with_two_slashes_keeps_every_byte(file):
    """Two slashes at the beginning of a path are one: the file is found, refused and kept."""
    await _fill(file)
    with _written(file, NEWER, end="die"):
        pass
    await _refuse(f"/{file}", SchemaTooNew, file.parent)


@pytest.mark.parametrize("name", ["DURABLY_LOGS", "Durably_Records", "durably_SCHEMA"])
async def test_a_table_of_our_name_in_capitals_is_foreign(file, name):
    """SQLite's names know no case: a table of ours in capitals is ForeignData, kept as it is."""
    with raw(file) as connection:
        connection.execute(f"CREATE TABLE {name} (x)")
    await _refuse(file, ForeignData, file.parent)


@pytest.mark.parametrize("content", [b"hello", b"SQLite format 3\x00", b"{}\n" * 5000])
async def test_a_file_of_something_else_keeps_every_byte(file, content):
    """A file that is not SQLite's, also one that begins like it, is refused with its bytes."""
    file.write_bytes(content)
    await _refuse(file, DurablyError, file.parent)


async def test_an_empty_file_is_ours_to_use(file, keep):
    """A file without a byte becomes a storage."""
    file.touch()
    store = keep(SQLiteLogStore(file))
    assert (await store.append(LOG, batch("a"))).seq == 1
    assert _schema(file)[1] == [(1, "logs")]


@pytest.mark.parametrize("end", ["die", "wait"])
async def test_a_file_with_other_tables_takes_ours_beside_them(file, end):
    """Tables of others, also in the log of a writer that was killed or is there, stay."""
    theirs = (
        "PRAGMA journal_mode = wal; CREATE TABLE notes (id INTEGER PRIMARY KEY, body);"
        "INSERT INTO notes VALUES (7, 'seven'), (9, NULL); CREATE INDEX by_body ON notes (body);"
    )
    with _written(file, theirs, end=end):
        store = SQLiteLogStore(file)
        assert (await store.append(LOG, batch("a"))).seq == 1
        await store.aclose()
        assert tables(file)["notes"] == [(7, "seven"), (9, None)]
        assert _schema(file)[1] == [(1, "logs")]
    assert_sound(file)


async def test_the_log_of_a_killed_writer_of_this_version_is_used(file, keep):
    """What a writer of ours committed before it was killed is there for the next."""
    await _fill(file)
    with _written(file, "UPDATE durably_logs SET head = x'77616c'", end="die"):
        pass
    file.with_name("storage.db-shm").unlink()
    store = keep(SQLiteLogStore(file))
    assert (await store.read(LOG)).state.head == b"wal"
    assert (await store.append(LOG, batch("d"))).seq == 4
    assert_sound(file)
