"""Writers that die by SIGKILL: what they were told is stored stays, once, and the next goes on."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from durably.logstore import Batch, LogId, NewRecord
from logs import LOG
from s3_kill_worker import content

pytest_plugins = ["s3_fixtures"]
pytestmark = [pytest.mark.xdist_group("moto-2"), pytest.mark.timeout(120)]

WORKER = Path(__file__).parent / "support" / "s3_kill_worker.py"
FORMAT = LogId(kind="meta", id="format")
KILLS = 10


@pytest.fixture
def parent(site):
    """A process that starts workers."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, str(WORKER), site.url()], **pipes) as process:
        yield process
        process.stdin.close()


def killed(parent: subprocess.Popen, worker: int, dice: random.Random) -> int:
    """Kill a worker a moment after a seeded ack, and return how many it gave."""
    parent.stdin.write(b"%d\n" % worker)
    parent.stdin.flush()
    child = int(parent.stdout.readline())
    lines = [parent.stdout.readline() for _ in range(dice.randrange(2, 16))]
    time.sleep(dice.uniform(0, 0.02))
    os.kill(child, signal.SIGKILL)
    lines += iter(parent.stdout.readline, b"died of %d\n" % signal.SIGKILL)
    assert lines == [b"ack %d\n" % step for step in range(len(lines))]
    return len(lines)


async def test_acknowledged_is_stored_once(site, parent, record_property):
    """10 SIGKILLs amid sealing and merging lose no acknowledged append and double none."""
    dice = random.Random(7)  # noqa: S311 - reproducible, no secret
    reading = site.store()
    acknowledged = {}
    for worker in range(KILLS):
        acknowledged[worker] = killed(parent, worker, dice)
        found = await reading.read(LOG)
        stored = [record.key for record in found.records]
        mine = [key for key in stored if key.startswith(f"{worker} ")]
        assert mine == [f"{worker} {step}" for step in range(len(mine))]
        assert acknowledged[worker] <= len(mine) <= acknowledged[worker] + 1
        assert len(set(stored)) == len(stored) == found.state.record_count
        assert all(record.data == content(record.key) for record in found.records)
    for worker, number in acknowledged.items():
        assert {f"{worker} {step}" for step in range(number)} <= set(stored)
    assert max(map(len, site.chunks().values())) > 400_000
    applied = await reading.append(LOG, Batch(records=(NewRecord(data=b""),)))
    assert applied.seq == len(stored) + 1
    assert await reading.delete(LOG)
    record_property(
        "counted",
        f"{KILLS} kills: {sum(acknowledged.values())} acknowledged, {len(stored)} stored, "
        f"{len(site.chunks())} chunks left behind",
    )
    await site.store(grace=0).maintain()
    assert list(site.dump()) == [site.keys.layout, site.keys.tip(FORMAT)]
