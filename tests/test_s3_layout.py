"""The layout of a prefix in S3: said once, never guessed, and what a server must do for it."""

import asyncio
import itertools
import json

import msgspec
import pytest

from durably import ForeignData, SchemaTooNew, Unsupported
from durably.logstore import Batch, LogId
from durably_s3 import _layout
from durably_s3._bucket import Lost
from durably_s3._patience import Patience
from durably_s3._probe import probe
from s3_crashes import KEYS, LAYOUT, LOG, PREFIX, At, batches, dice_of, filled, open_on, small, view
from s3_memory import Crash, FaultyBucket, Shelf, unsure

TIP = KEYS.tip(LOG)
CALLS = {
    "read": lambda store: store.read(LOG),
    "append": lambda store: store.append(LOG, batches(1)[0]),
    "delete": lambda store: store.delete(LOG),
    "list": lambda store: store.list("run"),
    "maintain": lambda store: store.maintain(),
    "describe": lambda store: store.describe(),
}


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    small(monkeypatch)


def jitter(bucket, dice):
    bucket.jitter = lambda: dice.randrange(5)


def put(shelf, key, data):
    shelf.objects[key] = (data, f"etag of {key}", 0.0)


@pytest.mark.parametrize("call", CALLS)
async def test_a_newer_layout_is_left_alone(call):
    """Whatever is asked of a storage that a newer version made is refused, and changes no byte."""
    shelf = await filled(3)
    newer = json.loads(shelf.objects[LAYOUT][0]) | {"layout": 2, "more": "of it"}
    put(shelf, LAYOUT, json.dumps(newer).encode())
    before = shelf.dump()
    store, bucket = open_on(shelf)
    with pytest.raises(SchemaTooNew) as caught:
        await CALLS[call](store)
    assert (caught.value.found, caught.value.supported) == (2, 1)
    assert shelf.dump() == before
    assert all(one.what == "get" for one in bucket.log)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "data", [b"", b"hello", b"{}", b'{"layout":0}', b'{"layout":"1"}', b"[1]", b"\xff\x00", b"null"]
)
async def test_a_layout_that_is_none_is_foreign(call, data):
    """An object of the layout's name that says something else is refused, and stays."""
    shelf = Shelf()
    put(shelf, LAYOUT, data)
    store, _ = open_on(shelf)
    with pytest.raises(ForeignData, match="durably/layout"):
        await CALLS[call](store)
    assert shelf.dump() == {LAYOUT: data}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("key", [TIP, KEYS.chunk(LOG, "0" * 32), f"{PREFIX}/durably/readme"])
async def test_our_names_without_a_layout_are_foreign(call, key):
    """Objects where only durably's may lie, and no layout, are refused, and stay."""
    shelf = Shelf()
    put(shelf, key, b"whatever")
    store, _ = open_on(shelf)
    with pytest.raises(ForeignData, match="not durably's"):
        await CALLS[call](store)
    assert shelf.dump() == {key: b"whatever"}


@pytest.mark.parametrize("call", sorted(CALLS.keys() - {"append"}))
async def test_who_only_looks_writes_nothing(call):
    """In an empty prefix, beside other objects, only a change that stores something writes."""
    shelf = Shelf()
    put(shelf, f"{PREFIX}/other", b"data")
    store, bucket = open_on(shelf)
    await CALLS[call](store)
    await store.aclose()
    assert {one.what for one in bucket.log} <= {"get", "list"}
    assert shelf.dump() == {f"{PREFIX}/other": b"data"}


async def test_the_layout_is_looked_at_once():
    """A handle asks for it before its first operation, and before no other."""
    shelf = await filled(3)
    store, bucket = open_on(shelf)
    for call in ("read", "append", "list", "maintain", "delete"):
        await CALLS[call](store)
    assert bucket.count("get", LAYOUT) == 1
    assert bucket.log[0].key == LAYOUT


@pytest.mark.parametrize("seed", range(10))
async def test_first_openers_agree(seed):
    """Two to four handles that write first at once leave one layout, and nothing of the probes."""
    dice = dice_of(seed)
    shelf = Shelf()
    handles = [open_on(shelf) for _ in range(2 + seed % 3)]
    for _, bucket in handles:
        jitter(bucket, dice)
    answers = await asyncio.gather(
        *(
            store.append(LogId(kind="run", id=f"{number}"), Batch(head=b"", at=1.0))
            for number, (store, _) in enumerate(handles)
        )
    )
    assert not any(answer.duplicate for answer in answers)
    layout = json.loads(shelf.objects[LAYOUT][0])
    assert layout == {"layout": 1, "can_delete": True, "is_ordered": True}
    assert len(shelf.objects) == 1 + len(handles)


def _migration(done):
    """Return a step that adds a byte to every tip's neighbour, slowly, as often as it is run."""

    async def step(bucket, keys):
        for part in ("first", "second", "third"):
            await bucket.put(f"{keys.everything}migrated/{part}", b"done")
            done.append(part)

    return step


