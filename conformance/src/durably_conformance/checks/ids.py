"""Ids: every legal one names a thing of its own, every other one is refused, and nothing done."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, cast

from durably import InvalidId
from durably_conformance.building import fill, for_each, head, runs, said, shape, snapshot
from durably_conformance.context import T
from durably_conformance.hostile import HOSTILE_IDS, REFUSED_IDS
from durably_conformance.registry import check

ESCAPES = ("strands-agents/harness-sdk#680", "strands-agents/harness-sdk#728")
SYNTAX = ("langchain-ai/langchain-redis#67", "langchain-ai/langgraphjs#2012")
PATTERNS = ("langchain-ai/langgraph#8300", "langchain-ai/langgraph#8478")

JOINTS = ("", ":", "/", "|", "-", "_", ".", " ")
"""What may stand between two ids that somebody makes into one."""

FAMILY = ("foo", "foobar", "foo:1", "foo/1", "foo*", "foo ", "f%", "f_o", "*")
DELETED = ("foo", "f%", "*")
LEFT = tuple(id_ for id_ in FAMILY if id_ not in DELETED)


@check("SES-ID-001", contract="session", reports=ESCAPES + SYNTAX)
async def sessions_are_told_apart(t: T) -> None:
    """Every legal session_id names a session of its own, however much it is like another."""
    handle, other = await t.connect(), await t.connect()
    await for_each(lambda id_: handle.sessions.append(id_, said(id_)), HOSTILE_IDS)
    found = await for_each(other.sessions.load, HOSTILE_IDS)
    for id_, entries in zip(HOSTILE_IDS, found, strict=True):
        t.eq(entries, said(id_), f"entries of the session {id_!a}")


@check("SES-ID-002", contract="session", reports=SYNTAX)
async def runs_are_told_apart(t: T) -> None:
    """Every legal run_id names a run of its own in a session, and comes back as it was given."""
    handle, other = await t.connect(), await t.connect()
    append = handle.sessions.append
    given = [await append("s", said(id_), run_id=id_) for id_ in HOSTILE_IDS]
    t.eq(given, list(HOSTILE_IDS), "what the appends return")
    found = [(one.run_id, one.entries) for one in await other.sessions.segments("s")]
    t.same_set(found, [(id_, said(id_)) for id_ in HOSTILE_IDS], "runs")


@check("SES-ID-003", contract="session")
async def illegal_session_ids(t: T) -> None:
    """A session_id that is not 1 to 256 bytes of proper text is an InvalidId to every operation."""
    handle, other = await t.connect(), await t.connect()
    sessions = handle.sessions
    await sessions.append("s", said("kept"), run_id="r")
    operations: list[Callable[[str], Awaitable[object]]] = [
        lambda id_: sessions.append(id_, said("x"), run_id="x"),
        sessions.segments,
        sessions.load,
        sessions.revision,
        sessions.clear,
    ]
    if t.capabilities.rewind:
        operations.append(lambda id_: sessions.rewind(id_, keep_entries=0))
    if t.capabilities.trim:
        operations.append(sessions.trim_tool_results)
    await _refused(t, operations)
    t.eq(await shape(other.sessions, "s"), [("r", 1)], "runs of another session")


@check("SES-ID-004", contract="session")
async def illegal_run_ids_in_a_session(t: T) -> None:
    """A run_id other than None that is not 1 to 256 bytes of proper text is an InvalidId."""
    handle, other = await t.connect(), await t.connect()
    await handle.sessions.append("s", said("kept"), run_id="r")
    refused = [id_ for id_ in REFUSED_IDS if id_ is not None]
    await _refused(t, [lambda id_: handle.sessions.append("s", said("x"), run_id=id_)], refused)
    t.eq(await shape(other.sessions, "s"), [("r", 1)], "runs after the refusals")


@check("SES-ID-005", contract="session", reports=SYNTAX)
async def joined_ids_are_told_apart(t: T) -> None:
    """A run is told apart by its two ids, and not by the text they make when they are joined."""
    handle, other = await t.connect(), await t.connect()
    pairs = [pair for joint in JOINTS for pair in (("a", f"b{joint}c"), (f"a{joint}b", "c"))]
    for session_id, run_id in pairs:
        await handle.sessions.append(session_id, said(f"{session_id}, {run_id}"), run_id=run_id)
    for session_id, run_id in pairs:
        found = await other.sessions.segments(session_id)
        texts = [one.entries for one in found if one.run_id == run_id]
        what = f"the run {run_id!a} of the session {session_id!a}"
        t.eq(texts, [said(f"{session_id}, {run_id}")], what)


@check("SES-ISO-001", contract="session", reports=PATTERNS)
async def clear_leaves_its_neighbours(t: T) -> None:
    """Clearing a session clears no other, whatever their ids have in common."""
    handle, other = await t.connect(), await t.connect()
    for id_ in FAMILY:
        await handle.sessions.append(id_, said(id_))
    for id_ in DELETED:
        await other.sessions.clear(id_)
    for id_ in FAMILY:
        want = said(id_) if id_ in LEFT else []
        t.eq(await handle.sessions.load(id_), want, f"entries of the session {id_!a}")


@check("SES-ISO-002", contract="session", requires=("rewind",), reports=PATTERNS)
async def rewind_leaves_its_neighbours(t: T) -> None:
    """Rewinding a session rewinds no other, whatever their ids have in common."""
    handle, other = await t.connect(), await t.connect()
    for id_ in FAMILY:
        await fill(handle.sessions, id_, "a2 b1")
    for id_ in DELETED:
        await other.sessions.rewind(id_, keep_entries=1)
    for id_ in FAMILY:
        want = runs("a2 b1" if id_ in LEFT else "a1")
        t.eq(await shape(handle.sessions, id_), want, f"runs of the session {id_!a}")


@check("CKP-ID-001", contract="checkpointer", reports=ESCAPES + SYNTAX)
async def runs_are_told_apart_by_the_checkpointer(t: T) -> None:
    """Every legal run_id names a run of its own, however much it is like another."""
    handle, other = await t.connect(), await t.connect()
    append = handle.checkpointer.append
    await for_each(lambda id_: append(id_, said(id_), head(agent_name=id_)), HOSTILE_IDS)
    stored = await for_each(other.checkpointer.load, HOSTILE_IDS)
    for id_, run in zip(HOSTILE_IDS, stored, strict=True):
        found = None if run is None else (run.run_id, run.head.agent_name, run.entries)
        t.eq(found, (id_, id_, said(id_)), f"the run {id_!a}")


@check("CKP-ID-002", contract="checkpointer")
async def illegal_run_ids(t: T) -> None:
    """A run_id that is not 1 to 256 bytes of proper text is an InvalidId to every operation."""
    handle, other = await t.connect(), await t.connect()
    checkpointer = handle.checkpointer
    await checkpointer.append("r", said("kept"), head())
    operations: list[Callable[[str], Awaitable[object]]] = [
        lambda id_: checkpointer.append(id_, said("x"), head()),
        lambda id_: checkpointer.append(id_, [], head(), expected_revision=0),
        checkpointer.load,
        checkpointer.delete,
        checkpointer.claim,
    ]
    await _refused(t, operations)
    listing = [id_ for id_ in REFUSED_IDS if id_ not in (None, "")]
    await _refused(t, [lambda id_: checkpointer.runs(after=id_)], listing)
    listed = (await other.checkpointer.runs()).items
    t.eq([one.run_id for one in listed], ["r"], "runs after the refusals")


@check("CKP-ID-003", contract="checkpointer", reports=("google/adk-python#6272",))
async def runs_are_listed_by_their_bytes(t: T) -> None:
    """Runs are listed in the order of their ids' UTF-8 bytes, page by page, whatever they hold."""
    handle, other = await t.connect(), await t.connect()
    append = handle.checkpointer.append
    await for_each(lambda id_: append(id_, [], head()), HOSTILE_IDS)
    walked: list[str] = []
    after: str | None = None
    for _ in HOSTILE_IDS:
        page = await other.checkpointer.runs(after=after, limit=9)
        walked += [run.run_id for run in page.items]
        after = page.next
        if after is None:
            break
    t.eq(walked, sorted(HOSTILE_IDS, key=str.encode), "run ids in the order of the listing")


