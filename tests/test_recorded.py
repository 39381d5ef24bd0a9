"""Recorded conversations go in and come out equal."""

import msgspec
import pytest

from durably import RunHead, StateSnapshot, ToolCallEntry, ToolResultEntry
from recorded import MADE_UP, runs, sources


def test_a_conversation_is_cut_into_runs():
    """A run begins with each user message, and calls and results become entries of their own."""
    first, *others = MADE_UP
    cut = runs(first)
    assert [len(run) for run in cut] == [1, 6, 2, 1]
    assert [type(entry) for entry in cut[1][1:5]] == [ToolCallEntry] * 2 + [ToolResultEntry] * 2
    assert cut[1][1].arguments == '{"of": "it"'
    assert [len(runs(one)) for one in others] == [1, 0]


@pytest.mark.parametrize("conversations", sources())
async def test_conversations_come_out_of_a_session_as_they_went_in(handles, conversations):
    """Each conversation is a session; another handle reads every run of it back, equal."""
    writer, reader = handles
    for conversation in conversations:
        for number, run in enumerate(runs(conversation)):
            meta = {"source": conversation["id"], "number": number}
            await writer.sessions.append(conversation["id"], run, run_id=f"r{number}", meta=meta)
    for conversation in conversations:
        session_id, cut = conversation["id"], runs(conversation)
        segments = await reader.sessions.segments(session_id)
        assert [one.entries for one in segments] == cut
        assert [one.run_id for one in segments] == [f"r{number}" for number in range(len(cut))]
        assert [one.meta["number"] for one in segments] == list(range(len(cut)))
        flat = [entry for run in cut for entry in run]
        loaded = await reader.sessions.load(session_id)
        assert loaded == flat
        assert [type(entry) for entry in loaded] == [type(entry) for entry in flat]


@pytest.mark.parametrize("conversations", sources())
async def test_conversations_come_out_of_a_run_and_a_thread_as_they_went_in(handles, conversations):
    """Saved run by run, each as a batch and as a snapshot, a conversation is read back equal."""
    writer, reader = handles
    writing, reading = writer.checkpoint_saver(), reader.checkpoint_saver()
    for conversation in conversations[:20]:
        id_, said = conversation["id"], []
        for number, run in enumerate(runs(conversation)):
            said += run
            await writer.checkpointer.append(id_, run, RunHead(turns=number))
            await writing.append(id_, StateSnapshot(messages=list(said), turn=number))
        saved, latest = await reader.checkpointer.load(id_), await reading.latest(id_)
        if not said:
            assert (saved, latest) == (None, None)
            continue
        assert saved.entries == said
        assert latest.snapshot.messages == said
        history = await reading.list(id_)
        lengths = [len(one.snapshot.messages) for one in reversed(history)]
        assert lengths == [sum(map(len, runs(conversation)[: n + 1])) for n in range(len(history))]
        assert all(
            one.snapshot.messages == said[:n] for one, n in zip(history[::-1], lengths, strict=True)
        )


@pytest.mark.parametrize("conversations", sources())
async def test_trimming_a_conversation_keeps_everything_but_long_outputs(handles, conversations):
    """After a trim only the long outputs of earlier runs differ, and another handle sees it."""
    writer, reader = handles
    for conversation in conversations[:20]:
        id_, cut = conversation["id"], runs(conversation)
        for number, run in enumerate(cut):
            await writer.sessions.append(id_, run, run_id=f"r{number}")
        trimmed = await writer.sessions.trim_tool_results(id_, keep_chars=50)
        found = await reader.sessions.segments(id_)
        assert [one.entries for one in found[-1:]] == cut[-1:]
        pairs = [
            (old, new)
            for run, segment in zip(cut, found, strict=True)
            for old, new in zip(run, segment.entries, strict=True)
            if old != new
        ]
        assert len(pairs) == trimmed
        for old, new in pairs:
            assert new.output.startswith(old.output[:50])
            assert len(new.output) <= len(old.output)
            gone = msgspec.structs.replace(old, output="", raw=None)
            assert msgspec.structs.replace(new, output="", trimmed_chars=0) == gone
