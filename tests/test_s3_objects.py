"""What lies in a bucket: objects that were cut off, what a use leaves, and the names of ids."""

import asyncio

import pytest

from durably import CorruptRecord
from durably.logstore import Batch, LogId, NewRecord, Range
from durably_s3 import _planning
from durably_s3 import _tip as tips
from durably_s3._chunks import HEADER
from logs import LOG, batch, keys, log

pytest_plugins = ["s3_fixtures"]
pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("quick_retries")]

on_moto = pytest.mark.xdist_group("moto-2")
BESIDE = log("beside it")


def sizes(data: bytes) -> list[int]:
    return [0, 1, len(data) // 2, len(data) - 1]


@on_moto
@pytest.mark.parametrize("number", range(4))
async def test_a_tip_that_was_cut_off_is_found(site, number):
    """A tip of 0, 1, half or all but one byte is corrupt, harms nothing else, and can go."""
    writing = site.store()
    for one in (LOG, BESIDE):
        await writing.append(one, batch("a", "b", head=b"head"))
    key = site.keys.tip(LOG)
    whole = site.dump()[key]
    spoiled = whole[: sizes(whole)[number]]
    site.put(key, spoiled)
    store = site.store()
    for operation in (
        lambda: store.read(LOG),
        lambda: store.read(LOG, Range(limit=0)),
        lambda: store.append(LOG, batch("c")),
        lambda: store.delete(LOG, expected_revision=1),
        lambda: writing.read(LOG),
        lambda: writing.append(LOG, batch("c")),
    ):
        with pytest.raises(CorruptRecord, match=f"{LOG}.*{key}") as caught:
            await operation()
        assert caught.value.log == LOG
    assert site.dump()[key] == spoiled
    assert [one.id for one in (await store.list("session")).items] == [LOG.id, BESIDE.id]
    assert await keys(store, BESIDE) == ["a", "b"]
    assert await store.delete(LOG) is True
    assert await store.read(LOG) is None
    assert (await writing.append(LOG, batch("c"))).seq == 1


@on_moto
async def test_a_tip_that_was_cut_off_is_told_by_a_listing_of_states(site):
    """A listing with states reads the beginning of each tip, and finds it too short."""
    writing = site.store()
    await writing.append(LOG, batch("a", head=b"head"))
    key = site.keys.tip(LOG)
    whole = site.dump()[key]
    _, front, *_ = tips.HEADER.unpack_from(whole)
    for size in (0, 1, tips.HEADER.size, tips.HEADER.size + front - 1):
        site.put(key, whole[:size])
        with pytest.raises(CorruptRecord, match=key):
            await site.store().list("session", with_state=True)
    site.put(key, whole)
    assert (await site.store().list("session", with_state=True)).items[0].state.record_count == 1


@on_moto
@pytest.mark.parametrize("part", ["index", "body"])
async def test_a_chunk_that_was_cut_off_is_found(site, monkeypatch, part):
    """A chunk cut off within its index or its blocks is corrupt where it is needed, and there."""
    monkeypatch.setattr(_planning, "SEAL_BYTES", 100)
    writing = site.store()
    for one in (LOG, BESIDE):
        await writing.append(one, Batch(records=(NewRecord(key="a", data=bytes(range(250))),)))
        await writing.append(one, batch("b"))
    ((key, whole),) = [
        (key, data)
        for key, data in site.chunks().items()
        if key.startswith(site.keys.chunk(LOG, ""))
    ]
    _, index, _ = HEADER.unpack_from(whole)
    end = HEADER.size + index
    in_blocks = [end, (end + len(whole)) // 2, len(whole) - 1]
    for size in sizes(whole[:end]) if part == "index" else in_blocks:
        site.put(key, whole[:size])
        store = site.store()
        needing = [store.read(LOG), store.read(LOG, Range(keys=frozenset({"a"})))]
        if part == "index":
            needing.append(store.append(LOG, batch("c")))
        for operation in needing:
            with pytest.raises(CorruptRecord, match=f"{LOG}.*{key}"):
                await operation
        assert await keys(store, span=Range(newest=True, limit=1)) == ["b"]
        assert await keys(store, BESIDE) == ["a", "b"]
    site.delete(key)
    with pytest.raises(CorruptRecord, match=f"{LOG}.*missing"):
        await site.store().read(LOG)
    site.put(key, whole)
    assert await keys(site.store()) == ["a", "b"]


async def test_a_use_leaves_nothing_but_the_layout(either_site, monkeypatch):
    """Created, sealed, merged, read, rewritten and deleted, logs leave the bucket as it was."""
    monkeypatch.setattr(_planning, "SEAL_BYTES", 100)
    store = either_site.store()
    assert await store.read(LOG) is None
    assert (await store.list("session")).items == ()
    assert await store.delete(LOG) is False
    assert either_site.dump() == {}
    await store.append(log("first"), batch("a"))
    await store.delete(log("first"))
    before = either_site.dump()
    assert list(before) == [either_site.keys.layout]
    view = store.scoped("a namespace")
    for one in (store, view):
        for number in range(10):
            await one.append(LOG, batch(f"{number} " * 40, keep_last=8))
    assert either_site.chunks()
    for one in (store, view):
        assert len(await keys(one)) == 8
        assert await one.delete(LOG)
    assert either_site.dump() == before
    assert (await store.describe())["conditional deletions"] == "heeded"


LONG = "a" * 256
IDS = [
    "/", "//", "a/", "a//b", ".", "..", "../x", "a/../b", "/etc", "a\\b", "C:x", " ", "  ", "a ",
    "a\n", "\x01\x7f", "%2F", "a%", "+", "a+b", "&", "?a=b", "#", "<a>&amp;", "'", '"', "*", "ü",
    "u\u0308", "\u2028", "\U0001f600", "\ufffe", "A", "a", "b", "a-", "a.",
    LONG, LONG[:-1], "ü" * 128, "\U0010ffff" * 64,
]  # fmt: skip


async def test_nasty_ids_are_ids_like_others(either_site):
    """Ids of every kind, and of 256 bytes, in a namespace of 256 bytes, are stored and listed."""
    store = either_site.store(namespace="ü/" * 85 + "n")
    wanted = sorted(IDS, key=str.encode)
    await asyncio.gather(*(store.append(log(id_), Batch(head=id_.encode())) for id_ in IDS))
    found = await asyncio.gather(*(store.read(log(id_)) for id_ in IDS))
    assert [one.state.head for one in found] == [id_.encode() for id_ in IDS]
    listed = await store.list("session", limit=1000, with_state=True)
    assert [one.id for one in listed.items] == wanted
    assert [one.state.head for one in listed.items] == [id_.encode() for id_ in wanted]
    assert all(len(part.encode()) <= 255 for key in either_site.dump() for part in key.split("/"))
    assert (await either_site.store().list("session")).items == ()


async def test_the_longest_of_all_names_fit(either_site, monkeypatch):
    """The longest prefix, namespace, kind and id make names of a tip and of chunks that fit."""
    monkeypatch.setattr(_planning, "SEAL_BYTES", 100)
    prefix = f"{either_site.prefix}/".ljust(120, "p")
    store = either_site.store(prefix=prefix, namespace="n" * 256)
    kind = "k" * 16
    one = LogId(kind=kind, id=LONG)
    await store.append(one, batch("a" * 200))
    assert await keys(store, one) == ["a" * 200]
    assert [found.id for found in (await store.list(kind)).items] == [LONG]
    assert max(len(key.encode()) for key in either_site.dump()) > 950
    assert await store.delete(one)


async def test_listings_walk_over_everything(either_site):
    """Page by page, in any size of pages and from any id on, every id comes once and in order."""
    ids = [f"{number:03}" for number in range(30)] + [f"a/{number}" for number in range(10)]
    ids += [f"{LONG[:-2]}{number}" for number in range(10, 20)]
    ids = sorted(ids, key=str.encode)
    store = either_site.store()
    await asyncio.gather(*(store.append(log(id_), batch("a")) for id_ in ids))
    await store.append(log("deleted"), batch("a"))
    await store.delete(log("deleted"))
    for limit in (3, 7, 1000):
        found, after = [], ""
        while True:
            page = await store.list("session", after=after, limit=limit)
            assert len(page.items) <= limit
            found += [one.id for one in page.items]
            if page.next is None:
                break
            after = page.next
        assert found == ids
    for prefix in ("", "0", "01", "a", "a/", LONG[:-2], "b"):
        listed = (await store.list("session", prefix=prefix, limit=1000)).items
        assert [one.id for one in listed] == [id_ for id_ in ids if id_.startswith(prefix)]
    for after in ("00", "012", "a/5", "a/50", LONG, "zz"):
        listed = (await store.list("session", after=after, limit=1000)).items
        assert [one.id for one in listed] == [id_ for id_ in ids if id_.encode() > after.encode()]
