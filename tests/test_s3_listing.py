"""Listings of S3: the right pages in the order of the ids, whatever the server's order."""

import asyncio
import itertools

import pytest

from durably import MemoryLogStore
from durably.logstore import Batch, LogId
from durably_s3._keys import LONGEST_PREFIX, Keys, decode, encode
from s3_crashes import KEYS, dice_of, open_on, small
from s3_memory import FaultyBucket, Shelf

IDS = (
    *("a", "aa", "aaa", "ab", "b", "A", "a/b", "a%", "a\x01", "\x7f", "é", "日本", "\U0001f600"),
    *("a" * size for size in (39, 40, 41, 124, 125, 126, 249, 250, 251, 256)),
    "a" * 125 + "b",
    "a" * 124 + "/b",
    "é" * 128,
)
PREFIXES = ("", "a", "aa", "b", "é", "x", "a" * 124, "a" * 125, "a" * 126, "a" * 256, "日")
TOMBSTONE = b"gone" + b"0" * 12


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    small(monkeypatch)


class Backwards(FaultyBucket):
    """Lists from the last key to the first, as if that were the order."""

    def order(self, keys):
        return sorted(keys, reverse=True)


class Shuffled(FaultyBucket):
    """Lists in an order that is nobody's."""

    def order(self, keys):
        return sorted(keys, key=lambda key: dice_of(key).random())


class ByFolder(FaultyBucket):
    """Lists as a file system does, what is in a folder after the files beside it."""

    def order(self, keys):
        return sorted(keys, key=lambda key: [(part.encode(),) for part in key.split("/")])


class Few(FaultyBucket):
    """Gives fewer objects than it was asked for, and sometimes none, though there are more."""

    async def list(self, prefix, *, after="", token=None, limit=1000):
        if token is None and not after:
            found = await super().list(prefix, limit=limit)
            start = type(found)(objects=(), token="the start", now=found.now)  # noqa: S106
            return start if found.objects else found
        token = None if token == "the start" else token  # noqa: S105
        return await super().list(prefix, after=after, token=token, limit=min(limit, 3))


SERVERS = (FaultyBucket, Backwards, Shuffled, ByFolder, Few)


async def _filled(bucket):
    """Return a store and one in memory with the same logs."""
    store, _ = open_on(Shelf(), bucket=bucket)
    memory = MemoryLogStore()
    for number, id_ in enumerate(IDS):
        batch = Batch(head=id_.encode(), key=id_, at=float(number))
        for one in (store, memory):
            await one.append(LogId(kind="run", id=id_), batch)
            await one.append(LogId(kind="run-1", id=f"not {number}"), batch)
    return store, memory


async def _walk(store, **options):
    found, after = [], ""
    for _ in range(200):
        page = await store.list("run", after=after, **options)
        assert len(page.items) <= options.get("limit", 100)
        found += page.items
        if page.next is None:
            return found
        assert page.next > after
        after = page.next
    raise AssertionError("the walk does not end")


@pytest.mark.parametrize("server", SERVERS)
async def test_walks_of_any_limit_and_prefix_find_the_same_as_memory(server, record_property):
    """Whatever the order of the server, pages follow each other in the order of the ids."""
    store, memory = await _filled(server)
    counted = 0
    for prefix, limit in itertools.product(PREFIXES, (1, 2, 3, 5, len(IDS), 1000)):
        options = {"prefix": prefix, "limit": limit, "with_state": limit % 2 == 1}
        expected = await _walk(memory, **options)
        assert await _walk(store, **options) == expected
        assert [one.id for one in expected] == sorted(
            (id_ for id_ in IDS if id_.startswith(prefix)), key=str.encode
        )
        counted += 1
    record_property("counted", counted)


@pytest.mark.parametrize("server", SERVERS)
async def test_a_page_may_begin_after_any_id(server):
    """What comes after an id, one of the log's or not, is what is greater."""
    store, memory = await _filled(server)
    for after in (*IDS, "0", "aaaa", "a" * 127, "zz", "\U0010ffff"):
        page = await store.list("run", after=after, limit=4)
        expected = await memory.list("run", after=after, limit=4)
        assert page.items == expected.items


