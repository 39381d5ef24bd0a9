"""Wrong recoveries: a session is changed, and what lies behind it is not."""

from typing_extensions import override

from durably import Rewound
from durably_conformance.building import call, fill, head, said
from durably_conformance.offering import upkeep_of
from durably_conformance.selftest.delegating_upkeep import UpkeepMutation
from durably_conformance.selftest.spoiling import wrong
from durably_conformance.selftest.tracking import Tracked


class LeavesCheckpoints(UpkeepMutation):
    """Rewinds the session alone."""

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        return await self.inner.sessions.rewind(
            session_id, keep_entries=keep_entries, expected_revision=expected_revision
        )


class KeepsOpenCalls(UpkeepMutation):
    """Finishes a run with its calls that never got a result."""

    @override
    async def finish(self, run_id: str, session_id: str) -> bool:
        run = await self.inner.checkpointer.load(run_id)
        if run is not None:
            await self.inner.sessions.append(session_id, run.entries, run_id=run_id)
        return await self.inner.finish(run_id, session_id)


async def leaves_a_checkpoint(place: Tracked) -> bool:
    """Rewind to before a run that has a checkpoint."""
    handle = await place.connect()
    await fill(handle.sessions, "s", "a1 b1")
    await handle.checkpointer.append("b", said("x"), head())
    await upkeep_of(handle).rewind("s", keep_entries=1)
    return await handle.checkpointer.load("b") is not None


async def keeps_an_open_call(place: Tracked) -> bool:
    """Finish a run that was left in a call."""
    handle = await place.connect()
    await handle.checkpointer.append("r", [*said("a"), call("1")], head())
    await upkeep_of(handle).finish("r", "s")
    return len(await handle.sessions.load("s")) == 2


MUTANTS = (
    wrong(
        "leaves checkpoints behind a rewind",
        "A storage's rewind removes the checkpoints of the runs that go.",
        "REC-001",
        "two stores, of which one does not know what the other did",
        leaves_a_checkpoint,
        upkeep=LeavesCheckpoints,
    ),
    wrong(
        "finishes with open calls",
        "A run that is finished has no call without a result.",
        "REC-002",
        "entries copied as they are, which no provider takes",
        keeps_an_open_call,
        upkeep=KeepsOpenCalls,
    ),
)
