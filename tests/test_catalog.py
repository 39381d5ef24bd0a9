"""The session catalog: what is in it from create to delete, and found by what it says."""

import asyncio

import pytest

from builders import dump, plant, raw, result, said
from disturbed import Wrapper, Yielding
from durably import (
    CorruptRecord,
    InvalidFilter,
    InvalidId,
    InvalidLimit,
    NotSerializable,
    RunHead,
    SessionExists,
    SessionNotFound,
    Storage,
)
from durably.logstore import Batch, LogId, Range
from faults import Metered, failures
from places import FakeClock

NOW = 1_700_000_000.0


@pytest.fixture
def clock():
    return FakeClock(NOW)


@pytest.fixture
async def catalogs(place, clock):
    """The catalogs of two handles with one clock."""
    async with place.open(clock=clock) as first, place.open(clock=clock) as second:
        yield first.catalog, second.catalog


async def ids(catalog, **options):
    return [one.session_id for one in (await catalog.list(**options)).items]


async def test_a_created_session_exists_without_runs(catalogs, clock):
    """create() returns what another handle's get() and list() say, with nothing in it yet."""
    first, second = catalogs
    made = await first.create("s", metadata={"user": "ada", "tags": [1, None, {"a": 1.5}]})
    assert (made.session_id, made.is_catalogued) == ("s", True)
    assert made.metadata == {"user": "ada", "tags": [1, None, {"a": 1.5}]}
    assert (made.run_count, made.entry_count) == (0, 0)
    assert (made.created_at, made.updated_at) == (NOW, NOW)
    assert await second.get("s") == made
    assert (await second.list()).items == (made,)


async def test_without_an_id_each_session_gets_its_own(storage):
    """Sessions created without an id get fresh ones, and no metadata."""
    made = [await storage.catalog.create() for _ in range(3)]
    assert len({one.session_id for one in made}) == 3
    assert [one.metadata for one in made] == [{}, {}, {}]


async def test_counts_and_times_follow_the_session(catalogs, handles, clock):
    """The catalog counts runs and entries as they are, and stamps the session's last change."""
    first, second = catalogs
    await first.create("s")
    clock.now += 5
    await handles[1].sessions.append("s", said("a", "b"))
    await handles[0].sessions.append("s", [])
    found = await second.get("s")
    assert (found.run_count, found.entry_count, found.created_at) == (2, 2, NOW)
    assert found.updated_at > NOW + 5


async def test_a_session_with_runs_can_be_put_into_the_catalog(storage):
    """create() of a session that has runs keeps them and takes it in."""
    await storage.sessions.append("s", said("a"), run_id="r")
    made = await storage.catalog.create("s", metadata={"n": 1})
    assert (made.run_count, made.entry_count, made.metadata) == (1, 1, {"n": 1})
    assert await storage.catalog.get("s") == made
    assert await storage.sessions.load("s") == said("a")


@pytest.mark.parametrize("other", [None, {"n": 1}])
async def test_a_session_is_created_once(catalogs, other):
    """A second create() is SessionExists and changes nothing."""
    first, second = catalogs
    made = await first.create("s", metadata={"n": 1})
    with pytest.raises(SessionExists) as caught:
        await second.create("s", metadata=other)
    assert caught.value.session_id == "s"
    assert await first.get("s") == made


@pytest.fixture
async def racers(place):
    """Two handles whose operations interleave, by a seed on every backend."""
    async with (
        Storage(Yielding(place.log_store(), 1)) as first,
        Storage(Yielding(place.log_store(), 2)) as second,
    ):
        yield first, second


async def test_of_several_creators_exactly_one_succeeds(racers):
    """Of eight that create one id at once through two handles, one succeeds, seven are told."""
    for number in range(10):
        done = await asyncio.gather(
            *(racers[n % 2].catalog.create(f"s{number}", metadata={"by": n}) for n in range(8)),
            return_exceptions=True,
        )
        made = [one for one in done if not isinstance(one, Exception)]
        assert len(made) == 1
        assert [type(one) for one in done if isinstance(one, Exception)] == [SessionExists] * 7
        assert await racers[0].catalog.get(f"s{number}") == made[0]


async def test_creators_of_a_session_with_runs_are_still_one(racers):
    """Also of a session that others append to, exactly one create() succeeds."""
    first, second = racers
    for number in range(5):
        name = f"s{number}"
        await first.sessions.append(name, said("a"))
        done = await asyncio.gather(
            first.catalog.create(name),
            second.sessions.append(name, said("b")),
            second.catalog.create(name),
            first.sessions.append(name, said("c")),
            return_exceptions=True,
        )
        assert [type(one) for one in done].count(SessionExists) == 1
        found = await second.catalog.get(name)
        assert (found.run_count, found.is_catalogued) == (3, True)


