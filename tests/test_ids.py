"""Ids: every legal one is its own thing, every other one is refused before anything happens."""

import pytest

import durably
from builders import call, dump, model, said, shape, snapshot
from durably import InvalidId, RunHead
from tables import HOSTILE_IDS, REFUSED_IDS


@pytest.fixture(params=REFUSED_IDS.values(), ids=REFUSED_IDS.keys())
def refused(request):
    """An id that no backend may store."""
    return request.param


def test_the_table_has_no_id_twice():
    """The hostile ids are all different texts."""
    assert len(set(HOSTILE_IDS)) == len(HOSTILE_IDS)


async def test_hostile_session_ids_are_distinct(handles):
    """Every hostile session_id names a session of its own, seen by another handle."""
    first, second = handles
    for number, id_ in enumerate(HOSTILE_IDS):
        await first.sessions.append(id_, said(f"{number}"), run_id="r")
    for number, id_ in enumerate(HOSTILE_IDS):
        assert await second.sessions.load(id_) == said(f"{number}")


async def test_hostile_run_ids_are_distinct_within_a_session(handles):
    """Every hostile run_id is a run of its own within a session, returned as it was given."""
    first, second = handles
    for id_ in HOSTILE_IDS:
        assert await first.sessions.append("s", said(id_), run_id=id_) == id_
    found = await second.sessions.segments("s")
    assert [(one.run_id, one.entries) for one in found] == [(i, said(i)) for i in HOSTILE_IDS]


async def test_hostile_run_ids_are_distinct_to_the_checkpointer(handles):
    """Every hostile run_id is a run of its own to the checkpointer."""
    first, second = handles
    for id_ in HOSTILE_IDS:
        await first.checkpointer.append(id_, said(id_), RunHead(agent_name=id_))
    for id_ in HOSTILE_IDS:
        found = await second.checkpointer.load(id_)
        assert (found.run_id, found.head.agent_name, found.entries) == (id_, id_, said(id_))


async def test_hostile_thread_ids_are_distinct(handles):
    """Every hostile thread_id is a thread of its own."""
    first, second = (storage.checkpoint_saver() for storage in handles)
    for id_ in HOSTILE_IDS:
        await first.append(id_, snapshot(id_))
    for id_ in HOSTILE_IDS:
        found = await second.list(id_)
        assert [(one.thread_id, one.snapshot) for one in found] == [(id_, snapshot(id_))]


async def test_clearing_a_session_leaves_those_of_similar_ids(handles):
    """Clearing one session empties no other, whatever their ids have in common."""
    first, second = handles
    for id_ in HOSTILE_IDS:
        await first.sessions.append(id_, said(id_), run_id="r")
    left = list(HOSTILE_IDS)
    for id_ in ("foo", "*", "%", "_", "a", "..", " ", "a/b", "' OR 1=1 --", "a" * 256, "?"):
        await second.sessions.clear(id_)
        left = [one for one in left if one != id_]
    assert [id_ for id_ in HOSTILE_IDS if await first.sessions.load(id_)] == left


async def test_deleting_a_run_leaves_those_of_similar_ids(handles):
    """Deleting one run, or one thread, deletes no other."""
    first, second = handles
    family = ("foo", "foobar", "foo:1", "foo/1", "foo*", "Foo", "foo ", "f%", "f_o", "*")
    saver = first.checkpoint_saver()
    for id_ in family:
        await first.checkpointer.append(id_, said(id_), RunHead())
        await saver.append(id_, snapshot(id_))
    for deleted in ("foo", "f%", "*"):
        assert await second.checkpointer.delete(deleted)
        assert await second.checkpoint_saver().delete(deleted)
    left = {"foobar", "foo:1", "foo/1", "foo*", "Foo", "foo ", "f_o"}
    assert {id_ for id_ in family if await first.checkpointer.load(id_)} == left
    assert {id_ for id_ in family if await saver.latest(id_)} == left


async def test_runs_are_listed_in_the_order_of_utf8_bytes(storage):
    """A listing walks all hostile run_ids in the order of their UTF-8 bytes, page by page."""
    for id_ in HOSTILE_IDS:
        await storage.checkpointer.append(id_, [], RunHead())
    walked, after = [], None
    while True:
        page = await storage.checkpointer.runs(after=after, limit=7)
        walked += [run.run_id for run in page.items]
        after = page.next
        if after is None:
            break
    assert walked == sorted(HOSTILE_IDS, key=str.encode)


async def test_a_page_may_start_after_any_hostile_id(storage):
    """A listing takes every hostile id as ``after``, exclusive, whether it exists or not."""
    await storage.checkpointer.append("foo", [], RunHead())
    for id_ in HOSTILE_IDS:
        page = await storage.checkpointer.runs(after=id_)
        expected = ["foo"] if id_.encode() < b"foo" else []
        assert [run.run_id for run in page.items] == expected, id_


