"""What is declared absent is refused in words, and never quietly done or quietly ignored."""

from collections.abc import Awaitable, Callable

from durably import LogStore
from durably.logstore import Batch, Rewrite
from durably.testing import Handle
from durably_conformance.building import batch, head, log, said, snapshot
from durably_conformance.context import T
from durably_conformance.logs import datas_in
from durably_conformance.offering import count_something, write_something
from durably_conformance.registry import check


async def _refuses(t: T, handle: Handle, calls: dict[str, Callable[[], Awaitable[object]]]) -> None:
    """Ask for each call to be refused, and for what is offered to go on all the same."""
    before = await count_something(t, handle)
    for what, call in calls.items():
        await t.refused(call, what)
    await write_something(t, handle)
    t.eq(await count_something(t, handle), before + 1, "what is offered, after the refusals")


@check("NEG-REWIND-001", contract="session", requires=("sessions",), refuses="rewind")
async def rewind_is_refused(t: T) -> None:
    """A session without rewind raises Unsupported and changes nothing."""
    handle = await t.connect()
    await handle.sessions.append("s", said("a", "b"))
    await t.refused(handle.sessions.rewind("s", keep_entries=1), "rewind")
    t.eq(len(await handle.sessions.load("s")), 2, "entries after the refusal")


@check("NEG-TRIM-001", contract="session", requires=("sessions",), refuses="trim")
async def trim_is_refused(t: T) -> None:
    """A session without trim raises Unsupported and changes nothing."""
    handle = await t.connect()
    await handle.sessions.append("s", said("a", "b"))
    await t.refused(handle.sessions.trim_tool_results("s"), "trim_tool_results")
    t.eq(len(await handle.sessions.load("s")), 2, "entries after the refusal")


@check("NEG-HISTORY-001", contract="session", requires=("sessions",), refuses="history")
async def history_is_refused(t: T) -> None:
    """A session without history raises Unsupported for each way to read it, and goes on."""
    handle = await t.connect()
    await handle.sessions.append("s", said("a", "b"))

    async def walk() -> list[object]:
        return [page async for page in handle.sessions.pages("s", limit=1)]

    await t.refused(handle.sessions.history("s", limit=1), "history")
    await t.refused(walk, "pages")
    await t.refused(handle.sessions.last("s", runs=1), "last, of runs")
    await t.refused(handle.sessions.last("s", entries=1), "last, of entries")
    t.eq(len(await handle.sessions.load("s")), 2, "entries after the refusals")


@check("NEG-NAMESPACES-001", contract="logstore", requires=("log_store",), refuses="namespaces")
async def namespaces_are_refused(t: T) -> None:
    """A log store without namespaces raises Unsupported where it is to be scoped."""
    store = (await t.connect()).log_store
    await store.append(log(), batch(b"a"))
    await t.refused(lambda: store.scoped("tenant"), "scoped")
    t.eq(await datas_in(store), [b"a"], "the records after the refusal")


@check("NEG-LOGSTORE-001", contract="logstore", refuses="log_store")
async def a_log_store_is_refused(t: T) -> None:
    """Where no log store is declared, a handle's raises Unsupported, whatever it is asked for."""
    handle = await t.connect()

    def store() -> LogStore:
        return handle.log_store

    await _refuses(
        t,
        handle,
        {
            "append": lambda: store().append(log(), Batch(head=b"h")),
            "read": lambda: store().read(log()),
            "rewrite": lambda: store().rewrite(log(), Rewrite(expected_revision=1)),
            "delete": lambda: store().delete(log()),
            "list": lambda: store().list("test"),
        },
    )


@check("NEG-SESSIONS-001", contract="session", refuses="sessions")
async def sessions_are_refused(t: T) -> None:
    """Where no sessions are declared, a handle's raise Unsupported, whatever they are asked for."""
    handle = await t.connect()
    await _refuses(
        t,
        handle,
        {
            "append": lambda: handle.sessions.append("s", said("a")),
            "segments": lambda: handle.sessions.segments("s"),
            "load": lambda: handle.sessions.load("s"),
            "revision": lambda: handle.sessions.revision("s"),
            "clear": lambda: handle.sessions.clear("s"),
        },
    )


@check("NEG-CHECKPOINTER-001", contract="checkpointer", refuses="checkpointer")
async def a_checkpointer_is_refused(t: T) -> None:
    """Where no checkpointer is declared, a handle's raises Unsupported, whatever it is asked."""
    handle = await t.connect()
    await _refuses(
        t,
        handle,
        {
            "append": lambda: handle.checkpointer.append("r", said("a"), head()),
            "load": lambda: handle.checkpointer.load("r"),
            "delete": lambda: handle.checkpointer.delete("r"),
            "runs": lambda: handle.checkpointer.runs(limit=1),
            "claim": lambda: handle.checkpointer.claim("r"),
        },
    )


@check("NEG-SAVER-001", contract="saver", refuses="checkpoint_saver")
async def a_saver_is_refused(t: T) -> None:
    """Where no saver is declared, a handle makes none, or one that raises Unsupported."""
    handle = await t.connect()
    await _refuses(
        t,
        handle,
        {
            "append": lambda: handle.checkpoint_saver().append("t", snapshot("a")),
            "latest": lambda: handle.checkpoint_saver().latest("t"),
            "get": lambda: handle.checkpoint_saver().get("t", 1),
            "list": lambda: handle.checkpoint_saver().list("t"),
            "delete": lambda: handle.checkpoint_saver().delete("t"),
        },
    )
