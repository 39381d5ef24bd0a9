"""What Redis refuses is a typed error that says what to do, and never repeats a password."""

import asyncio
import ssl
import subprocess
import traceback

import pytest
import redis
from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.exceptions import RedisClusterException

import durably
from durably import DurablyError, ForeignData, Unavailable, Unsupported
from durably.logstore import Batch, Rewrite
from durably_redis import RedisLogStore, Settings
from logs import LOG, batch, keys, log, unkeyed
from redis_proxy import Proxy
from redis_servers import HOST, SLOTS, free_port, namespace, until

pytest_plugins = ["redis_fixtures"]
pytestmark = [pytest.mark.xdist_group("redis"), pytest.mark.timeout(60)]

SECRET = "pa55 w/rd@?#"  # noqa: S105 - not told anywhere
NOT_TOLD = "pa55"


async def refused(awaitable, error=Unavailable, match=None):
    """Await what must fail, and return the error: typed, with a remedy and its cause."""
    with pytest.raises(error, match=match) as caught:
        await awaitable
    assert type(caught.value) is error
    assert caught.value.hint
    assert isinstance(caught.value, DurablyError)
    told = "".join(traceback.format_exception(caught.value))
    assert NOT_TOLD not in told
    assert "stored content" not in told
    return caught.value


CONTENT = Batch(records=unkeyed(b"stored content").records, head=b"stored content")


async def test_a_server_that_is_gone_is_unavailable_within_the_time(keep):
    """Nobody listens: every operation is Unavailable, naming the place, and none waits for ever."""
    port = free_port()
    store = keep(RedisLogStore(Settings(host=HOST, port=port, timeout=0.4)))
    for operation in (
        lambda: store.append(LOG, CONTENT),
        lambda: store.read(LOG),
        lambda: store.rewrite(LOG, Rewrite(expected_revision=1)),
        lambda: store.delete(LOG),
        lambda: store.list("session"),
        store.describe,
    ):
        error = await refused(operation(), match=f"{HOST}:{port}")
        assert error.__cause__ is not None
    with pytest.raises(Unavailable):
        async with durably.open(f"redis://:{NOT_TOLD}@{HOST}:{port}/?timeout=0.1"):
            pass


async def test_callers_that_wait_together_are_all_told(keep):
    """64 callers and a listing of 64 commands leave no error that nobody took."""
    unheard = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    store = keep(RedisLogStore(Settings(host=HOST, port=free_port(), timeout=0.2)))
    store._server._looked = store._server._marked = True
    jobs = [store.append(LOG, CONTENT) for _ in range(64)]
    answers = await asyncio.gather(*jobs, store.list("session"), return_exceptions=True)
    assert [type(one) for one in answers] == [Unavailable] * 65
    del answers
    await asyncio.sleep(0)
    assert unheard == []


async def test_a_replica_is_read_and_not_written(own_server, keep):
    """READONLY says to connect to the primary; what is there can be read."""
    primary, replica = own_server(), own_server()
    space = namespace()
    store = keep(primary.store(namespace=space))
    await store.append(LOG, batch("a"))
    with primary.client() as old, replica.client() as new:
        new.replicaof(HOST, primary.port)
        await until(lambda: new.dbsize() == old.dbsize())
    copy = keep(replica.store(namespace=space))
    assert await keys(copy) == ["a"]
    revision = (await copy.read(LOG)).state.revision
    for operation in (
        lambda: copy.append(LOG, CONTENT),
        lambda: copy.rewrite(LOG, Rewrite(expected_revision=revision, head=b"stored content")),
        lambda: copy.delete(LOG),
    ):
        await refused(operation(), match="read-only replica.*primary")


