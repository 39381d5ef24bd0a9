"""The servers that tests on S3 trust, and the proxy that breaks what passes, do what they say."""

import http.client
import io
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier, Event
from urllib.parse import urlsplit

import pytest
from boto3.session import Session
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    IncompleteReadError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from s3_faults import answer, cut, drop_answer, drop_request, hold, late, stall, strip_conditions
from s3_proxy import Exchange, Proxy
from s3_servers import Moto

pytest_plugins = ["s3_fixtures"]
pytestmark = pytest.mark.timeout(60)

on_seaweed = pytest.mark.xdist_group("seaweedfs")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")

PATIENCE = 20
OFTEN = 1e-5
"""Seconds after which moto's threads take turns."""
ROUNDS = 20
"""So many races a server has to stand: without its lock moto fails every third."""


@pytest.fixture(params=["moto", pytest.param("seaweed", marks=on_seaweed)])
def server(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def proxy(moto):
    with Proxy(moto) as proxy:
        yield proxy


class Objects:
    """The objects below a prefix of their own, through one client."""

    def __init__(self, server, client=None) -> None:
        self.server = server
        self.client = client or server.client(max_pool_connections=32)
        self.bucket = server.shared
        self.prefix = server.prefix()

    def of(self, name: str) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": self.prefix + name}

    def put(self, name, body, **conditions) -> str:
        return self.client.put_object(**self.of(name), Body=body, **conditions)["ETag"]

    def get(self, name, **options) -> bytes:
        return self.client.get_object(**self.of(name), **options)["Body"].read()

    def stored(self) -> dict[str, bytes]:
        return self.server.dump(self.bucket, self.prefix)


@pytest.fixture
def objects(proxy):
    """Objects on moto, asked for through the proxy."""
    return Objects(proxy.server, proxy.client(max_pool_connections=32))


def status(call, *arguments, **options) -> int:
    """Return the status that a call ends with."""
    try:
        call(*arguments, **options)
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"]
    return 200


def until(is_so) -> None:
    """Wait until something is so."""
    give_up = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def race(act, number: int) -> list:
    """Let threads act at once, and return what each came to."""
    barrier = Barrier(number)

    def one(who):
        barrier.wait(PATIENCE)
        return act(who)

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(one, range(number)))


def increment(objects) -> None:
    """Add one to a counter, however many tries it takes."""
    while True:
        seen = objects.client.get_object(**objects.of("counter"))
        value = b"%d" % (int(seen["Body"].read()) + 1)
        if status(objects.put, "counter", value, IfMatch=seen["ETag"]) == 200:
            return


def opened(objects, name: str, header: str) -> socket.socket:
    """Return a connection with the head of a PUT of one byte sent, and the byte not."""
    url = urlsplit(objects.client.generate_presigned_url("put_object", Params=objects.of(name)))
    head = [f"PUT {url.path}?{url.query} HTTP/1.1", f"Host: {url.netloc}", header]
    connection = socket.create_connection((url.hostname, url.port), PATIENCE)
    connection.sendall("\r\n".join([*head, "Content-Length: 1", "", ""]).encode())
    return connection


def said(connection: socket.socket) -> bytes:
    """Return the status that a server answers with."""
    return connection.recv(100).split()[1]


def winners(objects, name: str) -> int:
    """Return how many of eight clients created one key, their last bytes coming all at once."""
    with ExitStack() as stack:
        connections = [
            stack.enter_context(opened(objects, name, "If-None-Match: *")) for _ in range(8)
        ]
        time.sleep(0.02)  # until all wait for their last byte
        for one in connections:
            one.sendall(b"x")
        return [said(one) for one in connections].count(b"200")


def test_only_one_creates(server):
    """If-None-Match: * answers 412 where the key exists, and leaves it as it is."""
    objects = Objects(server)
    objects.put("key", b"first", IfNoneMatch="*")
    assert status(objects.put, "key", b"second", IfNoneMatch="*") == 412
    assert objects.get("key") == b"first"


