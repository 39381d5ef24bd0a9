"""S3: what changes leave behind goes when it is old enough, and nothing else ever does."""

import pytest

from durably import Unavailable
from durably.logstore import Batch, LogId, Rewrite
from durably_s3._bucket import Lost
from durably_s3._keys import Keys, encode
from s3_crashes import (
    KEYS,
    LAYOUT,
    LOG,
    PREFIX,
    batches,
    filled,
    named_objects,
    open_on,
    record,
    small,
    tidy,
    view,
)
from s3_memory import FaultyBucket, Shelf, nothing, unsure

TIP = KEYS.tip(LOG)
OTHER = LogId(kind="run", id="another log")
NOW = 1_000_000.0
GRACE = 100.0


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    small(monkeypatch)


class Deaf(FaultyBucket):
    """Heeds no condition on a deletion."""

    async def delete(self, key, *, match):  # noqa: ARG002 - that is it
        await self.delete_all([key])


def put(shelf, key, data=b"garbage", *, age=0.0):
    shelf.objects[key] = (data, f"etag of {key}", NOW - age)


async def _aged(length, age):
    shelf = await filled(length)
    shelf.now = lambda: NOW
    for key, (data, etag, _) in shelf.objects.items():
        shelf.objects[key] = (data, etag, NOW - age)
    return shelf


GARBAGE = {
    "a chunk": KEYS.chunk(LOG, "0" * 32),
    "a chunk of a log that is gone": KEYS.chunk(OTHER, "0" * 32),
    "a probe": KEYS.probe(),
    "a tombstone": KEYS.tip(OTHER),
}


@pytest.mark.parametrize("what", GARBAGE)
@pytest.mark.parametrize("age", [0.0, GRACE - 1, GRACE, GRACE + 1])
async def test_garbage_goes_once_it_is_old(what, age):
    """What no tip names is removed when it is as old as the grace by the server's clock."""
    shelf = await _aged(8, 10 * GRACE)
    before = dict(shelf.objects)
    put(shelf, GARBAGE[what], b"gone" + b"0" * 12, age=age)
    store, _ = open_on(shelf, grace=GRACE)
    await store.maintain()
    assert (GARBAGE[what] in shelf.objects) == (age < GRACE)
    assert {key: shelf.objects[key] for key in before} == before


@pytest.mark.parametrize("length", [1, 8, 20, 26])
async def test_what_tips_name_stays_however_old(length):
    """A log without garbage is after the collection, byte for byte, as it was before."""
    shelf = await _aged(length, 1e6)
    before = shelf.dump()
    store, bucket = open_on(shelf, grace=0)
    await store.maintain()
    assert shelf.dump() == before
    assert bucket.count("delete_all") == bucket.count("delete") == 0


FOREIGN = (
    "unrelated",
    "somewhere/durably/c/n/run/c4/chunk",
    f"{PREFIX}x/durably/c/n/run/c4/chunk",
    f"{PREFIX}/notes.txt",
    f"{PREFIX}/durably-backup/c/n/run/c4/chunk",
    KEYS.chunks,
    f"{KEYS.chunks}run/",
    f"{KEYS.chunks}run/chunk",
    f"{KEYS.chunks}Run!/c4/chunk",
    f"{KEYS.chunks}run/not base32/chunk",
    f"{KEYS.chunks}run/c/4/chunk",
    KEYS.all_tips,
    f"{KEYS.all_tips}run/",
    f"{KEYS.all_tips}run/not base32",
    f"{KEYS.all_tips}run/c/4",
)


async def test_what_is_not_ours_stays():
    """Objects of other prefixes and of names we never give are left, whatever their age."""
    shelf = await _aged(8, 1e6)
    for key in FOREIGN:
        put(shelf, key, b"gone" + b"0" * 12, age=1e6)
    before = shelf.dump()
    store, _ = open_on(shelf, grace=0)
    await store.maintain()
    assert shelf.dump() == before


