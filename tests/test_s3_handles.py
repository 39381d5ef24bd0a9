"""S3: many handles on one log at once; nothing is lost, doubled, out of order or half there."""

import asyncio
import itertools

import pytest

from durably import CorruptRecord, RevisionConflict
from durably.logstore import Applied, Batch, Range, Rewrite
from s3_crashes import KEYS, LOG, batches, dice_of, filled, open_on, record, small, tidy, view
from s3_memory import Shelf, nothing

TIP = KEYS.tip(LOG)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    small(monkeypatch)


def jittering(shelf, dice, count, **settings):
    """Return so many stores, whose requests take a random number of turns of the loop."""
    stores = []
    for _ in range(count):
        store, bucket = open_on(shelf, timeout=60, **settings)
        bucket.jitter = lambda: dice.randrange(4)
        stores.append(store)
    return stores


def one(name, *, at=1.0, **fields):
    return Batch(records=(record(name),), key=name, at=at, **fields)


def assert_sound(log):
    """What is read fits together."""
    seqs = [record.seq for record in log.records]
    assert seqs == sorted(set(seqs))
    assert log.state.record_count == len(seqs)
    assert log.state.entry_count == sum(record.entry_count for record in log.records)
    assert log.state.next_seq > max(seqs, default=0)


@pytest.mark.parametrize("seed", range(12))
async def test_appends_of_many_handles_are_all_there_once(seed):
    """Of 2 to 8 handles that append at once each finds all its own, in its order, and once."""
    dice = dice_of(seed)
    shelf = Shelf()
    stores = jittering(shelf, dice, 2 + seed % 7)

    async def work(number, store):
        answers = [await store.append(LOG, one(f"{number}-{turn}")) for turn in range(8)]
        assert not any(answer.duplicate for answer in answers)
        return [answer.seq for answer in answers]

    seqs = await asyncio.gather(*itertools.starmap(work, enumerate(stores)))
    assert all(mine == sorted(mine) for mine in seqs)
    now = await view(shelf)
    assert_sound(now)
    wanted = {
        seq: f"{number}-{turn}:0"
        for number, mine in enumerate(seqs)
        for turn, seq in enumerate(mine)
    }
    assert {record.seq: record.key for record in now.records} == wanted
    assert len(wanted) == 8 * len(stores)
    await tidy(shelf)


@pytest.mark.parametrize("seed", range(12))
async def test_one_batch_sent_by_many_handles_is_applied_once(seed):
    """All handles get one revision and seq for it, and exactly one is told that it did it."""
    dice = dice_of(seed)
    shelf = await filled(seed)
    stores = jittering(shelf, dice, 2 + seed % 4)
    for store in stores:
        if dice.random() < 0.5:
            await store.read(LOG)
    answers = await asyncio.gather(*(store.append(LOG, one("same")) for store in stores))
    assert len({(answer.revision, answer.seq) for answer in answers}) == 1
    assert sorted(answer.duplicate for answer in answers) == [False] + [True] * (len(stores) - 1)
    assert (await view(shelf)).state.record_count == seed + 1


@pytest.mark.parametrize("seed", range(4))
async def test_a_change_sent_again_on_a_handle_that_lags_is_a_repetition(seed):
    """A handle that knows an older log says of what another one did that nothing was changed."""
    shelf = await filled(6 + seed)
    (first, _), (second, _) = open_on(shelf), open_on(shelf)
    now = await first.read(LOG)
    batch = one("same")
    cut = Rewrite(expected_revision=now.state.revision + 1, drop=frozenset({1}), key="cut", at=1.0)
    applied = [await second.append(LOG, batch), await second.rewrite(LOG, cut)]
    repeated = [await first.append(LOG, batch), await first.rewrite(LOG, cut)]
    assert [answer.duplicate for answer in applied + repeated] == [False, False, True, True]
    assert [answer.revision for answer in applied] == [answer.revision for answer in repeated]


