"""Several processes on one SQLite file: what one was told, every other one sees."""

import asyncio

import pytest

import durably
from durably import InputEntry, RunHead
from peers import peers


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'storage.db'}"


def _said(*texts):
    return [InputEntry(role="user", content=text) for text in texts]


async def test_another_process_sees_an_acknowledged_append_at_once(url):
    """Each of two processes reads what the other one was just told is stored."""
    async with durably.open(url) as storage, peers(url, 1) as [peer]:
        for number in range(20):
            await storage.sessions.append("s", _said(f"ours {number}"), run_id=f"ours {number}")
            assert (await peer.call("segments", "s"))[-1] == [f"ours {number}"] * 2
            await peer.call("append", "s", f"theirs {number}", f"theirs {number}")
            assert (await storage.sessions.segments("s"))[-1].run_id == f"theirs {number}"
        assert len(await storage.sessions.load("s")) == 40


async def test_two_processes_agree_on_the_order_of_their_appends(url):
    """Appends of two processes interleave in one order, each process's own kept, in all eyes."""
    async with durably.open(url) as storage, peers(url) as both:
        await asyncio.gather(
            *(
                peer.call("append_many", "s", name, 60)
                for peer, name in zip(both, "ab", strict=True)
            )
        )
        ours = [one.run_id for one in await storage.sessions.segments("s")]
        views = [[row[0] for row in await peer.call("segments", "s")] for peer in both]
        assert views == [ours, ours]
        for name in "ab":
            mine = [run_id for run_id in ours if run_id.startswith(name)]
            assert mine == [f"{name} {number}" for number in range(60)]


async def test_one_run_id_from_two_processes_is_one_segment(url):
    """A run appended by both processes at once is stored once, whole, as one of them sent it."""
    async with durably.open(url) as storage, peers(url) as both:
        for number in range(20):
            run_id = f"run {number}"
            texts = ["first", "second", "third"]
            sent = [[f"{name} {text}" for text in texts] for name in "ab"]
            answers = await asyncio.gather(
                *(
                    peer.call("append", "s", run_id, *mine)
                    for peer, mine in zip(both, sent, strict=True)
                )
            )
            assert answers == [run_id, run_id]
            views = [await peer.call("segments", "s") for peer in both]
            assert views[0] == views[1]
            assert views[0][-1][1:] in sent
        assert len(await storage.sessions.segments("s")) == 20


async def test_four_processes_that_append_at_once_lose_nothing(url):
    """Four processes append 100 runs each, to one session and to their own: all are there."""
    async with peers(url, 4) as all_four:
        named = list(zip(all_four, "abcd", strict=True))
        await asyncio.gather(*(peer.call("append_many", "s", name, 50) for peer, name in named))
        await asyncio.gather(*(peer.call("append_many", name, name, 50) for peer, name in named))
    async with durably.open(url) as storage:
        found = {one.run_id for one in await storage.sessions.segments("s")}
        assert found == {f"{name} {number}" for name in "abcd" for number in range(50)}
        for name in "abcd":
            own = [one.run_id for one in await storage.sessions.segments(name)]
            assert own == [f"{name} {number}" for number in range(50)]


async def test_a_run_that_was_rewound_away_is_free_in_another_process(url):
    """A rewind in one process frees the run id for the other one, and cuts what it sees."""
    async with durably.open(url) as storage, peers(url, 1) as [peer]:
        await storage.sessions.append("s", _said("a"), run_id="r1")
        await storage.sessions.append("s", _said("b", "c"), run_id="r2")
        await peer.call("rewind", "s", 1)
        assert await storage.sessions.load("s") == _said("a")
        await storage.sessions.append("s", _said("again"), run_id="r2")
        assert await peer.call("segments", "s") == [["r1", "a"], ["r2", "again"]]


@pytest.mark.parametrize("exists", [True, False])
async def test_of_two_processes_that_claim_a_run_exactly_one_goes_on(url, exists):
    """After two processes claimed one run at once, one of them can save, the other cannot."""
    async with durably.open(url) as storage, peers(url) as both:
        for number in range(20):
            run_id = f"run {number}"
            if exists:
                await storage.checkpointer.append(run_id, _said("before"), RunHead())
            claimed = await asyncio.gather(*(peer.call("claim", run_id) for peer in both))
            assert any(claimed)
            saved = await asyncio.gather(
                *(peer.call("save", run_id, f"by {who}") for who, peer in enumerate(both))
            )
            assert sorted(saved) == [False, True]
            winner = f"by {saved.index(True)}"
            views = [await peer.call("run", run_id) for peer in both]
            wanted = [winner, "before", winner] if exists else [winner, winner]
            assert views == [wanted, wanted]
