"""How a run begins: anew, from where it was, or not at all since it is over."""

import time
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from durably import (
    Entry,
    JsonValue,
    RevisionConflict,
    RunHead,
    RunNotFound,
    RunSnapshot,
    Segment,
    drop_dangling_tool_calls,
)
from durably.logstore import LogId
from durably_runner._decisions import check_decision, entries_of, is_recorded
from durably_runner._graph import find_agent
from durably_runner._order import Order
from durably_runner._progress import Progress
from durably_runner.errors import RunExists

__all__ = [
    "Earlier",
    "Start",
    "Stored",
    "check_new",
    "find_stored",
    "finished_meanwhile",
    "give_up",
    "load_earlier",
    "prepare",
    "still_waits",
]


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
        check_new(order, await load_earlier(order))
        await checkpointer.delete(options.run_id, expected_revision=held.revision)
        return None
    return Stored(snapshot=held, is_held=True)


async def load_earlier(order: Order) -> Earlier:
    """Read the session, but for this run itself and for calls that never had a result."""
    if order.session is None or order.session_id is None:
        return Earlier(entries=[])
    segments = await order.session.segments(order.session_id)
    others = [segment for segment in segments if segment.run_id != order.run_id]
    metas = [segment.meta or {} for segment in others[-1:]]
    return Earlier(
        entries=[
            entry for segment in others for entry in drop_dangling_tool_calls(segment.entries)
        ],
        context_state=metas[0].get("context_state") if metas else None,
        own=next((segment for segment in segments if segment.run_id == order.run_id), None),
    )


def check_new(order: Order, earlier: Earlier) -> None:
    """Refuse to begin a run anew that the session has, or that must have been stored.

    Raises:
        RunExists: the session has it, where it could not be replaced.
        RunNotFound: nobody has it, the caller neither, and ``resume_only`` asks for it.
    """
    options = order.checkpoint
    policy = "resume" if options is None else options.if_run_exists
    given = None if options is None else options.resume_from
    if earlier.own is not None and policy in {"restart", "fail"}:
        hint = "A stored run is never replaced: rewind the session first, or use another run_id"
        raise RunExists(order.run_id, f"session {order.session_id!a}", hint)
    if earlier.own is None and given is None and policy == "resume_only":
        raise RunNotFound(order.run_id)


class Start(msgspec.Struct, frozen=True, eq=False):
    """A run that is to be taken over, or started, by saving what is fresh: nothing runs before."""

    progress: Progress
    fresh: list[Entry]


def prepare(order: Order, stored: Stored | None, earlier: Earlier) -> Start:
    """Return how the run begins; nothing is stored yet.

    Raises:
        AgentNotFound: the run is with an agent that cannot be reached any more.
        DecisionRefused: there is a decision, and the run does not wait for it.
    """
    if stored is None:
        head = RunHead(
            agent_name=order.agent.name,
            started_at=time.time(),
            context_state=earlier.context_state,
        )
        return Start(_held(order, head, earlier, None), [*_decided(order, head, []), *order.inputs])
    run = stored.snapshot
    for name in (run.head.agent_name, run.head.pending_handoff or run.head.agent_name):
        find_agent(order.agent, name, order.run_id)
    decided = _decided(order, run.head, run.entries)
    head = run.head.replace(status="running", error=None, interrupt=None)
    if stored.is_held:
        return Start(_held(order, head, earlier, run), decided)
    return Start(_held(order, head, earlier, None), [*run.entries, *decided])


def _held(order: Order, head: RunHead, earlier: Earlier, held: RunSnapshot | None) -> Progress:
    checkpointer = None if order.checkpoint is None else order.checkpoint.checkpointer
    return Progress(
        order.run_id,
        head,
        [] if held is None else held.entries,
        earlier=earlier.entries,
        claim=None if checkpointer is None else checkpointer.hold(order.run_id, held),
    )


async def finished_meanwhile(order: Order, progress: Progress) -> Segment | None:
    """Return the run as its session has it, if another worker did all of it before this claim.

    That needs looking only where a completed run leaves no checkpoint; the claim is given back.
    """
    options = order.checkpoint
    if progress.claim is None or options is None or not options.delete_on_success:
        return None
    earlier = await load_earlier(order)
    if earlier.own is not None:
        await progress.claim.delete()
    return earlier.own


async def give_up(order: Order, stored: Stored | None) -> None:
    """Remove the checkpoint of a run that its session has, as of one that was recorded as finished.

    Whoever holds it meanwhile does so, too.
    """
    checkpointer = None if order.checkpoint is None else order.checkpoint.checkpointer
    if checkpointer is not None and stored is not None and stored.is_held:
        with suppress(RevisionConflict):
            revision = stored.snapshot.revision
            await checkpointer.delete(order.run_id, expected_revision=revision)


def _decided(order: Order, head: RunHead, entries: Sequence[Entry]) -> list[Entry]:
    """Return what a decision that is to be recorded adds to the run."""
    decision = order.decision
    if decision is None or is_recorded(decision, entries):
        return []
    check_decision(decision, order.run_id, head.interrupt)
    return entries_of(decision)


def still_waits(order: Order, run: RunSnapshot) -> bool:
    """Whether a run waits for a person who has not decided."""
    if run.head.interrupt is None:
        return False
    return order.decision is None or is_recorded(order.decision, run.entries)