def test_only_what_was_seen_is_replaced(server):
    """If-Match answers 412 for another ETag, and replaces where the ETag is the object's."""
    objects = Objects(server)
    etag = objects.put("key", b"first")
    assert objects.put("key", b"second", IfMatch=etag) != etag
    assert status(objects.put, "key", b"third", IfMatch=etag) == 412
    assert objects.get("key") == b"second"


def test_nothing_is_replaced_where_nothing_is(server):
    """If-Match on a missing key creates nothing: S3 and moto say 404, SeaweedFS says 412."""
    objects = Objects(server)
    etag = objects.put("other", b"")
    missing = 404 if isinstance(server, Moto) else 412
    assert status(objects.put, "key", b"", IfMatch=etag) == missing
    assert list(objects.stored()) == [objects.prefix + "other"]


def test_only_what_was_seen_is_deleted(server):
    """DELETE with If-Match answers 412 for another ETag, and deletes where it is the object's."""
    objects = Objects(server)
    old = objects.put("key", b"first")
    new = objects.put("key", b"second")
    delete = objects.client.delete_object
    assert status(delete, **objects.of("key"), IfMatch=old) == 412
    assert objects.get("key") == b"second"
    assert status(delete, **objects.of("key"), IfMatch=new) == 200
    assert objects.stored() == {}


def test_a_dump_has_all_pages(server):
    """A dump has every object below the prefix and none beside it, also beyond one page."""
    objects = Objects(server)
    written = {objects.prefix + f"ü %2F+/{number}": b"%d" % number for number in range(5)}
    for key, body in written.items():
        objects.client.put_object(Bucket=objects.bucket, Key=key, Body=body)
    Objects(server).put("beside", b"")
    assert server.dump(objects.bucket, objects.prefix, page=2) == written


