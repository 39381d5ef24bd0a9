"""Two processes resume one run at the same time: exactly one goes on."""

from collections import Counter
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

import pytest

import durably
from redis_servers import namespace
from runner_crashes import folder_in_memory
from runner_job import read_ledger
from runner_pairs import ANSWER, NAMES, OPEN, leave_open, two_workers

pytest_plugins = ["redis_fixtures", "s3_fixtures"]

ROUNDS = 50
ROUNDS_ON_S3 = 8


def _by_run(path):
    """Return what a worker's tools wrote down, by run."""
    found, current = {}, None
    for word, *told in read_ledger(path):
        if word == "run":
            current = found.setdefault(told[0], [])
        else:
            current.append((word, told[0]))
    return found


async def _race(url, folder, record_property, *, rounds=ROUNDS, environment=MappingProxyType({})):
    """Let both resume one run after another, held at a barrier between ``load`` and ``append``."""
    winners = {}
    async with (
        durably.open(url) as storage,
        two_workers(url, folder, environment) as (workers, ledgers),
    ):
        for number in range(rounds):
            run_id = f"run {number}"
            await leave_open(storage, run_id)
            for worker in workers:
                worker.tell(run_id)
            assert [await worker.hear() for worker in workers] == ["loaded"] * 2
            for worker in workers if number % 2 else workers[::-1]:
                worker.tell("go")
            ended = [await worker.hear() for worker in workers]
            assert sorted(ended) == [["RevisionConflict", 0], [ANSWER, 1]]
            winners[run_id] = ended.index([ANSWER, 1])
            run = await storage.checkpointer.load(run_id)
            assert (run.head.status, run.head.output, run.head.turns) == ("completed", ANSWER, 2)
            assert len(run.entries) == 2 + 2 * len(OPEN)
    did = [_by_run(ledger) for ledger in ledgers]
    for run_id, winner in winners.items():
        once = {(word, f"{call.call_id}/0"): 1 for call in OPEN for word in ("begun", "finished")}
        assert Counter(did[winner][run_id]) == once
        assert did[1 - winner][run_id] == []
    won = Counter(NAMES[winner] for winner in winners.values())
    record_property("counted", f"{rounds} races, won by {dict(won)}: one claim each")


async def test_one_of_two_workers_goes_on_on_sqlite(record_property):
    """50 times, one claim of two succeeds; the loser is told so, and ran nothing."""
    with folder_in_memory() as name:
        folder = Path(name)
        url = f"sqlite:///{quote(str(folder / 'storage.db'))}"
        await _race(url, folder, record_property)


async def test_one_of_two_workers_goes_on_on_redis(server, record_property):
    """50 times, one claim of two succeeds; the loser is told so, and ran nothing."""
    with folder_in_memory() as name:
        url = f"{server.url}?namespace={quote(namespace())}"
        await _race(url, Path(name), record_property)


@pytest.mark.xdist_group("moto-1")
async def test_one_of_two_workers_goes_on_on_s3(site, tmp_path, record_property):
    """8 times, one claim of two succeeds; the loser is told so, and ran nothing."""
    await _race(
        site.url(),
        tmp_path,
        record_property,
        rounds=ROUNDS_ON_S3,
        environment=site.server.environment,
    )
