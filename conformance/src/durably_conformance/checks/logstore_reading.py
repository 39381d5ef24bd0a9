"""``LogStore``: what a read of a range gives."""

import msgspec

from durably import LogStore
from durably.logstore import Batch, NewRecord, Range, Rewrite
from durably_conformance.building import log
from durably_conformance.context import T
from durably_conformance.logs import ids, keyed, keys, pair, stored
from durably_conformance.registry import check

LEFT = ["r1", "r2", "r4", "r5", "r7", "r8"]
MANY = 1100


async def _fill(t: T, store: LogStore) -> dict[str, int]:
    """Store r1 to r8, drop r3 and r6, and return the seq of each; r2, r5 and r8 hold 2 entries."""
    for number in range(1, 9):
        record = NewRecord(key=f"r{number}", data=b"%d" % number, entry_count=number % 3)
        await store.append(log(), Batch(records=(record,), head=b"h"))
    found = await stored(t, store)
    seqs = {record.key: record.seq for record in found.records}
    drop = frozenset({seqs["r3"], seqs["r6"]})
    await store.rewrite(log(), Rewrite(expected_revision=found.state.revision, drop=drop))
    return seqs


async def _read(t: T, store: LogStore, span: Range) -> list[str]:
    return keys(await stored(t, store, span=span))


@check("LOG-READ-001", contract="logstore", reports=("agno-agi/agno#7879",))
async def no_log_is_none(t: T) -> None:
    """A log that is not there reads as None, whatever is asked of it, and reading makes none."""
    one, other = await pair(t)
    for span in (Range(), Range(limit=0), Range(newest=True), Range(keys=frozenset({"a"}))):
        t.eq(await one.read(log(), span), None, f"a log that is not there, read with {span}")
    t.eq(await ids(other), [], "the logs there are")
    await one.append(log(), Batch(head=b"h"))
    t.eq((await stored(t, other)).state.head, b"h", "the head of a log that has only a head")


@check("LOG-READ-002", contract="logstore", reports=("google/adk-python#911",))
async def bounds(t: T) -> None:
    """A range begins behind ``after`` and ends with ``until``, whether or not they exist."""
    one, other = await pair(t)
    seqs = await _fill(t, one)
    for span, wanted in (
        (Range(after=seqs["r2"]), LEFT[2:]),
        (Range(after=seqs["r3"]), LEFT[2:]),
        (Range(until=seqs["r5"]), LEFT[:4]),
        (Range(until=seqs["r6"]), LEFT[:4]),
        (Range(after=seqs["r1"], until=seqs["r7"]), LEFT[1:5]),
        (Range(after=seqs["r7"], until=seqs["r2"]), []),
        (Range(after=seqs["r8"]), []),
        (Range(until=0), []),
    ):
        t.eq(await _read(t, other, span), wanted, f"what {span} reads")


@check(
    "LOG-READ-003",
    contract="logstore",
    reports=("openai/openai-agents-python#4994", "openai/openai-agents-python#3960"),
)
async def a_limit_counts_records(t: T) -> None:
    """A limit gives the oldest so many records; a limit of 0 gives none, and None all."""
    one, other = await pair(t)
    await _fill(t, one)
    for limit, wanted in (
        (0, []),
        (1, LEFT[:1]),
        (2, LEFT[:2]),
        (6, LEFT),
        (7, LEFT),
        (None, LEFT),
    ):
        got = await _read(t, other, Range(limit=limit))
        t.eq(got, wanted, f"what a limit of {limit} reads")


@check(
    "LOG-READ-004",
    contract="logstore",
    reports=("google/adk-python#911", "yaalalabs/agent-kernel#739"),
)
async def newest_counts_from_the_end(t: T) -> None:
    """With ``newest`` a limit gives the newest so many records, ascending all the same."""
    one, other = await pair(t)
    await _fill(t, one)
    for limit, wanted in ((0, []), (1, LEFT[-1:]), (2, LEFT[-2:]), (9, LEFT), (None, LEFT)):
        got = await _read(t, other, Range(newest=True, limit=limit))
        t.eq(got, wanted, f"what a limit of {limit} reads of the newest")


