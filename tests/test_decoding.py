"""How core reads what a newer version wrote: which entry it names, and in which words."""

import msgspec
import pytest

from builders import plant, said
from durably import StateSnapshot, UnknownEntryType
from durably._records import decode_entries
from durably.logstore import LogId

LOG = LogId(kind="session", id="x")
KNOWN = b'{"type":"input","role":"user","content":"known"}'

UNKNOWN = {
    "an entry": (b'{"type":"hologram","role":"user","content":"x"}', "hologram"),
    "an entry of no other field": (b'{"type":"Input"}', "Input"),
    "a part of an input": (
        b'{"type":"input","role":"user","content":[{"type":"text","text":"x"},{"type":"audio"}]}',
        "audio",
    ),
    "a part of what the model said": (
        b'{"type":"assistant_text","content":[{"type":"smell"}]}',
        "smell",
    ),
    "a part of a result": (
        b'{"type":"tool_result","call_id":"c","output":"o","parts":[{"type":"video","url":"u"}]}',
        "video",
    ),
}


@pytest.mark.parametrize(("item", "named"), UNKNOWN.values(), ids=UNKNOWN.keys())
def test_an_unknown_type_is_named_wherever_it_is(item, named):
    """An entry or part of an unknown type is named with its place, and what to do about it."""
    with pytest.raises(UnknownEntryType) as caught:
        decode_entries([msgspec.Raw(one) for one in (KNOWN, KNOWN, item, KNOWN)], LOG, "r1")
    error = caught.value
    assert (error.log, error.record, error.index, error.entry_type) == (LOG, "r1", 2, named)
    for word in ("entry 2", "'r1'", "'x'", named, "upgrade"):
        assert word in str(error)


async def test_an_unknown_message_of_a_delta_counts_from_the_snapshot(place):
    """The index of an unknown message is that in its snapshot, not in the record that added it."""
    async with place.open() as storage:
        saver = storage.checkpoint_saver()
        first = await saver.append("x", StateSnapshot(messages=said("a")))
        delta = b'{"back":1,"shared":1,"messages":[{"type":"hologram"}],"snapshot":{}}'
        await plant(place, "thread", "x", delta, key="delta:2")
        last = await saver.append("x", StateSnapshot(messages=said("a", "b")))
        with pytest.raises(UnknownEntryType) as caught:
            await saver.get("x", first + 1)
        assert (caught.value.record, caught.value.index) == ("delta:2", 1)
        assert (await saver.get("x", first)).snapshot.messages == said("a")
        assert (await saver.get("x", last)).snapshot.messages == said("a", "b")
