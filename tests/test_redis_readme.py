"""What the README of the Redis backend says is so."""

import re
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.asyncio.sentinel import Sentinel

from durably.logstore import Batch, NewRecord, Range, Rewrite
from durably_redis import RedisLogStore, Settings
from durably_redis._url import _OPTIONS, _TLS
from logs import LOG, batch, keys, log, unkeyed
from redis_servers import HOST, free_port, namespace

pytest_plugins = ["redis_fixtures"]
pytestmark = [pytest.mark.xdist_group("redis"), pytest.mark.timeout(60)]

README = Path(__file__).parents[1] / "backends/redis/README.md"
TEXT = README.read_text("utf-8")


def test_the_readme_lists_all_options():
    """The table of options names each that a URL may have, and no other."""
    table = TEXT.partition("| option |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == {*_OPTIONS, *_TLS}


async def _use(store):
    """Use every operation, every range and every way to change a log."""
    created = await store.append(LOG, batch("a", "b", head=b"h", keep_last=5))
    await store.append(LOG, batch("c", keep_last=2))
    for span in (
        Range(),
        Range(limit=0),
        Range(newest=True),
        Range(after=1),
        Range(keys=frozenset("c")),
    ):
        assert await store.read(LOG, span)
    change = Rewrite(
        expected_revision=created.revision + 1,
        drop=frozenset({2}),
        replace={3: NewRecord(data=b"x")},
        head=b"i",
    )
    await store.rewrite(LOG, change)
    await store.append(log("ghost"), Batch(head=b"h"))
    assert len((await store.list("session", with_state=True)).items) == 2
    assert await store.delete(LOG)


@pytest.mark.parametrize("ttl", [None, 1000.0])
async def test_the_user_of_the_readme_may_do_all_there_is_to_do(own_server, keep, ttl):
    """The commands that the README permits are enough for all operations, ttl or not."""
    server = own_server()
    (line,) = re.findall(r"^ACL SETUSER .*$", TEXT, re.MULTILINE)
    known = [one for one in line.split()[1:] if "setinfo" not in one]  # Redis 7.2 has it
    with server.client() as client:
        assert client.execute_command("ACL", *known) == b"OK"
        options = {"username": "agents", "password": "password"}
        settings = Settings(host=HOST, port=server.port, db=1, **options)
        store = keep(RedisLogStore(settings, ttl=ttl))
        await _use(store)
        found = store._keys(log("ghost"))
        with server.client(db=1) as other:
            other.unlink(found.hash, found.order)
        assert (await store.list("session")).items == ()
        assert "unknown" in (await store.describe())["survives"]
        client.execute_command("ACL", "SETUSER", "agents", "+info", "+config|get")
        assert "memory alone" in (await store.describe())["survives"]


@pytest.mark.xdist_group("redis-cluster")
async def test_the_user_of_the_readme_may_use_a_cluster(cluster, keep):
    """With the two commands that the README adds the same user is enough on a Cluster."""
    (line,) = re.findall(r"^ACL SETUSER .*$", TEXT, re.MULTILINE)
    known = [one for one in line.split()[1:] if "setinfo" not in one]
    for node in cluster.nodes:
        with node.client() as client:
            client.execute_command("ACL", *known, "+cluster", "+command")
    options = {"username": "agents", "password": "password"}
    client = keep(cluster.client(**options))
    await _use(keep(RedisLogStore(client=client, namespace=namespace())))
    for node in cluster.nodes:
        with node.client() as blocking:
            blocking.execute_command("ACL", "DELUSER", "agents")


async def test_a_client_that_sentinel_gave_follows_the_primary(own_server, keep):
    """What Sentinel.master_for returns is taken as a client, and asks Sentinel where to go."""
    primary = own_server()

    class FakeSentinel(Sentinel):
        async def discover_master(self, service_name):
            assert service_name == "agents"
            return HOST, primary.port

    asked = FakeSentinel([(HOST, free_port())])
    client = keep(asked.master_for("agents"))
    store = keep(RedisLogStore(client=client, namespace=namespace()))
    await store.append(LOG, batch("a"))
    primary.stop()
    primary = own_server()
    assert (await store.append(LOG, batch("b"))).seq == 1
    assert await keys(store) == ["b"]
    for one in asked.sentinels:
        await one.aclose()


async def test_a_record_takes_the_memory_that_the_readme_says(server, keep):
    """The server's own count of a log's bytes is near the README's numbers."""
    store = keep(server.store())
    found = re.search(r"2,150 bytes takes about ([\d,]+) bytes", TEXT)
    small = re.search(r"one record of 500\s+bytes about ([\d,]+)\.", TEXT)
    a_record, a_log = (int(one[1].replace(",", "")) for one in (found, small))
    for _ in range(300):
        await store.append(LOG, unkeyed(bytes(2150)))
    await store.append(log("small"), unkeyed(bytes(500)))
    with server.client() as client:
        assert _size(client, store, LOG) / 300 == pytest.approx(a_record, rel=0.1)
        assert _size(client, store, log("small")) == pytest.approx(a_log, rel=0.2)


def _size(client, store, one):
    found = store._keys(one)
    return sum(client.memory_usage(key, samples=0) for key in (found.hash, found.order))


async def test_the_keys_are_those_of_the_readme(server, keep):
    """The types of a log's keys are as the table of keys says, and so are their names."""
    store = keep(server.store(namespace="readme"))
    await store.append(LOG, batch("a"))
    found = store._keys(LOG)
    shape = re.compile(rb"durably:\{readme:session:[0-3][0-9a-f]\}:(h:a log|o:a log|listing)")
    with server.client() as client:
        kinds = [client.type(key) for key in (found.hash, found.order, found.listing)]
    assert kinds == [b"hash", b"zset", b"zset"]
    assert all(shape.fullmatch(key) for key in (found.hash, found.order, found.listing))
    await store.delete(LOG)


async def test_the_example_of_the_readme_works(server, keep):
    """A storage over a client of the user's, as the README makes it."""
    code = TEXT.partition("```python\n")[2].partition("```")[0]
    code = code.replace("6379", str(server.port))
    names = {}
    exec(code, names)  # noqa: S102 - our own README
    client = keep(names["client"])
    assert isinstance(client, Redis)
    async with names["storage"] as storage:
        await storage.ping()
    assert await client.ping()
