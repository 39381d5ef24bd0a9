"""Calls on their way to Redis: folded, repeated after a lost answer, cancelled at will."""

import asyncio
import contextlib
import os
import random
import signal

import msgspec
import pytest
from redis.asyncio import Redis

from durably import RevisionConflict, Unavailable
from durably.logstore import Batch, NewRecord, Range
from durably_redis import RedisLogStore, Settings
from durably_redis._scripts import APPEND
from logs import LOG, batch, keys, log, state, unkeyed
from peers import peers
from redis_proxy import Proxy
from redis_servers import HOST, namespace, until

pytest_plugins = ["redis_fixtures"]
pytestmark = [pytest.mark.xdist_group("redis"), pytest.mark.timeout(60)]


@pytest.fixture
async def proxy(server):
    async with Proxy(server.port) as proxy:
        yield proxy


def through(proxy, **options):
    """Return a store that talks through a proxy."""
    timeout = options.pop("timeout", 5.0)
    settings = Settings(host=HOST, port=proxy.port, timeout=timeout)
    return RedisLogStore(settings, **{"namespace": namespace(), **options})


async def test_appends_that_wait_together_go_in_few_pipelines(proxy, keep):
    """64 appends at once take at most 3 round trips, and none of them is lost."""
    store = keep(through(proxy))
    await store.append(LOG, batch("first"))
    proxy.forget()
    await asyncio.gather(*(store.append(LOG, batch(f"{number}")) for number in range(64)))
    assert sum(proxy.turns) == 64
    assert len(proxy.turns) <= 3
    assert (await state(store)).record_count == 65


async def test_a_single_caller_waits_for_nobody(proxy, keep):
    """An append alone is sent without any timer: one round trip each, one command each."""
    store = keep(through(proxy))
    await store.append(LOG, batch("first"))
    proxy.forget()
    loop = asyncio.get_running_loop()
    slept = []
    later = loop.call_at
    loop.call_at = lambda when, *rest, **options: (
        slept.append(when - loop.time()),
        later(when, *rest, **options),
    )[1]
    for number in range(10):
        await store.append(LOG, batch(f"{number}"))
    del loop.call_at
    assert proxy.turns == [1] * 10
    assert min(slept) > 1


async def test_a_large_pipeline_is_split(proxy, keep):
    """Records of many bytes that wait together go in pipelines of about 8 MiB."""
    store = keep(through(proxy, timeout=30))
    await store.append(LOG, batch("first"))
    proxy.forget()
    data = bytes(1024 * 1024)
    await asyncio.gather(*(store.append(LOG, unkeyed(data)) for _ in range(24)))
    assert sum(proxy.turns) == 24
    assert max(proxy.turns) <= 8
    await store.delete(LOG)


async def test_whole_reads_keep_off_the_way_of_appends(proxy, keep):
    """Reads of whole logs use other connections than appends, one where there is only one."""
    for connections in (1, 3):
        settings = Settings(host=HOST, port=proxy.port, max_connections=connections)
        store = keep(RedisLogStore(settings, namespace=namespace()))
        await store.append(LOG, batch("a"))
        jobs = [store.read(LOG) for _ in range(20)]
        jobs += [store.append(LOG, batch(f"{number}")) for number in range(20)]
        await asyncio.gather(*jobs)
        assert await keys(store) == ["a", *map(str, range(20))]
        pool = store._server.client.connection_pool
        assert len(pool._available_connections) == connections
        assert not pool._in_use_connections


@pytest.mark.parametrize("at_once", [1, 64])
async def test_scripts_come_back_after_a_flush(server, keep, at_once):
    """After SCRIPT FLUSH every operation goes on, also those folded into one pipeline."""
    store = keep(server.store())
    await store.append(LOG, batch("first"))
    with server.client() as client:
        for number in range(3):
            client.script_flush()
            sent = [batch(f"{number} {one}") for one in range(at_once)]
            answers = await asyncio.gather(*(store.append(LOG, one) for one in sent))
            assert not any(answer.duplicate for answer in answers)
            client.script_flush()
            found = await asyncio.gather(*(store.read(LOG) for _ in range(at_once)))
            assert {one.state.record_count for one in found} == {1 + (number + 1) * at_once}


