"""Answers that are lost, late, cut short or errors for a while change nothing of what is stored."""

import asyncio
import traceback
from threading import Event

import pytest

from durably import StorageBusy, Unavailable
from durably.logstore import Rewrite
from durably_s3 import _planning
from logs import LOG, batch, keys, log, state
from s3_faults import answer, cut, drop_answer, drop_request, hold, late
from s3_stores import about, chunk_of, on

pytest_plugins = ["s3_fixtures"]
pytestmark = [
    pytest.mark.xdist_group("moto"),
    pytest.mark.timeout(60),
    pytest.mark.usefixtures("quick_retries"),
]

APPENDED, REWRITTEN, DELETED, READ = map(log, ("appended", "rewritten", "deleted", "read"))
ATTEMPTS = 2
"""Of the library itself, for one request."""


def tip_puts(proxy, log=LOG):
    """Return the status of each PUT of a log's tip and whether its client was told."""
    is_one = about(log, "PUT")
    return [(one.status, one.delivered) for one in proxy.log if is_one(one)]


async def until(is_so) -> None:
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110 - it is so by another thread
            await asyncio.sleep(0.01)


async def five(store):
    """Do one of each operation at once, each on a log of its own, and return what they are told."""
    revision = (await state(store, REWRITTEN)).revision
    appended, rewritten, deleted, read, listed = await asyncio.gather(
        store.append(APPENDED, batch("b", key="batch")),
        store.rewrite(REWRITTEN, Rewrite(expected_revision=revision, drop_after=1, key="rewrite")),
        store.delete(DELETED),
        store.read(READ),
        store.list("session", prefix="read"),
    )
    return (
        (appended.seq, appended.duplicate),
        (rewritten.revision > revision, rewritten.duplicate),
        deleted,
        [record.key for record in read.records],
        [one.id for one in listed.items],
    )


RIGHT = ((2, False), (True, False), True, ["a", "b"], ["read"])

