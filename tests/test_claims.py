"""Claims over a log store that loses answers, or in which others come in between."""

import pytest

from builders import dump, said
from disturbed import Interposing, LosesAnswers, Recorder
from durably import RevisionConflict, RunHead, Storage, Unavailable


async def test_a_claim_overtaken_while_claiming_is_refused(place):
    """A save between a claim's reading and its writing is a RevisionConflict."""
    store = Interposing(place.log_store())
    async with Storage(store) as first, place.open() as second:
        await first.checkpointer.append("r", said("a"), RunHead(turns=1))
        store.interpose(
            "append", 1, lambda: second.checkpointer.append("r", said("b"), RunHead(turns=2))
        )
        with pytest.raises(RevisionConflict):
            await first.checkpointer.claim("r")
        assert (await second.checkpointer.load("r")).head.turns == 2


@pytest.mark.parametrize("entries", [said("b"), []], ids=["entries", "head alone"])
@pytest.mark.parametrize("existing", [True, False])
async def test_a_claim_saves_again_after_a_lost_answer(place, entries, existing):
    """After Unavailable the same save may be made again: it is stored once, and goes on."""
    store = LosesAnswers(place.log_store())
    async with Storage(store) as first, place.open() as second:
        before = said("a") if existing else []
        await first.checkpointer.append("other", [], RunHead())
        if existing:
            await first.checkpointer.append("r", before, RunHead())
        claim = await first.checkpointer.claim("r")
        store.losing = 2
        for _ in range(2):
            with pytest.raises(Unavailable):
                await claim.append(entries, RunHead(turns=1))
        stored = dump(place)
        saved = await claim.append(entries, RunHead(turns=1))
        assert dump(place) == stored
        assert (await second.checkpointer.load("r")).revision == saved
        await claim.append(said("c"), RunHead(turns=2))
        assert (await second.checkpointer.load("r")).entries == [*before, *entries, *said("c")]


async def test_a_save_known_after_a_lost_answer_does_not_take_the_run_back(place):
    """A worker that lost an answer and was overtaken since is stopped at its next save."""
    store = LosesAnswers(place.log_store())
    async with Storage(store) as first, place.open() as second:
        await first.checkpointer.append("r", said("a"), RunHead())
        early = await first.checkpointer.claim("r")
        store.losing = 1
        with pytest.raises(Unavailable):
            await early.append(said("b"), RunHead(turns=1))
        late = await second.checkpointer.claim("r")
        assert late.snapshot.entries == said("a", "b")
        assert await early.append(said("b"), RunHead(turns=1)) != late.revision
        with pytest.raises(RevisionConflict):
            await early.append(said("c"), RunHead(turns=2))
        await late.append(said("d"), RunHead())
        assert (await second.checkpointer.load("r")).entries == said("a", "b", "d")


async def test_a_claim_may_be_made_again_after_a_lost_answer(place):
    """A claim whose answer was lost can be made again, and owns the run."""
    store = LosesAnswers(place.log_store())
    async with Storage(store) as storage:
        await storage.checkpointer.append("r", said("a"), RunHead())
        store.losing = 1
        with pytest.raises(Unavailable):
            await storage.checkpointer.claim("r")
        claim = await storage.checkpointer.claim("r")
        await claim.append(said("b"), RunHead())


async def test_a_listing_reads_no_entries(place):
    """A listing reads no run: its cost does not depend on what the runs hold."""
    recorder = Recorder(place.log_store())
    async with Storage(recorder) as storage:
        for number in range(5):
            await storage.checkpointer.append(f"r{number}", said("x"), RunHead())
        recorder.calls.clear()
        assert len((await storage.checkpointer.runs()).items) == 5
        assert recorder.calls == []


async def test_another_save_completes_one_whose_answer_was_lost(place):
    """After a lost answer a claim stores the lost save once, whatever it is asked to save next."""
    store = LosesAnswers(place.log_store())
    async with Storage(store) as storage:
        claim = await storage.checkpointer.claim("r")
        await claim.append(said("a"), RunHead())
        store.losing = 1
        with pytest.raises(Unavailable):
            await claim.append(said("b"), RunHead(turns=1))
        await claim.append(said("c"), RunHead(turns=2))
        assert (await storage.checkpointer.load("r")).entries == said("a", "b", "c")


async def test_a_held_run_is_taken_over_by_the_first_save(handles):
    """Holding reads and writes nothing; of two that hold one run, the first to save owns it."""
    first, second = handles
    await first.checkpointer.append("r", said("a"), RunHead(turns=1))
    run = await second.checkpointer.load("r")
    early = first.checkpointer.hold("r", await first.checkpointer.load("r"))
    late = second.checkpointer.hold("r", run)
    assert await second.checkpointer.load("r") == run
    await late.append([], run.head)
    with pytest.raises(RevisionConflict):
        await early.append([], run.head)
    await late.append(said("b"), run.head)
    assert (await first.checkpointer.load("r")).entries == said("a", "b")


async def test_two_that_hold_through_one_handle_are_two(storage):
    """Two workers that share a handle and save the same are fenced from each other all the same."""
    one, other = (storage.checkpointer.hold("new", None) for _ in range(2))
    await one.append(said("same"), RunHead())
    with pytest.raises(RevisionConflict):
        await other.append(said("same"), RunHead())
