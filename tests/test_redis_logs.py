"""Logs on Redis: ids of any text, listings without ghosts, and what lies where."""

import asyncio

import pytest
from redis.asyncio import Redis
from redis.crc import key_slot

from durably import CorruptRecord, RevisionConflict
from durably.logstore import Batch, LogId, NewRecord, Range, Rewrite
from durably_redis import RedisLogStore
from durably_redis._keys import LAYOUT, keys_of
from durably_redis._scripts import FORGET
from logs import LOG, batch, keys, log, state, unkeyed
from redis_proxy import Proxy
from redis_servers import HOST, dump, namespace

pytest_plugins = ["redis_fixtures"]
pytestmark = [pytest.mark.xdist_group("redis"), pytest.mark.timeout(60)]

ODD = ("{", "}", "{}", "}{", "a{b}c", "{a}", ":h:", "a:listing", "*", "[a-z]", "\\", "\r\n", "%7B")
ODD += ("\x01\x7f", "\u0080", "é", "e\u0301", "\uffff", "\U0010ffff", "x" * 256, "-", "+inf", "(a")


async def test_ids_of_any_text_are_logs_of_their_own(store):
    """Braces, wildcards, separators and control characters in ids mean nothing but themselves."""
    for one in ODD:
        await store.append(log(one), Batch(records=unkeyed(one.encode()).records, head=b"h"))
    for one in ODD:
        stored = await store.read(log(one))
        assert [record.data for record in stored.records] == [one.encode()]
    page = await store.list("session")
    assert [row.id for row in page.items] == sorted(ODD, key=str.encode)
    for one in ODD:
        assert await store.delete(log(one))
    assert (await store.list("session")).items == ()


@pytest.mark.parametrize("one", ODD)
def test_all_keys_of_a_log_lie_in_one_slot(one):
    """The client's own key slot is the same for hash, order and listing, whatever the id."""
    for space in ("", one):
        found = keys_of(space, LogId(kind="run", id=one))
        assert len({key_slot(found.hash), key_slot(found.order), key_slot(found.listing)}) == 1


def test_no_two_logs_share_a_key_but_the_listing():
    """Keys are injective in namespace, kind and id, also where these contain separators."""
    spaces = ("", "a", "a:run", "a%3Arun", "{a}", "%7Ba%7D", "é")
    logs = [LogId(kind=kind, id=one) for kind in ("run", "session") for one in ODD]
    found = [keys_of(space, one) for space in spaces for one in logs]
    assert len({key for one in found for key in (one.hash, one.order)}) == 2 * len(found)
    assert not {one.listing for one in found} & {
        key for one in found for key in (one.hash, one.order)
    }


async def test_logs_spread_over_64_listings_are_one_walk(server, keep):
    """1,500 logs in all 64 buckets come in pages of any size, each once and in byte order."""
    space = namespace()
    store = keep(server.store(namespace=space))
    names = [f"{number * 7919 % 1500:04}" for number in range(1500)]
    await asyncio.gather(*(store.append(log(one), Batch(head=b"h")) for one in names))
    assert len({keys_of(space, log(one)).listing for one in names}) == 64
    for limit in (1000, 700, 90):
        assert await _walk(store, limit=limit) == sorted(names)
    assert await _walk(store, prefix="12") == sorted(one for one in names if one[:2] == "12")


async def _walk(store, **options):
    found, after = [], ""
    while after is not None:
        page = await store.list("session", after=after, **options)
        found += [row.id for row in page.items]
        assert page.next is None or page.next > after
        after = page.next
    return found


async def test_a_bucket_that_holds_more_than_its_share_loses_nothing(server, keep):
    """A walk over logs that nearly all lie in one bucket is complete, its pages end earlier."""
    space = namespace()
    store = keep(server.store(namespace=space))
    numbers = (f"{number:05}" for number in range(20_000))
    wanted = keys_of(space, log("00000")).listing
    names = [one for one in numbers if keys_of(space, log(one)).listing == wanted]
    assert len(names) > 200
    names += ["30000", "30001", "30002", "30003"]
    await asyncio.gather(*(store.append(log(one), Batch(head=b"h")) for one in names))
    assert await _walk(store, limit=1000) == names
    assert await _walk(store, limit=100) == names


