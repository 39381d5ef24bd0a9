"""A real server that checks signatures: what only SeaweedFS can refuse, and that it will do."""

import pytest

import durably
from durably import InputEntry, Unavailable
from durably.logstore import Batch, NewRecord
from logs import LOG
from s3_stores import CONTENT, SECRET, refused

pytest_plugins = ["s3_fixtures"]
pytestmark = [pytest.mark.xdist_group("seaweedfs"), pytest.mark.timeout(60)]

SAID = [InputEntry(role="user", content="hello")]
STORED = Batch(records=(NewRecord(data=CONTENT),), head=CONTENT)


async def test_a_real_server_is_used_by_its_url(real_site):
    """A URL is enough, and what was found of the server is told."""
    async with durably.open(real_site.url()) as storage:
        await storage.sessions.append("s", SAID)
        assert await storage.sessions.load("s") == SAID
        described = await storage.log_store.describe()
        assert described["conditional writes"] == "heeded"
        assert described["conditional deletions"] == "heeded"


async def test_a_wrong_secret_is_refused_by_a_server_that_checks(real_site, aws):
    """SeaweedFS refuses another secret and another key, and neither is repeated."""
    aws({"AWS_SECRET_ACCESS_KEY": SECRET})
    await refused(real_site.store().append(LOG, STORED), Unavailable, "refuses the credentials")
    aws({"AWS_ACCESS_KEY_ID": "UNKNOWN"})
    await refused(real_site.store().append(LOG, STORED), Unavailable, "refuses the credentials")
    assert real_site.dump() == {}


async def test_a_real_server_says_that_there_is_no_bucket(real_site):
    """So it does of a bucket that nobody made, and makes none."""
    store = real_site.store(bucket="nobody-made-it")
    await refused(store.append(LOG, STORED), Unavailable, "nobody-made-it.*does not exist")
    await refused(store.list("session"), Unavailable, "nobody-made-it.*does not exist")