async def test_a_restart_is_not_noticed(own_server, keep):
    """A store goes on after its server was stopped and started: data, scripts and all."""
    server = own_server("--appendonly", "yes", "--appendfsync", "always")
    store = keep(server.store(timeout=20))
    await store.append(LOG, batch("a"))
    server.stop()
    waiting = asyncio.ensure_future(store.append(LOG, batch("b")))
    await asyncio.sleep(0.05)
    server.start()
    assert (await waiting).seq == 2
    assert await keys(store) == ["a", "b"]


async def test_a_fail_over_is_not_noticed(own_server, keep):
    """A replica that became the primary, and has no script of ours, serves the next append."""
    first, second = own_server(), own_server()
    with first.client() as old, second.client() as new:
        new.replicaof(HOST, first.port)
        async with Proxy(first.port) as proxy:
            store = keep(through(proxy, timeout=20))
            await store.append(LOG, batch("a"))
            await until(lambda: new.dbsize() == old.dbsize() == 4)
            await until(lambda: _offset(new) == _offset(old))
            new.replicaof("NO", "ONE")
            new.script_flush()
            proxy.target = second.port
            first.kill()
            proxy.cut()
            assert (await store.append(LOG, batch("b"))).seq == 2
            assert await keys(store) == ["a", "b"]
            await store.aclose()


def _offset(client):
    info = client.info("replication")
    return info.get("slave_repl_offset", info["master_repl_offset"])


async def test_connections_cut_between_two_appends_are_made_again(server, keep):
    """A server that closed every idle connection gets the next append once, over a new one."""
    store = keep(server.store())
    with server.client() as client:
        for number in range(5):
            await store.append(LOG, batch(f"{number}"))
            for one in client.client_list(_type="normal"):
                if one["name"] == "durably":
                    client.client_kill_filter(_id=one["id"])
    assert await keys(store) == list("01234")


def _applied(command, reply):
    """Whether a reply tells that an append was applied just now."""
    return command[0] in {b"EVAL", b"EVALSHA"} and isinstance(reply, list) and reply[0] == b"ok"


@pytest.mark.parametrize("kind", ["unkeyed", "head alone", "at a revision", "keep_last"])
async def test_an_append_whose_answer_is_lost_is_stored_once(proxy, keep, kind):
    """The answer is dropped after the server applied it: stored once, and the caller gets it."""
    store = keep(through(proxy))
    before = await store.append(LOG, batch("a", head=b"h"))
    sent = {
        "unkeyed": unkeyed(b"x", b"y"),
        "head alone": Batch(head=b"new"),
        "at a revision": unkeyed(b"x", b"y", expected_revision=before.revision),
        "keep_last": unkeyed(b"x", b"y", keep_last=2),
    }[kind]
    proxy.forget()
    _drop_one(proxy)
    answer = await store.append(LOG, sent)
    fate = [what for what, command, _ in proxy.log if command[0] in {b"EVAL", b"EVALSHA"}]
    assert fate == ["sent", "dropped", "sent", "answered"]
    dropped, answered = (
        reply
        for what, _, reply in proxy.log
        if what in {"dropped", "answered"} and isinstance(reply, list)
    )
    assert [dropped[0], answered[0]] == [b"ok", b"duplicate"]
    assert answer == msgspec.structs.replace(
        answer, revision=before.revision + 1, seq=0 if kind == "head alone" else 3
    )
    stored = await store.read(LOG)
    assert stored.state.revision == before.revision + 1
    wanted = {"head alone": [b"a"], "keep_last": [b"x", b"y"]}.get(kind, [b"a", b"x", b"y"])
    assert [one.data for one in stored.records] == wanted


