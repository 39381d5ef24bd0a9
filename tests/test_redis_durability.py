"""What a server keeps: kill -9 amid appends, what describe tells, and how long logs live."""

import asyncio
import statistics

import pytest
from redis.asyncio import Redis

import durably
from cli_runs import objects, run_apart
from durably import InvalidUrl
from durably.logstore import Batch, NewRecord, Rewrite
from durably_redis import RedisLogStore
from durably_redis._upkeep import _MEANINGS
from logs import LOG, batch, keys, log, state, unkeyed
from redis_servers import HOST, namespace

pytest_plugins = ["redis_fixtures"]
pytestmark = [pytest.mark.xdist_group("redis"), pytest.mark.timeout(60)]

APPENDS = 1000


async def test_what_was_acknowledged_survives_kill_9_once(durable_server, keep):
    """Amid 1,000 appends kill -9 with appendfsync always leaves what was acknowledged, once.

    The store finds the server again by itself, and stores the others with their repetition.
    """
    server = durable_server
    with server.client() as client:
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        assert client.config_get("appendfsync") == {"appendfsync": "always"}
        before = client.info("server")["run_id"]
    space = namespace()
    store = keep(server.store(namespace=space, timeout=40))
    await store.append(LOG, batch("first"))
    jobs = [
        asyncio.ensure_future(store.append(LOG, unkeyed(b"%d" % number)))
        for number in range(APPENDS)
    ]
    await asyncio.wait(jobs[:100])
    await asyncio.sleep(0.002)
    acknowledged = {number for number, job in enumerate(jobs) if job.done()}
    server.kill()
    assert 100 <= len(acknowledged) < APPENDS
    server.start()
    with server.client() as client:
        assert client.info("server")["run_id"] != before
        hash_ = client.hgetall(store._keys(LOG).hash)
    kept = [int(data) for name, data in hash_.items() if name[:1] == b"#" and name != b"#1"]
    assert acknowledged <= set(kept)
    assert len(kept) == len(set(kept))
    answers = await asyncio.gather(*jobs)
    stored = await store.read(LOG)
    assert sorted(int(one.data) for one in stored.records[1:]) == list(range(APPENDS))
    assert len({answer.seq for answer in answers}) == APPENDS
    by_seq = {one.seq: int(one.data) for one in stored.records[1:]}
    assert [by_seq[answer.seq] for answer in answers] == list(range(APPENDS))
    await store.delete(LOG)


async def test_describe_tells_what_the_server_is_set_to(server, durable_server, keep):
    """The engine's version, its settings as it answers them, and what they mean in words."""
    found = await keep(server.store()).describe()
    assert found.pop("engine").startswith(("Redis ", "Valkey "))
    assert found == {
        "appendonly": "no",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory": "0",
        "maxmemory-policy": "noeviction",
        "survives": "nothing: the server keeps its data in memory alone",
    }
    found = await keep(durable_server.store()).describe()
    assert (found["appendonly"], found["appendfsync"]) == ("yes", "always")
    assert found["survives"] == "a crash of the server, and power loss"


SETTINGS = [
    ({"appendonly": "yes", "appendfsync": "everysec"}, "the last two seconds"),
    ({"appendonly": "yes", "appendfsync": "no"}, "power loss may take more"),
    ({"save": "3600 1"}, "last snapshot"),
    ({"maxmemory": "1gb", "maxmemory-policy": "allkeys-lru"}, "may evict any log"),
    ({"maxmemory": "1gb", "maxmemory-policy": "noeviction"}, "in memory alone"),
    ({"maxmemory": "0", "maxmemory-policy": "allkeys-lru"}, "in memory alone"),
]


async def test_what_survives_follows_from_the_settings(own_server, keep):
    """Each setting that decides what is kept changes what describe says of it."""
    server = own_server()
    store = keep(server.store())
    with server.client() as client:
        plain = client.config_get("*")
        for settings, words in SETTINGS:
            for name, value in settings.items():
                client.config_set(name, value)
            assert words in (await store.describe())["survives"]
            for name in settings:
                client.config_set(name, plain[name])


