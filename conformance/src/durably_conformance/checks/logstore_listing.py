"""``LogStore``: which logs there are, in order and page by page."""

import asyncio

from durably import LogStore
from durably.logstore import Batch
from durably_conformance.building import batch, log
from durably_conformance.context import T
from durably_conformance.logs import ids, keyed, pair, rows, state
from durably_conformance.registry import check

NAMES = ("a", "aa", "a b", "B", "b", "z", "~", "é", "e\u0301", "\uffee", "\U0001f600", "10", "2")
TEXTS = ("a", "A", "a%", "a%b", "a_", "a*", "a?b", "aX", "aXb", "[a]", "a'", "é", "e\u0301", "éa")
MANY = 1010


async def _make(store: LogStore, names: tuple[str, ...]) -> None:
    for name in names:
        await store.append(log(name), keyed("k", head=name.encode()))


async def _walk(t: T, store: LogStore, *, limit: int, prefix: str = "") -> list[str]:
    """Walk a listing from page to page, each of which has to go on."""
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = await store.list("test", after=after, limit=limit, prefix=prefix)
        found += [row.id for row in page.items]
        if page.next is not None and page.next.encode() <= after.encode():
            t.fail(f"the walk does not go on: after {after!r} comes next {page.next!r}")
        after = page.next
    return found


@check("LOG-LIST-001", contract="logstore", reports=("google/adk-python#6272",))
async def ids_are_in_byte_order(t: T) -> None:
    """Logs are listed in the order of their ids' UTF-8 bytes."""
    one, other = await pair(t)
    await _make(one, NAMES)
    t.eq(await _walk(t, other, limit=1000), sorted(NAMES, key=str.encode), "the ids")


@check("LOG-LIST-002", contract="logstore", reports=("boto/boto3#3447",))
async def a_walk_gives_every_log_once(t: T) -> None:
    """A walk in pages of any size gives every log once, and then ends."""
    one, other = await pair(t)
    names = tuple(f"log {number}" for number in range(7))
    await _make(one, names)
    for limit in (1, 2, 3, 6, 7, 8):
        t.eq(await _walk(t, other, limit=limit), list(names), f"ids in pages of {limit}")


@check("LOG-LIST-003", contract="logstore")
async def a_page_keeps_to_its_limit(t: T) -> None:
    """A page has no more rows than its limit."""
    one, other = await pair(t)
    await _make(one, ("a", "b", "c", "d"))
    for limit in (1, 2, 3):
        page = await other.list("test", limit=limit)
        t.ok(len(page.items) <= limit, f"{len(page.items)} rows are no more than {limit}")


@check(
    "LOG-LIST-004",
    contract="logstore",
    reports=("langchain-ai/langgraph#8300", "langchain-ai/langchain-redis#67"),
)
async def a_prefix_is_plain_text(t: T) -> None:
    """A prefix stands for just its characters: no wildcard, no other case, no other form."""
    one, other = await pair(t)
    await _make(one, TEXTS)
    for prefix in ("a", "A", "a%", "a_", "a*", "a?", "[a", "a'", "é", "e", "none"):
        wanted = sorted((name for name in TEXTS if name.startswith(prefix)), key=str.encode)
        t.eq(
            await _walk(t, other, limit=3, prefix=prefix), wanted, f"ids that begin with {prefix!a}"
        )


@check("LOG-LIST-005", contract="logstore", reports=("langchain-ai/langgraph#6869",))
async def after_need_not_exist(t: T) -> None:
    """A walk goes on from where it was, though that log is gone and others have come."""
    one, other = await pair(t)
    await _make(one, ("b", "d", "f", "h"))
    t.eq((await ids(other, after="b"))[:1], ["d"], "the log behind the first")
    await one.delete(log("d"))
    await one.delete(log("f"))
    await _make(one, ("a", "e", "z"))
    t.eq(await ids(other, after="d"), ["e", "h", "z"], "the logs behind one that was deleted")
    t.eq(await ids(other, after="z"), [], "the logs behind the last")


@check("LOG-LIST-006", contract="logstore")
async def prefix_and_after_narrow_together(t: T) -> None:
    """With a prefix, a listing begins behind ``after`` all the same, whichever comes first."""
    one, other = await pair(t)
    await _make(one, ("a1", "a2", "a3", "b1"))
    for prefix, after, wanted in (("a", "a1", ["a2", "a3"]), ("b", "a3", ["b1"]), ("a", "b1", [])):
        got = await ids(other, prefix=prefix, after=after)
        t.eq(got, wanted, f"ids that begin with {prefix!r}, after {after!r}")


@check("LOG-LIST-007", contract="logstore", reports=("agno-agi/agno#10328",))
async def states_are_listed_where_asked(t: T) -> None:
    """A listing gives each log's state where asked, the same a read gives, and else none."""
    one, other = await pair(t)
    await _make(one, ("a", "b"))
    await one.append(log("b"), batch(b"more"))
    listed = [row.state for row in await rows(other, states=True)]
    t.eq(listed, [await state(t, one, log(name)) for name in ("a", "b")], "the states")
    t.eq([row.state for row in await rows(other)], [None, None], "states nobody asked for")


@check("LOG-LIST-008", contract="logstore")
async def a_kind_lists_its_own(t: T) -> None:
    """A listing of one kind gives logs of that kind alone."""
    one, other = await pair(t)
    await _make(one, ("a", "b"))
    await one.append(log("c", kind="test-other"), keyed("k"))
    t.eq(await ids(other, "test"), ["a", "b"], "the ids of the one kind")
    t.eq(await ids(other, "test-other"), ["c"], "the ids of the other")


@check("LOG-LIST-009", contract="logstore", reports=("microsoft/agent-framework#3169",))
async def a_listing_is_up_to_date(t: T) -> None:
    """A log is listed by every handle as soon as it is there, and no longer than it is."""
    one, other = await pair(t)
    t.eq(await ids(other), [], "the ids before")
    await one.append(log("a"), Batch(head=b"h"))
    t.eq(await ids(other), ["a"], "the ids after a log was made of a head")
    await one.append(log("b"), batch(b"b"))
    t.eq(await ids(other), ["a", "b"], "the ids after another was made of a record")
    await one.delete(log("a"))
    t.eq(await ids(other), ["b"], "the ids after one was deleted")


@check(
    "LOG-LIST-010",
    contract="logstore",
    reports=("stolostron/multicloud-operators-subscription#524", "boto/boto3#3297"),
)
async def more_than_a_thousand(t: T) -> None:
    """A walk gives every log, also where there are more than a thousand."""
    one, other = await pair(t)
    names, made = [f"{number:04}" for number in range(MANY)], Batch(head=b"")

    async def write(worker: int) -> None:
        for name in names[worker::50]:
            await one.append(log(name), made)

    await asyncio.gather(*map(write, range(50)))
    t.eq(await _walk(t, other, limit=1000), names, "the ids")
