"""What a caller passes in or gets back is never shared with the store."""

import copy
from typing import Any

from durably import (
    CustomEntry,
    Entry,
    InputEntry,
    ReasoningEntry,
    RunHead,
    StateSnapshot,
    TextPart,
)
from durably_conformance.building import result
from durably_conformance.context import T
from durably_conformance.registry import check


def _entries() -> list[Entry]:
    """Return entries with everything in them that can be changed."""
    return [
        InputEntry(role="user", content=[TextPart(text="a")]),
        ReasoningEntry(provider="p", metadata={"in": [1]}),
        result("c", raw={"in": [1]}, parts=[TextPart(text="a")]),
        CustomEntry(kind="k", data={"in": [1]}),
    ]


def _head() -> RunHead:
    return RunHead(usage={"in": [1]}, output={"in": [1]}, context_state={"in": [1]})


def _snapshot(messages: list[Entry] | None = None) -> StateSnapshot:
    own = _entries() if messages is None else messages
    return StateSnapshot(messages=own, usage={"in": [1]}, extra={"in": [1]})


def _change(*values: Any) -> None:  # noqa: ANN401 - whatever a backend returns
    """Change every list and every dict inside some values."""
    for value in values:
        kind = type(value).__name__
        if kind == "dict":
            _change(*value.values())
            value["changed"] = True
        elif kind == "list":
            _change(*value)
            value.append("changed")
        elif kind == "tuple":
            _change(*value)
        else:
            _change(*(getattr(value, name) for name in getattr(value, "__struct_fields__", ())))


@check("SES-ALIAS-001", contract="session")
async def a_session_copies_what_it_is_given(t: T) -> None:
    """Changing what was passed to append changes nothing that is stored in a session."""
    handle, other = await t.connect(), await t.connect()
    entries, meta = _entries(), {"in": [1]}
    await handle.sessions.append("s", entries, run_id="r", meta=meta)
    _change(entries, meta)
    for one in (handle, other):
        segments = await one.sessions.segments("s")
        t.exact([one.entries for one in segments], [_entries()], "entries")
        t.exact([one.meta for one in segments], [{"in": [1]}], "meta")
        t.exact(await one.sessions.load("s"), _entries(), "entries by load")


@check("SES-ALIAS-002", contract="session")
async def a_session_hands_out_copies(t: T) -> None:
    """Changing what segments and load returned changes nothing that is stored in a session."""
    handle, other = await t.connect(), await t.connect()
    await handle.sessions.append("s", _entries(), run_id="r", meta={"in": [1]})
    _change(await handle.sessions.segments("s"), await handle.sessions.load("s"))
    for one in (handle, other):
        segments = await one.sessions.segments("s")
        t.exact([one.entries for one in segments], [_entries()], "entries")
        t.exact([one.meta for one in segments], [{"in": [1]}], "meta")
        t.exact(await one.sessions.load("s"), _entries(), "entries by load")


@check("CKP-ALIAS-001", contract="checkpointer")
async def a_checkpointer_copies_what_it_is_given(t: T) -> None:
    """Changing what was passed to append changes nothing that is stored of a run."""
    handle, other = await t.connect(), await t.connect()
    entries, head = _entries(), _head()
    await handle.checkpointer.append("r", entries, head)
    _change(entries, head)
    for one in (handle, other):
        run = await one.checkpointer.load("r")
        t.exact(run and run.entries, _entries(), "entries")
        t.exact(run and _own(run.head), _own(_head()), "head")
        listed = [_own(info.head) for info in (await one.checkpointer.runs()).items]
        t.exact(listed, [_own(_head())], "listed heads")


@check("CKP-ALIAS-002", contract="checkpointer")
async def a_checkpointer_hands_out_copies(t: T) -> None:
    """Changing what load, runs and a claim returned changes nothing that is stored of a run."""
    handle, other = await t.connect(), await t.connect()
    await handle.checkpointer.append("r", _entries(), _head())
    claim = await handle.checkpointer.claim("r")
    run = await handle.checkpointer.load("r")
    page = await handle.checkpointer.runs()
    _change(claim.snapshot, run, page.items)
    for one in (handle, other):
        run = await one.checkpointer.load("r")
        t.exact(run and run.entries, _entries(), "entries")
        t.exact(run and _own(run.head), _own(_head()), "head")
        listed = [_own(info.head) for info in (await one.checkpointer.runs()).items]
        t.exact(listed, [_own(_head())], "listed heads")


def _own(head: RunHead) -> tuple[object, ...]:
    """Return what a head holds that can be changed in place."""
    return head.usage, head.output, head.context_state


@check("CKS-ALIAS-001", contract="saver")
async def a_saver_copies_what_it_is_given(t: T) -> None:
    """Changing what was passed to append changes no stored snapshot, the same object sent again."""
    saver, other = (await t.connect()).checkpoint_saver(), (await t.connect()).checkpoint_saver()
    messages = _entries()
    snapshot = _snapshot(messages)
    await saver.append("t", snapshot)
    _change(snapshot.extra, snapshot.usage)
    messages[:] = [*_entries(), result("d")]
    changed = copy.deepcopy(snapshot)
    await saver.append("t", snapshot)
    _change(snapshot)
    for one in (saver, other):
        found = [one.snapshot for one in await one.list("t")]
        t.exact(found, [changed, _snapshot()], "snapshots, newest first")
        latest = await one.latest("t")
        t.exact(latest and latest.snapshot, changed, "the latest snapshot")


@check("CKS-ALIAS-002", contract="saver")
async def a_saver_hands_out_copies(t: T) -> None:
    """Changing what latest, get and list returned changes nothing stored, and no later save."""
    saver, other = (await t.connect()).checkpoint_saver(), (await t.connect()).checkpoint_saver()
    seq = await saver.append("t", _snapshot())
    _change(await saver.latest("t"), await saver.get("t", seq), await saver.list("t"))
    await saver.append("t", _snapshot())
    for one in (saver, other):
        found = [one.snapshot for one in await one.list("t")]
        t.exact(found, [_snapshot()] * 2, "snapshots")
        t.exact((await one.get("t", seq)).snapshot, _snapshot(), "the snapshot by its seq")
        latest = await one.latest("t")
        t.exact(latest and latest.snapshot, _snapshot(), "the latest snapshot")