@pytest.mark.parametrize("with_state", [False, True])
async def test_a_log_that_is_gone_leaves_the_listing_when_it_is_read(server, keep, with_state):
    """A log whose keys expired or were evicted is not listed, and its id goes from the index."""
    space = namespace()
    store = keep(server.store(namespace=space))
    for one in ("a", "b", "c"):
        await store.append(log(one), batch("k"))
    found = keys_of(space, log("b"))
    with server.client() as client:
        client.unlink(found.hash, found.order)
        assert client.zscore(found.listing, "b") == 0
        page = await store.list("session", with_state=with_state)
        assert [row.id for row in page.items] == ["a", "c"]
        assert client.zscore(found.listing, "b") is None
    await store.append(log("b"), batch("k"))
    assert await _walk(store) == ["a", "b", "c"]


async def test_a_listing_does_not_forget_a_log_that_is_made_again(server, keep):
    """A log that is made after a listing found it gone, and before it is forgotten, stays."""
    async with Proxy(server.port) as proxy:
        client = keep(Redis(host=HOST, port=proxy.port))
        store = keep(RedisLogStore(client=client, namespace=namespace()))
        await store.append(LOG, Batch(head=b"h"))
        found = store._keys(LOG)
        with server.client() as blocking:
            content = blocking.hgetall(found.hash)
            blocking.unlink(found.hash)

            def make(command):
                if FORGET.sha.encode() in command or FORGET.source in command:
                    blocking.hset(found.hash, mapping=content)

            proxy.answers = make
            await store.list("session")
            assert blocking.zscore(found.listing, LOG.id) == 0
        assert await _walk(store) == [LOG.id]
        assert (await state(store)).head == b"h"


@pytest.mark.parametrize("lost", ["hash", "order"])
async def test_a_log_with_an_evicted_part_is_corrupt(own_server, keep, lost):
    """Reading and changing half a log names it as corrupt; nothing is made anew, nothing shorter.

    It stays in the listing, and can be deleted.
    """
    server = own_server()
    space = namespace()
    store = keep(server.store(namespace=space))
    before = await store.append(LOG, batch("a", "b", "c", head=b"h"))
    with server.client() as client:
        client.unlink(getattr(keys_of(space, LOG), lost))
        half = dump(client)
        for operation in (
            lambda: store.read(LOG),
            lambda: store.read(LOG, Range(limit=0)),
            lambda: store.read(LOG, Range(limit=1, newest=True)),
            lambda: store.read(LOG, Range(keys=frozenset("a"))),
            lambda: store.read(LOG, Range(with_data=False)),
            lambda: store.append(LOG, batch("d")),
            lambda: store.append(LOG, batch("d", expected_revision=0)),
            lambda: store.append(LOG, Batch(head=b"new")),
            lambda: store.rewrite(LOG, Rewrite(expected_revision=before.revision, drop_after=0)),
        ):
            with pytest.raises(CorruptRecord) as caught:
                await operation()
            assert caught.value.log == LOG
        assert dump(client) == half
        assert [row.id for row in (await store.list("session")).items] == [LOG.id]
        if lost == "hash":
            with pytest.raises(CorruptRecord):
                await store.list("session", with_state=True)
            with pytest.raises(CorruptRecord):
                await store.delete(LOG, expected_revision=before.revision)
    assert await store.delete(LOG) is True
    assert await store.read(LOG) is None
    assert (await store.append(LOG, batch("a"))).seq == 1


@pytest.mark.parametrize("field", ["=b", "#2", "s"])
async def test_a_log_that_lost_a_field_is_corrupt(server, keep, field):
    """A record without its index or data, or a log without its state, is never skipped."""
    space = namespace()
    store = keep(server.store(namespace=space))
    await store.append(LOG, batch("a", "b", "c"))
    with server.client() as client:
        assert client.hdel(keys_of(space, LOG).hash, field) == 1
    for span in (Range(), Range(newest=True), Range(after=1), Range(keys=frozenset("b"))):
        with pytest.raises(CorruptRecord) as caught:
            await store.read(LOG, span)
        assert caught.value.log == LOG