@pytest.mark.parametrize("act", ["get", "touch"])
async def test_what_was_not_created_is_not_found(storage, act):
    """A session that has runs and was never created is not found, like one that is not there."""
    await storage.sessions.append("stray", said("a"))
    for name in ("stray", "absent"):
        with pytest.raises(SessionNotFound) as caught:
            await getattr(storage.catalog, act)(name)
        assert caught.value.session_id == name
    assert (await storage.catalog.list()).items == ()


async def test_stray_sessions_are_listed_if_asked_and_marked(storage):
    """Sessions with runs alone are listed on demand, marked, and match no filter."""
    await storage.catalog.create("b", metadata={"n": 1})
    await storage.sessions.append("a", said("x", "y"))
    await storage.sessions.append("c", [])
    assert await ids(storage.catalog) == ["b"]
    found = (await storage.catalog.list(uncatalogued=True)).items
    assert [(one.session_id, one.is_catalogued) for one in found] == [
        ("a", False),
        ("b", True),
        ("c", False),
    ]
    assert (found[0].metadata, found[0].run_count, found[0].entry_count) == ({}, 1, 2)
    for where in ({}, {"n": 1}):
        assert await ids(storage.catalog, uncatalogued=True, where=where) == ["b"]


async def test_a_stray_session_without_runs_is_none(storage):
    """What is left of a session that was never created and lost all runs is not listed."""
    await storage.sessions.append("s", said("x"))
    await storage.sessions.rewind("s", keep_entries=0)
    assert await ids(storage.catalog, uncatalogued=True) == []


VALUES = {
    "true": True,
    "false": False,
    "one": 1,
    "one.0": 1.0,
    "zero": 0,
    "null": None,
    "text": "1",
    "empty": "",
    "list": [1, [True]],
    "list.0": [1, [1]],
    "longer": [1, [True], 2],
    "none": [],
    "object": {"a": {"b": 1}},
    "object.0": {"a": {"b": 1.0}},
    "wider": {"a": {"b": 1}, "c": None},
    "plain": {},
    "large": 2**70,
    "surrogate": "\ud800",
}


async def test_a_filter_matches_equal_values_of_the_same_types(storage):
    """True is not 1, 1 is not 1.0, null is not missing, at any depth; a value matches itself."""
    await storage.catalog.create("missing", metadata={"other": 1})
    for name, value in VALUES.items():
        await storage.catalog.create(name, metadata={"v": value, "other": 1})
    for name, value in VALUES.items():
        assert await ids(storage.catalog, where={"v": value}) == [name]
    assert len(await ids(storage.catalog, where={"other": 1})) == len(VALUES) + 1
    assert await ids(storage.catalog, where={"absent": None}) == []


async def test_a_filter_of_several_fields_wants_all_of_them(storage):
    """Metadata must have every field of the filter, and may have more; {} matches all."""
    await storage.catalog.create("a", metadata={"x": 1, "y": 2, "z": 3})
    await storage.catalog.create("b", metadata={"x": 1})
    assert await ids(storage.catalog, where={"x": 1, "y": 2}) == ["a"]
    assert await ids(storage.catalog, where={"x": 1, "y": 1}) == []
    assert await ids(storage.catalog, where={}) == ["a", "b"]


UNREADABLE = [5, "x", "", [], False, [("a", 1)], {1: 2}, {"a": {1, 2}}, {"a": (1,)}, {"a": b""}]


async def test_a_filter_that_is_not_understood_is_refused(storage):
    """A filter that is no JSON object never matches everything; it is InvalidFilter."""
    await storage.catalog.create("s")
    for where in UNREADABLE:
        with pytest.raises(InvalidFilter, match="where"):
            await storage.catalog.list(where=where)


async def test_metadata_that_is_no_json_object_is_refused(storage):
    """create() and touch() refuse metadata that is no JSON object, and change nothing."""
    made = await storage.catalog.create("s", metadata={"n": 1})
    for metadata in UNREADABLE:
        with pytest.raises(NotSerializable, match="metadata"):
            await storage.catalog.create("new", metadata=metadata)
        with pytest.raises(NotSerializable, match="metadata"):
            await storage.catalog.touch("s", metadata=metadata)
    assert (await storage.catalog.list()).items == (made,)


async def test_a_limit_of_a_listing_is_1_to_1000(storage):
    """A listing is of 1 to 1,000 sessions."""
    for limit in (0, -1, 1001, True, 1.0, "5", None):
        with pytest.raises(InvalidLimit, match="at least 1 and at most 1000"):
            await storage.catalog.list(limit=limit)


