"""Opening and closing storages in S3: URLs, what is sent for them, probes, loops and clients."""

import asyncio
import json
import os
import subprocess
import sys
from unittest.mock import ANY

import boto3
import pytest

import durably
from cli_runs import run_apart
from durably import InputEntry, InvalidUrl, StorageClosed, Unsupported, WrongLoop
from durably.logstore import Rewrite
from durably.urls import parse_url
from durably_s3 import S3LogStore, Settings, _planning
from durably_s3._url import open_url, settings_of
from logs import LOG, batch, keys
from s3_faults import answer, strip_conditions
from s3_stores import SECRET, chunk_of, on, refused

pytest_plugins = ["s3_fixtures"]
pytestmark = [pytest.mark.xdist_group("moto"), pytest.mark.timeout(60)]

SAID = [InputEntry(role="user", content="hello")]


def test_a_url_says_it_all():
    """Bucket, prefix, namespace and every option are taken, percent-decoded."""
    options = {
        "endpoint_url": "http://127.0.0.1:9000",
        "region": "eu-central-1",
        "profile": "p q",
        "addressing": "path",
        "encryption": "aws:kms",
        "kms_key_id": "arn:aws:kms:1",
        "storage_class": "STANDARD_IA",
        "compression": "none",
    }
    query = "&".join(f"{name}={value}" for name, value in options.items()).replace(" ", "%20")
    url = f"s3://a-bucket/some/wh%20ere?{query}&timeout=2.5&workers=7&grace=60"
    assert settings_of(parse_url(url)) == Settings(
        bucket="a-bucket", prefix="some/wh ere", **options, timeout=2.5, workers=7, grace=60.0
    )
    assert open_url(parse_url("s3://a-bucket?namespace=n%7Bm"))._namespace == "n{m"


def test_a_url_may_leave_out_nearly_all():
    """A bucket is enough."""
    for url in ("s3://a-bucket", "s3://a-bucket/"):
        assert settings_of(parse_url(url)) == Settings(bucket="a-bucket")
    assert str(Settings(bucket="a-bucket")) == "s3://a-bucket"
    assert str(Settings(bucket="a-bucket", prefix="a/b")) == "s3://a-bucket/a/b"


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "/prefix",
        "b",
        "-bucket",
        "bu%20cket",
        "bucket/a//b",
        "bucket/../b",
        "bucket/a/./b",
        "bucket/a%0Ab",
        "bucket/a%00",
        f"bucket/{'p' * 121}",
        f"bucket/{'%C3%BC' * 61}",
        "bucket:9000",
        "bucket:9000/prefix",
        "bucket?timeout=0",
        "bucket?timeout=-1",
        "bucket?timeout=nan",
        "bucket?timeout=inf",
        "bucket?timeout=3601",
        "bucket?timeout=x",
        "bucket?workers=0",
        "bucket?workers=257",
        "bucket?workers=1.5",
        "bucket?grace=-1",
        "bucket?grace=nan",
        "bucket?grace=x",
        "bucket?addressing=dns",
        "bucket?compression=zstd",
        "bucket?endpoint=http://127.0.0.1",
        "bucket?endpoint_url=127.0.0.1:9000",
        "bucket?endpoint_url=ftp://127.0.0.1",
        "bucket?endpoint_url=http://127.0.0.1/path",
        f"bucket?aws_secret_access_key={SECRET}",
        f"bucket?namespace={'n' * 257}",
    ],
)
def test_a_url_that_cannot_be_used_is_refused(rest):
    """What is no bucket, prefix, number or option is a ValueError of ours, at once."""
    with pytest.raises((InvalidUrl, durably.InvalidId)) as caught:
        durably.open(f"s3://{rest}")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        f"s3://key:{SECRET.replace('/', '%2F')}@bucket/prefix",
        "s3://nottold@bucket",
        "s3://:nottold@bucket",
        "s3://bucket?endpoint_url=http://key:nottold@127.0.0.1",
        "s3://bucket?endpoint_url=http://127.0.0.1/?key=nottold",
    ],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url):
    """A user or a password, of the URL or of the address within it, is refused in silence."""
    with pytest.raises(InvalidUrl) as caught:
        durably.open(url)
    assert "nottold" not in f"{caught.value!r} {caught.value} {caught.value.__context__!r}"


async def sent_for(site, monkeypatch, **options):
    """Append until a chunk is sealed, and return the headers of the tips' PUTs and the chunks'."""
    monkeypatch.setattr(_planning, "SEAL_BYTES", 100)
    async with durably.open(site.url(**options)) as storage:
        for number in range(3):
            await storage.log_store.append(LOG, batch(f"{number}" * 60))
    puts = [one for one in site.proxy.log if on("PUT")(one)]
    chunks = [one.headers for one in puts if chunk_of(one)]
    tips = [one.headers for one in puts if not chunk_of(one)]
    assert chunks
    assert tips
    return tips, chunks