def test_the_environment_is_enough(server, monkeypatch):
    """Whoever has the variables of a server may use it; a bucket is fresh."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    client = Session().client("s3", endpoint_url=server.endpoint)
    listed = client.list_objects_v2(Bucket=server.bucket())
    client.close()
    assert listed["KeyCount"] == 0


@on_seaweed
def test_signatures_are_checked(seaweed):
    """SeaweedFS answers 403 to another secret, and creates no bucket by a PUT into it."""
    client = Session(seaweed.key, "another").client("s3", endpoint_url=seaweed.endpoint)
    assert status(client.list_objects_v2, Bucket=seaweed.shared) == 403
    client.close()
    assert status(seaweed.client().put_object, Bucket="nonesuch", Key="key", Body=b"") == 404


@on_linux
def test_nothing_listens_beyond_this_machine(server):
    """Every port that a server listens on is one of the loopback interface."""
    folder = Path(f"/proc/{server.pid}")
    sockets = {str(one.readlink()) for one in (folder / "fd").iterdir() if one.is_symlink()}
    rows = [
        row.split()
        for name in ("tcp", "tcp6", "udp", "udp6")
        for row in (folder / "net" / name).read_text().splitlines()[1:]
    ]
    listening, closed = "0A", "07"
    found = [
        address
        for _, address, _, state, *_, inode in (row[:10] for row in rows)
        if state in {listening, closed} and f"socket:[{inode}]" in sockets
    ]
    assert found
    assert {address.partition(":")[0] for address in found} == {"0100007F"}


ABANDON = """
import subprocess, sys, time
from s3_servers import Moto, mortal
sleeping = subprocess.Popen(mortal(sys.executable, "-c", "import time; time.sleep(60)"))
print(sleeping.pid, Moto().pid, flush=True)
sleeping.wait()
"""


@on_linux
def test_servers_end_with_the_process_that_started_them():
    """Killed with no chance to stop its servers, a process leaves none behind."""
    parent = subprocess.Popen(
        [sys.executable, "-c", ABANDON],
        env={"PYTHONPATH": str(Path(__file__).parent / "support")},
        stdout=subprocess.PIPE,
    )
    with parent:
        children = [Path("/proc", pid) for pid in parent.stdout.readline().decode().split()]
        assert len(children) == 2
        assert all(map(lives, children))
        parent.kill()
    until(lambda: not any(map(lives, children)))


def lives(process: Path) -> bool:
    """Whether a process runs, as the system tells in a folder."""
    try:
        return "(zombie)" not in (process / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_locked_moto_loses_nothing():
    """With its lock every race has one winner, and all acknowledged increments are there."""
    with Moto(switch_interval=OFTEN) as moto:
        objects = Objects(moto)
        assert {winners(objects, f"{number}") for number in range(ROUNDS)} == {1}
        objects.put("counter", b"0")
        race(lambda _: [increment(objects) for _ in range(4)], 6)
        assert objects.get("counter") == b"24"


def test_moto_has_many_winners_without_its_lock():
    """Without the lock several create one key, all of them acknowledged: it is the lock."""
    with Moto(locked=False, switch_interval=OFTEN) as moto:
        objects = Objects(moto)
        assert any(winners(objects, f"{number}") > 1 for number in range(5 * ROUNDS))


@on_seaweed
def test_seaweed_has_one_winner(seaweed):
    """Of 16 threads that create one key at once exactly one does, and what it wrote is there."""
    objects = Objects(seaweed)
    answers = race(lambda who: status(objects.put, "key", b"%d" % who, IfNoneMatch="*"), 16)
    assert sorted(answers) == [200] + [412] * 15
    assert objects.get("key") == b"%d" % answers.index(200)


def test_the_proxy_records_what_passes(proxy, objects):
    """Method, key, query, condition, range, bytes both ways and status are recorded in order."""
    key, bucket = objects.prefix + "ü %2F+", objects.bucket
    etag = objects.put("ü %2F+", b"12345", IfNoneMatch="*")
    assert objects.get("ü %2F+", Range="bytes=1-2") == b"23"
    objects.client.head_object(**objects.of("ü %2F+"))
    assert status(objects.put, "ü %2F+", b"1", IfMatch='"other"') == 412
    objects.client.delete_object(**objects.of("ü %2F+"), IfMatch=etag)
    objects.client.list_objects_v2(Bucket=bucket, Prefix=objects.prefix)
    put, get, head, refused, delete, listed = proxy.log
    of_all = {"key": key, "query": {}, "condition": None, "range": None, "delivered": True}

    def exchange(**fields):
        return Exchange(**({"sent": 0, "received": 0} | of_all | fields))

    assert put == exchange(method="PUT", condition="If-None-Match: *", sent=5, status=200)
    assert get == exchange(method="GET", range="bytes=1-2", received=2, status=206)
    assert head == exchange(method="HEAD", status=200)
    assert (refused.condition, refused.status) == ('If-Match: "other"', 412)
    assert delete == exchange(method="DELETE", condition=f"If-Match: {etag}", status=204)
    assert (listed.method, listed.key, listed.status) == ("GET", "", 200)
    assert (listed.query["list-type"], listed.query["prefix"]) == ("2", objects.prefix)
    assert (put.headers["content-length"], put.headers["if-none-match"]) == ("5", "*")


def test_the_proxy_counts(proxy, objects):
    """Counting gives what happened inside, and clear forgets all but that."""
    objects.put("before", b"")
    with proxy.counting() as log:
        objects.put("inside", b"")
        assert len(proxy.log) == 2
        proxy.clear()
    objects.put("after", b"")
    assert [one.key for one in log] == [objects.prefix + "inside"]
    assert [one.key for one in proxy.log] == [objects.prefix + "after"]


def test_connections_to_the_proxy_are_kept(proxy, objects):
    """A client that asks one thing after another needs one connection."""
    for number in range(5):
        objects.put(f"{number}", b"")
        objects.get(f"{number}")
    assert len(proxy._tasks) == 1


@on_seaweed
def test_signatures_hold_through_the_proxy(seaweed):
    """What a client signs for the proxy is good for the server behind it, which has its ETag."""
    with Proxy(seaweed) as proxy:
        objects = Objects(seaweed, proxy.client())
        etag = objects.put("key", b"through")
        assert objects.put("key", b"again", IfMatch=etag) != etag
        assert objects.get("key") == b"again"
        assert len(proxy._tasks) == 1


def test_bodies_pass_in_chunks(objects):
    """A body in chunks arrives whole."""
    url = urlsplit(objects.client.generate_presigned_url("put_object", Params=objects.of("key")))
    connection = http.client.HTTPConnection(url.netloc)
    connection.request("PUT", f"{url.path}?{url.query}", body=iter([b"one ", b"", b"two"]))
    assert connection.getresponse().status == 200
    connection.close()
    assert objects.get("key") == b"one two"


def test_bodies_are_asked_for(objects):
    """A client that waits for 100 Continue before it sends a body gets it, and so does boto3."""
    with opened(objects, "key", "Expect: 100-continue") as connection:
        assert said(connection) == b"100"
        connection.sendall(b"x")
        assert said(connection) == b"200"
    objects.put("file", io.BytesIO(b"x" * 100_000))
    assert [objects.get("key"), objects.get("file")] == [b"x", b"x" * 100_000]


def test_latency_is_waited_at_the_same_time(proxy, objects):
    """Eight requests at once wait for their answers once, not eight times."""
    objects.put("key", b"")
    proxy.latency = 0.25
    begun = time.monotonic()
    race(lambda _: objects.get("key"), 8)
    assert 0.25 <= time.monotonic() - begun < 8 * 0.25


def test_a_fault_befalls_what_it_is_planned_for(proxy, objects):
    """A plan holds for as many requests as it says, of those that its predicate takes."""
    proxy.plan(answer(503, "SlowDown"), when=lambda one: one.key.endswith("b"), times=2)
    came = [status(objects.put, name, b"") for name in ("a", "b", "a", "b", "b")]
    assert came == [200, 503, 200, 503, 200]
    assert proxy.plans == []


def test_drop_answer_does_it(proxy, objects):
    """With its answer dropped a PUT has happened, and the client sees a closed connection."""
    proxy.plan(drop_answer)
    with pytest.raises(ConnectionClosedError):
        objects.put("key", b"1")
    assert list(objects.stored().values()) == [b"1"]
    assert [(one.status, one.delivered) for one in proxy.log] == [(200, False)]


def test_drop_request_does_nothing(proxy, objects):
    """With its request dropped a PUT has not happened, and the client sees the same."""
    proxy.plan(drop_request)
    with pytest.raises(ConnectionClosedError):
        objects.put("key", b"1")
    assert objects.stored() == {}
    assert [(one.status, one.delivered) for one in proxy.log] == [(None, False)]


def test_answers_are_errors_of_s3(proxy, objects):
    """An answer in the server's place has its status and its code; the server is not asked."""
    proxy.plan(answer(403, "ExpiredToken"))
    with pytest.raises(ClientError) as caught:
        objects.put("key", b"1")
    assert caught.value.response["Error"]["Code"] == "ExpiredToken"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    proxy.plan(answer(500, "InternalError"))
    assert status(objects.client.head_object, **objects.of("key")) == 500
    assert objects.stored() == {}
    assert [(one.status, one.delivered) for one in proxy.log] == [(None, True)] * 2