def _drop_one(proxy):
    """Let the proxy lose the next answer to a change that was applied."""

    def drops(command, reply):
        if _applied(command, reply):
            proxy.drops = lambda command, reply: False  # noqa: ARG005 - just one
            return True
        return False

    proxy.drops = drops


async def test_many_lost_answers_store_each_append_once(proxy, keep):
    """64 callers whose answers are lost at random: every batch is there once."""
    store = keep(through(proxy, timeout=20))
    await store.append(LOG, batch("first"))
    dice = random.Random(7)  # noqa: S311 - reproducible, no secret
    proxy.drops = lambda command, reply: _applied(command, reply) and dice.random() < 0.02
    sent = [unkeyed(b"%d" % number) for number in range(64 * 8)]
    for start in range(0, len(sent), 64):
        await asyncio.gather(*(store.append(LOG, one) for one in sent[start : start + 64]))
    proxy.drops = lambda command, reply: False  # noqa: ARG005 - none any more
    assert any(what == "dropped" for what, _, _ in proxy.log)
    stored = await store.read(LOG, Range(after=1))
    assert sorted(int(one.data) for one in stored.records) == list(range(len(sent)))


async def test_64_tasks_lose_and_double_nothing(server, keep):
    """64 tasks on one log through two stores: each record once; of equal claims one wins."""
    space = namespace()
    stores = [keep(server.store(namespace=space)) for _ in range(2)]

    async def work(number):
        for step in range(5):
            await stores[number % 2].append(LOG, batch(f"{number} {step}"))
        return await _claim(stores[number % 2])

    assert sum(await asyncio.gather(*map(work, range(64)))) == 1
    stored = await stores[0].read(LOG)
    assert [one.seq for one in stored.records] == list(range(1, 64 * 5 + 1))
    assert len({one.key for one in stored.records}) == 64 * 5


async def _claim(store):
    try:
        await store.append(log("claimed"), Batch(head=b"mine", expected_revision=0))
    except RevisionConflict:
        return False
    return True


async def test_4_processes_share_a_session_and_a_run(server):
    """4 processes on one session lose and double nothing; of 4 that save a run one wins."""
    url = f"{server.url}?namespace={namespace().replace(' ', '-')}"
    async with peers(url, 4) as processes:
        await asyncio.gather(
            *(
                one.call("append_many", "s", f"p{number}", 25)
                for number, one in enumerate(processes)
            )
        )
        found = await processes[0].call("segments", "s")
        wanted = {f"p{number} {step}" for number in range(4) for step in range(25)}
        assert {run_id for run_id, *_ in found} == wanted
        assert len(found) == 100
        for number in range(4):
            mine = [run_id for run_id, *_ in found if run_id.startswith(f"p{number} ")]
            assert mine == [f"p{number} {step}" for step in range(25)]
        claimed = await asyncio.gather(*(one.call("claim", "r") for one in processes))
        saved = await asyncio.gather(
            *(one.call("save", "r", f"p{number}") for number, one in enumerate(processes))
        )
        assert sum(saved) == 1
        assert any(claimed)
        winner = f"p{saved.index(True)}"
        assert await processes[0].call("run", "r") == [winner, winner]


