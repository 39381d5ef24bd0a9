"""``LogStore``: what an append stores, and what it answers."""

from durably.logstore import Batch, NewRecord
from durably_conformance.building import batch, log
from durably_conformance.context import T
from durably_conformance.logs import datas, keyed, keys, pair, state, stored
from durably_conformance.registry import check

KEYS = (
    "a",
    "A",
    "a ",
    " a",
    "a%",
    "a_",
    "a*",
    "é",
    "e\u0301",
    "ß",
    "ss",
    "\u0130",
    "i",
    "\u0131",
    "0",
    "00",
)
LONG_KEYS = ("k" * 1023 + "a", "k" * 1023 + "b", "\U0001f600" * 256)


@check("LOG-APP-001", contract="logstore", reports=("redis-developer/langgraph-redis#24",))
async def records_come_back(t: T) -> None:
    """Records come back in order, with the key, the bytes and the entry_count they were given."""
    one, other = await pair(t)
    given = [("a", bytes(range(256)), 3), ("b", b"", 0), ("c", b"\x00 \xff\x00", 1)]
    records = tuple(NewRecord(key=key, data=data, entry_count=n) for key, data, n in given)
    await one.append(log(), Batch(records=records))
    await one.append(log(), keyed("d"))
    found = await stored(t, other)
    got = [(record.key, record.data, record.entry_count) for record in found.records]
    t.eq(got, [*given, ("d", b"d", 1)], "key, data and entry_count of the records")


@check("LOG-APP-002", contract="logstore")
async def the_state_counts(t: T) -> None:
    """A log's state counts its records, and the entries they hold."""
    one, other = await pair(t)
    for counts in ((0, 0), (2,), (0,)):
        records = tuple(NewRecord(data=b"", entry_count=count) for count in counts)
        await one.append(log(), Batch(records=records))
    now = await state(t, other)
    t.eq((now.record_count, now.entry_count), (4, 2), "record_count and entry_count")


@check("LOG-APP-003", contract="logstore")
async def times_are_the_batches(t: T) -> None:
    """Times are the batches' own: those of records and of the creation stay, updated_at follows."""
    one, other = await pair(t)
    await one.append(log(), batch(b"first", at=100.25))
    await one.append(log(), batch(b"second", at=90.5))
    found = await stored(t, other)
    times = {record.data: record.stored_at for record in found.records}
    t.eq(times, {b"first": 100.25, b"second": 90.5}, "stored_at of the records")
    t.eq(found.state.created_at, 100.25, "created_at")
    t.eq(found.state.updated_at, 90.5, "updated_at")


@check("LOG-APP-004", contract="logstore")
async def an_append_answers(t: T) -> None:
    """An append answers with the log's revision after it and the seq of the batch's last record."""
    one, other = await pair(t)
    for store, sent in ((one, batch(b"a", b"b")), (other, batch(b"c")), (one, batch(b"d", b"e"))):
        answer = await store.append(log(), sent)
        found = await stored(t, other)
        t.eq(answer.revision, found.state.revision, "the revision")
        t.eq(answer.seq, found.records[-1].seq, "the seq")
        t.ok(not answer.duplicate, "a first append is no duplicate")


@check("LOG-APP-005", contract="logstore")
async def a_record_says_which_change_stored_it(t: T) -> None:
    """A record carries the revision of the change that stored it, whatever came after."""
    one, other = await pair(t)
    revisions = [(await one.append(log(), keyed(key))).revision for key in ("a", "b", "c")]
    found = await stored(t, other)
    t.eq([record.revision for record in found.records], revisions, "revisions of the records")


@check(
    "LOG-APP-006",
    contract="logstore",
    reports=(
        "openai/openai-agents-python#1900",
        "google/adk-python#454",
        "microsoft/agent-framework#8513",
        "langchain-ai/langgraph#6869",
    ),
)
async def the_order_is_that_of_the_appends(t: T) -> None:
    """Records are in the order in which they were appended, whatever their keys and times say."""
    one, other = await pair(t)
    names = [f"{number}" for number in range(60)]
    t.random.shuffle(names)
    for position in range(0, 60, 3):
        trio = tuple(NewRecord(key=name, data=b"") for name in names[position : position + 3])
        at = 1000.0 - position // 6
        await (one, other)[position % 2].append(log(), Batch(records=trio, at=at))
    t.eq(keys(await stored(t, other)), names, "the keys in order")


@check("LOG-KEY-001", contract="logstore", reports=("langchain-ai/langgraph#8300",))
async def keys_are_compared_exactly(t: T) -> None:
    """Records' keys that differ in anything are different: case, spaces, Unicode form, the end."""
    one, other = await pair(t)
    for key in (*KEYS, *LONG_KEYS):
        await one.append(log(), keyed(key))
    t.eq(keys(await stored(t, other)), [*KEYS, *LONG_KEYS], "the keys")


@check("LOG-HEAD-001", contract="logstore")
async def a_head_needs_no_record(t: T) -> None:
    """A head alone makes a log, or replaces the head of one, and adds no record."""
    one, other = await pair(t)
    answer = await one.append(log(), Batch(head=b"first"))
    found = await stored(t, other)
    t.eq((found.state.head, found.records), (b"first", ()), "head and records of the new log")
    t.eq((answer.seq, found.state.record_count), (0, 0), "the seq answered, and record_count")
    await one.append(log(), batch(b"a"))
    await one.append(log(), Batch(head=b"second"))
    found = await stored(t, other)
    t.eq((found.state.head, datas(found)), (b"second", [b"a"]), "head and records afterwards")


@check("LOG-HEAD-002", contract="logstore")
async def no_head_leaves_the_head(t: T) -> None:
    """A batch without a head leaves the head as it is."""
    one, other = await pair(t)
    await one.append(log(), batch(b"a", head=b"kept"))
    await one.append(log(), batch(b"b"))
    t.eq((await state(t, other)).head, b"kept", "the head")


@check("LOG-HEAD-003", contract="logstore")
async def an_empty_head_is_a_head(t: T) -> None:
    """A head of no bytes is a head, and another thing than none."""
    one, other = await pair(t)
    await one.append(log(), batch(b"a"))
    t.eq((await state(t, other)).head, None, "the head of a log that was given none")
    await one.append(log(), Batch(head=b"some"))
    await one.append(log(), Batch(head=b""))
    t.eq((await state(t, other)).head, b"", "the head after an empty one")