async def test_illegal_ids_are_refused_everywhere(storage):
    """No operation takes an id that no backend may store."""
    catalog = storage.catalog
    for act in (
        lambda: catalog.create(""),
        lambda: catalog.get("\x00"),
        lambda: catalog.touch("\ud800"),
        lambda: catalog.delete("x" * 257),
        lambda: catalog.list(after="\x00"),
    ):
        with pytest.raises(InvalidId):
            await act()


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_pages_of_a_listing_add_up_in_the_order_of_bytes(storage, limit):
    """A walk finds every match once, in the order of UTF-8 bytes, in full pages, past the rest."""
    names = ["Z", "a", "a b", "a/b", "ab", "é", "\uff5e", "\U0001f600"]
    for name in names:
        await storage.catalog.create(name, metadata={"keep": True})
        await storage.catalog.create(f"{name}!", metadata={"keep": False})
        await storage.sessions.append(f"{name}#", said("a"))
    pages, after = [], None
    while not pages or after is not None:
        page = await storage.catalog.list(where={"keep": True}, after=after, limit=limit)
        pages.append([one.session_id for one in page.items])
        after = page.next
    found = [name for page in pages for name in page]
    assert found == sorted(names, key=str.encode)
    assert all(len(page) == limit for page in pages[:-1])
    assert pages[-1]


async def test_a_listing_survives_creates_and_deletes(storage):
    """A walk goes on from where it was when the session it stands on is deleted."""
    for name in "abcde":
        await storage.catalog.create(name)
    page = await storage.catalog.list(limit=2)
    await storage.catalog.delete("b")
    await storage.catalog.create("a2")
    assert await ids(storage.catalog, after=page.next) == ["c", "d", "e"]


class Listed(Wrapper):
    """Counts the rows of listings."""

    rows = 0

    async def list(self, kind, **options):
        page = await super().list(kind, **options)
        self.rows += len(page.items)
        return page


async def test_a_small_page_looks_at_few(place):
    """A page of what the catalog is full of takes a row more than it has sessions."""
    store = Listed(place.log_store())
    async with Storage(store) as storage:
        for number in range(50):
            await storage.catalog.create(f"{number:02}")
        assert len((await storage.catalog.list(limit=10)).items) == 10
        assert store.rows == 11


async def test_no_content_is_read(place):
    """create, get, list and touch move no record, however much a session holds."""
    store = Metered(place.log_store())
    async with Storage(store) as storage:
        await storage.sessions.append("s", said("x" * 1000))
        await storage.catalog.create("s", metadata={"n": 1})
        await storage.catalog.get("s")
        await storage.catalog.touch("s", metadata={"n": 2})
        assert await ids(storage.catalog, where={"n": 2}, uncatalogued=True) == ["s"]
        assert (store.records, store.payload) == (0, 0)


async def test_touch_stamps_and_keeps(catalogs, handles, clock):
    """touch() moves updated_at alone; metadata stays unless some is given, then it is replaced."""
    first, second = catalogs
    await first.create("s", metadata={"a": 1, "b": 2})
    clock.now += 7
    touched = await second.touch("s")
    assert (touched.created_at, touched.updated_at) == (NOW, NOW + 7)
    assert touched.metadata == {"a": 1, "b": 2}
    assert (await second.touch("s", metadata={"b": 3})).metadata == {"b": 3}
    assert (await first.touch("s", metadata={})).metadata == {}
    assert (await first.get("s")).metadata == {}


async def test_touch_keeps_what_it_does_not_know(place):
    """Fields of a catalog entry that this version does not know survive a touch, as bytes."""
    head = b'{"pinned": 1e400, "metadata":{"n":1},"owner":{"x": [1.50]}}'
    log = LogId(kind="session", id="s")
    async with raw(place) as store:
        await store.append(log, Batch(head=head))
    async with place.open() as storage:
        assert (await storage.catalog.touch("s")).metadata == {"n": 1}
        assert (await storage.catalog.touch("s", metadata={"n": 2})).metadata == {"n": 2}
    async with raw(place) as store:
        found = (await store.read(log, Range(limit=0))).state.head
    assert b'"pinned":1e400' in found
    assert b'"owner":{"x": [1.50]}' in found
    assert found.count(b"metadata") == 1


@pytest.mark.parametrize("act", ["get", "touch", "list"])
async def test_an_entry_that_cannot_be_read_is_corrupt_and_untouched(place, act):
    """A broken catalog entry is CorruptRecord, and no touch writes over it."""
    await plant(place, "session", "s", b"{}", head=b'{"metadata":[]}')
    before = dump(place) if place.backend == "sqlite" else None
    async with place.open() as storage:
        with pytest.raises(CorruptRecord):
            await getattr(storage.catalog, act)(*(() if act == "list" else ("s",)))
        revision = await storage.sessions.revision("s")
        with pytest.raises(CorruptRecord):
            await storage.catalog.touch("s")
        assert await storage.sessions.revision("s") == revision
    assert before is None or dump(place) == before