async def test_encryption_is_asked_for_with_every_object(bare_site, monkeypatch):
    """?encryption= and ?kms_key_id= are headers of every PUT."""
    tips, chunks = await sent_for(bare_site, monkeypatch, encryption="aws:kms", kms_key_id="k1")
    for headers in (*tips, *chunks):
        assert headers["x-amz-server-side-encryption"] == "aws:kms"
        assert headers["x-amz-server-side-encryption-aws-kms-key-id"] == "k1"


async def test_a_storage_class_is_asked_for_with_chunks_alone(bare_site, monkeypatch):
    """?storage_class= is a header of the PUTs of chunks, which never change, and of no other."""
    tips, chunks = await sent_for(bare_site, monkeypatch, storage_class="STANDARD_IA")
    assert {one.get("x-amz-storage-class") for one in chunks} == {"STANDARD_IA"}
    assert {one.get("x-amz-storage-class") for one in tips} == {None}


async def test_nothing_is_asked_for_by_itself(bare_site, monkeypatch):
    """Without these options no such header is sent."""
    tips, chunks = await sent_for(bare_site, monkeypatch)
    named = {name for headers in (*tips, *chunks) for name in headers}
    assert not [name for name in named if "encryption" in name or "storage-class" in name]


@pytest.mark.parametrize(
    ("addressing", "wanted"),
    [("path", "http://localhost:1/{bucket}/key"), ("virtual", "http://{bucket}.localhost:1/key")],
)
async def test_a_bucket_is_addressed_as_told(site, addressing, wanted):
    """?addressing= puts the bucket's name into the path or before the host's."""
    store = site.store(endpoint_url="http://localhost:1", addressing=addressing)
    client = store._opened.bucket._connected()
    url = client.generate_presigned_url("get_object", Params={"Bucket": site.bucket, "Key": "key"})
    assert url.partition("?")[0] == wanted.format(bucket=site.bucket)


async def test_a_region_is_signed_for(site):
    """?region= is the region that requests are signed for; without it that of the environment."""
    for options, region in (({"region": "eu-central-1"}, "eu-central-1"), ({}, "us-east-1")):
        site.proxy.clear()
        async with durably.open(site.url(**options)) as storage:
            await storage.ping()
        signed = [one.headers["authorization"] for one in site.proxy.log]
        assert signed
        assert all(f"/{region}/s3/" in one for one in signed)


async def test_a_profile_is_used(site, monkeypatch, tmp_path):
    """?profile= takes credentials and region from the files that boto3 reads."""
    (tmp_path / "config").write_text("[profile durable]\nregion = eu-west-3\n")
    credentials = f"[durable]\naws_access_key_id = FROMFILE\naws_secret_access_key = {SECRET}\n"
    (tmp_path / "credentials").write_text(credentials)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    async with durably.open(site.url(profile="durable")) as storage:
        await storage.ping()
        assert (
            SECRET not in f"{storage!r} {storage.log_store!r} {await storage.log_store.describe()}"
        )
    assert "Credential=FROMFILE/" in site.proxy.log[0].headers["authorization"]
    assert "/eu-west-3/s3/" in site.proxy.log[0].headers["authorization"]


async def test_a_client_of_the_users_is_used_and_never_closed(site):
    """A client that is given sends everything, and works when the store is closed."""
    given = boto3.client("s3", endpoint_url=site.server.endpoint)
    store = site.store(client=given, endpoint_url="http://127.0.0.1:1")
    await store.append(LOG, batch("a"))
    await store.aclose()
    listed = given.list_objects_v2(Bucket=site.bucket, Prefix=site.keys.all_tips)
    assert [one["Key"] for one in listed["Contents"]] == [site.keys.tip(LOG)]
    given.close()
    assert site.proxy.log == []


async def test_an_own_client_is_closed(site):
    """A client that the store made has no connection left when the store is closed."""
    store = site.store()
    await store.append(LOG, batch("a"))
    pools = store._opened.bucket._client._endpoint.http_session._manager.pools
    assert len(pools) == 1
    await store.aclose()
    assert len(pools) == 0


async def test_a_closed_store_stays_closed(site):
    """Closing twice does nothing; each operation afterwards, of views too, is StorageClosed."""
    store, unused = site.store(), site.store()
    view = store.scoped("other")
    await store.append(LOG, batch("a"))
    for _ in range(2):
        await store.aclose()
        await unused.aclose()
    for one in (store, view, unused):
        for operation in (
            one.append(LOG, batch("a")),
            one.read(LOG),
            one.rewrite(LOG, Rewrite(expected_revision=1)),
            one.delete(LOG),
            one.list("session"),
            one.describe(),
            one.maintain(),
        ):
            with pytest.raises(StorageClosed):
                await operation


async def test_a_close_lets_what_was_sent_be_done(site):
    """An append that is under way when the store is closed is stored."""
    store = site.store()
    await store.append(LOG, batch("a"))
    site.proxy.latency = 0.1
    sent = asyncio.ensure_future(store.append(LOG, batch("b")))
    await asyncio.sleep(0.02)
    await store.aclose()
    assert (await sent).seq == 2
    assert await keys(site.store()) == ["a", "b"]