@check("CKP-ISO-001", contract="checkpointer", reports=PATTERNS)
async def deleting_a_run_leaves_its_neighbours(t: T) -> None:
    """Deleting a run deletes no other, whatever their ids have in common."""
    handle, other = await t.connect(), await t.connect()
    for id_ in FAMILY:
        await handle.checkpointer.append(id_, said(id_), head())
    for id_ in DELETED:
        t.ok(await other.checkpointer.delete(id_) is True, f"there was a run {id_!a}")
    left = [id_ for id_ in FAMILY if await handle.checkpointer.load(id_) is not None]
    t.eq(left, list(LEFT), "runs left")


@check("CKS-ID-001", contract="saver", reports=ESCAPES + SYNTAX)
async def threads_are_told_apart(t: T) -> None:
    """Every legal thread_id names a thread of its own, however much it is like another."""
    saver, other = (await t.connect()).checkpoint_saver(), (await t.connect()).checkpoint_saver()
    await for_each(lambda id_: saver.append(id_, snapshot(id_)), HOSTILE_IDS)
    listed = await for_each(other.list, HOSTILE_IDS)
    for id_, checkpoints in zip(HOSTILE_IDS, listed, strict=True):
        found = [(one.thread_id, one.snapshot.messages) for one in checkpoints]
        t.eq(found, [(id_, said(id_))], f"the thread {id_!a}")


@check("CKS-ID-002", contract="saver")
async def illegal_thread_ids(t: T) -> None:
    """A thread_id that is not 1 to 256 bytes of proper text is an InvalidId to every operation."""
    saver, other = (await t.connect()).checkpoint_saver(), (await t.connect()).checkpoint_saver()
    await saver.append("t", snapshot("kept"))
    operations: list[Callable[[str], Awaitable[object]]] = [
        lambda id_: saver.append(id_, snapshot("x")),
        saver.latest,
        lambda id_: saver.get(id_, 1),
        saver.list,
        saver.delete,
    ]
    await _refused(t, operations)
    t.eq(len(await other.list("t")), 1, "snapshots of another thread")


@check("CKS-ISO-001", contract="saver", reports=PATTERNS)
async def deleting_a_thread_leaves_its_neighbours(t: T) -> None:
    """Deleting a thread deletes no other, whatever their ids have in common."""
    saver, other = (await t.connect()).checkpoint_saver(), (await t.connect()).checkpoint_saver()
    for id_ in FAMILY:
        await saver.append(id_, snapshot(id_))
    for id_ in DELETED:
        t.ok(await other.delete(id_) is True, f"there was a thread {id_!a}")
    left = [id_ for id_ in FAMILY if await saver.latest(id_) is not None]
    t.eq(left, list(LEFT), "threads left")


async def _refused(
    t: T,
    operations: Iterable[Callable[[Any], Awaitable[object]]],
    ids: Iterable[object] = REFUSED_IDS,
) -> None:
    """Ask every operation to refuse every id."""
    tried = list(operations)
    for id_ in ids:
        for number, operation in enumerate(tried):
            call = operation(cast("Any", id_))
            await t.raises(InvalidId, call, f"operation {number} with the id {id_!a}"[:120])
