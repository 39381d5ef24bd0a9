"""Entries, heads and logs in few words, for checks and mutants."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from durably import (
    AssistantTextEntry,
    Entry,
    InputEntry,
    RunHead,
    Session,
    StateSnapshot,
    ToolCallEntry,
    ToolResultEntry,
)
from durably.logstore import Batch, LogId, NewRecord

__all__ = [
    "answer",
    "batch",
    "call",
    "delayed",
    "fill",
    "for_each",
    "head",
    "log",
    "result",
    "runs",
    "said",
    "shape",
    "snapshot",
]

V = TypeVar("V")


def said(*texts: str) -> list[Entry]:
    """Return an input of the user for each text."""
    return [InputEntry(role="user", content=text) for text in texts]


def answer(text: str) -> AssistantTextEntry:
    """Return what a model said."""
    return AssistantTextEntry(content=text)


def call(call_id: str, name: str = "search", arguments: str = "{}") -> ToolCallEntry:
    """Return a tool call."""
    return ToolCallEntry(call_id=call_id, name=name, arguments=arguments)


def result(call_id: str, output: str = "found", **more: Any) -> ToolResultEntry:  # noqa: ANN401
    """Return the result of a tool call."""
    return ToolResultEntry(call_id=call_id, output=output, **more)


def head(**fields: Any) -> RunHead:  # noqa: ANN401 - RunHead's own
    """Return a run's head."""
    return RunHead(**fields)


def snapshot(*texts: str, **more: Any) -> StateSnapshot:  # noqa: ANN401 - StateSnapshot's own
    """Return a snapshot whose messages are inputs of the user."""
    return StateSnapshot(messages=said(*texts), **more)


def log(id_: str = "log", *, kind: str = "test") -> LogId:
    """Name a log of a kind that is for tests, and wiped with the place."""
    return LogId(kind=kind, id=id_)


def batch(*datas: bytes, **fields: Any) -> Batch:  # noqa: ANN401 - Batch's own
    """Return a batch with a record for each of some bytes."""
    return Batch(records=tuple(NewRecord(data=data) for data in datas), **fields)


async def shape(sessions: Session, session_id: str) -> list[tuple[str, int]]:
    """Return a session as pairs of run_id and number of entries."""
    return [(one.run_id, len(one.entries)) for one in await sessions.segments(session_id)]


def runs(text: str) -> list[tuple[str, int]]:
    """Return ``"a2 b0"`` as pairs of run_id and number of entries."""
    return [(word[0], int(word[1:])) for word in text.split()]


async def fill(sessions: Session, session_id: str, text: str) -> None:
    """Append the runs that ``text`` names; ``"a2"`` says a0 and a1, with meta of its own."""
    for run_id, size in runs(text):
        entries = said(*(f"{run_id}{number}" for number in range(size)))
        await sessions.append(session_id, entries, run_id=run_id, meta={"of": run_id})


async def for_each(
    act: Callable[[str], Awaitable[V]], texts: Sequence[str], *, at_once: int = 16
) -> list[V]:
    """Return what an act gives for each text; a few at once, which is quick and no crowd."""
    given: list[V] = []
    for start in range(0, len(texts), at_once):
        given += await asyncio.gather(*map(act, texts[start : start + at_once]))
    return given


async def delayed(turns: int, call: Awaitable[V]) -> V:
    """Let the loop turn so often before a call, so that of two calls now one, now another leads."""
    for _ in range(turns):
        await asyncio.sleep(0)
    return await call