@pytest.mark.parametrize("text", [b"garbage", b"1 2 3 x 5 6 7", b"1 2 3 4 5 6", b"\xff"])
async def test_a_state_that_cannot_be_read_is_corrupt(server, keep, text):
    """What is no state of ours is named as corrupt, by reads and by changes."""
    space = namespace()
    store = keep(server.store(namespace=space))
    await store.append(LOG, batch("a"))
    with server.client() as client:
        client.hset(keys_of(space, LOG).hash, "s", text)
    for operation in (
        store.read(LOG),
        store.read(LOG, Range(limit=0)),
        store.append(LOG, batch("b")),
    ):
        with pytest.raises(CorruptRecord):
            await operation


async def test_a_used_and_deleted_log_leaves_nothing_behind(own_server, keep):
    """Every key of the database is the same, byte for byte, before and after a log's life."""
    server = own_server()
    space = namespace()
    store = keep(server.store(namespace=space))
    await store.append(log("neighbour"), batch("k", head=b"h"))
    with server.client() as client:
        before = dump(client)
        created = await store.append(LOG, batch("a", "b", "c", head=b"h"))
        await store.append(LOG, batch("d", keep_last=2))
        await store.append(LOG, Batch(head=b"later"))
        now = await state(store)
        cut = Rewrite(
            expected_revision=now.revision, drop_after=3, replace={3: NewRecord(data=b"x")}
        )
        await store.rewrite(LOG, cut)
        await store.list("session", with_state=True)
        assert await store.delete(LOG, expected_revision=now.revision + 1)
        assert created.revision
        assert dump(client) == before


async def test_two_namespaces_share_nothing(server, keep):
    """A log of one namespace is not read, listed, changed or deleted from another."""
    store, other = keep(server.store()), keep(server.store())
    await store.append(LOG, batch("a"))
    assert await other.read(LOG) is None
    assert (await other.list("session")).items == ()
    assert await other.delete(LOG) is False
    await other.append(LOG, batch("b"))
    assert await other.delete(LOG)
    assert await keys(store) == ["a"]
    view = store.scoped(other._namespace)
    await view.append(LOG, batch("c"))
    assert (await keys(other), await keys(store)) == (["c"], ["a"])
    await view.aclose()
    assert await keys(store) == ["a"]


async def test_each_operation_is_one_command_and_none_of_them_scans(server, keep):
    """Append, read, rewrite and delete are one command each; no KEYS, SCAN or FT.* in any."""
    async with Proxy(server.port) as proxy:
        client = keep(Redis(host=HOST, port=proxy.port))
        store = keep(RedisLogStore(client=client, namespace=namespace()))
        for operation in _operations(store):  # the server gets the scripts it does not have
            await operation()
        with server.client() as blocking:
            blocking.config_resetstat()
            for operation in _operations(store):
                proxy.forget()
                await operation()
                assert [command[0] for command in proxy.commands] == [b"EVALSHA"]
            await store.append(log("ghost"), batch("a"))
            await store.append(log("left"), batch("a"))
            found = store._keys(log("ghost"))
            blocking.unlink(found.hash, found.order)
            proxy.forget()
            assert [row.id for row in (await store.list("session", with_state=True)).items] == [
                "left"
            ]
            used = {name.removeprefix("cmdstat_") for name in blocking.info("commandstats")}
    assert {"evalsha", "hgetall", "zrangebylex"} <= used
    assert not {one for one in used if "scan" in one or one == "keys" or one.startswith("ft")}
    assert proxy.turns[0] == 64


async def _refused(awaitable):
    with pytest.raises(RevisionConflict):
        await awaitable


def _operations(store):
    return (
        lambda: store.append(LOG, batch("a", "b", head=b"h", keep_last=9, expected_revision=0)),
        lambda: store.append(LOG, batch("c", "d", keep_last=3)),
        lambda: store.read(LOG),
        lambda: store.read(LOG, Range(limit=0)),
        lambda: store.read(LOG, Range(after=2, limit=1, newest=True)),
        lambda: store.read(LOG, Range(keys=frozenset("c"))),
        lambda: _refused(store.rewrite(LOG, Rewrite(expected_revision=1, drop_after=0))),
        lambda: store.delete(LOG),
    )


def test_every_key_begins_with_our_name():
    """Every key begins with durably:, as the ACL of the README says."""
    found = keys_of("a space", LOG)
    assert all(key.startswith(b"durably:") for key in (LAYOUT, *_all(found)))


def _all(found):
    return found.hash, found.order, found.listing
