"""Operations that wait together share a transaction, and each has its own outcome all the same."""

import asyncio
import time

import pytest

import durably
from durably import CorruptRecord, InputEntry, RevisionConflict, StorageBusy, Unavailable
from durably.logstore import Applied, Batch, NewRecord, Range, Rewrite
from durably_sqlite import SQLiteLogStore, _groups, _jobs
from durably_sqlite._groups import LARGEST_GROUP
from durably_sqlite._tips import KEPT
from logs import (
    LOG,
    batch,
    closing_all,
    keys,
    log,
    raw,
    state,
    tables,
    unkeyed,
    write_lock_is_free,
)
from peers import peers
from sqlite_groups import assert_sound, executed, held, together, transactions


@pytest.fixture
def file(tmp_path):
    return tmp_path / "storage.db"


@pytest.fixture
async def keep():
    async with closing_all() as keep:
        yield keep


@pytest.fixture
async def store(file, keep):
    """A connected store whose log holds one record."""
    store = keep(SQLiteLogStore(file))
    await store.append(LOG, batch("first"))
    return store


def _plant(file, trigger):
    with raw(file) as connection:
        connection.execute(f"CREATE TRIGGER planted {trigger}")


def _uproot(file):
    with raw(file) as connection:
        connection.execute("DROP TRIGGER planted")


@pytest.mark.parametrize("count", [2, 3, 50, LARGEST_GROUP])
async def test_appends_that_wait_share_one_transaction(file, store, count):
    """Appends that wait together are one BEGIN and one COMMIT, stored in the order of asking."""
    names = [f"record {number}" for number in range(count)]
    async with executed(store) as statements:
        answers = await together(store, *(store.append(LOG, batch(name)) for name in names))
    assert transactions(statements) == (1, 0, 1)
    assert [answer.seq for answer in answers] == list(range(2, count + 2))
    assert await keys(store) == ["first", *names]
    assert_sound(file)


