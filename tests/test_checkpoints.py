"""Threads that others delete and make again between two reads of one call."""

import pytest

from builders import snapshot
from disturbed import Interposing
from durably import Storage


async def _life(saver, letter, saves):
    for number in range(1, saves + 1):
        await saver.append("t", snapshot(letter * 400, *(f"{letter}{n}" for n in range(number))))


@pytest.mark.parametrize("operation", ["latest", "get", "list"])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_thread_recreated_under_a_reader_is_never_mixed(place, operation, number):
    """A reader overtaken by delete and re-creation sees one life of the thread, never both."""
    store = Interposing(place.log_store())
    async with Storage(store) as first, place.open() as second:
        reader, writer = first.checkpoint_saver(), second.checkpoint_saver()
        await _life(writer, "a", 4)

        async def recreate():
            await writer.delete("t")
            await _life(writer, "b", 5)

        store.interpose("read", number, recreate)
        if operation == "latest":
            found = [await reader.latest("t")]
        elif operation == "get":
            found = [await reader.get("t", 4)]
        else:
            found = list(await reader.list("t", limit=2))
        for one in found:
            letters = {message.content[0] for message in one.snapshot.messages}
            assert len(letters) == 1
            assert len(one.snapshot.messages) == 1 + one.seq
