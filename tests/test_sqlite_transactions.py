"""SQLite under failure and contention: all or nothing, nobody locked out, nothing lost."""

import asyncio

import pytest

from durably import InputEntry, NotSerializable, Storage, StorageBusy, Unavailable
from durably.logstore import NewRecord, Rewrite
from durably_sqlite import SQLiteLogStore
from logs import LOG, batch, closing_all, keys, log, raw, state, tables, unkeyed, write_lock_is_free

SAID = InputEntry(role="user", content="hello")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "storage.db"


@pytest.fixture
async def keep():
    async with closing_all() as keep:
        yield keep


async def _append(store):
    await store.append(LOG, unkeyed(b"x", b"y", b"z", head=b"new"))


async def _create(store):
    await store.append(log("new"), unkeyed(b"x", b"y", b"z", head=b"new"))


async def _evict(store):
    await store.append(LOG, unkeyed(b"x", b"y", b"z", head=b"new", keep_last=2))


async def _rewrite(store):
    change = Rewrite(
        expected_revision=(await state(store)).revision,
        drop=frozenset({1, 2}),
        replace={3: NewRecord(data=b"new"), 4: NewRecord(data=b"new")},
        head=b"new",
    )
    await store.rewrite(LOG, change)


async def _delete(store):
    assert await store.delete(LOG)


FAILURES = [
    (_append, "INSERT ON durably_records", "NEW.data = x'7A'"),
    (_append, "UPDATE ON durably_logs", "1"),
    (_create, "INSERT ON durably_records", "NEW.data = x'79'"),
    (_create, "INSERT ON durably_logs", "1"),
    (_evict, "DELETE ON durably_records", "OLD.place & 15 = 2"),
    (_evict, "UPDATE ON durably_logs", "NEW.record_count < OLD.record_count"),
    (_rewrite, "DELETE ON durably_records", "OLD.place & 15 = 2"),
    (_rewrite, "UPDATE ON durably_records", "OLD.place & 15 = 4"),
    (_rewrite, "UPDATE ON durably_logs", "1"),
    (_delete, "DELETE ON durably_records", "OLD.place & 15 = 3"),
    (_delete, "DELETE ON durably_logs", "1"),
]


@pytest.mark.parametrize("effect", ["ABORT", "FAIL", "ROLLBACK"])
@pytest.mark.parametrize(("operation", "event", "condition"), FAILURES)
async def test_a_failing_statement_undoes_the_whole_operation(
    file, keep, *, operation, event, condition, effect
):
    """A statement that fails in the middle leaves every row as it was and no lock behind."""
    store = keep(SQLiteLogStore(file))
    await store.append(LOG, batch("a", "b", "c", "d", head=b"old"))
    before = tables(file)
    with raw(file) as connection:
        connection.execute(
            f"CREATE TRIGGER planted AFTER {event} WHEN {condition} "
            f"BEGIN SELECT RAISE({effect}, 'planted'); END"
        )
    with pytest.raises(Unavailable, match="planted"):
        await operation(store)
    assert tables(file) == before
    assert write_lock_is_free(file)
    assert (await state(store)).head == b"old"
    with raw(file) as connection:
        connection.execute("DROP TRIGGER planted")
    await operation(store)
    assert tables(file) != before


async def test_a_value_that_cannot_be_stored_leaves_no_transaction(file):
    """An append refused for its value stores nothing of it and locks nobody out."""
    async with Storage(SQLiteLogStore(file)) as storage:
        await storage.sessions.append("s", [SAID], run_id="r1")
        before = tables(file)
        with pytest.raises(NotSerializable):
            await storage.sessions.append("s", [SAID, object()], run_id="r2")
        assert tables(file) == before
        assert write_lock_is_free(file)
        await storage.sessions.append("s", [SAID, SAID], run_id="r2")
        assert await storage.sessions.load("s") == [SAID] * 3


async def test_an_append_waits_for_another_writer(file, keep):
    """While another connection holds the write lock an append waits, and then succeeds."""
    store = keep(SQLiteLogStore(file))
    await store.append(LOG, batch("a"))
    with raw(file) as connection:
        connection.execute("BEGIN IMMEDIATE")
        waiting = asyncio.create_task(store.append(LOG, batch("b")))
        done, _ = await asyncio.wait([waiting], timeout=0.3)
        assert not done
        connection.execute("COMMIT")
    assert (await waiting).seq == 2
    assert await keys(store) == ["a", "b"]