async def test_cancelled_calls_mix_up_no_answers(server, keep):
    """1,000 calls cancelled at any point: 200 reads of A beside B give B's data, always.

    Afterwards no connection is in use, and each append is stored whole or not at all.
    """
    store = keep(server.store())
    dice = random.Random(3)  # noqa: S311 - reproducible, no secret
    for one in ("A", "B"):
        records = tuple(NewRecord(data=one.encode() * 5000, key=f"{n}") for n in range(3))
        await store.append(log(one), Batch(records=records, head=one.encode()))
    for number in range(200):
        victims = [
            asyncio.ensure_future(call)
            for call in (
                store.read(log("A")),
                store.read(log("A"), Range(limit=1)),
                store.append(log("C"), unkeyed(b"%d" % number, b"%d" % number)),
                store.list("session", with_state=True),
                store.read(log("A"), Range(limit=0)),
            )
        ]
        beside = asyncio.ensure_future(store.read(log("B")))
        for _ in range(dice.randrange(12)):
            await asyncio.sleep(0)
        for victim in victims:
            victim.cancel()
        outcomes = await asyncio.gather(*victims, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) or one for one in outcomes)
        stored = await beside
        assert {one.data for one in stored.records} == {b"B" * 5000}
        assert stored.state.head == b"B"
    await store._server._lanes[0].settle()
    assert not store._server.client.connection_pool._in_use_connections
    stored = await store.read(log("C"))
    found = [one.data for one in stored.records]
    assert found[::2] == found[1::2]
    assert len(set(found)) * 2 == len(found) == stored.state.record_count


async def test_no_task_is_left_when_the_store_is_closed(server):
    """Closing waits for what was sent, and leaves neither task nor connection."""
    before = asyncio.all_tasks()
    store = server.store()
    await store.append(LOG, batch("a"))
    sent = [asyncio.ensure_future(store.append(LOG, batch(f"{n}"))) for n in range(50)]
    await asyncio.sleep(0)
    await asyncio.gather(store.aclose(), store.aclose())
    assert all(one.seq for one in await asyncio.gather(*sent))
    assert asyncio.all_tasks() == before
    pool = store._server.client.connection_pool
    assert not any(one.is_connected for one in pool._available_connections)


async def test_an_error_of_the_client_reaches_every_caller(server, keep, monkeypatch):
    """Whatever a client raises, no caller waits for ever, and the next call goes on."""
    client = keep(Redis(host=HOST, port=server.port))
    store = keep(RedisLogStore(client=client, namespace=namespace()))
    await store.append(LOG, batch("a"))

    def fail(*_, **__):
        raise RuntimeError("not what a client should raise")

    with monkeypatch.context() as patch:
        patch.setattr(client, "execute_command", fail)
        patch.setattr(client, "pipeline", fail)
        answers = await asyncio.gather(
            *(store.append(LOG, batch(f"{n}")) for n in range(5)), return_exceptions=True
        )
    assert [type(one) for one in answers] == [RuntimeError] * 5
    assert (await store.append(LOG, batch("b"))).seq == 2


async def test_the_server_that_does_not_answer_is_given_up_in_time(own_server, keep):
    """A stopped process holds the connection and never answers: Unavailable, then it goes on.

    Calls that wait behind others, and those of a client without time-outs, are no later.
    """
    server = own_server()
    client = keep(Redis(host=HOST, port=server.port, socket_timeout=None))
    for store in (
        keep(server.store(timeout=0.6)),
        keep(RedisLogStore(client=client, namespace=namespace(), timeout=0.6)),
    ):
        await store.append(LOG, batch("a"))
        with _stopped(server.pid):
            early = [asyncio.ensure_future(store.append(LOG, batch("b"))) for _ in range(2)]
            await asyncio.sleep(0.15)
            late = asyncio.ensure_future(store.append(LOG, batch("b")))
            for one in early:
                with pytest.raises(Unavailable, match="in time"):
                    await one
            assert not late.done()
            with pytest.raises(Unavailable, match="in time"):
                await late
        assert (await store.append(LOG, batch("c"))).seq in {2, 3}


@contextlib.contextmanager
def _stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def test_the_script_is_sent_whole_once(proxy, keep):
    """A server without the script gets its text with one call, and its digest from then on."""
    store = keep(through(proxy))
    await store.append(LOG, batch("a"))
    await store._server.client.script_flush()
    proxy.forget()
    for key in "bcd":
        await store.append(LOG, batch(key))
    assert [command[0] for command in proxy.commands] == [
        b"EVALSHA",
        b"EVAL",
        b"EVALSHA",
        b"EVALSHA",
    ]
    assert proxy.commands[1][1] == APPEND.source