async def _old_storage(monkeypatch, steps):
    monkeypatch.setattr(_layout, "MIGRATIONS", ())
    shelf = await filled(5)
    done = []
    monkeypatch.setattr(_layout, "MIGRATIONS", (_migration(done),) * steps)
    return shelf, done


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("steps", [1, 3])
async def test_a_migration_by_eight_openers_ends_with_one_layout(monkeypatch, seed, steps):
    """Whoever comes to a step first, all of them are done, and every handle reads the same."""
    shelf, done = await _old_storage(monkeypatch, steps)
    before = await filled(5)
    dice = dice_of(seed)
    stores = []
    for _ in range(8):
        store, bucket = open_on(shelf)
        jitter(bucket, dice)
        stores.append(store)
    found = await asyncio.gather(*(store.read(LOG) for store in stores))
    assert all(one == found[0] for one in found)
    assert found[0].state.record_count == 5
    assert json.loads(shelf.objects[LAYOUT][0])["layout"] == 1 + steps
    assert {"first", "second", "third"} <= set(done)
    assert len(shelf.objects) == len(before.objects) + 3


async def test_an_interrupted_migration_is_completed_by_the_next(monkeypatch, record_property):
    """A process that ends at any request of a migration leaves what the next one completes."""
    counted = 0
    for side in ("before", "after"):
        for number in itertools.count():
            shelf, _ = await _old_storage(monkeypatch, 2)
            store, bucket = open_on(shelf)
            at = At(number, _crash)
            setattr(bucket, side, at)
            try:
                await store.read(LOG)
            except Crash:
                assert at.is_reached
            if not at.is_reached:
                break
            assert (await view(shelf)).state.record_count == 5
            store, _ = open_on(shelf)
            await store.read(LOG)
            assert json.loads(shelf.objects[LAYOUT][0])["layout"] == 3
            counted += 1
    assert counted >= 16
    record_property("counted", counted)


def _crash(_request):
    raise Crash


async def test_a_layout_whose_answer_is_lost_is_found(monkeypatch):
    """Where nobody said whether the layout was written or migrated, it is what lies there."""
    shelf = Shelf()
    store, bucket = open_on(shelf)
    left = [2]

    def lose(request):
        if request.what == "put" and request.key == LAYOUT and left[0]:
            left[0] -= 1
            unsure(request)

    bucket.after = lose
    await store.append(LOG, batches(1)[0])
    assert left == [1]
    monkeypatch.setattr(_layout, "MIGRATIONS", (_migration([]),))
    store, bucket = open_on(shelf)
    bucket.after = lose
    assert (await store.read(LOG)).state.record_count == 1
    assert left == [0]


class Overwriting(FaultyBucket):
    """Does not heed If-None-Match."""

    async def put(self, key, data, *, absent=False, **options):  # noqa: ARG002 - that is it
        return await super().put(key, data, **options)


class Matching(FaultyBucket):
    """Does not heed If-Match."""

    async def put(self, key, data, *, match=None, **options):  # noqa: ARG002 - as above
        return await super().put(key, data, **options)


class Refusing(FaultyBucket):
    """Heeds If-Match too much."""

    async def put(self, key, data, *, match=None, absent=False, sealed=False):
        if match is not None:
            raise Lost
        return await super().put(key, data, absent=absent, sealed=sealed)


@pytest.mark.parametrize(
    ("server", "what"),
    [(Overwriting, "If-None-Match"), (Matching, "If-Match"), (Refusing, "right ETag")],
)
async def test_a_server_that_heeds_no_condition_is_refused(server, what):
    """Where writers would overwrite each other nothing is stored, and nothing is left."""
    shelf = Shelf()
    store, _ = open_on(shelf, bucket=server)
    with pytest.raises(Unsupported, match=what):
        await store.append(LOG, batches(1)[0])
    assert shelf.dump() == {}
    assert await store.read(LOG) is None


@pytest.mark.parametrize("lost_on", ["before", "after"])
async def test_a_probe_whose_answers_are_lost_is_made_again(lost_on, record_property):
    """Whichever of its requests is not answered, it finds out the same, and leaves nothing."""
    for number in itertools.count():
        bucket = FaultyBucket(Shelf())
        at = At(number, unsure)
        setattr(bucket, lost_on, at)
        found = await probe(bucket, KEYS, "a place", Patience(10))
        if not at.is_reached:
            break
        assert found == (True, True)
        assert len(bucket.shelf.objects) in ({0} if bucket.log[-1].what != "delete_all" else {0, 5})
    assert number >= 10
    record_property("counted", number)


def test_the_layout_is_read_with_fields_of_later_versions():
    """What is not known is passed over, so that a later version may say more."""
    found = msgspec.json.decode(b'{"layout":1,"new":3}', type=_layout.Layout)
    assert found == _layout.Layout(layout=1)


LATER = {
    "tip": [
        lambda store: store.read(LOG),
        lambda store: store.append(LOG, Batch(head=b"h")),
        lambda store: store.delete(LOG),
        lambda store: store.list(LOG.kind, with_state=True),
    ],
    "chunk": [lambda store: store.read(LOG)],
}


@pytest.mark.parametrize("what", LATER)
async def test_an_object_of_a_later_format_is_left_alone(what):
    """A process that is older than a migration it slept through refuses what that made."""
    shelf = await filled(9)
    await asyncio.sleep(0.01)  # what is obsolete goes after the answer
    chunk = next(key for key in shelf.objects if key.startswith(KEYS.chunk(LOG, "")))
    name = {"tip": TIP, "chunk": chunk}[what]
    data = shelf.objects[name][0]
    put(shelf, name, data[:3] + b"2" + data[4:])
    before = shelf.dump()
    for act in LATER[what]:
        store, _ = open_on(shelf)
        with pytest.raises(SchemaTooNew, match="Upgrade durably-s3"):
            await act(store)
    assert shelf.dump() == before
