"""``LogStore``: which batch is known already, and what becomes of one that is."""

from durably import RevisionConflict
from durably.logstore import Applied, Batch, NewRecord, Rewrite
from durably_conformance.building import batch, log
from durably_conformance.context import T
from durably_conformance.logs import content, datas, keyed, keys, pair, refresh, state, stored
from durably_conformance.registry import check

RETRIES = ("google/adk-python#4506", "google/adk-python#5723")


@check("LOG-IDEM-001", contract="logstore", reports=RETRIES)
async def a_batch_sent_again_is_stored_once(t: T) -> None:
    """A batch sent again by another handle changes nothing, and is answered as a duplicate."""
    one, other = await pair(t)
    sent = batch(b"a", head=b"h")
    first = await one.append(log(), sent)
    before = await stored(t, one)
    again = await other.append(log(), sent)
    t.eq((again.revision, again.seq), (first.revision, first.seq), "the second answer")
    t.eq((first.duplicate, again.duplicate), (False, True), "which answer is a duplicate")
    t.eq(await stored(t, other), before, "the log afterwards")


@check("LOG-IDEM-002", contract="logstore", reports=RETRIES)
async def a_stored_batch_is_known_for_ever(t: T) -> None:
    """A batch whose records are in the log gets its first answer after any number of changes."""
    one, other = await pair(t)
    sent = batch(b"a")
    first = await one.append(log(), sent)
    for number in range(12):
        await other.append(log(), batch(b"%d" % number))
    await refresh(other, 12)
    before = await stored(t, other)
    again = await one.append(log(), sent)
    t.eq((again.revision, again.seq), (first.revision, first.seq), "the late answer")
    t.eq(await stored(t, other), before, "the log afterwards")


@check("LOG-IDEM-003", contract="logstore", reports=("openai/openai-agents-python#3852",))
async def a_head_is_remembered(t: T) -> None:
    """A batch without records is known by its key while fewer than 8 changes followed it."""
    one, other = await pair(t)
    await one.append(log(), batch(b"a"))
    sent = Batch(head=b"mine")
    first = await one.append(log(), sent)
    await refresh(other, 7)
    before = await stored(t, other)
    again = await one.append(log(), sent)
    t.eq((again.revision, again.seq), (first.revision, first.seq), "the late answer")
    t.eq(await stored(t, other), before, "the log afterwards")


@check("LOG-IDEM-004", contract="logstore")
async def a_rewrite_is_remembered(t: T) -> None:
    """A rewrite sent again gets its first answer while fewer than 8 changes followed it."""
    one, other = await pair(t)
    await one.append(log(), keyed("a", "b"))
    found = await stored(t, one)
    last = frozenset({found.records[-1].seq})
    sent = Rewrite(expected_revision=found.state.revision, drop=last)
    first = await one.rewrite(log(), sent)
    await refresh(other, 7)
    before = await stored(t, other)
    again = await t.attempt(other.rewrite(log(), sent))
    if not isinstance(again, Applied):
        t.fail(f"a rewrite sent again is refused with {type(again).__name__}")
    t.eq((again.revision, again.duplicate), (first.revision, True), "the late answer")
    t.eq(await stored(t, one), before, "the log afterwards")


@check("LOG-IDEM-005", contract="logstore")
async def the_own_key_comes_before_the_revision(t: T) -> None:
    """A batch that is known by its key is a duplicate, although its revision is long past."""
    one, other = await pair(t)
    before = await one.append(log(), batch(b"before"))
    sent = batch(b"mine", expected_revision=before.revision)
    first = await one.append(log(), sent)
    await other.append(log(), batch(b"after"))
    again = await t.attempt(other.append(log(), sent))
    if not isinstance(again, Applied):
        t.fail(f"a batch sent again is refused with {type(again).__name__}")
    t.eq((again.revision, again.seq), (first.revision, first.seq), "the late answer")
    t.eq(datas(await stored(t, other)), [b"before", b"mine", b"after"], "the records")


