"""``LogStore``: the expected revision, the fence between two writers."""

import asyncio

from durably import RevisionConflict
from durably.logstore import Applied
from durably_conformance.building import batch, log
from durably_conformance.context import T
from durably_conformance.logs import datas, pair, rows, state, stored
from durably_conformance.registry import check


@check("LOG-FENCE-001", contract="logstore", reports=("langchain-ai/langgraph#8796",))
async def a_stale_batch_is_refused(t: T) -> None:
    """A batch for another revision is a conflict that names both, and changes nothing."""
    one, other = await pair(t)
    first = await one.append(log(), batch(b"a"))
    now = await other.append(log(), batch(b"b"))
    before = await stored(t, other)
    stale = batch(b"c", head=b"h", expected_revision=first.revision)
    error = await t.raises(RevisionConflict, one.append(log(), stale), "a stale batch")
    named = (error.expected, error.actual)
    t.eq(named, (first.revision, now.revision), "the expected and the actual revision it names")
    t.eq(await stored(t, one), before, "the log afterwards")


@check("LOG-FENCE-002", contract="logstore")
async def a_missing_log_is_at_revision_0(t: T) -> None:
    """Expecting 0 makes a log that is not there, once; expecting any other makes none."""
    one, other = await pair(t)
    sent = batch(b"a", expected_revision=7)
    error = await t.raises(RevisionConflict, one.append(log(), sent), "expecting 7 of no log")
    t.eq((error.expected, error.actual), (7, 0), "the expected and the actual revision it names")
    t.eq(await other.read(log()), None, "the log afterwards")
    await one.append(log(), batch(b"b", expected_revision=0))
    sent = batch(b"c", expected_revision=0)
    await t.raises(RevisionConflict, other.append(log(), sent), "expecting no log where there is")
    t.eq(datas(await stored(t, one)), [b"b"], "the records")


@check(
    "LOG-FENCE-003",
    contract="logstore",
    reports=("google/adk-python#3717", "google/adk-python#5085"),
)
async def the_last_token_is_accepted(t: T) -> None:
    """The revision last answered, read or listed is accepted, though no time has passed."""
    one, other = await pair(t)
    token = (await one.append(log(), batch(b"0", at=5.0, expected_revision=0))).revision
    for number in range(1, 8):
        store = (one, other)[number % 2]
        sent = batch(b"%d" % number, at=5.0, expected_revision=token)
        answer = await t.attempt(store.append(log(), sent))
        if not isinstance(answer, Applied):
            t.fail(f"the revision last seen is refused with {type(answer).__name__}")
        listed = (await rows(other, states=True))[0].state
        read = (await state(t, one)).revision
        t.eq((read, listed and listed.revision), (answer.revision,) * 2, "revisions read, listed")
        token = answer.revision
    t.eq((await state(t, other)).record_count, 8, "records stored")


@check(
    "LOG-FENCE-004",
    contract="logstore",
    reports=("langchain-ai/langgraph#8796", "pithings/mountx#19"),
)
async def of_several_one_succeeds(t: T) -> None:
    """Of several handles that append at one expected revision, exactly one succeeds."""
    stores = [(await t.connect()).log_store for _ in range(4)]
    token, wanted = 0, list[bytes | None]()
    for turn in range(4):
        sent = [batch(b"%d by %d" % (turn, n), expected_revision=token) for n in range(4)]
        answers = await asyncio.gather(
            *(t.attempt(store.append(log(), one)) for store, one in zip(stores, sent, strict=True))
        )
        won = [n for n, answer in enumerate(answers) if isinstance(answer, Applied)]
        t.eq(len(won), 1, f"how many appended at one revision in turn {turn}")
        token = (await state(t, stores[0])).revision
        wanted.append(b"%d by %d" % (turn, won[0]))
    t.eq(datas(await stored(t, stores[-1])), wanted, "the records of those that succeeded")