async def test_a_writer_that_stays_is_storage_busy(file, keep):
    """An append that waited for the whole time-out is StorageBusy, and writes nothing."""
    store = keep(SQLiteLogStore(file, busy_timeout=0.1))
    await store.append(LOG, batch("a"))
    before = tables(file)
    with raw(file) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for operation in (_append, _create, _evict, _rewrite, _delete):
            with pytest.raises(StorageBusy, match="busy_timeout"):
                await operation(store)
        assert await keys(store) == ["a"]
        connection.execute("COMMIT")
    assert tables(file) == before
    assert (await store.append(LOG, batch("b"))).seq == 2


async def test_opening_waits_for_another_writer_too(file, keep):
    """The first operation on a fresh file that another holds waits, or is StorageBusy."""
    with raw(file) as connection:
        connection.execute("CREATE TABLE notes (x)")
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageBusy):
            await keep(SQLiteLogStore(file, busy_timeout=0.1)).append(LOG, batch("a"))
        store = keep(SQLiteLogStore(file))
        waiting = asyncio.create_task(store.append(LOG, batch("a")))
        done, _ = await asyncio.wait([waiting], timeout=0.2)
        assert not done
        connection.execute("COMMIT")
    assert (await waiting).seq == 1


@pytest.mark.parametrize("mode", ["wal", "delete"])
async def test_an_open_read_of_another_connection(file, keep, mode):
    """While another connection reads, an append succeeds in WAL mode and else is StorageBusy."""
    store = keep(SQLiteLogStore(file, journal_mode=mode, busy_timeout=0.1))
    await store.append(LOG, batch("a", "b"))
    before = tables(file)
    with raw(file) as connection:
        reading = connection.execute("SELECT * FROM durably_records")
        reading.fetchone()
        if mode == "wal":
            await store.append(LOG, batch("c"))
        else:
            with pytest.raises(StorageBusy):
                await store.append(LOG, batch("c"))
        reading.close()
    if mode == "delete":
        assert tables(file) == before
        await store.append(LOG, batch("c"))
    assert await keys(store) == ["a", "b", "c"]


@pytest.mark.parametrize("round_", range(20))
async def test_eight_can_open_a_missing_file_together(file, keep, round_):
    """Eight stores whose first operation meets a missing file all succeed, with one layout."""
    stores = [keep(SQLiteLogStore(file)) for _ in range(8)]
    sent = [batch(f"record {number}") for number in range(8)]
    answers = await asyncio.gather(
        *(store.append(LOG, one) for store, one in zip(stores, sent, strict=True))
    )
    assert sorted(answer.seq for answer in answers) == list(range(1, 9))
    assert len(await keys(stores[0])) == 8
    assert [row[:2] for row in tables(file)["durably_schema"]] == [(1, "logs")]


async def test_writers_that_race_take_turns(file, keep):
    """Stores that append, cut and read one log at once get no error, and lose nothing."""
    stores = [keep(SQLiteLogStore(file)) for _ in range(4)]

    async def work(store, number):
        for turn in range(25):
            await store.append(LOG, batch(f"{number} {turn}", head=b"%d" % turn))
            stored = await store.read(LOG)
            assert stored.state.record_count == len(stored.records)

    await asyncio.gather(*(work(store, number) for number, store in enumerate(stores)))
    stored = await stores[0].read(LOG)
    assert [one.seq for one in stored.records] == list(range(1, 101))
    for number in range(4):
        mine = [one.key for one in stored.records if one.key.startswith(f"{number} ")]
        assert mine == [f"{number} {turn}" for turn in range(25)]


async def test_a_reader_sees_all_of_a_change_or_nothing(file, keep):
    """A reader beside a writer never sees a head without its records, or half a batch."""
    writer, reader = keep(SQLiteLogStore(file)), keep(SQLiteLogStore(file))
    await writer.append(LOG, unkeyed(b"0", b"0", head=b"0"))

    async def write():
        for turn in range(1, 60):
            data = b"%d" % turn
            await writer.append(LOG, unkeyed(data, data, head=data, keep_last=10))

    writing = asyncio.create_task(write())
    seen = set()
    while not writing.done():
        stored = await reader.read(LOG)
        pairs = [one.data for one in stored.records]
        assert pairs[::2] == pairs[1::2]
        assert pairs[-1] == stored.state.head
        assert stored.state.record_count == len(pairs)
        seen.add(stored.state.head)
    await writing
    assert len(seen) > 1