async def test_a_full_server_stores_nothing(own_server, keep):
    """OOM says to raise maxmemory; of the batch nothing is there, and reads go on."""
    server = own_server()
    store = keep(server.store())
    await store.append(LOG, batch("a"))
    with server.client() as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "1mb")
        before = await store.read(LOG)
        assert client.info("memory")["used_memory"] > 1_000_000 - 200_000
        client.config_set("maxmemory", "1")
        await refused(store.append(LOG, CONTENT), match="out of memory.*maxmemory")
        change = Rewrite(expected_revision=before.state.revision, head=b"stored content")
        await refused(store.rewrite(LOG, change), match="out of memory")
        assert await store.read(LOG) == before
        assert await store.delete(LOG) is True
        client.config_set("maxmemory", "0")
    assert (await store.append(LOG, batch("a"))).seq == 1


async def test_a_password_that_is_missing_or_wrong_is_told_apart(own_server, keep):
    """NOAUTH asks for a password, a wrong one is refused at once; the right one is taken."""
    server = own_server("--requirepass", SECRET)
    store = keep(server.store())
    await refused(store.append(LOG, CONTENT), match="asks for a password")
    settings = Settings(host=HOST, port=server.port, password=f"{SECRET} not")
    wrong = keep(RedisLogStore(settings))
    assert NOT_TOLD not in f"{settings!r} {settings} {wrong!r} {vars(wrong)}"
    await refused(wrong.append(LOG, CONTENT), match="refuses the user or the password")
    url = f"redis://default:pa55%20w%2Frd%40%3F%23@{HOST}:{server.port}/0"
    async with durably.open(url) as storage:
        await storage.ping()
        assert NOT_TOLD not in repr(storage.log_store)


async def test_a_password_where_none_is_set_is_told(server, keep):
    """A password that the server does not want is an error that says to look at the URL."""
    store = keep(
        RedisLogStore(Settings(host=HOST, port=server.port, username="u", password=SECRET))
    )
    await refused(store.read(LOG), match="refuses the user or the password")


RULES = [
    pytest.param(["~durably:*", "+@all", "-evalsha", "-eval"], id="no scripts"),
    pytest.param(["~durably:*", "+@all", "-hset", "-hget"], id="no hashes"),
    pytest.param(["~other:*", "+@all"], id="other keys"),
]


@pytest.mark.parametrize("rules", RULES)
async def test_a_user_without_permission_is_told_what_to_permit(own_server, keep, rules):
    """NOPERM, of the command or within the script, points to the commands of the README."""
    server = own_server()
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "u", "on", f">{NOT_TOLD}", *rules)
    settings = Settings(host=HOST, port=server.port, username="u", password=NOT_TOLD)
    store = keep(RedisLogStore(settings))
    await refused(store.append(LOG, CONTENT), match="does not permit.*README")


async def test_a_server_that_cannot_save_is_told(own_server, keep):
    """MISCONF says to look at the server's disk."""
    server = own_server()
    store = keep(server.store(timeout=2))
    await store.append(LOG, batch("a"))
    with server.client() as client:
        client.config_set("save", "3600 1")
        (server.folder / "dump.rdb").mkdir()
        client.bgsave()
        await until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")
        await refused(store.append(LOG, CONTENT), match="cannot save.*disk")
        assert await keys(store) == ["a"]
        client.config_set("save", "")


async def test_too_few_replicas_are_told(own_server, keep):
    """NOREPLICAS says to look at the replicas."""
    store = keep(own_server("--min-replicas-to-write", "1").store())
    await refused(store.append(LOG, CONTENT), match="too few replicas")


async def test_a_busy_server_is_waited_for(own_server, keep):
    """A script of somebody's that runs too long is waited out, and told where it does not end."""
    server = own_server("--lua-time-limit", "5")
    store = keep(server.store(timeout=0.5))
    await store.append(LOG, batch("a"))
    endless = asyncio.create_task(asyncio.to_thread(server.client().eval, "while true do end", 0))
    with server.client() as client:
        await asyncio.sleep(0.2)
        await refused(store.append(LOG, CONTENT), match="busy with a script")
        waiting = asyncio.create_task(keep(server.store(timeout=10)).append(LOG, batch("b")))
        await asyncio.sleep(0.1)
        client.script_kill()
    await asyncio.gather(endless, return_exceptions=True)
    assert (await waiting).seq == 1


