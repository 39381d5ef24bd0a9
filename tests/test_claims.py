"""Claims and listings: who owns a run, and which runs nobody looks after any more."""

import asyncio

import msgspec
import pytest

from builders import dump, said
from disturbed import Interposing, LosesAnswers, Recorder, Yielding
from durably import InvalidLimit, InvalidStatus, RevisionConflict, RunHead, Storage, Unavailable
from places import FakeClock


async def test_a_claim_carries_the_run_and_its_revision(handles):
    """A claim holds the run as it was, moves its revision, and changes neither head nor entries."""
    first, second = handles
    head = RunHead(turns=3, status="interrupted", started_at=5.0)
    before = await first.checkpointer.append("r", said("a"), head)
    claim = await second.checkpointer.claim("r")
    run = await first.checkpointer.load("r")
    assert (claim.run_id, claim.revision, claim.snapshot.revision) == (
        *("r", run.revision, run.revision),
    )
    assert run.revision != before
    assert claim.snapshot.entries == run.entries == said("a")
    for found in (claim.snapshot.head, run.head):
        assert msgspec.structs.replace(found, updated_at=None) == head


async def test_a_claim_saves_on_and_on(handles):
    """A claim carries the token from save to save."""
    first, second = handles
    await first.checkpointer.append("r", said("0"), RunHead())
    claim = await second.checkpointer.claim("r")
    for number in range(1, 4):
        saved = await claim.append(said(f"{number}"), RunHead(turns=number))
        assert saved == claim.revision == (await first.checkpointer.load("r")).revision
    assert (await first.checkpointer.load("r")).entries == said("0", "1", "2", "3")


async def test_an_overtaken_claim_is_refused_at_its_next_save(place):
    """Of two claims the later owns the run; the earlier is refused and has written nothing."""
    async with place.open() as first, place.open() as second:
        await first.checkpointer.append("r", said("a"), RunHead())
        early = await first.checkpointer.claim("r")
        late = await second.checkpointer.claim("r")
        before = dump(place)
        for act in (
            lambda: early.append(said("x"), RunHead()),
            lambda: early.append([], RunHead(status="failed")),
            early.delete,
        ):
            with pytest.raises(RevisionConflict):
                await act()
        assert dump(place) == before
        await late.append(said("b"), RunHead())
        assert (await first.checkpointer.load("r")).entries == said("a", "b")


async def test_two_claims_through_one_handle_are_two_workers(storage):
    """Two claims made through one handle are fenced from each other, equal saves included."""
    for existing in (True, False):
        name = f"r{existing}"
        if existing:
            await storage.checkpointer.append(name, said("a"), RunHead())
        early = await storage.checkpointer.claim(name)
        late = await storage.checkpointer.claim(name)
        await late.append(said("same"), RunHead())
        with pytest.raises(RevisionConflict):
            await early.append(said("same"), RunHead())
        run = await storage.checkpointer.load(name)
        assert run.entries[-1:] == said("same")
        assert run.revision == late.revision


async def test_a_save_without_a_claim_overtakes_it(handles):
    """A save that took no notice of the claim makes the claim's next one a conflict."""
    first, second = handles
    claim = await first.checkpointer.claim("r")
    await claim.append(said("a"), RunHead())
    await second.checkpointer.append("r", said("b"), RunHead())
    with pytest.raises(RevisionConflict):
        await claim.append(said("c"), RunHead())


async def test_a_missing_run_is_owned_by_the_first_to_append(handles):
    """Several may claim a run that does not exist; the first to append owns it."""
    claims = [await handle.checkpointer.claim("r") for handle in handles]
    assert [(one.snapshot, one.revision) for one in claims] == [(None, 0)] * 2
    await claims[1].append(said("a"), RunHead())
    for act in (lambda: claims[0].append(said("a"), RunHead()), claims[0].delete):
        with pytest.raises(RevisionConflict):
            await act()
    await claims[1].append(said("b"), RunHead())
    assert (await handles[0].checkpointer.load("r")).entries == said("a", "b")


async def test_a_claim_deletes_its_run_and_may_start_it_again(storage):
    """A claim deletes the run it owns, says whether there was one, and can begin anew."""
    claim = await storage.checkpointer.claim("r")
    assert await claim.delete() is False
    await claim.append(said("a"), RunHead())
    assert await claim.delete() is True
    assert claim.revision == 0
    assert await storage.checkpointer.load("r") is None
    await claim.append(said("b"), RunHead())
    assert (await storage.checkpointer.load("r")).entries == said("b")


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


async def test_of_many_concurrent_claims_exactly_one_owns_the_run(place):
    """Of 8 concurrent claims at least one succeeds, and exactly one of those can save."""
    stores = [Storage(Yielding(place.log_store(), seed)) for seed in range(4)]
    for number in range(20):
        name = f"r{number}"
        await stores[0].checkpointer.append(name, said("a"), RunHead())
        outcomes = await asyncio.gather(
            *(stores[n % 4].checkpointer.claim(name) for n in range(8)), return_exceptions=True
        )
        claims = [one for one in outcomes if not isinstance(one, RevisionConflict)]
        assert claims
        saved = 0
        for claim in claims:
            try:
                await claim.append(said("b"), RunHead())
            except RevisionConflict:
                continue
            saved += 1
        assert saved == 1
        assert (await stores[0].checkpointer.load(name)).entries == said("a", "b")
    for store in stores:
        await store.aclose()


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


