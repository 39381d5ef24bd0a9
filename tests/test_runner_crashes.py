"""A run whose process dies, or that gets no answer, at any call of its store.

Issued again, it ends as if nothing had been: the ledger of its tools is what is judged.
"""

import itertools

import pytest

from runner_crashes import MODES, on_redis, on_s3, on_sqlite

pytest_plugins = ["redis_fixtures", "s3_fixtures"]

cases = pytest.mark.parametrize(
    ("mode", "drop"), list(itertools.product(MODES, [False, True])), ids=str
)


@cases
async def test_a_crash_at_any_store_call_on_sqlite(mode, drop, record_property):
    """Whatever call of SQLite fails, the run ends the same, once, when issued again."""
    await on_sqlite(mode, drop, record_property)


@cases
async def test_a_crash_at_a_store_call_on_redis(server, mode, drop, record_property):
    """Whatever call of Redis fails, every 7th tried, the run ends the same when issued again."""
    await on_redis(server, mode, drop, record_property)


@pytest.mark.xdist_group("moto-1")
@cases
async def test_a_crash_at_a_store_call_on_s3(site, mode, drop, record_property):
    """Whatever call of S3 fails, every 13th tried, the run ends the same when issued again."""
    await on_s3(site, mode, drop, record_property)