LOADING = b"-LOADING Redis is loading the dataset in memory\r\n"


async def test_a_server_that_is_loading_is_waited_for(server, keep):
    """LOADING is tried again until the time-out, and told then."""
    async with Proxy(server.port) as proxy:
        settings = Settings(host=HOST, port=proxy.port, timeout=0.4)
        store = keep(RedisLogStore(settings, namespace=namespace()))
        await store.append(LOG, batch("a"))
        refusals = []

        def answers(command):
            if command[0] != b"EVALSHA" or len(refusals) == limit:
                return None
            refusals.append(command)
            return LOADING

        proxy.answers = answers
        limit = 3
        assert (await store.append(LOG, batch("b"))).seq == 2
        assert len(refusals) == 3
        limit = 10**6
        await refused(store.append(LOG, CONTENT), match="loading its data")
        assert len(refusals) > 5


async def test_a_server_without_a_free_connection_is_told(own_server, keep):
    """A server that has as many clients as it takes is Unavailable, with a remedy."""
    server = own_server("--maxclients", "2")
    with server.client() as one, server.client() as two:
        assert one.ping()
        assert two.ping()
        await refused(keep(server.store(timeout=0.3)).read(LOG), match="no more connections")


async def test_a_pool_of_the_users_that_is_used_up_is_told(server, keep):
    """Where the user's own pool has no connection left, the error says so."""
    client = keep(Redis(host=HOST, port=server.port, max_connections=1))
    store = keep(RedisLogStore(client=client, timeout=0.3))
    taken = await client.connection_pool.get_connection()
    await refused(store.read(LOG), match="pool are in use.*max_connections")
    await client.connection_pool.release(taken)
    assert await store.read(LOG) is None


async def test_a_database_that_there_is_not_is_told(server, keep):
    """A number above the server's databases is an error that names the URL's path."""
    store = keep(RedisLogStore(Settings(host=HOST, port=server.port, db=99)))
    await refused(store.read(LOG), match="no database of this number")


async def test_an_unknown_command_is_told(own_server, keep):
    """A server that has renamed what durably needs is Unsupported."""
    store = keep(own_server("--rename-command", "EVALSHA", "").store())
    await refused(store.append(LOG, CONTENT), error=Unsupported, match="lacks a command")


async def test_a_key_of_our_name_that_is_not_ours_is_foreign(server, keep):
    """A key of another type in the place of ours is ForeignData, and stays as it is."""
    store = keep(server.store())
    found = store._keys(LOG)
    with server.client() as client:
        for key in (found.hash, found.order, found.listing):
            client.set(key, "theirs")
            for operation in (store.append(LOG, CONTENT), store.delete(LOG), store.list("session")):
                try:
                    await operation
                except ForeignData as error:
                    assert error.hint  # noqa: PT017 - some of them do not meet the key
            assert client.get(key) in {b"theirs", None}
            client.delete(key)
        client.set(found.hash, "theirs")
        await refused(store.append(LOG, CONTENT), error=ForeignData)
        assert client.get(found.hash) == b"theirs"
        client.delete(found.hash)


async def test_an_error_that_repeats_what_was_sent_is_no_cause(server, keep, monkeypatch):
    """What redis-py says of a Cluster may repeat a command, so it is not chained to ours."""
    client = keep(Redis(host=HOST, port=server.port))
    store = keep(RedisLogStore(client=client, namespace=namespace(), timeout=0.2))
    await store.append(LOG, batch("a"))

    async def fail(*arguments, **_):
        raise RedisClusterException(f"No targets were found to execute {arguments} command on")

    monkeypatch.setattr(client, "execute_command", fail)
    error = await refused(store.append(LOG, CONTENT))
    assert error.__cause__ is None


