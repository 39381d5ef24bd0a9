"""Opening and closing Redis storages: URLs, layouts, loops, and whose client it is."""

import asyncio
import gc
import importlib
import subprocess
import sys

import pytest
from redis.asyncio import Redis

import durably
from durably import ForeignData, InvalidUrl, MigrationError, SchemaTooNew, StorageClosed, WrongLoop
from durably.logstore import Rewrite
from durably.urls import parse_url
from durably_redis import RedisLogStore, Settings, _layout
from durably_redis._calls import plain
from durably_redis._url import open_url
from logs import LOG, batch, keys
from redis_proxy import Proxy
from redis_servers import HOST, Server, dump, namespace

pytest_plugins = ["redis_fixtures"]
pytestmark = [pytest.mark.xdist_group("redis"), pytest.mark.timeout(60)]


def _settings(url):
    store = open_url(parse_url(url))
    return store, store._server.client.connection_pool.connection_kwargs


def test_a_url_says_it_all():
    """Host, port, database, user, password, time-out, connections and namespace are taken."""
    url = "redis://u%40x:p%2Fw%23@example.org:7000/3?timeout=2.5&max_connections=7&namespace=n%7Bm"
    store, found = _settings(url)
    wanted = {"host": "example.org", "port": 7000, "db": 3, "username": "u@x", "password": "p/w#"}
    assert {name: found[name] for name in wanted} == wanted
    assert found["socket_timeout"] == found["socket_connect_timeout"] == 1.25
    assert store._server.client.connection_pool.max_connections == 7
    assert store._namespace == "n{m"


def test_a_url_may_leave_out_nearly_all():
    """Without parts it is database 0 of the default port of this host, without a password."""
    for url in ("redis://", "redis://localhost", "redis://localhost/", "redis://:6379/0"):
        store, found = _settings(url)
        wanted = {"host": "localhost", "port": 6379, "db": 0, "username": None, "password": None}
        assert {name: found.get(name) for name in wanted} == wanted
        assert (store._namespace, store._ttl) == ("", "")
    assert _settings("redis://[::1]:7000")[1]["host"] == "::1"
    assert str(Settings(host="::1", port=7000)) == "Redis at [::1]:7000"


@pytest.mark.parametrize(
    "rest",
    [
        "localhost/x",
        "localhost/0/1",
        "localhost/-1",
        "localhost/123456",
        "localhost/٣",
        "localhost?timeout=0",
        "localhost?timeout=-1",
        "localhost?timeout=nan",
        "localhost?timeout=inf",
        "localhost?timeout=4000",
        "localhost?timeout=x",
        "localhost?max_connections=0",
        "localhost?max_connections=1.5",
        "localhost?max_connections=1001",
        "localhost?time_out=1",
        "localhost?ssl_ca_certs=x",
        "localhost:port",
    ],
)
def test_a_url_that_cannot_be_used_is_refused(rest):
    """What is no database, number or option is an InvalidUrl, and the password is not told."""
    with pytest.raises(InvalidUrl) as caught:
        durably.open(f"redis://user:pa55word@{rest}")
    assert "pa55word" not in str(caught.value)
    with pytest.raises(InvalidUrl):
        durably.open("rediss://localhost?ssl_check_hostname=maybe")


def test_a_store_takes_settings_or_a_client():
    """Both, or neither, is refused, and so are times that are none."""
    client = Redis()
    for options in (
        {},
        {"settings": Settings(), "client": client},
        {"client": client, "timeout": 0},
        {"client": client, "timeout": -1.0},
        {"client": client, "ttl": 0},
        {"client": client, "ttl": float("nan")},
        {"client": client, "ttl": 10.0**11},
    ):
        with pytest.raises(InvalidUrl):
            RedisLogStore(**options)
    with pytest.raises(durably.InvalidId):
        RedisLogStore(client=client, namespace="\x00")


async def test_a_client_of_the_users_is_never_closed(server):
    """Closing a store leaves the client that was given open, and closes the store's own."""
    client = Redis(host=HOST, port=server.port)
    given = RedisLogStore(client=client, namespace=namespace())
    await given.append(LOG, batch("a"))
    await given.aclose()
    assert any(one.is_connected for one in client.connection_pool._available_connections)
    assert await client.ping()
    with pytest.raises(StorageClosed):
        await given.read(LOG)
    await client.aclose()
    own = server.store()
    await own.append(LOG, batch("a"))
    await own.aclose()
    pool = own._server.client.connection_pool
    assert not any(one.is_connected for one in pool._available_connections)


async def test_a_closed_store_stays_closed(server):
    """Closing twice does nothing; each operation afterwards, of views too, is StorageClosed."""
    store = server.store()
    view = store.scoped("other")
    await store.append(LOG, batch("a"))
    await store.aclose()
    await store.aclose()
    for one in (store, view):
        for operation in (
            lambda one=one: one.append(LOG, batch("a")),
            lambda one=one: one.read(LOG),
            lambda one=one: one.rewrite(LOG, Rewrite(expected_revision=1)),
            lambda one=one: one.delete(LOG),
            lambda one=one: one.list("session"),
            lambda one=one: one.describe(),
        ):
            with pytest.raises(StorageClosed):
                await operation()
    unused = server.store()
    await unused.aclose()
    with pytest.raises(StorageClosed):
        await unused.read(LOG)


