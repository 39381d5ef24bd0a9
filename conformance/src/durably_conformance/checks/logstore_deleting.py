"""``LogStore``: deleting a log, its next life, and revisions, which no two lives share."""

from durably import RevisionConflict
from durably.logstore import Batch, Rewrite
from durably_conformance.building import batch, log
from durably_conformance.context import T
from durably_conformance.logs import datas_in, ids, keyed, keys, pair, state, stored
from durably_conformance.registry import check

NEAR = ("a", "a log ", " a log", "A log", "a log/1", "a log:1", "a%", "a_log", "a*", "b")


@check("LOG-DEL-001", contract="logstore")
async def a_deleted_log_is_gone(t: T) -> None:
    """A deleted log is neither read nor listed, and delete says whether there was one."""
    one, other = await pair(t)
    await one.append(log(), keyed("a", head=b"h"))
    t.ok(await other.delete(log()), "deleting a log says that there was one")
    t.eq(await one.read(log()), None, "what is read afterwards")
    t.eq(await ids(one), [], "what is listed afterwards")
    for expected in (None, 5):
        again = await one.delete(log(), expected_revision=expected)
        t.ok(not again, f"deleting it again says no, expecting {expected}")


@check(
    "LOG-DEL-002",
    contract="logstore",
    reports=("nesquena/hermes-webui#412", "microsoft/agent-framework#7471"),
)
async def other_logs_stay(t: T) -> None:
    """Deleting a log touches none whose id begins alike, differs in case, or is of another kind."""
    one, other = await pair(t)
    near = [*map(log, NEAR), log("a log", kind="test-other")]
    for each in (log("a log"), *near):
        await one.append(each, keyed("k", head=b"h"))
    before = [await stored(t, other, each) for each in near]
    await one.delete(log("a log"))
    t.eq([await stored(t, other, each) for each in near], before, "the other logs")


@check("LOG-DEL-003", contract="logstore", reports=("cymoo/lovia#47",))
async def a_delete_may_be_compare_and_set(t: T) -> None:
    """A delete that expects another revision is a conflict that names both, and the log stays."""
    one, other = await pair(t)
    stale = await one.append(log(), batch(b"a"))
    now = await other.append(log(), batch(b"b"))
    before = await stored(t, other)
    for wrong in (0, stale.revision):
        late = one.delete(log(), expected_revision=wrong)
        error = await t.raises(RevisionConflict, late, "a stale delete")
        t.eq((error.expected, error.actual), (wrong, now.revision), "the revisions it names")
    t.eq(await stored(t, other), before, "the log afterwards")
    done = await one.delete(log(), expected_revision=now.revision)
    t.eq((done, await other.read(log())), (True, None), "a delete that expects the right one")


@check(
    "LOG-DEL-004",
    contract="logstore",
    reports=("openai/openai-agents-python#3755", "openai/openai-agents-python#4729"),
)
async def the_next_life_is_new(t: T) -> None:
    """A log made after a delete knows nothing of the one before: no record, head, key or count."""
    one, other = await pair(t)
    sent = batch(b"a", b"b", head=b"old", at=5.0)
    await one.append(log(), sent)
    await one.append(log(), keyed("k"))
    await other.delete(log())
    answer = await one.append(log(), Batch(records=keyed("k").records, at=7.0))
    found = await stored(t, other)
    counts = (found.state.record_count, found.state.entry_count, found.state.head)
    t.eq((keys(found), counts), (["k"], (1, 1, None)), "keys, counts and head")
    t.eq(found.state.created_at, 7.0, "created_at")
    t.eq(found.state.epoch, answer.revision, "the epoch")
    again = await other.append(log(), sent)
    t.ok(not again.duplicate, "a batch of the log before is no duplicate")
    t.same_set(await datas_in(one), [b"k", b"a", b"b"], "the records")


@check(
    "LOG-DEL-005",
    contract="logstore",
    reports=(
        "redis-developer/langgraph-redis#51",
        "redis-developer/langgraph-redis#105",
        "langchain-ai/langgraph#8054",
    ),
)
async def nothing_stays_behind(t: T) -> None:
    """After a delete the storage holds, byte for byte, what it held before there was the log."""
    one, other = await pair(t)
    await one.append(log("stays"), keyed("k"))
    before = await t.dump()
    answer = await one.append(log("goes"), keyed("a", "b", "c", head=b"h"))
    drop = frozenset({answer.seq})
    await other.rewrite(log("goes"), Rewrite(expected_revision=answer.revision, drop=drop))
    await other.append(log("goes"), Batch(records=keyed("d").records, keep_last=2))
    t.differs(await t.dump(), before, "the storage before and after there is a log more")
    await other.delete(log("goes"))
    await t.place.settle()
    t.eq(await t.dump(), before, "what the storage holds")


@check("LOG-REV-001", contract="logstore", reports=("google/adk-python#3717",))
async def every_change_has_a_revision(t: T) -> None:
    """Every change gives the log a revision it did not have before, and a refused one does not."""
    one, other = await pair(t)
    seen = [(await one.append(log(), batch(b"a"))).revision]
    seen.append((await other.append(log(), Batch(head=b"h"))).revision)
    seen.append((await one.append(log(), Batch(head=b"h"))).revision)
    seen.append((await other.append(log(), batch(b"b", keep_last=1))).revision)
    seen.append((await one.rewrite(log(), Rewrite(expected_revision=seen[-1]))).revision)
    t.eq(len(set(seen)), 5, f"how many revisions five changes gave: {seen}")
    refused = batch(b"c", expected_revision=seen[0])
    await t.raises(RevisionConflict, other.append(log(), refused), "a stale batch")
    t.eq((await state(t, other)).revision, seen[-1], "the revision afterwards")
    t.ok(min(seen) > 0, "0 stands for no log, and is no revision")


@check("LOG-REV-002", contract="logstore", reports=("langchain-ai/langgraph#8796",))
async def lives_share_no_revision(t: T) -> None:
    """A log's lives share no revision, so that a token of one never fits the next."""
    one, other = await pair(t)
    seen: list[int] = []
    for _ in range(8):
        seen += [(await store.append(log(), batch(b"a"))).revision for store in (one, other, one)]
        await other.delete(log())
    t.eq(len(set(seen)), 24, "how many revisions 24 changes in eight lives had")
    await one.append(log(), batch(b"b"))
    for stale in seen[-3:]:
        late = batch(b"c", expected_revision=stale)
        await t.raises(RevisionConflict, other.append(log(), late), "a token of a former life")


@check("LOG-REV-003", contract="logstore", level="should")
async def revisions_rise_by_one(t: T) -> None:
    """Each change raises the revision by one."""
    one, other = await pair(t)
    first = (await one.append(log(), batch(b"a"))).revision
    second = (await other.append(log(), batch(b"b"))).revision
    third = (await one.rewrite(log(), Rewrite(expected_revision=second))).revision
    t.eq((second - first, third - second), (1, 1), "by how much two changes raised it")


@check("LOG-ISO-001", contract="logstore", reports=("microsoft/agent-framework#5942",))
async def a_kind_and_an_id_name_one_log(t: T) -> None:
    """Two logs of different kinds are two logs, however alike kind and id read when joined."""
    one, other = await pair(t)
    joined = [log("other-x"), log("x", kind="test-other"), log("x")]
    joined += [log(f"other{mark}x") for mark in ":/|. "]
    for number, each in enumerate(joined):
        await one.append(each, batch(b"%d" % number))
    got = [await datas_in(other, each) for each in joined]
    t.eq(got, [[b"%d" % number] for number in range(len(joined))], "what each log holds")