async def test_one_id_is_three_things(handles):
    """The same id as session, run and thread is three things, each deleted alone."""
    first, second = handles
    for id_ in ("same", "a/b", "*"):
        await first.sessions.append(id_, said("session"), run_id=id_)
        await first.checkpointer.append(id_, [call("c")], RunHead())
        await first.checkpoint_saver().append(id_, snapshot("thread"))
        assert await second.sessions.load(id_) == said("session")
        assert (await second.checkpointer.load(id_)).entries == [call("c")]
        assert (await second.checkpoint_saver().latest(id_)).snapshot == snapshot("thread")
        await second.sessions.clear(id_)
        assert await first.checkpointer.delete(id_)
        assert (await second.checkpoint_saver().latest(id_)).snapshot == snapshot("thread")


async def test_a_session_refuses_an_illegal_id(place, refused):
    """Every operation of a session refuses an illegal session_id and writes nothing."""
    async with place.open() as storage:
        await storage.sessions.append("s", said("kept"), run_id="r")
        before, sessions = dump(place), storage.sessions
        operations = [
            lambda: sessions.append(refused, said("x")),
            lambda: sessions.segments(refused),
            lambda: sessions.load(refused),
            lambda: sessions.revision(refused),
            lambda: sessions.clear(refused),
            lambda: sessions.rewind(refused, keep_entries=0),
            lambda: sessions.trim_tool_results(refused),
        ]
        for operation in operations:
            with pytest.raises(InvalidId) as caught:
                await operation()
            assert caught.value.value is refused
        assert dump(place) == before


async def test_a_session_refuses_an_illegal_run_id(place, refused):
    """An append refuses an illegal run_id and writes nothing; None alone asks for a fresh one."""
    async with place.open() as storage:
        await storage.sessions.append("s", said("kept"), run_id="r")
        before = dump(place)
        if refused is None:
            assert len(await storage.sessions.append("s", said("x"), run_id=refused)) == 32
            return
        with pytest.raises(InvalidId):
            await storage.sessions.append("s", said("x"), run_id=refused)
        assert dump(place) == before
        assert await shape(storage.sessions, "s") == [("r", 1)]


async def test_a_checkpointer_refuses_an_illegal_id(place, refused):
    """Every operation of a checkpointer refuses an illegal run_id and writes nothing."""
    async with place.open() as storage:
        await storage.checkpointer.append("r", said("kept"), RunHead())
        before, runs = dump(place), storage.checkpointer
        operations = [
            lambda: runs.append(refused, said("x"), RunHead()),
            lambda: runs.append(refused, [], RunHead(), expected_revision=0),
            lambda: runs.load(refused),
            lambda: runs.delete(refused),
            lambda: runs.claim(refused),
        ]
        for operation in operations:
            with pytest.raises(InvalidId):
                await operation()
        assert dump(place) == before


async def test_a_listing_refuses_an_illegal_start(storage, refused):
    """A listing refuses an illegal ``after``; None and the empty text start at the beginning."""
    await storage.checkpointer.append("r", [], RunHead())
    if refused is None or refused == "":
        page = await storage.checkpointer.runs(after=refused)
        assert [run.run_id for run in page.items] == ["r"]
        return
    with pytest.raises(InvalidId):
        await storage.checkpointer.runs(after=refused)


async def test_a_saver_refuses_an_illegal_id(place, refused):
    """Every operation of a saver refuses an illegal thread_id and writes nothing."""
    async with place.open() as storage:
        saver = storage.checkpoint_saver(max_checkpoints_per_thread=2)
        await saver.append("t", snapshot("kept"))
        before = dump(place)
        operations = [
            lambda: saver.append(refused, snapshot("x")),
            lambda: saver.latest(refused),
            lambda: saver.get(refused, 1),
            lambda: saver.list(refused),
            lambda: saver.delete(refused),
        ]
        for operation in operations:
            with pytest.raises(InvalidId):
                await operation()
        assert dump(place) == before


async def test_an_error_shows_little_of_a_long_id(storage):
    """An InvalidId says why and keeps its message short."""
    with pytest.raises(InvalidId, match="it has 100000 bytes, the limit is 256") as caught:
        await storage.sessions.load("x" * 100_000)
    assert len(str(caught.value)) < 300


async def test_namespaces_share_nothing(place):
    """The same ids in two namespaces are different things, and clearing one clears no other."""
    spaces = ("", "?namespace=a", "?namespace=A", "?namespace=a%2Fb", "?namespace=a%20")
    for space in spaces:
        async with durably.open(place.url + space) as storage:
            assert await storage.sessions.load("x") == []
            assert await storage.checkpointer.load("x") is None
            assert (await storage.checkpointer.runs()).items == ()
            assert await storage.checkpoint_saver().latest("x") is None
            await storage.sessions.append("x", [model(space)], run_id="x")
            await storage.checkpointer.append("x", [model(space)], RunHead())
            await storage.checkpoint_saver().append("x", snapshot(space))
    async with durably.open(place.url + spaces[1]) as storage:
        await storage.sessions.clear("x")
        await storage.checkpointer.delete("x")
        await storage.checkpoint_saver().delete("x")
    for space in spaces:
        async with durably.open(place.url + space) as storage:
            kept = space != spaces[1]
            assert await storage.sessions.load("x") == ([model(space)] if kept else [])
            assert bool(await storage.checkpointer.load("x")) is kept
            assert len((await storage.checkpointer.runs()).items) == kept
            assert len(await storage.checkpoint_saver().list("x")) == kept