@pytest.mark.parametrize("decoded", [False, True])
@pytest.mark.parametrize("protocol", [2, 3])
async def test_describe_is_one_round_trip_with_any_client(server, keep, decoded, protocol):
    """A client of the user's, whatever it decodes, gives the same facts."""
    client = keep(Redis(host=HOST, port=server.port, decode_responses=decoded, protocol=protocol))
    found = await keep(RedisLogStore(client=client)).describe()
    assert found == await keep(server.store()).describe()


async def test_a_server_that_does_not_tell_is_described_as_unknown(own_server, keep):
    """Without the permission for CONFIG and INFO describe promises nothing, and does not fail."""
    server = own_server()
    with server.client() as client:
        client.execute_command(
            "ACL", "SETUSER", "default", "-config", "-info", "+client", "on", "nopass"
        )
        store = keep(server.store())
        found = await store.describe()
        assert set(found.values()) == {"unknown: the server does not tell"}
        assert (await store.append(LOG, batch("a"))).seq == 1


@pytest.mark.xdist_group("redis-cluster")
async def test_a_cluster_is_described_by_its_worst_node(cluster, keep):
    """Of a Cluster every primary is asked; what differs is listed, the worst decides."""
    client = keep(cluster.client())
    store = keep(RedisLogStore(client=client, namespace=namespace()))
    with cluster.nodes[0].client() as node:
        node.config_set("appendonly", "yes")
        found = await store.describe()
        node.config_set("appendonly", "no")
    assert found["engine"].endswith("a Cluster of 3 primaries")
    assert found["appendonly"] == "no, yes"
    assert found["survives"] == _MEANINGS[1]


async def test_doctor_tells_what_the_server_keeps(durable_server):
    """What durably doctor prints are the settings the server answers, and their meaning."""
    told = await asyncio.to_thread(run_apart, "doctor", durable_server.url, "--json", "--pings", 3)
    (found,) = objects(told)
    assert found["reachable"] is True
    engine = found["engine"]
    assert (engine["appendonly"], engine["appendfsync"]) == ("yes", "always")
    assert engine["survives"] == "a crash of the server, and power loss"
    assert found["backend"]["distribution"] == "durably-redis"


async def test_a_log_without_ttl_lives_for_ever(server, keep):
    """No key of ours gets a time to live without asking, by no operation."""
    store = keep(server.store())
    revision = (await store.append(LOG, batch("a", "b", head=b"h"))).revision
    await store.append(LOG, batch("c", keep_last=2))
    await store.rewrite(LOG, Rewrite(expected_revision=revision + 1, drop=frozenset({2})))
    with server.client() as client:
        assert _ttls(client, store) == [-1, -1]
        assert client.pttl("durably:layout") == -1
        assert client.pttl(store._keys(LOG).listing) == -1


def _ttls(client, store, one=LOG):
    found = store._keys(one)
    return [client.pttl(found.hash), client.pttl(found.order)]


@pytest.mark.parametrize("change", ["append", "head", "rewrite", "empty"])
async def test_ttl_slides_with_each_change_on_every_key(server, keep, change):
    """A change sets the time to live anew, the same on every key of the log, to the millisecond."""
    store = keep(server.store(ttl=1000))
    revision = (await store.append(LOG, batch("a", "b"))).revision
    with server.client() as client:
        found = store._keys(LOG)
        for key in (found.hash, found.order):
            client.pexpire(key, 5000)
        if change == "append":
            await store.append(LOG, batch("c", keep_last=1))
        elif change == "head":
            await store.append(LOG, Batch(head=b"h"))
        elif change == "rewrite":
            new = {1: NewRecord(data=b"x")}
            await store.rewrite(LOG, Rewrite(expected_revision=revision, replace=new))
        else:
            await store.rewrite(LOG, Rewrite(expected_revision=revision, drop_after=0))
            await store.append(LOG, batch("d"))
        assert all(900_000 < one <= 1_000_000 for one in _ttls(client, store))
        assert _apart(client, found) == 0