async def test_other_namespaces_and_prefixes_are_left_alone():
    """The collection in one namespace removes nothing of another, nor of another storage."""
    shelf = await _aged(8, 1e6)
    garbage = [
        Keys(root=f"{PREFIX}/", namespace="n").chunk(LOG, "0" * 32),
        Keys(root=f"{PREFIX}/", namespace="n" * 125).chunk(LOG, "0" * 32),
        Keys(root=f"{PREFIX}/", namespace="n" * 250).chunk(LOG, "0" * 32),
        Keys(root=f"{PREFIX}/deeper/").chunk(LOG, "0" * 32),
        Keys(root="").chunk(LOG, "0" * 32),
    ]
    for key in garbage:
        put(shelf, key, age=1e6)
    for namespace in ("", "n" * 124):
        store, _ = open_on(shelf, namespace=namespace)
        await store.maintain()
        assert shelf.objects.keys() >= {*garbage}
    store, _ = open_on(shelf)
    for namespace in ("n", "n" * 125, "n" * 250):
        await store.scoped(namespace).maintain()
    assert shelf.objects.keys() & garbage == {*garbage[3:]}


async def test_a_namespace_whose_name_looks_like_one_and_a_kind_is_another_one():
    """Where one namespace's name continues another's in parts, neither takes the other's logs."""
    short, long = "n" * 124, "n" * 124 + "\x01"
    assert Keys(root="", namespace=long).chunks.startswith(Keys(root="", namespace=short).chunks)
    shelf = Shelf()
    log = LogId(kind=encode("hello"), id="a log")
    store, _ = open_on(shelf, namespace=long)
    for batch in batches(3):
        await store.append(log, batch)
    before = shelf.dump()
    other, _ = open_on(shelf, namespace=short)
    await other.maintain()
    assert (await other.list("1")).items == ()
    assert shelf.dump() == before


async def test_the_chunks_of_a_corrupt_log_stay():
    """Where a tip cannot be read nobody knows what it names, so all of it stays."""
    shelf = await _aged(8, 1e6)
    put(shelf, TIP, b"spoiled", age=1e6)
    put(shelf, GARBAGE["a probe"], age=1e6)
    before = shelf.dump()
    store, _ = open_on(shelf)
    await store.maintain()
    assert shelf.dump().keys() == before.keys() - {GARBAGE["a probe"]}


@pytest.mark.parametrize("size", [60, 400])
@pytest.mark.parametrize("is_creation", [False, True])
async def test_what_was_lost_for_certain_leaves_nothing(size, is_creation):
    """The chunks of a plan that came too late are gone at once, unless it may yet come true."""
    shelf = await filled(0 if is_creation else 2)
    later = await filled(5)
    store, bucket = open_on(shelf)
    await store.read(LOG)

    def overtake(request):
        if request.what == "put" and request.key == TIP:
            shelf.objects |= {k: v for k, v in later.objects.items() if k != LAYOUT}
            bucket.before = nothing

    bucket.before = overtake
    await store.append(LOG, Batch(records=(record("new", size),), key="new", at=1.0))
    await store.aclose()
    left = set(shelf.objects) - named_objects(shelf)
    before = {key for key in left if key not in later.objects}
    assert len(before) == (is_creation and size == 400)
    await tidy(shelf)


async def test_chunks_of_a_plan_that_may_come_true_stay():
    """After an answer that was lost no chunk is removed: the tip may yet arrive."""
    shelf = await filled(2)
    later = await filled(5)
    store, bucket = open_on(shelf)
    await store.read(LOG)

    def vanish(request):
        if request.what == "put" and request.key == TIP:
            shelf.objects |= {k: v for k, v in later.objects.items() if k != LAYOUT}
            bucket.before = nothing
            unsure(request)

    bucket.before = vanish
    await store.append(LOG, Batch(records=(record("new", 400),), key="new", at=1.0))
    chunks = [one.key for one in bucket.log if one.what == "put" and one.key != TIP]
    assert len(chunks) == 2
    assert set(chunks) <= set(shelf.objects)


async def test_a_storage_that_is_used_and_emptied_is_as_before():
    """After logs were made, merged, cut and deleted there is only what was there before."""
    shelf = await filled(3)
    before = shelf.dump()
    store, _ = open_on(shelf)
    for number in range(3):
        log = LogId(kind="run", id=f"log {number}")
        for batch in batches(26):
            await store.append(log, batch)
        await store.rewrite(log, Rewrite(expected_revision=1026, drop_after=5, at=1.0))
        await store.append(log, Batch(head=b"", keep_last=1, at=1.0))
        assert await store.delete(log)
    await store.aclose()
    assert shelf.dump() == before