@pytest.mark.parametrize("seed", range(12))
async def test_readers_see_whole_logs_while_others_change_them(seed):
    """While handles append, cut, replace and evict, every read is of one state and complete."""
    dice = dice_of(seed)
    shelf = await filled(6)
    *writers, appender, reader = jittering(shelf, dice, 4)
    ended = asyncio.Event()
    added = set()

    async def append():
        for turn in range(25):
            keep = 15 if turn % 6 == 5 else None
            answer = await appender.append(LOG, one(f"a{turn}", keep_last=keep))
            added.add((answer.seq, f"a{turn}:0"))
            for _ in range(dice.randrange(100)):
                await asyncio.sleep(0)
        ended.set()

    async def rewrite(store):
        done = 0
        while not ended.is_set():
            now = await store.read(LOG, Range(with_data=dice.random() < 0.5))
            assert_sound(now)
            chosen = [each.seq for each in now.records if dice.random() < 0.1]
            change = Rewrite(
                expected_revision=now.state.revision,
                drop=frozenset(chosen[1:]),
                replace={seq: record("x", dice.choice([60, 400])) for seq in chosen[:1]},
                at=1.0,
            )
            try:
                done += (await store.rewrite(LOG, change)).revision > 0
            except RevisionConflict:
                await asyncio.sleep(0)
        return done

    async def read():
        revisions = []
        while not ended.is_set():
            now = await reader.read(LOG)
            assert_sound(now)
            revisions.append(now.state.revision)
        assert revisions == sorted(revisions)

    async with asyncio.timeout(60):
        counts = (await asyncio.gather(append(), read(), *map(rewrite, writers)))[2:]
    assert sum(counts) > 3
    now = await view(shelf)
    assert_sound(now)
    last = [(each.seq, each.key) for each in now.records if each.key.startswith("a")]
    assert set(last) <= added
    await tidy(shelf)
    assert await view(shelf) == now


@pytest.mark.parametrize("seed", range(20))
async def test_of_two_deleters_one_is_told_that_there_was_a_log(seed):
    """Handles that delete a log at once agree on who did it, whatever they knew before."""
    dice = dice_of(seed)
    shelf = await filled(seed)
    stores = jittering(shelf, dice, 2 + seed % 3)
    for store in stores:
        if dice.random() < 0.5:
            await store.read(LOG)
    told = await asyncio.gather(*(store.delete(LOG) for store in stores))
    assert told.count(True) == (seed > 0)
    assert set(shelf.objects) == {KEYS.layout}


@pytest.mark.parametrize("seed", range(60))
async def test_a_deletion_and_an_append_take_place_one_after_the_other(seed):
    """The log is gone, or has what was appended after the deletion, and never a part of it."""
    dice = dice_of(seed)
    shelf = await filled(1 + seed % 10)
    deleter, creator, *_ = jittering(shelf, dice, 2)
    batch = Batch(records=tuple(record(f"n{n}", 100) for n in range(5)), key="new", at=7.0)

    async def later(awaitable):
        for _ in range(dice.randrange(12)):
            await asyncio.sleep(0)
        return await awaitable

    deleted, applied = await asyncio.gather(
        later(deleter.delete(LOG)), later(creator.append(LOG, batch))
    )
    assert deleted is True
    assert not applied.duplicate
    now = await view(shelf)
    if now is not None:
        assert [each.key for each in now.records] == list(batch.record_keys)
        assert applied.seq == 5
        assert_sound(now)
    else:
        assert applied.seq == 5 + 1 + seed % 10
    await tidy(shelf)
    assert await view(shelf) == now


@pytest.mark.parametrize("seed", range(10))
async def test_lives_of_a_log_never_mix(seed):
    """While handles create, append and delete for long, a log has records of one life only."""
    dice = dice_of(seed)
    shelf = Shelf()
    stores = jittering(shelf, dice, 4)

    async def work(number, store):
        for turn in range(12):
            if dice.random() < 0.3:
                await store.delete(LOG)
                continue
            await store.append(LOG, one(f"{number}-{turn}", at=dice.random()))
            now = await store.read(LOG)
            if now is not None:
                assert_sound(now)
                assert [each.seq for each in now.records] == [*range(1, now.state.next_seq)]
                assert now.records[0].stored_at == now.state.created_at

    async with asyncio.timeout(60):
        await asyncio.gather(*itertools.starmap(work, enumerate(stores)))
    await tidy(shelf)


@pytest.mark.parametrize("expected", [None, 1001])
async def test_a_deleter_that_lags_deletes_what_is_there_now(expected):
    """A handle that knows an earlier life of a log deletes the present one, or refuses to."""
    shelf = await filled(1)
    (first, _), (second, _) = open_on(shelf), open_on(shelf)
    await first.read(LOG)
    await second.delete(LOG)
    await second.append(LOG, one("new", at=3.0))
    await second.append(LOG, one("newer", at=3.0))
    if expected is None:
        assert await first.delete(LOG) is True
        assert await second.read(LOG) is None
    else:
        with pytest.raises(RevisionConflict):
            await first.delete(LOG, expected_revision=expected)
        assert (await second.read(LOG)).state.record_count == 2


