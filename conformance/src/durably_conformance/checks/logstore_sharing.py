"""``LogStore``: handles that work at once, namespaces, and tidying up."""

import asyncio
import uuid
from functools import partial

from durably import InvalidId, LogStore
from durably.logstore import Batch, LogId, NewRecord, Rewrite
from durably.testing import remove_all
from durably_conformance.building import batch, log
from durably_conformance.context import T
from durably_conformance.logs import at_work, datas, datas_in, ids, keyed, meanwhile, pair, stored
from durably_conformance.registry import check

SEPARATORS = ":/-.|"
NAMESPACES = ("", "t", "T", "tt", "t ", "t%", "é", "e\u0301")


def _numbered(number: int, count: int = 4) -> Batch:
    """Return a batch whose records and head all say the same number."""
    text = b"%d" % number
    return Batch(records=tuple(NewRecord(data=text) for _ in range(count)), head=text)


@check(
    "LOG-ATOM-001",
    contract="logstore",
    reports=("PostHog/posthog#34648", "langchain-ai/langgraph#8039"),
)
async def an_append_is_seen_whole(t: T) -> None:
    """A reader sees all records of a batch together with its head, or none of it."""
    one, other = await pair(t)
    await one.append(log(), _numbered(0))

    async def write() -> None:
        for number in range(1, 9):
            await one.append(log(), _numbered(number))

    async def look() -> None:
        found = await stored(t, other)
        seen = int(found.state.head or b"-1")
        wanted = [b"%d" % number for number in range(seen + 1) for _ in range(4)]
        t.eq(datas(found), wanted, f"the records that belong to the head {seen}")

    await meanwhile(write(), look)
    await look()


@check("LOG-ATOM-002", contract="logstore", reports=("openai/openai-agents-python#3755",))
async def a_rewrite_is_seen_whole(t: T) -> None:
    """A reader sees everything a rewrite dropped, replaced and set, or none of it."""
    one, other = await pair(t)
    await one.append(log(), _numbered(0, 12))

    async def write() -> None:
        for number in range(1, 9):
            found = await stored(t, one)
            *kept, last = (record.seq for record in found.records)
            new = NewRecord(data=b"%d" % number)
            await one.rewrite(
                log(),
                Rewrite(
                    expected_revision=found.state.revision,
                    drop=frozenset({last}),
                    replace=dict.fromkeys(kept, new),
                    head=b"%d" % number,
                ),
            )

    async def look() -> None:
        found = await stored(t, other)
        seen = int(found.state.head or b"-1")
        t.eq(datas(found), [b"%d" % seen] * (12 - seen), f"the records that belong to head {seen}")

    await meanwhile(write(), look)
    await look()


@check(
    "LOG-CONC-001",
    contract="logstore",
    reports=(
        "agno-agi/agno#7479",
        "openai/openai-agents-python#2843",
        "langchain-ai/langgraph#8115",
    ),
)
async def appends_at_once_all_land(t: T) -> None:
    """Of batches that several handles append at once none is lost, and each lies together."""
    stores = await at_work(t, 4)

    async def write(who: int, store: LogStore) -> None:
        for number in range(5):
            await store.append(log(), batch(*(b"%d %d" % (who, number) for _ in range(3))))

    await asyncio.gather(*(write(who, store) for who, store in enumerate(stores)))
    found = await stored(t, stores[0])
    batches = datas(found)[::3]
    wanted = [data for data in batches for _ in range(3)]
    t.eq(datas(found), wanted, "the records, each batch's together")
    for who in range(4):
        own = [data for data in batches if data is not None and data.startswith(b"%d " % who)]
        t.eq(own, [b"%d %d" % (who, number) for number in range(5)], f"batches of handle {who}")


@check(
    "LOG-CONC-002",
    contract="logstore",
    reports=("google/adk-python#5723", "langchain-ai/langgraphjs#2516"),
)
async def one_batch_sent_at_once_is_stored_once(t: T) -> None:
    """A batch that several handles send at once is stored once."""
    stores = [(await t.connect()).log_store for _ in range(4)]
    sent = [batch(b"%d" % number) for number in range(4)]
    for one in sent:
        await asyncio.gather(*(store.append(log(), one) for store in stores))
    t.eq(datas(await stored(t, stores[0])), [b"0", b"1", b"2", b"3"], "the records")