async def test_a_cancelled_close_closes_all_the_same(server):
    """A close that is cancelled while it waits goes on; the next one waits for it."""
    store = server.store()
    await store.append(LOG, batch("a"))
    sent = asyncio.ensure_future(store.append(LOG, batch("b")))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(store.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    await store.aclose()
    assert (await sent).seq == 2
    pool = store._server.client.connection_pool
    assert not any(one.is_connected for one in pool._available_connections)


def test_a_store_belongs_to_the_loop_it_was_first_used_in(server):
    """A store made outside any loop works in the first; a second one is told WrongLoop."""
    store = server.store()

    async def first():
        await store.append(LOG, batch("a"))

    async def second():
        with pytest.raises(WrongLoop):
            await store.append(LOG, batch("b"))
        await store.aclose()

    with asyncio.Runner() as runner:
        runner.run(first())
        asyncio.run(second())
        runner.run(store._server._client.aclose())
    gc.collect()


def test_a_program_that_forgets_to_close_ends(server):
    """A store that is left open keeps no process alive."""
    script = (
        "import asyncio, sys, durably\n"
        "async def main():\n"
        "    storage = durably.open(sys.argv[1])\n"
        "    await storage.sessions.append('s', [])\n"
        "    print('stored')\n"
        "asyncio.run(main())\n"
    )
    url = f"{server.url}?namespace=forgotten"
    done = subprocess.run(
        [sys.executable, "-c", script, url], capture_output=True, timeout=30, check=False
    )
    assert (done.stdout, done.returncode) == (b"stored\n", 0), done.stderr


def test_hiredis_is_used_where_it_is_installed(server):
    """The parser of our connections is hiredis's."""
    importlib.import_module("hiredis")
    pool = server.store()._server.client.connection_pool
    assert "Hiredis" in pool.make_connection()._parser.__class__.__name__


@pytest.fixture(scope="module")
def migrated_server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("redis-layouts")) as server:
        yield server


@pytest.fixture
def empty_server(migrated_server):
    """A server of this file's own, without a key."""
    with migrated_server.client() as client:
        client.flushall()
    return migrated_server


async def test_looking_into_an_empty_database_writes_nothing(empty_server, keep):
    """Opening, reading and listing leave an empty database empty; the first change marks it."""
    store = keep(empty_server.store())
    assert await store.read(LOG) is None
    assert (await store.list("session")).items == ()
    assert await store.delete(LOG) is False
    with empty_server.client() as client:
        assert dump(client) == {}
        await store.append(LOG, batch("a"))
        assert client.get("durably:layout") == b"1"


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("2", SchemaTooNew),
        ("999999999", SchemaTooNew),
        ("9" * 5000, ForeignData),
        ("", ForeignData),
        ("0", ForeignData),
        ("-1", ForeignData),
        ("theirs", ForeignData),
        (b"\xff", ForeignData),
        ([b"a"], ForeignData),
    ],
)
async def test_a_newer_or_foreign_layout_is_refused_untouched(empty_server, keep, value, error):
    """Nothing is read and not a byte changed where the layout is another's."""
    filled = keep(empty_server.store(namespace="n"))
    await filled.append(LOG, batch("a"))
    with empty_server.client() as client:
        client.delete("durably:layout")
        if isinstance(value, list):
            client.rpush("durably:layout", *value)
        else:
            client.set("durably:layout", value)
        before = dump(client)
        for operation in (
            lambda one: one.append(LOG, batch("b")),
            lambda one: one.read(LOG),
            lambda one: one.delete(LOG),
            lambda one: one.list("session"),
            lambda one: one.describe(),
        ):
            store = keep(empty_server.store(namespace="n"))
            with pytest.raises(error) as caught:
                await operation(store)
            assert caught.value.hint
        with pytest.raises(error):
            async with durably.open(empty_server.url):
                pass
        assert dump(client) == before


class Steps:
    """Steps of a later version that count how often they were taken, and by how many at once."""

    def __init__(self) -> None:
        self.taken = []
        self.inside = 0

    def __call__(self, name, fail=0):
        async def step(send):
            self.inside += 1
            assert self.inside == 1
            self.taken.append(name)
            await asyncio.sleep(0.02)
            await send(plain("INCR", b"durably:step"))
            self.inside -= 1
            if len(self.taken) <= fail:
                raise RuntimeError("cut off")

        return step


async def _older(server):
    store = server.store(namespace="n")
    await store.append(LOG, batch("a"))
    await store.aclose()