def test_a_late_put_lands_late(proxy, objects):
    """The client's connection ends first, and the PUT lands after the event."""
    event = Event()
    proxy.plan(late(event))
    with pytest.raises(ConnectionClosedError):
        objects.put("key", b"late")
    assert objects.put("key", b"meanwhile")
    assert list(objects.stored().values()) == [b"meanwhile"]
    event.set()
    until(lambda: len(proxy.log) == 2)
    assert list(objects.stored().values()) == [b"late"]
    assert [(one.status, one.delivered) for one in proxy.log] == [(200, True), (200, False)]


def test_a_put_lands_late_by_seconds(proxy, objects):
    """Seconds do in place of an event."""
    proxy.plan(late(0.05))
    with pytest.raises(ConnectionClosedError):
        objects.put("key", b"late")
    until(lambda: len(proxy.log) == 1)
    assert list(objects.stored().values()) == [b"late"]


def test_a_cut_body_is_seen_to_be_cut(proxy, objects):
    """Of a body that is cut the client gets the beginning, and notices."""
    objects.put("key", b"x" * 1000)
    proxy.clear()
    proxy.plan(cut(10))
    body = objects.client.get_object(**objects.of("key"))["Body"]
    assert body.read(10) == b"x" * 10
    with pytest.raises((IncompleteReadError, ResponseStreamingError)):
        body.read()
    assert [(one.received, one.delivered) for one in proxy.log] == [(1000, False)]