@check(
    "LOG-NS-001",
    contract="logstore",
    requires=("namespaces",),
    reports=(
        "google/adk-python#1641",
        "google/adk-python-community#180",
        "microsoft/agent-framework#7471",
        "agno-agi/agno#4560",
    ),
)
async def namespaces_share_nothing(t: T) -> None:
    """Two namespaces share nothing: no log, no listing, no knowledge of a batch."""
    one = (await t.connect(namespace="one")).log_store
    other = (await t.connect(namespace="other")).log_store
    sent = batch(b"a", head=b"h")
    await one.append(log(), sent)
    t.eq(await other.read(log()), None, "what the other one reads of it")
    t.eq(await ids(other), [], "what the other one lists of it")
    answer = await other.append(log(), sent)
    t.ok(not answer.duplicate, "the batch is new to the other one")
    await one.append(log(), batch(b"b"))
    await one.delete(log())
    found = await stored(t, other)
    t.eq((datas(found), found.state.revision), ([b"a"], answer.revision), "the other one's log")
    t.eq(await ids(one), [], "the ids in the one namespace")
    t.eq(await ids(other), ["log"], "the ids in the other")


@check("LOG-NS-002", contract="logstore", requires=("namespaces",))
async def a_namespace_is_exact(t: T) -> None:
    """Namespaces that differ in anything are different, however they read when joined to ids."""
    logs: list[tuple[str, LogId]] = [(name, log()) for name in NAMESPACES]
    for mark in SEPARATORS:
        logs += [(f"t{mark}test", log()), ("t", log(f"test{mark}log"))]
    stores = {name: (await t.connect(namespace=name)).log_store for name in dict(logs)}
    for number, (name, each) in enumerate(logs):
        await stores[name].append(each, batch(b"%d" % number))
    got = [await datas_in(stores[name], each) for name, each in logs]
    t.eq(got, [[b"%d" % number] for number in range(len(logs))], "what each log holds")


@check("LOG-NS-003", contract="logstore", requires=("namespaces",))
async def a_scoped_store_is_in_its_namespace(t: T) -> None:
    """A scoped store sees its namespace alone, as does another handle's, until it is closed."""
    name = f"conformance-{uuid.uuid4().hex}"
    one, other = await pair(t)
    inner, same = one.scoped(name), other.scoped(name)
    try:
        await one.append(log(), batch(b"outer"))
        await inner.append(log(), batch(b"inner"))
        t.eq(await datas_in(one), [b"outer"], "what the store itself holds")
        t.eq(await datas_in(same), [b"inner"], "what its namespace holds for another handle")
        await inner.aclose()
        await one.append(log(), batch(b"more"))
        t.eq(await datas_in(other), [b"outer", b"more"], "the store after its scope was closed")
    finally:
        await remove_all(same)


@check("LOG-NS-004", contract="logstore", requires=("namespaces",))
async def an_illegal_namespace_is_refused(t: T) -> None:
    """A namespace that is no legal id is an InvalidId, and neither cut short nor cleaned."""
    store = (await t.connect()).log_store
    await store.append(log(), batch(b"a"))
    for illegal in ("n" * 257, "a\x00b", "\ud800", "é" * 129):
        await t.raises(InvalidId, partial(store.scoped, illegal), f"{illegal[:9]!a}")
    t.eq(await datas_in(store), [b"a"], "the namespace that it was asked of")


@check("LOG-TIDY-001", contract="logstore")
async def tidying_up_changes_nothing(t: T) -> None:
    """Tidying up changes nothing that a reader sees."""
    one, other = await pair(t)
    for number in range(6):
        await one.append(log(), batch(b"%d" % number, at=float(number)))
    await one.append(log("head"), Batch(head=b"h"))
    await one.append(log("short"), batch(b"a", b"b", keep_last=1))
    names = [log(), log("head"), log("short")]
    before = [await stored(t, other, name) for name in names]
    await one.maintain()
    t.eq([await stored(t, other, name) for name in names], before, "the logs afterwards")
    await other.append(log(), keyed("k"))
    t.eq(len((await stored(t, one)).records), 7, "records after another append")