async def _walk(storage, **options):
    pages, after = [], None
    while True:
        page = await storage.checkpointer.runs(after=after, **options)
        pages.append([run.run_id for run in page.items])
        after = page.next
        if after is None:
            return pages


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 9, 25, 1000])
async def test_pages_of_runs_join_to_the_whole(storage, limit):
    """Pages of any size, of all runs or of one status, join to the whole, none twice."""
    names = [f"run-{number:02}" for number in range(24)]
    for number, name in enumerate(reversed(names)):
        status = ("running", "completed", "failed")[number % 3]
        await storage.checkpointer.append(name, [], RunHead(status=status))
    pages = await _walk(storage, limit=limit)
    assert [name for page in pages for name in page] == names
    assert all(len(page) <= limit for page in pages)
    for status in ("running", "completed", "failed", "interrupted"):
        found = [name for page in await _walk(storage, limit=limit, status=status) for name in page]
        offset = {"running": 0, "completed": 1, "failed": 2, "interrupted": 99}[status]
        assert found == sorted(names[::-1][offset::3])


async def test_a_row_says_what_a_load_would(handles):
    """A row carries revision, head and number of entries of its run, at its latest."""
    first, second = handles
    await first.checkpointer.append("r", said("a", "b"), RunHead(turns=1))
    await first.checkpointer.append("r", said("c"), RunHead(turns=2, status="failed"))
    run = await first.checkpointer.load("r")
    (row,) = (await second.checkpointer.runs()).items
    assert (row.run_id, row.revision, row.head, row.entry_count) == (
        *("r", run.revision, run.head, 3),
    )


async def test_a_listing_reads_no_entries(place):
    """A listing reads no run: its cost does not depend on what the runs hold."""
    recorder = Recorder(place.log_store())
    async with Storage(recorder) as storage:
        for number in range(5):
            await storage.checkpointer.append(f"r{number}", said("x"), RunHead())
        recorder.calls.clear()
        assert len((await storage.checkpointer.runs()).items) == 5
        assert recorder.calls == []


async def test_idle_runs_are_found_by_their_last_save(place):
    """idle_for finds runs last saved at least so many seconds ago, whatever their start."""
    clock = FakeClock(1000.0)
    async with place.open(clock=clock) as storage:
        for name, now in (("a", 1000.0), ("b", 1000.0), ("c", 1100.0)):
            clock.now = now
            await storage.checkpointer.append(name, [], RunHead(started_at=1.0))
        clock.now = 1150.0
        await storage.checkpointer.append("b", [], RunHead(status="completed"))
        clock.now = 1200.0

        async def idle(seconds, **options):
            page = await storage.checkpointer.runs(idle_for=seconds, **options)
            return "".join(run.run_id for run in page.items)

        assert await idle(0) == "abc"
        assert await idle(50) == "abc"
        assert await idle(50.5) == "ac"
        assert await idle(100) == "ac"
        assert await idle(200) == "a"
        assert await idle(201) == ""
        assert await idle(0, status="running") == "ac"
        assert await idle(0, after="a", limit=1) == "b"
        clock.now = 900.0
        assert await idle(0) == ""


@pytest.mark.parametrize("limit", [0, -1, 1001, True, 1.0, "1", None])
async def test_a_limit_out_of_range_is_refused(storage, limit):
    """A limit of a listing is an integer from 1 to 1,000."""
    with pytest.raises(InvalidLimit) as caught:
        await storage.checkpointer.runs(limit=limit)
    assert (caught.value.minimum, caught.value.maximum) == (1, 1000)


@pytest.mark.parametrize("seconds", [-1, -0.5, float("nan"), float("inf"), "1", True])
async def test_idle_for_is_a_number_of_seconds(storage, seconds):
    """idle_for that is no finite number of at least 0 is an InvalidLimit."""
    with pytest.raises(InvalidLimit):
        await storage.checkpointer.runs(idle_for=seconds)


@pytest.mark.parametrize("status", ["lost", "", "Running", 1, ["running"]])
async def test_an_unknown_status_is_refused(storage, status):
    """A status that is none of the four is an InvalidStatus that names the four."""
    with pytest.raises(InvalidStatus, match="must be one of running"):
        await storage.checkpointer.runs(status=status)


@pytest.mark.parametrize("ending", ["append", "delete"])
@pytest.mark.parametrize("steps", range(8))
async def test_a_claim_goes_on_after_its_own_cancelled_save(place, steps, ending):
    """A save cancelled at any await leaves the claim its run; it is stored once or not at all."""
    async with Storage(Yielding(place.log_store(), steps)) as storage:
        claim = await storage.checkpointer.claim("r")
        await claim.append(said("a"), RunHead())
        task = asyncio.create_task(claim.append(said("b"), RunHead(turns=1)))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        if ending == "delete":
            assert await claim.delete() is True
            assert await storage.checkpointer.load("r") is None
            return
        await claim.append([], RunHead(turns=1, status="interrupted"))
        run = await storage.checkpointer.load("r")
        assert run.entries in (said("a"), said("a", "b"))
        assert (run.head.status, run.revision) == ("interrupted", claim.revision)


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