def test_a_held_request_waits(proxy, objects):
    """The server is asked once the event is set, and the client then gets the answer."""
    event = Event()
    proxy.plan(hold(event))
    with ThreadPoolExecutor(1) as pool:
        put = pool.submit(objects.put, "key", b"held")
        until(lambda: not proxy.plans)
        assert objects.stored() == {}
        assert proxy.log == []
        event.set()
        assert put.result(PATIENCE)
    assert list(objects.stored().values()) == [b"held"]
    assert [(one.status, one.delivered) for one in proxy.log] == [(200, True)]


def test_a_client_that_gave_up_got_nothing(proxy, objects):
    """A request whose client did not wait for its end is done, and is not delivered."""
    impatient, event = Objects(proxy.server, proxy.client(read_timeout=0.1)), Event()
    proxy.plan(hold(event))
    with pytest.raises(ReadTimeoutError):
        impatient.put("key", b"held")
    event.set()
    until(lambda: proxy.log)
    assert [(one.status, one.delivered) for one in proxy.log] == [(200, False)]
    assert list(impatient.stored().values()) == [b"held"]


def test_a_stalled_answer_comes_late(proxy, objects):
    """The server has done it before the client is told; who does not wait for that got nothing."""
    impatient, event = Objects(proxy.server, proxy.client(read_timeout=0.1)), Event()
    proxy.plan(stall(event))
    with pytest.raises(ReadTimeoutError):
        impatient.put("key", b"stalled")
    assert list(impatient.stored().values()) == [b"stalled"]
    event.set()
    until(lambda: proxy.log)
    assert [(one.status, one.delivered) for one in proxy.log] == [(200, False)]


def test_conditions_can_be_ignored_for_ever(proxy, objects):
    """Stripped of its conditions every PUT succeeds; what was asked for is still recorded."""
    proxy.plan(strip_conditions, times=None)
    for body in (b"1", b"2", b"3"):
        objects.put("key", body, IfNoneMatch="*")
    objects.put("key", b"4", IfMatch='"other"')
    assert objects.get("key") == b"4"
    assert [one.condition for one in proxy.log[2:4]] == ["If-None-Match: *", 'If-Match: "other"']


def test_what_goes_wrong_in_a_predicate_is_told(moto):
    """An error in a predicate is raised where the proxy ends."""

    def predicate(exchange):
        raise LookupError(exchange.key)

    with pytest.raises(LookupError), Proxy(moto) as proxy:  # noqa: PT012 - it is raised at the end
        proxy.plan(drop_answer, when=predicate)
        with pytest.raises(ConnectionClosedError):
            Objects(moto, proxy.client()).put("key", b"")
