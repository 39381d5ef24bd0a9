"""Writing something into a storage by whatever it offers, and counting it."""

from durably.testing import Handle
from durably_conformance.building import batch, head, log, said, snapshot
from durably_conformance.context import T

__all__ = ["count_something", "write_something"]


async def write_something(t: T, handle: Handle) -> None:
    """Store something by the first contract that is declared."""
    if t.capabilities.log_store:
        await handle.log_store.append(log("har"), batch(b"1"))
    elif t.capabilities.sessions:
        await handle.sessions.append("har", said("1"))
    elif t.capabilities.checkpointer:
        await handle.checkpointer.append("har", said("1"), head())
    else:
        await handle.checkpoint_saver().append("har", snapshot("1"))


async def count_something(t: T, handle: Handle) -> int:
    """Return how much of it there is."""
    if t.capabilities.log_store:
        stored = await handle.log_store.read(log("har"))
        return 0 if stored is None else len(stored.records)
    if t.capabilities.sessions:
        return len(await handle.sessions.load("har"))
    if t.capabilities.checkpointer:
        run = await handle.checkpointer.load("har")
        return 0 if run is None else len(run.entries)
    return len(await handle.checkpoint_saver().list("har"))