@check("LOG-IDEM-006", contract="logstore")
async def the_revision_comes_before_record_keys(t: T) -> None:
    """A batch of records that are there is a conflict where its revision is not the log's."""
    one, other = await pair(t)
    first = await one.append(log(), keyed("a"))
    await other.append(log(), keyed("b"))
    before = await stored(t, other)
    for stale in (0, first.revision):
        sent = keyed("a", expected_revision=stale)
        await t.raises(RevisionConflict, one.append(log(), sent), "known records, stale revision")
    t.eq(await stored(t, other), before, "the log afterwards")


@check("LOG-IDEM-007", contract="logstore", reports=("langchain-ai/langgraph#1395",))
async def a_known_record_stays(t: T) -> None:
    """A record whose key is in the log is left as it is, while the batch's new ones are stored."""
    one, other = await pair(t)
    await one.append(log(), keyed("a", "b"))
    before = await stored(t, one)
    changed = NewRecord(key="a", data=b"other bytes", entry_count=9)
    fresh = NewRecord(key="c", data=b"c")
    await other.append(log(), Batch(records=(changed, fresh), head=b"new"))
    after = await stored(t, one)
    t.eq(keys(after), ["a", "b", "c"], "the keys")
    t.eq(content(after)[:2], content(before), "the records that were there")
    t.eq((after.state.head, after.state.entry_count), (b"new", 3), "head and entry_count")


@check("LOG-IDEM-008", contract="logstore", reports=("microsoft/agent-framework#7242",))
async def without_a_new_record_nothing_changes(t: T) -> None:
    """A batch of records that are all there changes nothing, neither the head nor a time."""
    one, other = await pair(t)
    await one.append(log(), keyed("a", "b", head=b"kept"))
    await one.append(log(), keyed("c"))
    before = await stored(t, one)
    known = keyed("c", "b", head=b"not this").records
    answer = await other.append(log(), Batch(records=known, head=b"not this", keep_last=1))
    t.ok(answer.duplicate, "the answer is a duplicate")
    found = (before.state.revision, before.records[1].seq)
    t.eq((answer.revision, answer.seq), found, "the revision, and where its last record is")
    t.eq(await stored(t, other), before, "the log afterwards")


@check("LOG-IDEM-009", contract="logstore", reports=("google/adk-python#1641",))
async def keys_are_each_logs_own(t: T) -> None:
    """A batch that one log knows is new to another, and so are its records."""
    one, other = await pair(t)
    sent, named = batch(b"a"), keyed("k")
    for id_, store in (("first", one), ("second", other)):
        answers = [await store.append(log(id_), each) for each in (sent, named)]
        t.ok(not any(each.duplicate for each in answers), f"the {id_} log takes both as new")
        t.eq(datas(await stored(t, store, log(id_))), [b"a", b"k"], f"records of the {id_} log")


@check("LOG-IDEM-010", contract="logstore")
async def a_batch_is_known_though_its_records_went(t: T) -> None:
    """A batch among the log's last 8 changes is known although its records were evicted."""
    one, other = await pair(t)
    sent = batch(b"a")
    first = await one.append(log(), sent)
    await other.append(log(), batch(b"b", keep_last=1))
    await refresh(other, 6)
    before = await stored(t, other)
    again = await one.append(log(), sent)
    t.eq((again.revision, again.seq), (first.revision, first.seq), "the late answer")
    t.eq(await stored(t, other), before, "the log afterwards")


@check("LOG-IDEM-011", contract="logstore")
async def a_refused_batch_is_not_remembered(t: T) -> None:
    """A batch that was refused is not known: once it fits, it is stored."""
    one, other = await pair(t)
    sent = batch(b"mine", expected_revision=0)
    await other.append(log(), batch(b"in its way"))
    await t.raises(RevisionConflict, one.append(log(), sent), "expecting no log where there is one")
    await other.delete(log())
    answer = await one.append(log(), sent)
    t.ok(not answer.duplicate, "a batch that was refused is no duplicate")
    t.eq((await state(t, other)).record_count, 1, "record_count")
