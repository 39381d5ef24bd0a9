"""What the backend asks of a server: requests and bytes as a proxy counts them, retries too."""

import asyncio
import time
from itertools import pairwise
from threading import Event

import pytest

from durably.logstore import Batch, NewRecord
from durably_s3 import S3LogStore
from durably_s3.testing import MemoryBucket
from logs import LOG, batch, log
from s3_faults import hold
from s3_stores import chunk_of

pytest_plugins = ["s3_fixtures"]
pytestmark = [pytest.mark.xdist_group("moto-2"), pytest.mark.timeout(120)]

SEGMENT_BYTES = 2048
SOME = 256
"""Appends that are counted: so many seal eight times, and merge once."""

AT_ONCE = 16
"""Segments that fill a log together, fewer than seal it."""


def segment(number: int) -> NewRecord:
    data = b"%8d" % number + bytes(range(256)) * 8
    return NewRecord(key=f"run {number}", data=data[:SEGMENT_BYTES])


async def fill(site, length: int) -> None:
    """Store a log of so many segments: made in memory, and put there as it lies there."""
    bucket = MemoryBucket()
    store = S3LogStore(site.settings(compression="none"), bucket=bucket)
    for first in range(0, length, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, length))
        await store.append(LOG, Batch(records=tuple(map(segment, numbers))))
    await store.aclose()
    for key, data in bucket.shelf.dump().items():
        site.put(key, data)


@pytest.mark.parametrize("length", [100, 1000])
async def test_what_appends_cost(site, length, record_property):
    """A warm append is one PUT, 1.1 requests on average with sealing and merging, of few bytes."""
    await fill(site, length)
    chunks = len(site.chunks())
    store = site.store(compression="none")
    await store.append(LOG, Batch(records=(segment(length),)))
    cold = site.proxy.log[:]
    site.proxy.clear()
    log, starts = site.proxy.log, []
    for number in range(length + 1, length + 1 + SOME):
        starts.append(len(log))
        await store.append(LOG, Batch(records=(segment(number),)))
    await store.aclose()
    requests = [log[one:other] for one, other in pairwise([*starts, len(log)])]
    sent = [sum(one.sent for one in some) for some in requests]
    average = len(log) / SOME
    record_property(
        "counted",
        f"{length} records: cold {len(cold)} requests for {chunks} chunks and "
        f"{sum(one.received for one in cold)} bytes; warm {average:.3f} requests, "
        f"{sum(sent) // SOME} bytes sent on average, {max(sent)} at most",
    )
    assert len(cold) <= 3 + chunks
    assert chunks <= 16
    assert [[one.method for one in some] for some in requests].count(["PUT"]) > 0.9 * SOME
    assert average <= 1.1
    assert sum(sent) / SOME < 64 * 1024
    assert max(sent) < 2 * 1024 * 1024


@pytest.mark.parametrize("length", [100, 1000])
async def test_a_load_is_a_get_of_the_tip_and_of_each_chunk(site, length):
    """A used handle loads a log by one request and one for each chunk, and each byte once."""
    await fill(site, length)
    store = site.store()
    await store.list("session")
    site.proxy.clear()
    found = await store.read(LOG)
    chunks = site.chunks()
    assert [record.key for record in found.records] == [f"run {n}" for n in range(length)]
    assert len(site.proxy.log) == 1 + len(chunks)
    tip = site.dump()[site.keys.tip(LOG)]
    stored = len(tip) + sum(map(len, chunks.values()))
    assert sum(one.received for one in site.proxy.log) == stored
    site.proxy.clear()
    await store.read(LOG)
    assert [one.status for one in site.proxy.log if not chunk_of(one)] == [304]


async def test_a_listing_is_a_request_for_each_page(site):
    """Listing 250 ids by the hundred takes three requests; a page has a thousand at most."""
    store = site.store()
    await store.append(log("0000"), batch("a"))
    tip = site.dump()[site.keys.tip(log("0000"))]
    names = [f"{number:04}" for number in range(250)]
    put = asyncio.to_thread
    await asyncio.gather(*(put(site.put, site.keys.tip(log(name)), tip) for name in names))
    site.proxy.clear()
    found, after = [], ""
    while True:
        page = await store.list("session", after=after, limit=100)
        found += [one.id for one in page.items]
        if page.next is None:
            break
        after = page.next
    assert found == names
    assert len(site.proxy.log) == 3


async def test_appends_that_wait_share_a_put(site):
    """64 appends at once take one PUT, and 64 that come while one is under way take the next."""
    store, event = site.store(), Event()
    await store.append(LOG, batch("before"))
    site.proxy.clear()
    told = await asyncio.gather(*(store.append(LOG, batch(f"{n}")) for n in range(64)))
    assert [one.seq for one in told] == list(range(2, 66))
    assert [one.method for one in site.proxy.log] == ["PUT"]
    plan = site.proxy.plan(hold(event))
    first = asyncio.ensure_future(store.append(LOG, batch("first")))
    async with asyncio.timeout(20):
        while plan.times:  # noqa: ASYNC110 - it is counted in another thread
            await asyncio.sleep(0.01)
    rest = [asyncio.ensure_future(store.append(LOG, batch(f"later {n}"))) for n in range(64)]
    await asyncio.sleep(0)
    event.set()
    told = await asyncio.gather(first, *rest)
    assert [one.seq for one in told] == list(range(66, 131))
    assert [one.method for one in site.proxy.log] == ["PUT"] * 3


async def test_a_long_log_loads_quickly_from_afar(site, record_property):
    """10,000 segments of 2 KB, each request 20 ms away, are there in a few seconds."""
    await fill(site, 10_000)
    store = site.store()
    await store.list("session")
    site.proxy.latency = 0.02
    site.proxy.clear()
    begun = time.monotonic()
    found = await store.read(LOG)
    took = time.monotonic() - begun
    requests = len(site.proxy.log)
    record_property("counted", f"10,000 segments: {requests} requests, {took:.2f} s at 20 ms")
    assert len(found.records) == 10_000
    assert requests < 40
    assert took < 6


async def test_chunks_load_quicker_than_an_object_each(site, record_property):
    """1,000 segments in chunks load in less time than a quarter of them, an object each."""
    await fill(site, 1000)
    site.put(f"{site.prefix}/one", segment(0).data)
    store = site.store(endpoint_url=site.server.endpoint)
    await store.list("session")
    begun = time.monotonic()
    found = await store.read(LOG)
    took = time.monotonic() - begun
    get, key = store._opened.bucket.get, f"{site.prefix}/one"
    begun = time.monotonic()
    objects = await asyncio.gather(*(get(key) for _ in range(250)))
    each = time.monotonic() - begun
    record_property(
        "counted", f"1,000 segments: {took:.3f} s in chunks, 250 one by one: {each:.3f} s"
    )
    assert (len(found.records), len(objects)) == (1000, 250)
    assert 1 + len(site.chunks()) <= 15
    assert took < each
