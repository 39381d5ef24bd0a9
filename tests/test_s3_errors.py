"""What S3 refuses is a typed error that says what to do, and never repeats a secret."""

import asyncio
import time
from threading import Event

import pytest

import durably
from durably import InputEntry, InvalidUrl, StorageBusy, Unavailable, Unsupported
from durably.logstore import Batch, NewRecord, Rewrite
from durably_s3 import _planning
from logs import LOG, batch, keys, log, state
from redis_servers import free_port
from s3_faults import answer, drop_answer, drop_request, hold, say, stall
from s3_stores import CONTENT, SECRET, about, chunk_of, on, refused

pytest_plugins = ["s3_fixtures"]
pytestmark = [
    pytest.mark.xdist_group("moto"),
    pytest.mark.timeout(60),
    pytest.mark.usefixtures("quick_retries"),
]

TOKEN = f"token {SECRET}"
STORED = Batch(records=(NewRecord(data=CONTENT),), head=CONTENT)


@pytest.fixture
def site(site, aws):
    """A site on moto, which takes any secret: let it be one that can be found in what is told."""
    aws({"AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": TOKEN})
    return site


def some_operations(store):
    return (
        lambda: store.append(LOG, STORED),
        lambda: store.read(LOG),
        lambda: store.list("session"),
    )


def operations(store):
    return (
        *some_operations(store),
        lambda: store.rewrite(log("another"), Rewrite(expected_revision=1, head=CONTENT)),
        lambda: store.delete(log("yet another")),
        lambda: store.list("session", with_state=True),
        store.maintain,
    )


async def all_refused(store, error, match):
    """Let every operation fail, all at once, and return their errors."""
    return await asyncio.gather(
        *(refused(operation(), error, match) for operation in operations(store))
    )


REFUSALS = {
    "NoSuchBucket": (404, Unavailable, "does not exist"),
    "AccessDenied": (403, Unavailable, "denies access.*s3:GetObject.*s3:PutObject"),
    "ExpiredToken": (400, Unavailable, "have expired.*Renew"),
    "InvalidToken": (400, Unavailable, "have expired"),
    "InvalidAccessKeyId": (403, Unavailable, "refuses the credentials.*profile"),
    "SignatureDoesNotMatch": (403, Unavailable, "refuses the credentials"),
    "AuthorizationHeaderMalformed": (400, Unavailable, r"another region.*\?region="),
    "NotImplemented": (501, Unsupported, "lacks an operation.*conditional writes"),
    "RequestTimeTooSkewed": (403, Unavailable, "clock"),
    "QuotaExceeded": (400, Unavailable, "is full; nothing was stored"),
    "KMS.NotFoundException": (400, Unavailable, r"\?kms_key_id="),
    "InvalidStorageClass": (400, Unavailable, r"\?storage_class="),
    "EntirelyUnheardOf": (400, Unavailable, "EntirelyUnheardOf"),
    "418": (418, Unavailable, "cannot be used: 418"),
}


@pytest.mark.parametrize("code", REFUSALS)
async def test_a_refusal_is_told_at_once(site, code):
    """A new store and a used one are told what it means and what to do, and nothing changes."""
    status, error, match = REFUSALS[code]
    used = site.store()
    await used.append(LOG, batch("a"))
    before = site.dump()
    site.proxy.plan(answer(status, code), times=None)
    for operation in some_operations(used):
        told = await refused(operation(), error, match)
        assert f"s3://{site.bucket}" in str(told)
    await refused(site.store().append(LOG, STORED), error, match)
    site.proxy.plans.clear()
    assert site.dump() == before
    assert await keys(used) == ["a"]


async def test_every_operation_is_told(site):
    """There is no operation that lets an error of boto3's escape."""
    store = site.store()
    await store.append(LOG, batch("a"))
    before = site.dump()
    site.proxy.plan(answer(403, "AccessDenied"), times=None)
    await all_refused(store, Unavailable, f"{site.bucket}.*denies access")
    site.proxy.plans.clear()
    assert site.dump() == before


async def test_a_redirection_that_names_a_region_is_followed(site):
    """Where S3 says which region it is, boto3 asks again by itself, signed for that one."""
    store = site.store()
    site.proxy.plan(answer(301, "PermanentRedirect", x_amz_bucket_region="eu-central-1"))
    assert (await store.append(LOG, batch("a"))).seq == 1
    assert "/eu-central-1/s3/" in site.proxy.log[1].headers["authorization"]


@pytest.mark.parametrize("code", ["PermanentRedirect", "301"])
async def test_a_redirection_that_names_no_region_is_told(site, code):
    """Where nobody says which region it is, boto3 asks until Python stops it: no error of its."""
    store = site.store()
    await store.append(LOG, batch("a"))
    site.proxy.plan(answer(301, code), times=None)
    await refused(store.read(LOG), Unavailable, r"another region.*\?region=")