@pytest.mark.parametrize("count", [LARGEST_GROUP + 1, 3 * LARGEST_GROUP])
async def test_more_than_a_group_holds_share_as_few_transactions_as_can_be(file, store, count):
    """A crowd is committed in groups of at most 256, in the order of asking, all answered."""
    names = [f"record {number}" for number in range(count)]
    async with executed(store) as statements:
        answers = await together(store, *(store.append(LOG, batch(name)) for name in names))
    groups = -(-count // LARGEST_GROUP)
    assert transactions(statements) == (groups, 0, groups)
    assert [answer.seq for answer in answers] == list(range(2, count + 2))
    assert await keys(store) == ["first", *names]
    assert_sound(file)


async def test_appends_that_do_not_wait_do_not_share(store):
    """Of appends made one after the other each is a transaction that is committed at once."""
    async with executed(store) as statements:
        for name in "abc":
            await store.append(LOG, batch(name))
    assert transactions(statements) == (3, 0, 3)


async def test_every_kind_of_change_shares_the_transaction(file, store):
    """Appends, a rewrite, a creation and a deletion that wait together are one transaction."""
    await store.append(log("doomed"), batch("x"))
    now = (await state(store)).revision
    async with executed(store) as statements:
        outcomes = await together(
            store,
            store.append(LOG, batch("second", head=b"h")),
            store.rewrite(LOG, Rewrite(expected_revision=now + 1, drop=frozenset({1}))),
            store.append(LOG, batch("third", "fourth", keep_last=2)),
            store.delete(log("doomed")),
            store.append(log("new"), batch("y")),
        )
    assert transactions(statements) == (1, 0, 1)
    assert [type(one) for one in outcomes] == [Applied, Applied, Applied, bool, Applied]
    assert await keys(store) == ["third", "fourth"]
    assert await store.read(log("doomed")) is None
    assert await keys(store, log("new")) == ["y"]
    assert_sound(file)


@pytest.mark.parametrize("effect", ["ABORT", "FAIL", "ROLLBACK"])
@pytest.mark.parametrize("position", range(4))
async def test_one_that_fails_undoes_itself_alone(file, store, effect, position):
    """Of four changes one fails after it wrote: it alone is undone, wherever it stood."""
    _plant(
        file,
        "AFTER INSERT ON durably_records WHEN NEW.key = 'bad'"
        f" BEGIN SELECT RAISE({effect}, 'planted'); END",
    )
    sent = [batch(f"{number} a", f"{number} b", head=b"%d" % number) for number in range(4)]
    sent[position] = batch("before bad", "bad", "after bad", head=b"bad")
    outcomes = await together(store, *(store.append(LOG, one) for one in sent))
    failed = outcomes.pop(position)
    assert type(failed) is Unavailable
    assert "planted" in str(failed)
    assert [one.seq for one in outcomes] == [3, 5, 7]
    good = [key for one in sent if one is not sent[position] for key in one.record_keys]
    assert await keys(store) == ["first", *good]
    assert (await state(store)).head == (b"2" if position == 3 else b"3")
    assert write_lock_is_free(file)
    _uproot(file)
    assert (await store.append(LOG, sent[position])).seq == 10
    assert_sound(file)


@pytest.mark.parametrize("effect", ["ABORT", "FAIL", "ROLLBACK"])
async def test_several_that_fail_leave_the_others(file, store, effect):
    """Creations that fail leave no log behind, and those between them are stored."""
    _plant(
        file,
        "AFTER INSERT ON durably_records WHEN NEW.key LIKE 'bad%'"
        f" BEGIN SELECT RAISE({effect}, 'planted'); END",
    )
    names = ["bad 1", "good 2", "bad 3", "bad 4", "good 5", "bad 6"]
    outcomes = await together(store, *(store.append(log(name), batch("a", name)) for name in names))
    wanted = [Unavailable if name.startswith("bad") else Applied for name in names]
    assert [type(one) for one in outcomes] == wanted
    listed = await store.list("session", limit=100)
    assert [one.id for one in listed.items] == [LOG.id, "good 2", "good 5"]
    assert_sound(file)


@pytest.mark.parametrize("effect", ["ABORT", "FAIL", "ROLLBACK"])
async def test_a_change_of_each_kind_that_fails_leaves_the_others(file, store, effect):
    """A rewrite and a deletion that fail in a group are undone alone, the appends stored."""
    await store.append(log("kept"), batch("a", "b", "c", head=b"old"))
    await store.append(log("cut"), batch("a", "b", "c", head=b"old"))
    before = [await store.read(log(name)) for name in ("kept", "cut")]
    _plant(
        file,
        "AFTER DELETE ON durably_records WHEN OLD.key = 'c'"
        f" BEGIN SELECT RAISE({effect}, 'planted'); END",
    )
    cut = Rewrite(expected_revision=before[1].state.revision, drop=frozenset({1, 3}), head=b"new")
    outcomes = await together(
        store,
        store.append(LOG, batch("1")),
        store.delete(log("kept")),
        store.append(LOG, batch("2")),
        store.rewrite(log("cut"), cut),
        store.append(LOG, batch("3")),
    )
    kinds = [Applied, Unavailable, Applied, Unavailable, Applied]
    assert [type(one) for one in outcomes] == kinds
    assert [await store.read(log(name)) for name in ("kept", "cut")] == before
    assert await keys(store) == ["first", "1", "2", "3"]
    assert_sound(file)


async def test_a_conflict_in_a_group_leaves_the_rest_of_it(file, store):
    """A change at a wrong revision is refused, and the others still share one transaction."""
    now = (await state(store)).revision
    async with executed(store) as statements:
        outcomes = await together(
            store,
            store.append(LOG, batch("a")),
            store.append(LOG, batch("b", expected_revision=now)),
            store.rewrite(LOG, Rewrite(expected_revision=now, drop_after=0)),
            store.append(log("none"), batch("c", expected_revision=7)),
            store.delete(LOG, expected_revision=now),
            store.append(LOG, batch("d", expected_revision=now + 1)),
        )
    kinds = [Applied, *[RevisionConflict] * 4, Applied]
    assert [type(one) for one in outcomes] == kinds
    assert [one.actual for one in outcomes[1:5]] == [now + 1, now + 1, 0, now + 1]
    assert transactions(statements) == (1, 0, 1)
    assert await keys(store) == ["first", "a", "d"]
    assert await store.read(log("none")) is None
    assert_sound(file)


async def test_of_equal_claims_in_one_group_the_first_wins(file, store):
    """Of five appends that expect one revision, in one group, exactly the first is stored."""
    now = (await state(store)).revision
    claims = [store.append(LOG, batch(name, expected_revision=now)) for name in "abcde"]
    outcomes = await together(store, *claims)
    assert [type(one) for one in outcomes] == [Applied, *[RevisionConflict] * 4]
    assert await keys(store) == ["first", "a"]


async def test_a_batch_sent_twice_in_one_group_is_stored_once(file, store):
    """The same batch, or another with its record key, in one group is a duplicate."""
    one = batch("a", head=b"h")
    outcomes = await together(
        store, store.append(LOG, one), store.append(LOG, one), store.append(LOG, batch("a"))
    )
    assert [answer.duplicate for answer in outcomes] == [False, True, True]
    assert {(answer.revision, answer.seq) for answer in outcomes} == {(outcomes[0].revision, 2)}
    assert await keys(store) == ["first", "a"]
    assert_sound(file)


@pytest.mark.parametrize("position", range(5))
async def test_a_waiter_that_is_cancelled_leaves_the_others_answered(file, store, position):
    """Whoever of five is cancelled, the first that went for all or another, four are answered."""
    names = "abcde"
    outcomes = await together(
        store, *(store.append(LOG, batch(name)) for name in names), cancel=[position]
    )
    assert type(outcomes.pop(position)) is asyncio.CancelledError
    assert [type(one) for one in outcomes] == [Applied] * 4
    found = await keys(store)
    assert [one for one in found if one != names[position]] == [
        "first",
        *(one for one in names if one != names[position]),
    ]
    assert write_lock_is_free(file)
    assert (await store.append(LOG, batch("next"))).seq == len(found) + 1
    assert_sound(file)


@pytest.mark.parametrize("cancel", [[0, 1, 2, 3], [1, 2, 3, 4], [0, 4], range(5)])
async def test_many_that_are_cancelled_leave_the_others_answered(file, store, cancel):
    """However many of a group are cancelled, the rest is answered and the next call works."""
    outcomes = await together(
        store, *(store.append(LOG, batch(name)) for name in "abcde"), cancel=cancel
    )
    wanted = [asyncio.CancelledError if n in cancel else Applied for n in range(5)]
    assert [type(one) for one in outcomes] == wanted
    found = await keys(store)
    assert {"first", *("abcde"[n] for n in range(5) if n not in cancel)} <= set(found)
    assert len(found) == len(set(found))
    assert (await store.append(LOG, batch("next"))).seq == len(found) + 1
    assert_sound(file)


@pytest.mark.parametrize("cancelled", range(3))
async def test_a_cancelled_waiter_beside_one_that_fails(file, store, cancelled):
    """A group that is undone and done again answers those that were not cancelled."""
    _plant(
        file,
        "AFTER INSERT ON durably_records WHEN NEW.key = 'b'"
        " BEGIN SELECT RAISE(FAIL, 'planted'); END",
    )
    outcomes = await together(
        store, *(store.append(LOG, batch(name)) for name in "abc"), cancel=[cancelled]
    )
    wanted = [Applied, Unavailable, Applied]
    wanted[cancelled] = asyncio.CancelledError
    assert [type(one) for one in outcomes] == wanted
    assert {"first", "a", "c"} - {"abc"[cancelled]} <= set(await keys(store))
    assert "b" not in await keys(store)
    assert_sound(file)


async def test_a_read_in_a_group_sees_the_changes_asked_before_it(store):
    """A read that waits behind changes, also behind a cancelled one, sees all of them."""
    outcomes = await together(
        store,
        store.append(LOG, batch("a")),
        keys(store),
        store.append(LOG, batch("b")),
        store.append(LOG, batch("c")),
        keys(store),
        store.list("session", prefix="new"),
        store.append(log("new"), batch("x")),
        store.list("session", prefix="new"),
        cancel=[2],
    )
    assert outcomes[1][:2] == ["first", "a"]
    assert outcomes[4][-1] == "c"
    assert outcomes[4] == await keys(store)
    assert [one.id for one in outcomes[7].items] == ["new"]


async def test_a_change_that_failed_in_a_group_is_seen_by_no_read_of_it(file, store):
    """A read beside a change that is undone sees nothing of it, and the others whole."""
    _plant(
        file,
        "AFTER INSERT ON durably_records WHEN NEW.key = 'bad'"
        " BEGIN SELECT RAISE(FAIL, 'planted'); END",
    )
    outcomes = await together(
        store,
        store.append(LOG, batch("a", head=b"a")),
        store.append(LOG, batch("b", "bad", head=b"bad")),
        store.read(LOG),
    )
    assert [one.key for one in outcomes[2].records] == ["first", "a"]
    assert outcomes[2].state.head == b"a"


async def test_reads_of_a_group_see_one_moment(file, store, keep):
    """Reads that wait together share one transaction, so that another's change is in all or none.

    The other connection changes the log between the first and the second read.
    """
    other = keep(SQLiteLogStore(file))
    await other.append(LOG, batch("theirs"))
    changed = []

    def change(statement):
        if "FROM durably_records" in statement and not changed:
            changed.append(statement)
            with raw(file) as connection:
                connection.execute("UPDATE durably_logs SET head = x'6e6577'")

    await store._engine._database.set_trace_callback(change)
    outcomes = await together(store, *(store.read(LOG) for _ in range(3)))
    await store._engine._database.set_trace_callback(None)
    assert len(changed) == 1
    assert [one.state.head for one in outcomes] == [None] * 3
    assert (await state(store)).head == b"new"


SPOILERS = {
    "a column of a wrong type": "UPDATE durably_logs SET created_at = 'never' WHERE id = 'spoiled'",
    "text that is not UTF-8": (
        "UPDATE durably_records SET key = CAST(x'ff' AS TEXT) WHERE log ="
        " (SELECT number FROM durably_logs WHERE id = 'spoiled')"
    ),
}


@pytest.mark.parametrize("spoil", SPOILERS.values(), ids=SPOILERS.keys())
@pytest.mark.parametrize("position", range(3))
async def test_a_read_that_fails_in_a_group_leaves_the_others(file, store, spoil, position):
    """A spoiled log is CorruptRecord to who reads it, and nothing to who waited with them."""
    await store.append(log("spoiled"), batch("x"))
    with raw(file) as connection:
        connection.execute(spoil)
    reads = [keys(store), keys(store), keys(store)]
    reads[position].close()
    reads[position] = store.read(log("spoiled"))
    outcomes = await together(store, *reads)
    assert type(outcomes.pop(position)) is CorruptRecord
    assert outcomes == [["first"]] * 2


async def _fail_commits(store, file):
    """Let a COMMIT fail whose transaction stores a record of the key 'bad'."""
    with raw(file) as connection:
        connection.executescript(
            "CREATE TABLE parents (id INTEGER PRIMARY KEY);"
            "CREATE TABLE children (parent REFERENCES parents DEFERRABLE INITIALLY DEFERRED)"
        )
    _plant(
        file,
        "AFTER INSERT ON durably_records WHEN NEW.key LIKE 'bad%'"
        " BEGIN INSERT INTO children VALUES (17); END",
    )
    await (await store._engine._database.execute("PRAGMA foreign_keys = ON")).close()


@pytest.mark.parametrize("position", range(4))
async def test_a_commit_that_fails_gives_each_its_own_outcome(file, store, position):
    """Where the COMMIT of a group fails, who is to blame is undone, and the others are stored."""
    await _fail_commits(store, file)
    names = ["0", "1", "2", "3"]
    names[position] = "bad"
    async with executed(store) as statements:
        outcomes = await together(
            store, *(store.append(LOG, batch(name, f"{name}+")) for name in names)
        )
    assert statements.count("COMMIT") > 1
    assert type(outcomes.pop(position)) is Unavailable
    assert [one.seq for one in outcomes] == [3, 5, 7]
    good = [key for name in names if name != "bad" for key in (name, f"{name}+")]
    assert await keys(store) == ["first", *good]
    assert write_lock_is_free(file)
    assert (await store.append(LOG, batch("next"))).seq == 8
    assert_sound(file)


async def test_a_single_commit_that_fails_is_undone(file, store):
    """An append whose COMMIT fails leaves every row as it was, and the store goes on."""
    await _fail_commits(store, file)
    before = tables(file)
    with pytest.raises(Unavailable):
        await store.append(LOG, batch("bad", head=b"bad"))
    assert tables(file) == before
    assert write_lock_is_free(file)
    assert (await store.append(LOG, batch("next"))).seq == 2
    assert_sound(file)


async def test_a_full_disk_refuses_what_does_not_fit_and_stores_the_rest(file, store):
    """In a full database the large change of a group is Unavailable with a remedy, alone."""
    (pages,) = await (await store._engine._database.execute("PRAGMA page_count")).fetchone()
    await (await store._engine._database.execute(f"PRAGMA max_page_count = {pages + 4}")).close()
    large = unkeyed(bytes(100_000), head=b"large", key="large")
    outcomes = await together(
        store,
        store.append(LOG, batch("a")),
        store.append(LOG, large),
        store.append(log("new"), large),
        store.append(LOG, batch("b")),
    )
    assert [type(one) for one in outcomes] == [Applied, Unavailable, Unavailable, Applied]
    for refused in outcomes[1:3]:
        assert "Free space" in refused.hint
    assert await keys(store) == ["first", "a", "b"]
    assert await store.read(log("new")) is None
    assert (await state(store)).head is None
    assert write_lock_is_free(file)
    assert_sound(file)
    await (await store._engine._database.execute("PRAGMA max_page_count = 100000")).close()
    assert (await store.append(LOG, large)).seq == 4
    assert_sound(file)


async def test_a_group_that_waited_too_long_is_storage_busy_for_each(file, keep):
    """Where another holds the lock for longer than the time-out each of a group is StorageBusy."""
    store = keep(SQLiteLogStore(file, busy_timeout=0.1))
    await store.append(LOG, batch("first"))
    before = tables(file)
    with raw(file) as connection:
        connection.execute("BEGIN IMMEDIATE")
        sent = [store.append(LOG, batch(name)) for name in "abcd"]
        outcomes = await together(store, *sent, keys(store))
    assert [type(one) for one in outcomes[:4]] == [StorageBusy] * 4
    assert outcomes[4] == ["first"]
    assert tables(file) == before
    assert (await store.append(LOG, batch("b"))).seq == 2
    assert_sound(file)


async def test_namespaces_of_one_store_share_a_group_and_nothing_else(file, store):
    """Logs of one id in three namespaces change in one transaction, each on its own."""
    views = [store, store.scoped("one"), store.scoped("two")]
    await views[1].append(LOG, batch("first"))
    async with executed(store) as statements:
        outcomes = await together(
            store,
            *(view.append(LOG, batch(f"{n}")) for n, view in enumerate(views)),
            views[1].delete(LOG),
            *(view.append(LOG, batch(f"{n}+")) for n, view in enumerate(views)),
        )
    assert transactions(statements) == (1, 0, 1)
    assert [one.seq for one in outcomes if type(one) is Applied] == [2, 2, 1, 3, 1, 2]
    assert [await keys(view) for view in views] == [["first", "0", "0+"], ["1+"], ["2", "2+"]]
    assert_sound(file)


@pytest.fixture(params=["file", "file, delete mode", "named in memory"])
async def pair(request, tmp_path, keep):
    """Two stores with connections of their own onto one database."""
    if request.param == "named in memory":
        return [keep(SQLiteLogStore(None, name=str(tmp_path))) for _ in range(2)]
    mode = "delete" if "delete" in request.param else "wal"
    return [keep(SQLiteLogStore(tmp_path / "storage.db", journal_mode=mode)) for _ in range(2)]


async def _agree(pair, wanted):
    for store in pair:
        stored = await store.read(LOG)
        assert [one.key for one in stored.records] == wanted
        assert stored.state.record_count == len(wanted)
        assert stored.state.entry_count == sum(one.entry_count for one in stored.records)


async def test_handles_that_alternate_on_a_log_never_work_from_a_stale_state(pair):
    """Two handles that append in turn number one after the other and agree on the counts."""
    for number in range(20):
        answer = await pair[number % 2].append(LOG, batch(f"{number}", head=b"%d" % number))
        assert answer.seq == number + 1
    await _agree(pair, [f"{number}" for number in range(20)])
    assert (await state(pair[0])).head == b"19"


async def test_a_handle_sees_the_others_rewrite_before_it_appends(pair):
    """After another handle cut a log, an append continues the log that is left."""
    mine, theirs = pair
    for name in "abc":
        await mine.append(LOG, batch(name))
    now = (await state(theirs)).revision
    await theirs.rewrite(LOG, Rewrite(expected_revision=now, drop_after=1, head=b"cut"))
    answer = await mine.append(LOG, batch("d"))
    assert (answer.revision, answer.seq) == (now + 2, 4)
    assert (await state(mine)).head == b"cut"
    await _agree(pair, ["a", "d"])


async def test_a_handle_sees_that_the_other_deleted_the_log(pair):
    """After another handle deleted a log, an append begins it anew, at a revision of its own."""
    mine, theirs = pair
    before = await mine.append(LOG, batch("a"))
    assert await theirs.delete(LOG)
    with pytest.raises(RevisionConflict) as caught:
        await mine.append(LOG, batch("b", expected_revision=before.revision))
    assert caught.value.actual == 0
    answer = await mine.append(LOG, batch("c"))
    assert answer.seq == 1
    assert answer.revision not in (before.revision, before.revision + 1)
    await _agree(pair, ["c"])


@pytest.mark.parametrize("between", [0, 1], ids=["same number", "another number"])
async def test_a_handle_sees_that_the_other_made_the_log_again(pair, between):
    """After another handle deleted a log and made it again, an append joins the new one.

    SQLite gives the new log the row number of the old one, unless another log took it.
    """
    mine, theirs = pair
    old = await mine.append(LOG, batch("a", "b", "c"))
    await theirs.delete(LOG)
    for number in range(between):
        await theirs.append(log(f"another {number}"), batch("x"))
    new = await theirs.append(LOG, batch("d"))
    with pytest.raises(RevisionConflict) as caught:
        await mine.append(LOG, batch("e", expected_revision=old.revision))
    assert caught.value.actual == new.revision
    answer = await mine.append(LOG, batch("f"))
    assert (answer.revision, answer.seq) == (new.revision + 1, 2)
    await _agree(pair, ["d", "f"])
    for number in range(between):
        assert await keys(mine, log(f"another {number}")) == ["x"]


async def test_a_log_deleted_and_made_again_by_the_same_handle_is_a_new_one(file, store):
    """Within one group a log can grow, go and come again, and what comes is its next life."""
    outcomes = await together(
        store,
        store.append(LOG, batch("a")),
        store.delete(LOG),
        store.append(LOG, batch("b")),
        store.append(LOG, batch("c")),
        store.delete(LOG),
        store.append(LOG, batch("d", "e")),
    )
    assert [one if type(one) is bool else one.seq for one in outcomes] == [2, True, 1, 2, True, 2]
    assert await keys(store) == ["d", "e"]
    assert_sound(file)


@pytest.mark.parametrize("effect", ["ABORT", "FAIL", "ROLLBACK"])
async def test_a_state_that_was_rolled_back_is_not_built_upon(file, store, effect):
    """After a failure undid a change of a log, the next one builds on the log as it is stored."""
    _plant(
        file,
        "AFTER UPDATE ON durably_logs WHEN NEW.head = x'626164'"
        f" BEGIN SELECT RAISE({effect}, 'planted'); END",
    )
    for _ in range(3):
        with pytest.raises(Unavailable):
            await store.append(LOG, batch("bad 1", "bad 2", head=b"bad"))
    assert (await store.append(LOG, batch("a"))).seq == 2
    outcomes = await together(
        store,
        store.append(LOG, batch("b")),
        store.append(LOG, batch("bad 3", head=b"bad")),
        store.append(LOG, batch("c")),
    )
    assert [one.seq for one in (outcomes[0], outcomes[2])] == [3, 4]
    assert await keys(store) == ["first", "a", "b", "c"]
    assert_sound(file)


async def test_a_log_made_and_rolled_back_is_not_remembered(file, store):
    """A creation that was undone with its group leaves nothing that a later append joins."""
    await _fail_commits(store, file)
    outcomes = await together(
        store, store.append(log("new"), batch("a")), store.append(log("bad"), batch("bad"))
    )
    assert [type(one) for one in outcomes] == [Applied, Unavailable]
    with pytest.raises(Unavailable):
        await store.append(log("bad"), batch("bad again"))
    assert (await store.append(log("bad"), batch("good"))).seq == 1
    assert await keys(store, log("bad")) == ["good"]
    assert await keys(store, log("new")) == ["a"]
    assert_sound(file)


async def test_more_logs_than_are_remembered_are_all_continued(file, store):
    """Appends in turn to more logs than a connection remembers continue each of them."""
    logs = [log(f"log {number}") for number in range(KEPT + 40)]
    for turn in range(1, 4):
        answers = await asyncio.gather(*(store.append(one, batch(f"turn {turn}")) for one in logs))
        assert {answer.seq for answer in answers} == {turn}
    assert await keys(store, logs[0]) == await keys(store, logs[-1])
    assert_sound(file)


async def test_a_head_that_another_tool_changed_is_not_written_back(file, store):
    """What another program changed in the file between two appends stays changed."""
    with raw(file) as connection:
        connection.execute("UPDATE durably_logs SET head = x'6d696e65'")
    await store.append(LOG, batch("a"))
    assert (await state(store)).head == b"mine"


async def test_compacting_beside_an_appender_changes_nothing_for_it(file, store, keep):
    """A handle continues its log after another handle rewrote the whole file."""
    other = keep(SQLiteLogStore(file))
    await store.append(log("gone"), unkeyed(bytes(200_000)))
    await store.append(LOG, batch("a"))
    await store.delete(log("gone"))
    await other.maintain()
    assert (await store.append(LOG, batch("b"))).seq == 3
    assert await keys(other) == ["first", "a", "b"]
    assert_sound(file)


async def test_two_processes_that_alternate_on_a_session_agree(file):
    """Appends and rewinds of two processes in turn leave the one session both were told of."""
    url = f"sqlite:///{file}"
    wanted = []
    async with durably.open(url) as storage, peers(url, 1) as [peer]:
        for number in range(12):
            said = [InputEntry(role="user", content=f"{number}")]
            await storage.sessions.append("s", said, run_id=f"ours {number}")
            await peer.call("append", "s", f"theirs {number}", f"{number}")
            wanted += [f"ours {number}", f"theirs {number}"]
            if number % 4 == 3:
                await peer.call("rewind", "s", len(wanted) - 3)
                del wanted[-3:]
            assert [one.run_id for one in await storage.sessions.segments("s")] == wanted
        assert [row[0] for row in await peer.call("segments", "s")] == wanted
    assert_sound(file)


async def test_handles_that_race_in_groups_lose_nothing(pair):
    """Two handles that append to one log in groups at once number every record once."""
    await pair[0].append(LOG, batch("first"))
    async with held(pair[0]):
        sent = [
            asyncio.ensure_future(pair[number % 2].append(LOG, Batch(records=(_record(number),))))
            for number in range(200)
        ]
        await asyncio.sleep(0)
    answers = await asyncio.gather(*sent)
    assert sorted(one.seq for one in answers) == list(range(2, 202))
    assert len({one.revision for one in answers}) == 200
    stored = await pair[1].read(LOG, Range(after=1))
    by_seq = {one.seq: f"record {number}" for number, one in enumerate(answers)}
    assert [one.key for one in stored.records] == [by_seq[one.seq] for one in stored.records]
    assert len(stored.records) == stored.state.record_count - 1 == 200


def _record(number):
    return NewRecord(key=f"record {number}", data=b"%d" % number)


class _Clock:
    """Time that passes by sleeping alone, and not before it runs."""

    def __init__(self):
        self.now = 0.0
        self.runs = False

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        if self.runs:
            self.now += seconds
        else:
            time.sleep(0.001)


async def test_a_crowd_waits_no_longer_than_the_time_out(file, keep, monkeypatch):
    """Of more than two groups behind a lock that stays, nobody waits longer than it said."""
    clock = _Clock()
    for module in (_groups, _jobs):
        monkeypatch.setattr(module, "time", clock)
    store = keep(SQLiteLogStore(file, busy_timeout=5))
    await store.append(LOG, batch("first"))
    with raw(file) as connection:
        connection.execute("BEGIN IMMEDIATE")
        crowd = [
            asyncio.ensure_future(store.append(log(f"x{number}"), batch("a")))
            for number in range(600)
        ]
        for _ in range(10):  # until all of them wait
            await asyncio.sleep(0)
        clock.runs = True
        refused = await asyncio.gather(*crowd, return_exceptions=True)
        connection.execute("ROLLBACK")
    assert {type(one) for one in refused} == {StorageBusy}
    assert 5 <= clock.now < 5.1
    assert await keys(store) == ["first"]


async def test_a_change_that_is_cancelled_while_it_waits_is_never_made(file, keep):
    """A caller that gives up behind another's lock leaves nothing that comes later."""
    store = keep(SQLiteLogStore(file, busy_timeout=20))
    await store.append(LOG, batch("first"))
    with raw(file) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(store.append(LOG, batch("late")), 0.1)
        assert await keys(store) == ["first"]
        connection.execute("ROLLBACK")
    await store.append(LOG, batch("next"))
    assert await keys(store) == ["first", "next"]