def test_a_store_belongs_to_the_loop_it_was_first_used_in(moto, aws):
    """A store made outside any loop works in the first; a second one is told WrongLoop."""
    aws(moto.environment)
    settings = Settings(
        bucket=moto.shared, prefix=moto.prefix().strip("/"), endpoint_url=moto.endpoint
    )
    store = S3LogStore(settings)

    async def second():
        with pytest.raises(WrongLoop):
            await store.append(LOG, batch("b"))

    with asyncio.Runner() as runner:
        runner.run(store.append(LOG, batch("a")))
        asyncio.run(second())
        assert runner.run(keys(store)) == ["a"]
        runner.run(store.aclose())


FORKED = """
import asyncio, os, sys, durably
async def main():
    async with durably.open(sys.argv[1]) as storage:
        await storage.sessions.append("s", [durably.InputEntry(role="user", content="x")])
        child = os.fork()
        if child == 0:
            try:
                await storage.sessions.load("s")
            except durably.WrongProcess:
                os._exit(7)
            os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(len(await storage.sessions.load("s")))
asyncio.run(main())
"""

FORGOTTEN = """
import asyncio, sys, durably
async def main():
    storage = durably.open(sys.argv[1])
    await storage.sessions.append("s", [durably.InputEntry(role="user", content="x")])
    print("stored")
asyncio.run(main())
"""

DESCRIBED = """
import sys
import durably, durably_s3
from durably import plugins
assert plugins.backends.find("s3").name == "s3"
print(sorted({name.partition(".")[0] for name in sys.modules} & {"boto3", "botocore", "urllib3"}))
"""


def apart(script: str, *arguments: str) -> str:
    """Run a script in a fresh process, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_fork_is_refused(bare_site):
    """In a forked child a storage is told WrongProcess; its parent goes on."""
    assert apart(FORKED, bare_site.url()) == "7\n1\n"


def test_a_program_that_forgets_to_close_ends(bare_site):
    """A storage that is left open keeps no process alive."""
    assert apart(FORGOTTEN, bare_site.url()) == "stored\n"


def test_a_backend_is_described_without_its_driver():
    """Neither importing the package nor describing the backend imports boto3."""
    assert apart(DESCRIBED) == "[]\n"


async def test_looking_writes_nothing(bare_site):
    """Opening, reading and listing leave an empty prefix empty; the first change marks it."""
    store = bare_site.store()
    assert await store.read(LOG) is None
    assert (await store.list("session")).items == ()
    assert await store.delete(LOG) is False
    assert (await store.describe())["conditional writes"] == "not known before the first change"
    assert bare_site.dump() == {}
    await store.append(LOG, batch("a"))
    assert json.loads(bare_site.dump()[bare_site.keys.layout]) == {
        "layout": 1,
        "can_delete": True,
        "is_ordered": ANY,
    }


@pytest.mark.parametrize("method", ["", "If-None-Match", "If-Match"])
async def test_a_server_that_ignores_conditions_is_refused(bare_site, method):
    """All of them, or those of one kind: Unsupported, in words, and nothing is stored."""
    bare_site.proxy.plan(
        strip_conditions, when=lambda one: (one.condition or "").startswith(method), times=None
    )
    store = bare_site.store()
    for _ in range(2):
        await refused(
            store.append(LOG, batch("a")), Unsupported, f"{bare_site.bucket}.*does not heed If-"
        )
    with pytest.raises(Unsupported):
        async with durably.open(bare_site.url()) as storage:
            await storage.sessions.append("s", SAID)
    assert bare_site.dump() == {}


@pytest.mark.parametrize("does", [strip_conditions, answer(501, "NotImplemented")])
async def test_a_server_without_conditions_on_deletions_will_do(bare_site, does):
    """There a deleted log leaves its tombstone, and is gone all the same."""
    bare_site.proxy.plan(does, when=on("DELETE"), times=None)
    store = bare_site.store()
    await store.append(LOG, batch("a"))
    assert await store.delete(LOG) is True
    assert len(bare_site.dump()[bare_site.keys.tip(LOG)]) == 16
    assert await store.read(LOG) is None
    assert (await store.list("session")).items == ()
    assert (await store.describe())["conditional deletions"].startswith("ignored")
    assert (await store.append(LOG, batch("b"))).seq == 1


def test_doctor_tells_of_it(bare_site):
    """``durably doctor`` says where it lies, what the server heeds, and how fast it answers."""
    told = run_apart("doctor", bare_site.url(), "--json", "--pings", 3, environment=os.environ)
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    assert found["reachable"] is True
    assert found["backend"]["distribution"] == "durably-s3"
    assert found["engine"]["place"] == f"s3://{bare_site.bucket}/{bare_site.prefix}"
    assert bare_site.server.secret not in told.stdout