@pytest.mark.parametrize("server", [FaultyBucket, Backwards])
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_tombstones_and_foreign_names_are_passed_over(server, limit):
    """Deleted logs of which 16 bytes are left, and names that are not ours, are in no page."""
    store, memory = await _filled(server)
    shelf = store._opened.bucket.shelf
    for id_ in ("a", "aaa", "b", "a" * 126, "日本"):
        log = LogId(kind="run", id=id_)
        await memory.delete(log)
        shelf.objects[KEYS.tip(log)] = (TOMBSTONE, f"etag of {id_}", 0.0)
    for name in ("", "c4/", "c/4", "C4", "zz", "!", "c4!", "0", f"{encode('a' * 257)}", "00"):
        shelf.objects[f"{KEYS.tips('run')}{name}"] = (b"foreign", f"etag of {name}", 0.0)
    for prefix in ("", "a", "aaa"):
        expected = await _walk(memory, prefix=prefix)
        found = await _walk(store, prefix=prefix, limit=limit)
        assert [one.id for one in found] == [one.id for one in expected]


@pytest.mark.parametrize("limit", [1, 4, 100])
async def test_an_empty_answer_is_not_the_end(limit):
    """A server that was found to list in order may answer with nothing, and have more."""
    store, memory = await _filled(FaultyBucket)
    other, _ = open_on(store._opened.bucket.shelf, bucket=Few)
    async with asyncio.timeout(20):
        assert await _walk(other, limit=limit) == await _walk(memory, limit=limit)


async def test_a_page_takes_one_request():
    """Where the server lists in order a page of ids is one request, with states one more each."""
    store, _ = await _filled(FaultyBucket)
    bucket = store._opened.bucket
    for with_state, requests in ((False, 1), (True, 6)):
        bucket.log.clear()
        await store.list("run", prefix="a", limit=5, with_state=with_state)
        assert len(bucket.log) == requests
    assert all(one.span == (0, 8192) for one in bucket.log if one.what == "get")


async def test_a_state_that_is_large_is_read_whole():
    """A head of more bytes than a listing reads at first comes all the same."""
    store, _ = open_on(Shelf())
    for size in (8000, 8192, 20_000):
        await store.append(LogId(kind="run", id=f"{size:05}"), Batch(head=b"h" * size, at=1.0))
    page = await store.list("run", with_state=True)
    assert [len(one.state.head) for one in page.items] == [8000, 8192, 20_000]


@pytest.mark.parametrize("namespace", ["", "a", "a" * 124, "a" * 125, "n" * 256])
def test_names_are_short_and_lead_back(namespace):
    """Every id has a name of its own of at most 1,024 bytes, in parts of 200 characters."""
    keys = Keys(root="p" * LONGEST_PREFIX + "/", namespace=namespace)
    names = set()
    for id_ in IDS:
        log = LogId(kind="k" * 32, id=id_)
        tip, chunk = keys.tip(log), keys.chunk(log, "0" * 32)
        assert keys.log_of_tip(tip) == log
        assert keys.id_of(log.kind, tip) == id_
        assert keys.log_of_chunk(chunk) == (log, "0" * 32)
        assert max(len(tip), len(chunk)) <= 1024
        assert all(1 <= len(part) <= 200 for part in chunk.split("/"))
        assert decode(encode(id_)) == id_
        names |= {tip, chunk}
    assert len(names) == 2 * len(IDS)


def test_names_are_in_the_order_of_ids():
    """Tips sort like the UTF-8 bytes of their ids, also where a server sorts folder by folder."""
    dice = dice_of(5)
    ids = {*IDS, *("".join(dice.choices("ab/\x01é", k=dice.randrange(1, 120))) for _ in range(500))}
    by_bytes = sorted(ids, key=str.encode)
    tips = [KEYS.tip(LogId(kind="run", id=id_)) for id_ in by_bytes]
    assert tips == sorted(tips)
    assert tips == sorted(tips, key=lambda tip: tip.split("/"))
    for prefix in PREFIXES:
        beginning = KEYS.beginning("run", prefix)
        assert all(
            KEYS.tip(LogId(kind="run", id=id_)).startswith(beginning)
            for id_ in by_bytes
            if id_.startswith(prefix)
        )
