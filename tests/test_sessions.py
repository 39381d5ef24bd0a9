"""Sessions: what an append costs."""

from builders import said
from disturbed import Recorder
from durably import Storage


async def test_the_bytes_of_an_append_do_not_grow_with_the_session(place):
    """The 200th append writes as many bytes as the 2nd, in one operation of the log store."""
    recorder = Recorder(place.log_store())
    sizes = []
    async with Storage(recorder) as storage:
        for number in range(200):
            before = recorder.written
            recorder.calls.clear()
            await storage.sessions.append("s", said("same"), run_id=f"r{number:03}")
            sizes.append(recorder.written - before)
            if number:
                assert recorder.calls == [("append", "session")]
    assert set(sizes[1:]) == {sizes[1]}