FAULTS = {
    "an answer dropped": (drop_answer, 1),
    "both answers of the library dropped": (drop_answer, ATTEMPTS),
    "a request dropped": (drop_request, 1),
    "both requests of the library dropped": (drop_request, ATTEMPTS),
    "a request that lands after the retry": (late(0.15), 1),
    "SlowDown for a while": (answer(503, "SlowDown"), ATTEMPTS + 1),
    "InternalError for a while": (answer(500, "InternalError"), ATTEMPTS + 1),
    "ServiceUnavailable with a page for people": (answer(502, "<html>"), ATTEMPTS),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_each_operation_is_done_once_all_the_same(site, name):
    """Whatever befalls the decisive request of each operation, it is done once, and told so."""
    fault, times = FAULTS[name]
    store = site.store()
    for one in (REWRITTEN, READ):
        await store.append(one, batch("a", "b"))
    for one in (APPENDED, DELETED):
        await store.append(one, batch("a"))
    plans = [
        site.proxy.plan(fault, when=about(APPENDED, "PUT"), times=times),
        site.proxy.plan(fault, when=about(REWRITTEN, "PUT"), times=times),
        site.proxy.plan(fault, when=about(DELETED, "PUT"), times=times),
        site.proxy.plan(fault, when=about(READ, "GET"), times=times),
        site.proxy.plan(fault, when=lambda one: "prefix" in one.query, times=times),
    ]
    assert await five(store) == RIGHT
    assert [one.times for one in plans] == [0] * len(plans)
    other = site.store()
    await asyncio.sleep(0.2)  # what is late lands, and must change nothing
    assert await keys(other, APPENDED) == ["a", "b"]
    assert await keys(other, REWRITTEN) == ["a"]
    assert await other.read(DELETED) is None


async def test_the_librarys_own_retry_meets_what_was_stored(site):
    """The first PUT is stored and its answer lost, the library's retry gets 412: one success."""
    store = site.store()
    await store.append(LOG, batch("a"))
    site.proxy.clear()
    site.proxy.plan(drop_answer, when=about(LOG, "PUT"))
    applied = await store.append(LOG, batch("b"))
    assert tip_puts(site.proxy) == [(200, False), (412, True)]
    assert (applied.seq, applied.duplicate) == (2, False)
    assert await keys(store) == ["a", "b"]


async def test_the_first_tip_is_created_once(site):
    """So does the PUT that creates a log, on condition that there is none."""
    store = site.store()
    await store.append(log("another"), batch("a"))
    site.proxy.clear()
    site.proxy.plan(drop_answer, when=about(LOG, "PUT"))
    applied = await store.append(LOG, batch("a"))
    assert tip_puts(site.proxy) == [(200, False), (412, True)]
    assert (applied.seq, applied.duplicate) == (1, False)
    assert await keys(store) == ["a"]


async def test_a_lost_answer_under_another_change_is_a_success(site):
    """Stored unheard and built upon by another at once, it is found there, and told as stored."""
    store, other = site.store(), site.store()
    await store.append(LOG, batch("a"))
    built, event = [], Event()

    async def overtaken(call):
        await drop_answer(call)
        built.append(call)
        while not event.is_set():  # noqa: ASYNC110 - it is set in another thread
            await asyncio.sleep(0.002)

    site.proxy.plan(overtaken, when=about(LOG, "PUT"))
    appending = asyncio.ensure_future(store.append(LOG, batch("b")))
    await until(lambda: built)
    await other.append(LOG, batch("c"))
    event.set()
    applied = await appending
    assert (applied.seq, applied.duplicate) == (2, False)
    assert await keys(other) == ["a", "b", "c"]


async def test_what_was_stored_is_never_told_to_be_unwritten(site):
    """Stored unheard and built upon, and the time over: still it is no StorageBusy."""
    store, other = site.store(timeout=1), site.store()
    await store.append(LOG, batch("a"))
    built, event = [], Event()

    async def overtaken(call):
        await drop_answer(call)
        built.append(call)
        await hold(event)(call)

    async def slow(call):
        await asyncio.sleep(0.45)
        return await call.forward()

    site.proxy.plan(overtaken, when=about(LOG, "PUT"))
    appending = asyncio.ensure_future(store.append(LOG, batch("b")))
    await until(lambda: built)
    await other.append(LOG, batch("c"))
    site.proxy.plan(slow, when=about(LOG, "PUT"))
    site.proxy.plan(slow, when=about(LOG, "GET"), times=3)
    await asyncio.sleep(0.2)
    event.set()
    try:
        assert (await appending).seq == 2
    except StorageBusy as busy:
        pytest.fail(f"{busy}, and the log has {await keys(other)}")
    except Unavailable as error:
        assert "may have been stored" in str(error)  # noqa: PT017 - it is not always raised
    assert await keys(other) == ["a", "b", "c"]


async def test_a_late_put_that_was_overtaken_is_refused(site):
    """A PUT that the server does after its retry changed the tip fails there, and loses nothing."""
    store, event = site.store(), Event()
    await store.append(LOG, batch("a"))
    site.proxy.clear()
    site.proxy.plan(late(event), when=about(LOG, "PUT"))
    assert (await store.append(LOG, batch("b"))).seq == 2
    assert (await store.append(LOG, batch("c"))).seq == 3
    event.set()
    await until(lambda: len(tip_puts(site.proxy)) == 3)
    assert tip_puts(site.proxy) == [(200, True), (200, True), (412, False)]
    assert await keys(site.store()) == ["a", "b", "c"]


async def test_a_late_creation_after_a_deletion_does_no_harm(site):
    """A PUT that creates a log, done by the server after its deletion, leaves one to be read."""
    store, event = site.store(), Event()
    await store.append(log("another"), batch("a"))
    site.proxy.clear()
    site.proxy.plan(late(event), when=about(LOG, "PUT"))
    await store.append(LOG, batch("a"))
    assert await store.delete(LOG)
    event.set()
    await until(lambda: (200, False) in tip_puts(site.proxy))
    assert await keys(site.store()) == ["a"]
    assert (await store.append(LOG, batch("b"))).seq == 2


@pytest.mark.parametrize("size", [0, 1, 100])
async def test_a_body_that_is_cut_short_is_asked_for_again(site, monkeypatch, size):
    """Tips, indexes, blocks and listings of which a part arrives are asked for until all do."""
    monkeypatch.setattr(_planning, "SEAL_BYTES", 100)
    filling = site.store()
    for one in "abcd":
        await filling.append(LOG, batch(one * 90))
    assert site.chunks()
    wanted = await filling.read(LOG)
    store = site.store()
    for when in (about(LOG, "GET"), chunk_of, lambda one: "prefix" in one.query):
        site.proxy.plan(cut(size), when=when, times=2)
    assert await store.read(LOG) == wanted
    assert (await store.append(LOG, batch("e"))).seq == 5
    assert [one.id for one in (await store.list("session")).items] == [LOG.id]
    assert site.proxy.plans == []


async def test_chunks_are_put_again(site, monkeypatch):
    """A chunk whose answer is lost is put again, and the tip names one that is whole."""
    monkeypatch.setattr(_planning, "SEAL_BYTES", 100)
    store = site.store()
    await store.append(LOG, batch("a"))
    site.proxy.clear()
    site.proxy.plan(drop_answer, when=lambda one: chunk_of(one) and one.method == "PUT")
    site.proxy.plan(drop_request, when=lambda one: chunk_of(one) and one.method == "PUT")
    await store.append(LOG, batch("b" * 100))
    puts = [one.status for one in site.proxy.log if chunk_of(one) and one.method == "PUT"]
    assert puts == [200, None, 200]
    assert await keys(site.store()) == ["a", "b" * 100]


async def test_the_probe_stands_lost_answers(bare_site):
    """The first change of a storage stands a lost answer to each of its requests in turn."""
    store = bare_site.store()
    seen = set()

    def once(exchange) -> bool:
        name = (exchange.method, exchange.key[-1:], exchange.condition and exchange.condition[:8])
        is_new = exchange.method in {"PUT", "DELETE", "POST"} and name not in seen and len(seen) < 6
        if is_new:
            seen.add(name)
        return is_new

    bare_site.proxy.plan(drop_answer, when=once, times=None)
    assert (await store.append(LOG, batch("a"))).seq == 1
    assert len(seen) == 6
    assert (await store.describe())["conditional writes"] == "heeded"


async def test_nothing_is_told_twice_where_the_retry_is_the_callers(site):
    """After Unavailable the caller's own retry of what was stored is a duplicate."""
    store = site.store(timeout=1)
    await store.append(LOG, batch("a"))
    plan = site.proxy.plan(drop_answer, when=on("PUT"), times=1)
    site.proxy.plan(drop_request, when=lambda _: not plan.times, times=None)
    again = batch("b", key="batch")
    with pytest.raises(Unavailable, match="may have been stored") as caught:
        await store.append(LOG, again)
    assert "".join(traceback.format_exception(caught.value)).count("Unavailable") >= 1
    site.proxy.plans.clear()
    applied = await store.append(LOG, again)
    assert (applied.seq, applied.duplicate) == (2, True)
    assert await keys(store) == ["a", "b"]
