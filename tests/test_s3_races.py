"""Clients that change one log at once: every acknowledged change is there once, and whole."""

import asyncio

import pytest

import durably
from durably import RevisionConflict
from durably.logstore import Rewrite
from durably_s3 import _planning
from logs import LOG, batch, keys, log, state
from peers import peers
from s3_faults import strip_conditions

pytest_plugins = ["s3_fixtures"]
pytestmark = pytest.mark.timeout(120)

on_moto = pytest.mark.xdist_group("moto-2")
on_seaweed = pytest.mark.xdist_group("seaweedfs")

ROUNDS = 200
PROCESSES = "abc"
APPENDS = 20


def named(number: int, who: int) -> str:
    return f"{number} by {who}"


async def race(stores, rounds: int) -> list:
    """Let two stores append to one log at once, so many times; return all that they were told."""
    told = []
    for number in range(rounds):
        told += await asyncio.gather(
            *(store.append(LOG, batch(named(number, who))) for who, store in enumerate(stores))
        )
    return told


async def counted_race(site, rounds: int) -> int:
    """Race, and return in how many rounds a condition did not hold; all must be as it should."""
    stores = [site.store() for _ in range(2)]
    lost = 0
    for number in range(rounds):
        site.proxy.clear()
        told = await asyncio.gather(
            *(store.append(LOG, batch(named(number, who))) for who, store in enumerate(stores))
        )
        assert sorted(one.seq for one in told) == [2 * number + 1, 2 * number + 2]
        assert not any(one.duplicate for one in told)
        lost += any(one.status in {409, 412} for one in site.proxy.log)
    found = await site.store().read(LOG)
    wanted = [{named(number, who) for who in range(2)} for number in range(rounds)]
    pairs = zip(found.records[::2], found.records[1::2], strict=True)
    assert [{one.key, other.key} for one, other in pairs] == wanted
    assert all(record.data == record.key.encode() for record in found.records)
    assert found.state.record_count == 2 * rounds
    return lost


@on_moto
async def test_two_clients_lose_nothing(site, monkeypatch, record_property):
    """200 rounds of two appends at once to one log that seals and merges: all there, once."""
    monkeypatch.setattr(_planning, "SEAL_BYTES", 3000)
    lost = await counted_race(site, ROUNDS)
    record_property("counted", f"{lost} of {ROUNDS} rounds met a condition that did not hold")
    assert lost >= 50


@on_seaweed
async def test_two_clients_lose_nothing_on_a_real_server(real_site, record_property):
    """The same on SeaweedFS, where the loser waits for long: a few rounds, and some collide."""
    lost = await counted_race(real_site, 10)
    record_property("counted", f"{lost} of 10 rounds met a condition that did not hold")
    assert lost >= 1


@on_moto
async def test_without_conditions_the_same_race_loses(site):
    """Let the server ignore conditions once the storage exists, and acknowledged appends go."""
    stores = [site.store() for _ in range(2)]
    await asyncio.gather(*(store.read(LOG) for store in stores))
    site.proxy.plan(strip_conditions, times=None)
    told = await race(stores, 10)
    assert not any(one.duplicate for one in told)
    assert len(await keys(site.store())) < 20


@on_moto
async def test_a_batch_that_two_clients_send_is_stored_once(site):
    """Of one batch from two clients at once one is told that it was stored, the other that it was.

    A client that sends it again later is told the same.
    """
    stores = [site.store() for _ in range(2)]
    for number in range(20):
        same = batch(f"{number}", f"{number} too", key=f"batch {number}")
        told = await asyncio.gather(*(store.append(LOG, same) for store in stores))
        assert sorted(one.duplicate for one in told) == [False, True]
        assert {one.seq for one in told} == {2 * number + 2}
    wanted = [key for number in range(20) for key in (f"{number}", f"{number} too")]
    assert await keys(site.store()) == wanted


@on_moto
async def test_of_two_rewrites_one_is_done(site):
    """Two clients that rewrite from one revision: one does, and one is told of the conflict."""
    stores = [site.store() for _ in range(2)]
    for number in range(10):
        await stores[0].append(LOG, batch(f"{number}"))
        revision = (await state(stores[1])).revision
        change = [
            Rewrite(expected_revision=revision, head=b"%d" % who) for who in range(len(stores))
        ]
        told = await asyncio.gather(
            *(store.rewrite(LOG, one) for store, one in zip(stores, change, strict=True)),
            return_exceptions=True,
        )
        assert sum(isinstance(one, RevisionConflict) for one in told) == 1
        winner = next(who for who, one in enumerate(told) if not isinstance(one, Exception))
        assert (await state(site.store())).head == b"%d" % winner


@on_moto
async def test_appends_meet_deletions(site, monkeypatch):
    """While one client deletes again and again, what the other appends is there or was deleted."""
    monkeypatch.setattr(_planning, "SEAL_BYTES", 100)
    appending, deleting = (site.store() for _ in range(2))
    for number in range(12):
        applied, deleted = await asyncio.gather(
            appending.append(LOG, batch(f"{number} " * 10, f"{number}")), deleting.delete(LOG)
        )
        assert not applied.duplicate
        left = await keys(deleting)
        assert left[-2:] in ([f"{number} " * 10, f"{number}"], [])
        assert left or deleted
    await deleting.delete(LOG)
    assert await appending.read(LOG) is None


@on_moto
async def test_processes_that_append_at_once_lose_nothing(site, aws):
    """Three processes append to one session, and to one each: all there, each one's order kept.

    Each is a process with a client of its own; only the bucket is between them.
    """
    async with peers(site.url(), len(PROCESSES)) as all_three:
        named = list(zip(all_three, PROCESSES, strict=True))
        await asyncio.gather(*(one.call("append_many", "s", name, APPENDS) for one, name in named))
        collided = [one for one in site.proxy.log if one.status in {409, 412}]
        await asyncio.gather(*(one.call("append_many", name, name, APPENDS) for one, name in named))
        views = [[row[0] for row in await one.call("segments", "s")] for one in all_three]
    assert collided
    async with durably.open(site.url()) as storage:
        found = [one.run_id for one in await storage.sessions.segments("s")]
        assert views == [found] * len(PROCESSES)
        for name in PROCESSES:
            wanted = [f"{name} {number}" for number in range(APPENDS)]
            assert [run_id for run_id in found if run_id.startswith(name)] == wanted
            assert [one.run_id for one in await storage.sessions.segments(name)] == wanted
        assert len(found) == len(PROCESSES) * APPENDS


@on_moto
async def test_stores_that_begin_at_once_agree(bare_site):
    """Eight stores make the first change of one storage at once: one layout, and nothing else."""
    stores = [bare_site.store() for _ in range(8)]
    await asyncio.gather(
        *(store.append(log(f"{who}"), batch("a")) for who, store in enumerate(stores))
    )
    tips = [bare_site.keys.tip(log(f"{who}")) for who in range(8)]
    assert sorted(bare_site.dump()) == sorted([bare_site.keys.layout, *tips])


@on_seaweed
async def test_stores_that_begin_at_once_agree_on_a_real_server(real_site):
    """So do two on SeaweedFS."""
    stores = [real_site.store() for _ in range(2)]
    await asyncio.gather(
        *(store.append(log(f"{who}"), batch("a")) for who, store in enumerate(stores))
    )
    tips = [real_site.keys.tip(log(f"{who}")) for who in range(2)]
    assert sorted(real_site.dump()) == sorted([real_site.keys.layout, *tips])