async def test_a_bucket_that_is_not_there_is_told(site):
    """The server's own answer about a bucket that nobody made names it."""
    store = site.store(bucket="nobody-made-it")
    errors = await all_refused(store, Unavailable, "nobody-made-it.*does not exist.*Create")
    assert all(one.__cause__ for one in errors)
    with pytest.raises(Unavailable, match="nobody-made-it"):
        async with durably.open(site.url().replace(site.bucket, "nobody-made-it")):
            pass


@pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (500, "InternalError")])
async def test_what_never_passes_is_told_after_the_time(site, status, code):
    """SlowDown for ever is Unavailable once the time is over, for every operation."""
    store = site.store(timeout=1)
    await store.append(LOG, batch("a"))
    before = site.dump()
    site.proxy.plan(answer(status, code), times=None)
    what = "fewer requests" if code == "SlowDown" else code
    begun = time.monotonic()
    await all_refused(store, Unavailable, f"{site.bucket}.*{what}.*may have been stored")
    assert 0.3 < time.monotonic() - begun < 10
    site.proxy.plans.clear()
    assert site.dump() == before


async def test_callers_that_wait_together_are_all_told(site):
    """64 callers of one log are all told, and no error is left that nobody took."""
    unheard = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unheard.append(context))
    store = site.store(timeout=1)
    await store.append(LOG, batch("a"))
    site.proxy.plan(answer(503, "SlowDown"), times=None)
    jobs = [store.append(LOG, STORED) for _ in range(64)]
    answers = await asyncio.gather(*jobs, return_exceptions=True)
    assert [type(one) for one in answers] == [Unavailable] * 64
    del answers
    await asyncio.sleep(0)
    assert unheard == []
    site.proxy.plans.clear()
    assert await keys(store) == ["a"]


async def test_nobody_listening_is_told_within_the_time(site):
    """A port that nobody listens on is Unavailable, and what goes wrong is its cause."""
    store = site.store(endpoint_url=f"http://127.0.0.1:{free_port()}", timeout=0.3)
    await all_refused(store, Unavailable, f"{site.bucket}.*EndpointConnectionError")


@pytest.mark.parametrize("method", ["PUT", "GET"])
async def test_silence_before_it_is_done_is_told_within_the_time(site, method):
    """A server that takes a request and is silent is Unavailable; nothing was stored."""
    store, event = site.store(timeout=1), Event()
    await store.append(LOG, batch("a"))
    before = site.dump()
    site.proxy.plan(hold(event), when=about(LOG), times=None)
    begun = time.monotonic()
    operation = store.append(LOG, STORED) if method == "PUT" else store.read(LOG)
    await refused(operation, Unavailable, f"{site.bucket}.*ReadTimeoutError.*may have been stored")
    assert time.monotonic() - begun < 10
    assert site.dump() == before
    event.set()


async def test_silence_after_it_was_done_says_that_it_may_be_there(site):
    """Stored, and no answer to this nor to a look: it says so, and a retry adds nothing."""
    store, event = site.store(timeout=1), Event()
    await store.append(LOG, batch("a"))
    site.proxy.plan(stall(event), when=about(LOG, "PUT"))
    site.proxy.plan(hold(event), when=about(LOG), times=None)
    again = batch("b", key="batch")
    await refused(store.append(LOG, again), Unavailable, "may have been stored.*not stored twice")
    site.proxy.plans.clear()
    event.set()
    assert await keys(site.store()) == ["a", "b"]
    assert (await store.append(LOG, again)).duplicate
    assert await keys(store) == ["a", "b"]


@pytest.mark.parametrize("fault", [drop_answer, drop_request])
async def test_a_change_that_stays_in_doubt_says_so(site, fault):
    """Nothing comes back for as long as it is tried: it may have been stored."""
    store = site.store(timeout=1)
    for one in (LOG, log("another"), log("yet another")):
        await store.append(one, batch("a"))
    revision = (await state(store, log("another"))).revision
    site.proxy.plan(fault, when=on("PUT", "GET"), times=None)
    rewrite = Rewrite(expected_revision=revision, head=CONTENT)
    changes = (
        store.append(LOG, STORED),
        store.rewrite(log("another"), rewrite),
        store.delete(log("yet another")),
    )
    await asyncio.gather(*(refused(one, Unavailable, "may have been stored") for one in changes))


async def test_a_refusal_within_an_operation_leaves_the_log_as_it_was(site, monkeypatch):
    """Of an append that seals, refused at its chunk or at its tip, nothing is to be seen."""
    monkeypatch.setattr(_planning, "SEAL_BYTES", 100)
    store = site.store()
    await store.append(LOG, batch("a"))
    before = await store.read(LOG)
    large = Batch(records=(NewRecord(data=CONTENT * 20),))
    for when in (chunk_of, about(LOG, "PUT")):
        site.proxy.plan(answer(403, "AccessDenied"), when=when, times=None)
        await refused(store.append(LOG, large), Unavailable, "denies access")
        site.proxy.plans.clear()
        assert await site.store().read(LOG) == before
        assert await store.read(LOG) == before
    assert (await store.append(LOG, large)).seq == 2