@check("LOG-READ-005", contract="logstore", reports=("openai/openai-agents-python#4322",))
async def an_entry_limit_counts_entries(t: T) -> None:
    """An entry_limit stops after the record that reaches so many entries, from either end."""
    one, other = await pair(t)
    await _fill(t, one)
    for limit, oldest, newest in (
        (1, LEFT[:1], LEFT[-1:]),
        (2, LEFT[:2], LEFT[-1:]),
        (3, LEFT[:2], LEFT[-2:]),
        (4, LEFT[:3], LEFT[-3:]),
        (9, LEFT, LEFT),
        (99, LEFT, LEFT),
    ):
        got = await _read(t, other, Range(entry_limit=limit))
        t.eq(got, oldest, f"what an entry_limit of {limit} reads")
        got = await _read(t, other, Range(entry_limit=limit, newest=True))
        t.same_set(got, newest, f"what an entry_limit of {limit} reads of the newest")


@check("LOG-READ-006", contract="logstore")
async def keys_narrow(t: T) -> None:
    """A range of keys reads their records, ascending; a key that is not there is no error."""
    one, other = await pair(t)
    await _fill(t, one)
    for wanted, asked in (
        (["r2", "r8"], {"r8", "r2", "r3", "none"}),
        (["r5"], {"r5"}),
        ([], {"none"}),
        ([], set[str]()),
    ):
        got = await _read(t, other, Range(keys=frozenset(asked)))
        t.eq(got, wanted, f"what the keys {sorted(asked)} read")


@check("LOG-READ-007", contract="logstore", reports=("agno-agi/agno#10328",))
async def data_can_be_left_out(t: T) -> None:
    """Without data everything else of a record comes back, and its data is None."""
    one, other = await pair(t)
    await _fill(t, one)
    whole = await stored(t, one)
    bare = await stored(t, other, span=Range(with_data=False))
    wanted = tuple(msgspec.structs.replace(record, data=None) for record in whole.records)
    t.eq(bare.records, wanted, "the records without data")


@check("LOG-READ-008", contract="logstore", reports=("openai/openai-agents-python#3174",))
async def a_limit_counts_what_the_rest_selects(t: T) -> None:
    """A limit counts only the records that bounds and keys select, from the end that is asked."""
    one, other = await pair(t)
    seqs = await _fill(t, one)
    some = frozenset({"r2", "r5", "r8", "none"})
    for span, wanted in (
        (Range(keys=some, limit=2), {"r2", "r5"}),
        (Range(keys=some, limit=2, newest=True), {"r5", "r8"}),
        (Range(keys=some, after=seqs["r3"], limit=1), {"r5"}),
        (Range(after=seqs["r3"], limit=2), {"r4", "r5"}),
        (Range(until=seqs["r6"], limit=2, newest=True), {"r4", "r5"}),
        (Range(after=seqs["r3"], until=seqs["r6"], limit=9), {"r4", "r5"}),
    ):
        t.same_set(await _read(t, other, span), wanted, f"what {span} reads")


@check("LOG-READ-009", contract="logstore")
async def the_state_is_the_logs(t: T) -> None:
    """The state that comes with a range is the whole log's, however little the range reads."""
    one, other = await pair(t)
    seqs = await _fill(t, one)
    whole = (await stored(t, one)).state
    t.eq((whole.record_count, whole.entry_count), (6, 9), "record_count and entry_count")
    for span in (Range(limit=0), Range(limit=2), Range(after=seqs["r4"]), Range(keys=frozenset())):
        t.eq((await stored(t, other, span=span)).state, whole, f"the state with {span}")


@check("LOG-READ-010", contract="logstore")
async def large_bounds_are_numbers(t: T) -> None:
    """A bound that no seq will reach is a number like any other, however large."""
    one, other = await pair(t)
    await _fill(t, one)
    for power in (32, 53, 63, 64, 70):
        bound = 2**power
        t.eq(await _read(t, other, Range(after=bound)), [], f"records after 2**{power}")
        t.eq(await _read(t, other, Range(until=bound)), LEFT, f"records until 2**{power}")


@check("LOG-READ-011", contract="logstore", reports=("aws/bedrock-agentcore-sdk-python#206",))
async def all_means_all(t: T) -> None:
    """A read without a limit gives every record, also where there are more than a thousand."""
    one, other = await pair(t)
    names = [f"{number}" for number in range(MANY)]
    await one.append(log(), keyed(*names[:-1]))
    await one.append(log(), keyed(names[-1]))
    t.eq(keys(await stored(t, other)), names, "the keys")