@pytest.mark.parametrize("where", ["repeats", "delay"])
@pytest.mark.parametrize(("created_at", "revision"), [(101.0, 900), (9.0, 1500)])
async def test_a_deletion_whose_answer_is_lost_spares_the_next_life(
    monkeypatch, where, created_at, revision
):
    """Who deleted a log and was not told does not delete the one that others created since."""
    shelf = await filled(1)
    deleter, bucket = open_on(shelf)
    other = Shelf()
    monkeypatch.setattr("secrets.randbits", lambda _: revision)
    creator, _ = open_on(other)
    await creator.append(LOG, one("new", at=created_at))

    def create_anew(request):
        if request.what == "get" and request.key == TIP and bucket.count("put"):
            shelf.objects[TIP] = other.objects[TIP]
            bucket.before = nothing

    bucket.before = create_anew
    setattr(bucket, where, {"repeats": lambda _: True, "delay": lambda _: 0}[where])
    assert await deleter.delete(LOG) is True
    assert [each.key for each in (await view(shelf)).records] == ["new:0"]


async def test_a_deletion_of_a_corrupt_log_spares_the_next_life():
    """So does one who deleted a log whose tip could not be read."""
    shelf = await filled(1)
    other = await filled(3)
    shelf.objects[TIP] = (b"spoiled", "an etag", 0.0)
    deleter, bucket = open_on(shelf)

    def create_anew(request):
        if request.what == "get" and request.key == TIP and bucket.count("put"):
            shelf.objects |= other.objects
            bucket.before = nothing

    bucket.before = create_anew
    bucket.repeats = lambda _: True
    assert await deleter.delete(LOG) is True
    assert (await view(shelf)).state.record_count == 3


async def _stages(lengths):
    """Return a shelf as it was when its log had so many records."""
    shelf = Shelf()
    store, _ = open_on(shelf)
    stages = []
    for number, batch in enumerate(batches(max(lengths)), 1):
        await store.append(LOG, batch)
        await asyncio.sleep(0)
        if number in lengths:
            stages.append(shelf.copy())
    return stages


@pytest.mark.parametrize(
    "span",
    [Range(), Range(with_data=False), Range(limit=2), Range(after=1, newest=True, limit=7)],
)
@pytest.mark.parametrize("is_warm", [False, True])
async def test_a_reader_that_finds_a_chunk_merged_away_starts_again(span, is_warm):
    """A chunk that is gone since its tip was read is looked for in the tip as it is now."""
    earlier, later = await _stages((8, 9))
    expected = await open_on(later.copy())[0].read(LOG, span)
    shelf = earlier
    store, bucket = open_on(shelf)
    if is_warm:
        await store.read(LOG, Range(limit=0))

    def merge(request):
        if request.what == "get" and request.key.startswith(KEYS.chunks):
            shelf.objects = later.objects
            bucket.before = nothing

    bucket.before = merge
    assert await store.read(LOG, span) == expected
    assert bucket.before is nothing


async def test_a_writer_that_finds_a_chunk_merged_away_starts_again():
    """An append and a rewrite of a handle that lags are made on the log as it is now."""
    earlier, later = await _stages((8, 9))
    for change in (one("new"), Rewrite(expected_revision=1009, drop=frozenset({1}), at=1.0)):
        shelf = earlier.copy()
        store, _ = open_on(shelf)
        await store.read(LOG, Range(limit=0))
        shelf.objects = dict(later.objects)
        send = store.append if isinstance(change, Batch) else store.rewrite
        assert await send(LOG, change) == Applied(
            revision=1010, seq=10 if send == store.append else 0
        )
        await tidy(shelf)


@pytest.mark.parametrize("is_warm", [False, True])
async def test_a_chunk_is_missing_only_if_one_tip_names_it_twice(is_warm):
    """Then whoever reads or changes the log is told which object, after two looks at the tip."""
    shelf = await filled(8)
    chunk = next(key for key in shelf.objects if key.startswith(KEYS.chunks))
    del shelf.objects[chunk]
    before = shelf.dump()
    for call in (
        lambda store: store.read(LOG),
        lambda store: store.append(LOG, one("new")),
        lambda store: store.rewrite(LOG, Rewrite(expected_revision=1008, drop=frozenset({1}))),
    ):
        store, bucket = open_on(shelf)
        if is_warm:
            await store.read(LOG, Range(limit=0))
        bucket.log.clear()
        with pytest.raises(CorruptRecord, match=chunk):
            await call(store)
        assert bucket.count("get", TIP) == 2
        assert shelf.dump() == before
        assert await store.delete(LOG) is True
        shelf.objects = {key: (data, "etag", 0.0) for key, data in before.items()}
