"""How a run begins: anew, from where it was, or not at all since it is over."""

import time
from collections.abc import Sequence

import msgspec

from durably import (
    Claim,
    Entry,
    JsonValue,
    RevisionConflict,
    RunHead,
    RunNotFound,
    RunSnapshot,
    Segment,
)
from durably.logstore import LogId
from durably_runner._order import Order
from durably_runner._progress import Progress
from durably_runner.agents import find_agent
from durably_runner.errors import RunExists

__all__ = ["Earlier", "Stored", "begin", "check_new", "find_stored", "load_earlier"]


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """What the session holds: the entries of its other runs, and perhaps this very run."""

    entries: list[Entry]
    context_state: JsonValue = None
    own: Segment | None = None


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """The run as a call finds it; ``is_held`` says that the checkpointer has it."""

    snapshot: RunSnapshot
    is_held: bool


async def find_stored(order: Order) -> Stored | None:
    """Return the run if it is stored and to be gone on with, by ``if_run_exists``.

    Raises:
        RunExists: it is stored, and must not be.
        RunNotFound: it is not stored, and must be.
        RevisionConflict: it is at another revision than ``resume_from``.
    """
    options = order.checkpoint
    if options is None:
        return None
    checkpointer, given = options.checkpointer, options.resume_from
    held = None if checkpointer is None else await checkpointer.load(options.run_id)
    if held is not None and given is not None and held.revision != given.revision:
        log = LogId(kind="run", id=options.run_id)
        raise RevisionConflict(log, expected=given.revision, actual=held.revision)
    if held is None:
        return None if given is None else Stored(snapshot=given, is_held=False)
    if options.if_run_exists == "fail":
        raise RunExists(options.run_id, "the checkpointer", "Use another run_id, or resume it")
    if options.if_run_exists == "restart" and checkpointer is not None:
        await checkpointer.delete(options.run_id, expected_revision=held.revision)
        return None
    return Stored(snapshot=held, is_held=True)


async def load_earlier(order: Order) -> Earlier:
    """Read the session, but for this run itself."""
    if order.session is None or order.session_id is None:
        return Earlier(entries=[])
    segments = await order.session.segments(order.session_id)
    others = [segment for segment in segments if segment.run_id != order.run_id]
    metas = [segment.meta or {} for segment in others[-1:]]
    return Earlier(
        entries=[entry for segment in others for entry in segment.entries],
        context_state=metas[0].get("context_state") if metas else None,
        own=next((segment for segment in segments if segment.run_id == order.run_id), None),
    )


def check_new(order: Order, earlier: Earlier) -> None:
    """Refuse to begin a run anew that the session has, or that must have been stored.

    Raises:
        RunExists: the session has it, where it could not be replaced.
        RunNotFound: neither it nor the checkpointer has it, and ``resume_only`` asks for it.
    """
    policy = "resume" if order.checkpoint is None else order.checkpoint.if_run_exists
    if earlier.own is not None and policy in {"restart", "fail"}:
        hint = "A stored run is never replaced: rewind the session first, or use another run_id"
        raise RunExists(order.run_id, f"session {order.session_id!a}", hint)
    if earlier.own is None and policy == "resume_only":
        raise RunNotFound(order.run_id)


async def begin(order: Order, stored: Stored | None, earlier: Earlier) -> Progress:
    """Take the run over, or start it: one save, before which nothing has run.

    Raises:
        RevisionConflict: another worker was first.
        AgentNotFound: the run is with an agent that cannot be reached any more.
    """
    if stored is None:
        head = RunHead(
            agent_name=order.agent.name,
            started_at=time.time(),
            context_state=earlier.context_state,
        )
        return await _owned(order, head, [], order.inputs, None)
    snapshot = stored.snapshot
    find_agent(order.agent, snapshot.head.agent_name, order.run_id)
    head = snapshot.head.replace(status="running", error=None)
    if stored.is_held:
        return await _owned(order, head, snapshot.entries, [], snapshot)
    return await _owned(order, head, [], snapshot.entries, None)


async def _owned(
    order: Order,
    head: RunHead,
    known: Sequence[Entry],
    fresh: Sequence[Entry],
    held: RunSnapshot | None,
) -> Progress:
    checkpointer = None if order.checkpoint is None else order.checkpoint.checkpointer
    claim: Claim | None = None
    if checkpointer is not None:
        claim = checkpointer.hold(order.run_id, held)
    progress = Progress(order.run_id, head, known, claim)
    await progress.save(fresh)
    return progress