async def test_obsolete_chunks_go_with_the_change():
    """Merging, cutting and evicting leave nothing for the collection."""
    shelf = await filled(26)
    store, bucket = open_on(shelf)
    await store.append(LOG, Batch(records=(record("r27"),), at=1.0))
    await store.rewrite(LOG, Rewrite(expected_revision=1027, drop=frozenset({1, 9}), at=1.0))
    await store.append(LOG, Batch(records=(record("r28", 600),), keep_last=1, at=1.0))
    await store.aclose()
    assert set(shelf.objects) == named_objects(shelf)
    assert bucket.count("delete_all") == 3


async def test_a_removal_that_fails_fails_nothing():
    """What cannot be removed now is left to the collection; the change is done."""
    shelf = await filled(26)
    store, bucket = open_on(shelf)

    def refuse(request):
        if request.what in {"delete_all", "delete"}:
            raise Unavailable("not now")

    bucket.before = refuse
    await store.append(LOG, Batch(records=(record("r27"),), at=1.0))
    await store.aclose()
    assert set(shelf.objects) > named_objects(shelf)
    await tidy(shelf)
    store, bucket = open_on(shelf)
    bucket.before = refuse
    assert await store.delete(LOG) is True
    assert await view(shelf) is None
    await tidy(shelf)


async def test_a_server_without_conditional_deletion_keeps_16_bytes():
    """A deleted log leaves 16 bytes there, is gone all the same, and can be created anew."""
    shelf = Shelf()
    store, bucket = open_on(shelf, bucket=Deaf)
    for batch in batches(9):
        await store.append(LOG, batch)
    await store.append(OTHER, batches(1)[0])
    removed = bucket.count("delete_all")
    assert await store.delete(LOG) is True
    assert await store.delete(LOG) is False
    assert bucket.count("delete_all") == removed + 1
    assert set(shelf.objects) == {LAYOUT, TIP, KEYS.tip(OTHER)}
    assert len(shelf.objects[TIP][0]) == 16
    await store.maintain()
    assert await store.read(LOG) is None
    assert [one.id for one in (await store.list("run")).items] == [OTHER.id]
    assert (await store.describe())["conditional deletions"].startswith("ignored")
    for batch in batches(9):
        await store.append(LOG, batch)
    await store.maintain()
    assert (await view(shelf)).state.record_count == 9


async def test_a_tombstone_that_gives_way_to_a_new_log_is_not_removed():
    """Whoever tidies up after a deletion leaves what others put there since."""
    shelf = await filled(8)
    later = await filled(3)
    store, bucket = open_on(shelf)

    def create_anew(request):
        if request.what == "delete":
            shelf.objects |= later.objects

    bucket.before = create_anew
    assert await store.delete(LOG) is True
    assert (await view(shelf)).state.record_count == 3
    put(shelf, TIP, b"gone" + b"0" * 12)
    await store.maintain()
    assert (await view(shelf)).state.record_count == 3


@pytest.mark.parametrize("doing", ["delete", "maintain"])
async def test_a_handle_that_found_nothing_yet_tidies_up_like_any_other(doing):
    """What a server can do others may have found out since; who removes something asks again."""
    shelf = Shelf()
    lagging, _ = open_on(shelf)
    assert await lagging.read(LOG) is None
    store, bucket = open_on(shelf)
    await store.append(LOG, batches(1)[0])

    def refuse(request):
        if request.what == "delete":
            raise Lost

    if doing == "delete":
        await lagging.delete(LOG)
    else:
        bucket.before = refuse
        await store.delete(LOG)
        assert TIP in shelf.objects
        await lagging.maintain()
    assert set(shelf.objects) == {LAYOUT}


async def test_a_collection_needs_one_look_at_each_log():
    """Many chunks of one log are compared with one reading of its tip, and go in one request."""
    shelf = await _aged(20, 1e6)
    for number in range(50):
        put(shelf, KEYS.chunk(LOG, f"{number:032}"), age=1e6)
    store, bucket = open_on(shelf)
    await store.maintain()
    assert bucket.count("get", TIP) == 1
    assert bucket.count("delete_all") == 1
    assert set(shelf.objects) == named_objects(shelf)