@pytest.mark.xdist_group("redis-cluster")
async def test_a_node_of_a_cluster_alone_is_told(cluster, keep):
    """A plain client on one node of a Cluster meets MOVED and is told what to pass."""
    store = keep(cluster.nodes[0].store())
    answers = await asyncio.gather(
        *(store.append(log(f"{number}"), CONTENT) for number in range(40)), return_exceptions=True
    )
    told = [one for one in answers if isinstance(one, Exception)]
    assert {type(one) for one in told} == {Unsupported}
    assert all("node of a Cluster" in str(one) and "RedisCluster" in one.hint for one in told)


async def test_a_cluster_client_on_a_server_alone_is_told(server, keep):
    """A RedisCluster on a server that is none is told what to pass, with no content in it."""
    client = RedisCluster(startup_nodes=[ClusterNode(HOST, server.port)])
    store = keep(RedisLogStore(client=client, timeout=2))
    await refused(store.append(LOG, CONTENT), error=Unsupported, match="no Cluster")
    await client.aclose()


async def test_a_cluster_with_slots_that_nobody_serves_is_told(tmp_path, own_server, keep):
    """CLUSTERDOWN and a slot without a node are Unavailable, with a remedy."""
    server = own_server("--cluster-enabled", "yes")
    store = keep(server.store(timeout=0.3))
    await refused(store.append(LOG, CONTENT), match="Cluster that is down.*slots")
    with server.client() as client:
        client.execute_command("CLUSTER ADDSLOTS", *range(SLOTS // 2))
    client = RedisCluster(
        startup_nodes=[ClusterNode(HOST, server.port)], require_full_coverage=False
    )
    half = keep(RedisLogStore(client=client, timeout=1))
    error = None
    for number in range(20):
        try:
            await half.append(log(f"{number}"), CONTENT)
        except Unavailable as caught:
            error = caught
            break
    assert error.hint
    assert "stored content" not in "".join(traceback.format_exception(error))
    await client.aclose()


def test_a_blocking_client_is_refused():
    """A client of redis, where one of redis.asyncio is needed, is a TypeError at once."""
    with pytest.raises(TypeError, match=r"redis\.asyncio"):
        RedisLogStore(client=redis.Redis())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of the loopback address that signs itself, made by openssl."""
    folder = tmp_path_factory.mktemp("tls")
    made, key = folder / "cert.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=elsewhere"
    names = ["-addext", f"subjectAltName=IP:{HOST}"]
    files = ["-keyout", str(key), "-out", str(made)]
    subprocess.run([*command.split(), *names, *files], check=True, capture_output=True)
    return made, key


@pytest.fixture
async def tls(server, certificate):
    """A proxy that speaks TLS before the server, whose own build may speak none."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    async with Proxy(server.port, ssl=context) as proxy:
        yield proxy


async def test_rediss_speaks_tls(tls, certificate):
    """rediss:// talks TLS, and trusts the authority that the URL names."""
    url = f"rediss://{HOST}:{tls.port}/0?ssl_ca_certs={certificate[0]}&namespace=tls"
    async with durably.open(url) as storage:
        await storage.sessions.append("s", [durably.InputEntry(role="user", content="hi")])
        assert len(await storage.sessions.load("s")) == 1
        await storage.sessions.clear("s")
    assert tls.commands


async def test_rediss_refuses_whom_it_does_not_trust(tls, certificate):
    """A certificate of an unknown authority, or of another host, is refused, with a remedy."""
    with pytest.raises(Unavailable, match=r"not trusted.*ssl_ca_certs"):
        async with durably.open(f"rediss://{HOST}:{tls.port}/0?timeout=2"):
            pass
    other = f"rediss://localhost:{tls.port}/0?ssl_ca_certs={certificate[0]}&timeout=2"
    with pytest.raises(Unavailable, match="not trusted"):
        async with durably.open(other):
            pass
    async with durably.open(f"{other}&ssl_check_hostname=no") as storage:
        await storage.ping()


async def test_redis_without_tls_on_a_tls_port_is_unavailable(tls):
    """Plain text to a server of TLS is Unavailable, and its words mention TLS."""
    with pytest.raises(Unavailable, match=r"TLS|in time"):
        async with durably.open(f"redis://{HOST}:{tls.port}/0?timeout=0.4"):
            pass
