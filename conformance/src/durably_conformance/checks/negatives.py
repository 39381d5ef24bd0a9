"""What is declared absent is refused in words, and never quietly done or quietly ignored."""

from durably_conformance.building import said
from durably_conformance.context import T
from durably_conformance.registry import check


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
