"""The least there is: what one handle appends another one reads."""

from durably import InputEntry


async def test_another_handle_sees_an_append(handles):
    """An acknowledged append is seen by an independent handle."""
    first, second = handles
    said = [InputEntry(role="user", content="hello")]
    await first.sessions.append("u1", said, run_id="r1")
    assert await second.sessions.load("u1") == said
