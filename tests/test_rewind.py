"""Rewinding: what it does not have to read."""

from builders import plant, records
from durably import Rewound


async def test_whole_runs_are_cut_without_being_read(place):
    """A rewind that removes a run, or keeps it whole, does not need to understand it."""
    for key in ("r1", "r2", "r3"):
        await plant(place, "session", "s", b"\xff not json", key=key, entry_count=2)
    async with place.open() as storage:
        done = await storage.sessions.rewind("s", keep_entries=2)
        assert done == Rewound(removed_entries=4, removed_run_ids=("r2", "r3"))
    assert [(one.key, one.data) for one in await records(place, "session", "s")] == [
        ("r1", b"\xff not json")
    ]