async def test_touching_in_a_race_loses_no_run(racers):
    """Touches and appends at once through two handles: every run is there, and the last touch."""
    first, second = racers
    await first.catalog.create("s")
    await asyncio.gather(
        *(first.sessions.append("s", said(f"{n}")) for n in range(20)),
        *(second.catalog.touch("s", metadata={"n": n}) for n in range(5)),
    )
    found = await first.catalog.get("s")
    assert (found.run_count, found.metadata["n"] in range(5)) == (20, True)


@pytest.mark.parametrize(
    "act",
    [
        lambda s: s.sessions.clear("s"),
        lambda s: s.sessions.rewind("s", keep_entries=0),
        lambda s: s.rewind("s", keep_entries=0),
    ],
)
async def test_a_catalogued_session_stays_without_runs(handles, act):
    """Clearing a session, or rewinding it to nothing, leaves it in the catalog as it was."""
    first, second = handles
    await first.catalog.create("s", metadata={"n": 1})
    await first.sessions.append("s", said("a"), run_id="r")
    await act(second)
    found = await first.catalog.get("s")
    assert (found.run_count, found.entry_count, found.metadata) == (0, 0, {"n": 1})
    assert await first.sessions.load("s") == []
    assert await second.sessions.append("s", said("b"), run_id="r") == "r"
    assert await first.sessions.load("s") == said("b")


async def test_clearing_a_session_outside_the_catalog_leaves_nothing(storage):
    """A cleared session that was never created leaves no log behind."""
    await storage.sessions.append("s", said("a"))
    await storage.sessions.clear("s")
    assert (await storage.log_store.list("session")).items == ()
    assert await storage.sessions.revision("s") == 0


async def fill(storage, name="s"):
    """Make a session with two runs, their checkpoints and an archive."""
    await storage.catalog.create(name, metadata={"n": 1})
    for run_id in (f"{name} 1", f"{name} 2"):
        await storage.sessions.append(name, [result("c", "x" * 900)], run_id=run_id)
        await storage.checkpointer.append(run_id, said("a"), RunHead())
    await storage.sessions.trim_tool_results(name, keep_runs=0, archive=storage.archive)


async def logs(storage):
    """Return the names of all logs but the format's."""
    return {
        (kind, info.id)
        for kind in ("session", "run", "thread", "archive")
        for info in (await storage.log_store.list(kind)).items
    }


@pytest.mark.parametrize("checkpoints", [False, True])
async def test_delete_removes_all_of_a_session_and_nothing_else(handles, checkpoints):
    """Runs, archive and entry go, checkpoints only where asked, and no other session's."""
    first, second = handles
    await fill(first)
    await fill(first, "other")
    others = {one for one in await logs(first) if one[1].startswith("other")}
    assert await second.catalog.delete("s", checkpoints=checkpoints)
    kept = set() if checkpoints else {("run", "s 1"), ("run", "s 2")}
    assert await logs(first) == others | kept
    with pytest.raises(SessionNotFound):
        await first.catalog.get("s")
    assert not await first.catalog.delete("s", checkpoints=checkpoints)


async def test_delete_removes_a_session_outside_the_catalog(storage):
    """A stray session is deleted like any other."""
    await storage.sessions.append("s", said("a"))
    assert await storage.catalog.delete("s")
    assert await logs(storage) == set()


async def test_an_interrupted_delete_is_completed_by_another(place):
    """Whatever step of a delete fails, the session is there until a second one ends it all."""
    steps = 0
    left = set()
    async for storage in failures(place, fill, lambda s: s.catalog.delete("s", checkpoints=True)):
        steps += 1
        found = await logs(storage)
        left.add(len(found))
        assert ("session", "s") in found or found == set()
        await storage.catalog.delete("s", checkpoints=True)
        assert await logs(storage) == set()
    assert steps >= 10
    assert left == {4, 3, 2, 1, 0}


async def test_an_interrupted_create_is_there_or_not(place):
    """After a failure at any step a session is created whole, or can be created."""

    async def prepare(storage):
        await storage.sessions.append("s", said("a"))

    outcomes = set()
    async for storage in failures(place, prepare, lambda s: s.catalog.create("s")):
        try:
            await storage.catalog.create("s")
            outcomes.add("created")
        except SessionExists:
            outcomes.add("exists")
        assert (await storage.catalog.get("s")).run_count == 1
    assert outcomes == {"created", "exists"}