async def test_eight_stores_migrate_a_database_once(empty_server, keep, monkeypatch):
    """Eight openers of a later version end with one layout, each step taken once and alone."""
    await _older(empty_server)
    for turn in range(3):
        steps = Steps()
        monkeypatch.setattr(_layout, "MIGRATIONS", (steps("1 to 2"), steps("2 to 3")))
        with empty_server.client() as client:
            client.set("durably:layout", "1")
            stores = [keep(empty_server.store(namespace="n")) for _ in range(8)]
            answers = await asyncio.gather(
                *(one.append(LOG, batch(f"{turn} {n}")) for n, one in enumerate(stores))
            )
            assert len({answer.seq for answer in answers}) == 8
            assert steps.taken == ["1 to 2", "2 to 3"]
            assert client.get("durably:layout") == b"3"
            assert client.exists("durably:layout:lock") == 0


async def test_an_opener_that_comes_late_takes_no_step_again(empty_server, keep, monkeypatch):
    """Whoever gets the lock after another's migration looks again, and finds nothing due."""
    await _older(empty_server)
    steps = Steps()
    monkeypatch.setattr(_layout, "MIGRATIONS", (steps("1 to 2"),))
    async with Proxy(empty_server.port) as proxy:
        late = keep(RedisLogStore(Settings(host=HOST, port=proxy.port), namespace="n"))
        quick = keep(empty_server.store(namespace="n"))
        held, free = asyncio.Event(), asyncio.Event()

        def wait(command):
            if command[:2] == [b"SET", b"durably:layout:lock"] and not free.is_set():
                held.set()
                return b"-LOADING later\r\n"
            return None

        proxy.answers = wait
        waiting = asyncio.ensure_future(late.read(LOG))
        await held.wait()
        assert await keys(quick) == ["a"]
        free.set()
        await waiting
    assert steps.taken == ["1 to 2"]


async def test_a_step_that_fails_gives_the_lock_back(empty_server, keep, monkeypatch):
    """After a failed step the layout is still the old one, and the next opener takes it again."""
    await _older(empty_server)
    steps = Steps()
    monkeypatch.setattr(_layout, "MIGRATIONS", (steps("1 to 2", fail=1),))
    store = keep(empty_server.store(namespace="n"))
    with pytest.raises(RuntimeError):
        await store.read(LOG)
    with empty_server.client() as client:
        assert client.get("durably:layout") == b"1"
        assert client.exists("durably:layout:lock") == 0
        assert await keys(store) == ["a"]
        assert client.get("durably:layout") == b"2"


async def test_a_lock_that_was_lost_is_left_to_who_has_it(empty_server, keep, monkeypatch):
    """Whoever was too slow, so that another got the lock, does not take it away from that one."""
    await _older(empty_server)

    async def slow(send):
        await send(plain("SET", b"durably:layout:lock", "another's"))

    monkeypatch.setattr(_layout, "MIGRATIONS", (slow,))
    assert await keys(keep(empty_server.store(namespace="n"))) == ["a"]
    with empty_server.client() as client:
        assert client.get("durably:layout:lock") == b"another's"


async def test_a_lock_is_kept_while_a_step_takes_long(empty_server, keep, monkeypatch):
    """The lock outlives a step that takes longer than the lock's own time."""
    await _older(empty_server)
    steps = Steps()
    monkeypatch.setattr(_layout, "LOCK_SECONDS", 0.3)

    async def long(send):
        await asyncio.sleep(1)
        await steps("1 to 2")(send)

    monkeypatch.setattr(_layout, "MIGRATIONS", (long,))
    stores = [keep(empty_server.store(namespace="n")) for _ in range(2)]
    first, second = await asyncio.gather(*map(keys, stores), return_exceptions=True)
    assert steps.taken == ["1 to 2"]
    assert ["a"] in (first, second)
    assert all(one == ["a"] or isinstance(one, MigrationError) for one in (first, second))


async def test_a_lock_of_somebody_who_died_expires(empty_server, keep, monkeypatch):
    """A lock that is left has a time to live, is waited for, and then taken."""
    await _older(empty_server)
    steps = Steps()
    monkeypatch.setattr(_layout, "MIGRATIONS", (steps("1 to 2"),))
    with empty_server.client() as client:
        client.set("durably:layout:lock", "dead", px=300)
        assert await keys(keep(empty_server.store(namespace="n"))) == ["a"]
        client.set("durably:layout", "1")
        client.set("durably:layout:lock", "alive")
        monkeypatch.setattr(_layout, "LOCK_SECONDS", 0.1)
        with pytest.raises(MigrationError, match="another process"):
            await keep(empty_server.store(namespace="n")).read(LOG)
        assert client.get("durably:layout:lock") == b"alive"
    assert steps.taken == ["1 to 2"]


async def test_a_newer_version_that_marks_first_is_noticed(empty_server, keep):
    """A store that was opened on an empty database does not write into a newer layout."""
    store = keep(empty_server.store())
    assert await store.read(LOG) is None
    with empty_server.client() as client:
        client.set("durably:layout", "2")
        with pytest.raises(SchemaTooNew):
            await store.append(LOG, batch("a"))
        assert list(client.scan_iter()) == [b"durably:layout"]
