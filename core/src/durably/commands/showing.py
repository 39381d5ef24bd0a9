"""``durably show``: one conversation, as a person reads it."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Annotated, Protocol

import msgspec
import typer

from durably.commands.arguments import AsJson, Kind, SessionId, Url, missing, open_url
from durably.commands.output import count, plain, print_block, print_json, print_line
from durably.commands.transcript import transcript
from durably.entries import Entry, JsonValue
from durably.errors import StateNotFound, TreeNotFound
from durably.storage import Storage

__all__ = ["show", "show_state"]


def show(
    url: Url,
    id_: SessionId,
    *,
    kind: Annotated[
        Kind,
        typer.Option(
            help="What the id names; of a thread the latest snapshot is shown, of a tree what was"
            " said on the way to its leaf."
        ),
    ] = Kind.SESSION,
    as_json: AsJson = False,
) -> None:
    r"""Show a session as a person reads it: its runs, who said what, tool calls and results.

    Nothing in what is shown acts on the terminal: control characters, escape sequences and
    characters that change the direction of writing appear as escapes, such as \x1b. What was
    said is indented, so that it cannot pose as a heading.

    With --json, it is one object: session_id, and runs [{run_id, meta, entries}]. A run has
    run_id, revision, head, entries; a thread has thread_id, seq, stored_at, snapshot; a
    state has key, snapshot; a tree has tree_id, revision, name, leaf_id, labels, parent,
    node_count, message_count, created_at, updated_at, messages. Entries are as they are stored,
    their type in the field type.
    """
    asyncio.run(_show(url, id_, kind, as_json=as_json))


class _Reader(Protocol):
    async def __call__(self, storage: Storage, id_: str, /, *, as_json: bool) -> None: ...


async def _show(url: str, id_: str, kind: Kind, *, as_json: bool) -> None:
    readers: dict[Kind, _Reader] = {
        Kind.SESSION: _session,
        Kind.RUN: _run,
        Kind.THREAD: _thread,
        Kind.STATE: show_state,
        Kind.TREE: _tree,
    }
    async with open_url(url) as storage:
        await readers[kind](storage, id_, as_json=as_json)


async def _session(storage: Storage, id_: str, *, as_json: bool) -> None:
    segments = await storage.sessions.segments(id_)
    if not segments and await storage.sessions.revision(id_) == 0:
        raise await missing(storage, "session", id_)
    if as_json:
        runs = [
            {"run_id": one.run_id, "meta": one.meta, "entries": msgspec.to_builtins(one.entries)}
            for one in segments
        ]
        print_json({"session_id": id_, "runs": runs})
        return
    print_line(f"session {id_}", style="bold")
    for segment in segments:
        _print_rule(f"run {segment.run_id}, {count(len(segment.entries), 'entry', 'entries')}")
        if segment.meta is not None:
            _print("meta", plain(segment.meta))
        _print_entries(segment.entries)


async def _run(storage: Storage, id_: str, *, as_json: bool) -> None:
    run = await storage.checkpointer.load(id_)
    if run is None:
        raise await missing(storage, "run", id_)
    if as_json:
        print_json(msgspec.to_builtins(run))
        return
    print_line(f"run {id_}", style="bold")
    _print("head", _json(run.head))
    _print_rule(count(len(run.entries), "entry", "entries"))
    _print_entries(run.entries)


async def _thread(storage: Storage, id_: str, *, as_json: bool) -> None:
    latest = await storage.checkpoint_saver().latest(id_)
    if latest is None:
        raise await missing(storage, "thread", id_)
    if as_json:
        print_json(msgspec.to_builtins(latest))
        return
    snapshot = latest.snapshot
    print_line(f"thread {id_}", style="bold")
    _print("state", _json(msgspec.structs.replace(snapshot, messages=[])))
    _print_rule(f"snapshot {latest.seq}, {count(len(snapshot.messages), 'entry', 'entries')}")
    _print_entries(snapshot.messages)


async def show_state(
    storage: Storage, key: str, *, as_json: bool, has_kind_option: bool = True
) -> None:
    """Print the snapshot under a key; whether the command has --kind matters where there is none.

    Raises:
        DurablyError: there is none, or it cannot be read.
    """
    try:
        snapshot = await storage.states.load(key)
    except StateNotFound:
        raise await missing(storage, "state", key, has_kind_option=has_kind_option) from None
    if as_json:
        print_json({"key": key, "snapshot": msgspec.to_builtins(snapshot)})
        return
    print_line(f"state {key}", style="bold")
    _print("snapshot", _json(msgspec.structs.replace(snapshot, messages=[])))
    _print_rule(count(len(snapshot.messages), "entry", "entries"))
    _print_entries(snapshot.messages)


async def _tree(storage: Storage, id_: str, *, as_json: bool) -> None:
    tree = storage.tree(id_)
    try:
        info = await tree.info()
    except TreeNotFound:
        raise await missing(storage, "tree", id_) from None
    messages: Sequence[Entry] = ()
    if info.leaf_id is not None:
        messages = await tree.messages(info.leaf_id)
    if as_json:
        print_json({**msgspec.to_builtins(info), "messages": msgspec.to_builtins(messages)})
        return
    print_line(f"tree {id_}", style="bold")
    _print("info", _json(info))
    _print_rule(count(len(messages), "entry", "entries"))
    _print_entries(messages)


def _json(value: JsonValue) -> str:
    return plain(msgspec.to_builtins(value))


def _print_rule(text: str) -> None:
    print_line("")
    print_line(f"-- {text} --", style="bold cyan")


def _print_entries(entries: Iterable[Entry]) -> None:
    for said in transcript(entries):
        _print(said.heading, said.text)


def _print(heading: str, text: str) -> None:
    print_line(f"{heading}:", style="green")
    print_block(text)