async def test_rivals_without_end_are_busy(site):
    """A condition that never holds is StorageBusy: nothing was written."""
    store = site.store(timeout=1)
    await store.append(LOG, batch("a"))
    before = site.dump()
    site.proxy.plan(answer(409, "ConditionalRequestConflict"), when=on("PUT"), times=None)
    with pytest.raises(StorageBusy, match="nothing was written"):
        await store.append(LOG, STORED)
    assert site.dump() == before


async def test_without_credentials_it_says_how_to_give_them(site, monkeypatch):
    """An environment that has none is Unavailable, and says that they are not for the URL."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"):
        monkeypatch.delenv(f"AWS_{name}")
    store = site.store()
    await all_refused(store, Unavailable, f"{site.bucket}.*no credentials.*never in the URL")
    assert site.proxy.log == []


async def test_half_of_the_credentials_are_none(site, monkeypatch):
    """A key without its secret is told as none."""
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    await refused(site.store().read(LOG), Unavailable, "no credentials")


async def test_an_unknown_profile_is_told(site):
    """A profile that no file has is Unavailable, and names the option."""
    store = site.store(profile="nobody")
    await all_refused(store, Unavailable, r"no such profile.*\?profile=")


async def test_a_program_that_gives_credentials_and_fails_is_told(site, monkeypatch, tmp_path):
    """What a credential_process says as it fails is for its user, and it is told that it failed."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"):
        monkeypatch.delenv(f"AWS_{name}")
    config = tmp_path / "config"
    config.write_text("[profile p]\ncredential_process = false\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    await refused(site.store(profile="p").read(LOG), Unavailable, "no credentials")


@pytest.mark.parametrize("body", ["", "<html><body>Welcome<p></body></html>", "{}"])
async def test_a_server_of_something_else_is_told(site, body):
    """A server that says 200 to everything, and is none of S3's, is Unavailable."""
    used = site.store(timeout=1)
    await used.append(LOG, batch("a"))
    before = site.dump()
    site.proxy.plan(say(200, body), times=None)
    await all_refused(used, Unavailable, r"endpoint_url=|may have been stored")
    await refused(site.store().append(LOG, STORED), Unavailable, "does not answer as S3 does")
    site.proxy.plans.clear()
    assert site.dump() == before


@pytest.mark.parametrize("body", ["", "<html><body>No backend<p></body></html>"])
async def test_a_404_of_something_else_is_no_absence(site, body):
    """Where what says 404 is not S3, a log is not told as absent."""
    used = site.store(timeout=1)
    await used.append(LOG, batch("a"))
    site.proxy.plan(say(404, body), times=None)
    await all_refused(used, Unavailable, "404")
    await refused(site.store().read(LOG), Unavailable, "404")


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"endpoint_url": "http://["}, InvalidUrl, "endpoint_url"),
        ({"endpoint_url": "http://a..b"}, InvalidUrl, "endpoint_url"),
        ({"endpoint_url": "http://127.0.0.1:port"}, Unavailable, "endpoint_url"),
        ({"region": "no such region!"}, Unavailable, "region"),
    ],
)
async def test_what_only_boto3_can_refuse_is_told(site, options, error, match):
    """An address or a region that boto3 cannot use is no error of boto3's."""
    with pytest.raises(error, match=match):
        await site.store(**options).append(LOG, STORED)


async def test_a_storage_tells_the_same(site):
    """Through the contracts an error is the same, and has what a user said nowhere in it."""
    async with durably.open(site.url(timeout="1")) as storage:
        await storage.sessions.append("s", [InputEntry(role="user", content="hello")])
        site.proxy.plan(answer(503, "SlowDown"), times=None)
        said = [InputEntry(role="user", content=CONTENT.decode())]
        await refused(storage.sessions.append("s", said), Unavailable, "fewer requests")
        site.proxy.plans.clear()
        assert len(await storage.sessions.load("s")) == 1


async def test_what_cannot_be_looked_at_afterwards_is_in_doubt(site):
    """A change whose answer is lost may have been stored, also where nobody may look any more."""
    store = site.store()
    await store.append(LOG, batch("a"))
    site.proxy.plan(drop_answer, when=about(LOG, "PUT"), times=2)
    site.proxy.plan(answer(400, "ExpiredToken"), when=about(LOG, "GET"), times=None)
    with pytest.raises(Unavailable, match="may have been stored"):
        await store.append(LOG, batch("b"))
