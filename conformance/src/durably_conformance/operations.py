"""Every operation of every declared contract, as calls to be made on any handle."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from durably import RunHead, StateSnapshot
from durably.logstore import Rewrite
from durably.testing import Handle
from durably_conformance.building import batch, log, said
from durably_conformance.context import T

__all__ = ["Operation", "operations"]

Operation: TypeAlias = Callable[[Handle], Awaitable[object]]

_SESSIONS: Mapping[str, Callable[[Handle, str], Awaitable[object]]] = {
    "sessions.append": lambda h, i: h.sessions.append(i, said("a")),
    "sessions.append of nothing": lambda h, i: h.sessions.append(i, []),
    "sessions.segments": lambda h, i: h.sessions.segments(i),
    "sessions.load": lambda h, i: h.sessions.load(i),
    "sessions.revision": lambda h, i: h.sessions.revision(i),
    "sessions.clear": lambda h, i: h.sessions.clear(i),
}
_HISTORY: Mapping[str, Callable[[Handle, str], Awaitable[object]]] = {
    "sessions.history": lambda h, i: h.sessions.history(i),
    "sessions.last": lambda h, i: h.sessions.last(i, runs=1),
}
_REWIND: Mapping[str, Callable[[Handle, str], Awaitable[object]]] = {
    "sessions.rewind": lambda h, i: h.sessions.rewind(i, keep_entries=0),
}
_TRIM: Mapping[str, Callable[[Handle, str], Awaitable[object]]] = {
    "sessions.trim_tool_results": lambda h, i: h.sessions.trim_tool_results(i, keep_runs=0),
}
_RUNS: Mapping[str, Callable[[Handle, str], Awaitable[object]]] = {
    "checkpointer.append": lambda h, i: h.checkpointer.append(i, said("a"), RunHead()),
    "checkpointer.append of a head": lambda h, i: h.checkpointer.append(i, [], RunHead()),
    "checkpointer.load": lambda h, i: h.checkpointer.load(i),
    "checkpointer.runs": lambda h, _: h.checkpointer.runs(),
    "checkpointer.claim": lambda h, i: h.checkpointer.claim(i),
    "checkpointer.delete": lambda h, i: h.checkpointer.delete(i),
}
_THREADS: Mapping[str, Callable[[Handle, str], Awaitable[object]]] = {
    "saver.append": lambda h, i: h.checkpoint_saver().append(i, StateSnapshot()),
    "saver.latest": lambda h, i: h.checkpoint_saver().latest(i),
    "saver.get": lambda h, i: h.checkpoint_saver().get(i, 1),
    "saver.list": lambda h, i: h.checkpoint_saver().list(i),
    "saver.delete": lambda h, i: h.checkpoint_saver().delete(i),
}


_LOGS: Mapping[str, Callable[[Handle, str], Awaitable[object]]] = {
    "log_store.append": lambda h, i: h.log_store.append(log(i), batch(b"a")),
    "log_store.read": lambda h, i: h.log_store.read(log(i)),
    "log_store.rewrite": lambda h, i: h.log_store.rewrite(log(i), Rewrite(expected_revision=1)),
    "log_store.delete": lambda h, i: h.log_store.delete(log(i)),
    "log_store.list": lambda h, _: h.log_store.list("test"),
}


def operations(t: T, id_: str) -> dict[str, Operation]:
    """Return each operation of the declared contracts by name, on one id."""
    declared = t.capabilities
    sessions = bool(declared.sessions)
    chosen = (
        (sessions, _SESSIONS),
        (sessions and declared.history, _HISTORY),
        (sessions and declared.rewind, _REWIND),
        (sessions and declared.trim, _TRIM),
        (declared.checkpointer, _RUNS),
        (declared.checkpoint_saver, _THREADS),
        (declared.log_store, _LOGS),
    )
    return {
        name: _bound(call, id_)
        for offered, calls in chosen
        if offered
        for name, call in calls.items()
    }


def _bound(call: Callable[[Handle, str], Awaitable[object]], id_: str) -> Operation:
    return lambda handle: call(handle, id_)