def _apart(client, found):
    """Return how many milliseconds lie between the ends of a log's two keys."""
    script = "return redis.call('PTTL', KEYS[1]) - redis.call('PTTL', KEYS[2])"
    measured = (client.eval(script, 2, found.hash, found.order) for _ in range(31))
    return statistics.median(measured)


async def test_reading_and_duplicates_do_not_prolong_a_log(server, keep):
    """What changes nothing leaves the time to live as it is."""
    store = keep(server.store(ttl=1000))
    sent = batch("a")
    await store.append(LOG, sent)
    with server.client() as client:
        found = store._keys(LOG)
        for key in (found.hash, found.order):
            client.pexpire(key, 5000)
        assert (await store.append(LOG, sent)).duplicate
        await store.read(LOG)
        await store.list("session", with_state=True)
        assert all(0 < one <= 5000 for one in _ttls(client, store))


async def test_a_log_expires_whole_and_leaves_the_listing(server, keep):
    """A log that was not changed for its time is gone with every key; its id begins anew."""
    store = keep(server.store(ttl=0.15))
    first = await store.append(LOG, batch("a", "b", head=b"h"))
    await asyncio.sleep(0.2)
    assert await store.read(LOG) is None
    assert (await store.list("session")).items == ()
    with server.client() as client:
        found = store._keys(LOG)
        assert client.exists(found.hash, found.order, found.listing) == 0
    again = await store.append(LOG, batch("a"))
    assert (again.seq, again.duplicate) == (1, False)
    assert again.revision != first.revision + 1


async def test_logs_that_expire_while_they_are_read_are_never_half_there(server, keep):
    """Logs that are read again and again until they are gone are whole each time before."""
    store = keep(server.store(ttl=0.1))
    logs = [log(f"{number}") for number in range(20)]
    whole = 0
    await asyncio.gather(*(store.append(one, batch("a", "b", "c")) for one in logs))
    while logs:
        found = await asyncio.gather(*(store.read(one) for one in logs))
        assert {len(one.records) for one in found if one is not None} <= {3}
        logs = [one for one, there in zip(logs, found, strict=True) if there is not None]
        whole += len(logs)
    assert whole > 0


async def test_a_store_without_ttl_takes_a_log_for_ever(server, keep):
    """A change by a store that asks for no time to live ends the one that was set before."""
    space = namespace()
    short, lasting = (
        keep(server.store(namespace=space, ttl=1000)),
        keep(server.store(namespace=space)),
    )
    revision = (await short.append(LOG, batch("a"))).revision
    await lasting.append(LOG, batch("b"))
    await short.append(log("other"), batch("a"))
    other = (await state(lasting, log("other"))).revision
    await lasting.rewrite(log("other"), Rewrite(expected_revision=other, head=b"h"))
    with server.client() as client:
        assert _ttls(client, short) == [-1, -1]
        assert _ttls(client, short, log("other")) == [-1, -1]
    assert await keys(short) == ["a", "b"]
    assert revision


FORMS = {"500ms": 500, "90s": 90_000, "90": 90_000, "15m": 900_000, "12h": 43_200_000}
FORMS |= {"30d": 2_592_000_000, "1.5h": 5_400_000, "0.5s": 500}


@pytest.mark.parametrize(("text", "milliseconds"), FORMS.items())
async def test_ttl_is_a_duration(server, text, milliseconds):
    """A number with ms, s, m, h or d; seconds where nothing is said."""
    space = namespace().replace(" ", "-")
    async with durably.open(f"{server.url}?ttl={text}&namespace={space}") as storage:
        await storage.sessions.append("s", [])
        store = storage.log_store._store
        with server.client() as client:
            left = _ttls(client, store, log("s"))
    assert all(one == -2 or milliseconds - 20_000 < one <= milliseconds for one in left)


@pytest.mark.parametrize(
    "text", ["", "0", "0s", "-1s", "1y", "d", "1 d", "٣s", "1e3s", "inf", "9" * 15 + "d", "nan"]
)
def test_what_is_no_duration_is_refused(text):
    """Zero, negative, too long, and what is no number is an InvalidUrl before any connection."""
    with pytest.raises(InvalidUrl, match="ttl"):
        durably.open(f"redis://localhost/?ttl={text}")
