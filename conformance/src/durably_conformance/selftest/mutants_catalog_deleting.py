"""Wrong deletions of sessions in a catalog: too much goes with them, or too little."""

from typing import Any

from typing_extensions import override

from durably import RunHead, SessionCatalog, SessionNotFound
from durably_conformance.building import fill, said
from durably_conformance.offering import upkeep_of
from durably_conformance.selftest.delegating import SessionMutation
from durably_conformance.selftest.delegating_upkeep import CatalogMutation
from durably_conformance.selftest.spoiling import wrong
from durably_conformance.selftest.tracking import Tracked


class ClearsTheEntry(SessionMutation):
    """Takes a session that is cleared out of the catalog."""

    @override
    async def clear(self, session_id: str) -> None:
        await self.inner.clear(session_id)
        catalog: SessionCatalog | None = self.shared.get("catalog")
        if catalog is not None:
            await catalog.delete(session_id)


class Shown(CatalogMutation):
    """Changes nothing, and shows itself to the sessions of its place."""

    def __init__(self, inner: SessionCatalog, shared: dict[str, Any]) -> None:
        super().__init__(inner, shared)
        shared["catalog"] = inner


class TakesCheckpoints(CatalogMutation):
    """Deletes the checkpoints of a session's runs unasked."""

    @override
    async def delete(self, session_id: str, *, checkpoints: bool = False) -> bool:
        return await self.inner.delete(session_id, checkpoints=True)


class NotesDeletions(CatalogMutation):
    """Leaves a session that says which one was deleted."""

    @override
    async def delete(self, session_id: str, *, checkpoints: bool = False) -> bool:
        deleted = await self.inner.delete(session_id, checkpoints=checkpoints)
        if deleted:
            await self.inner.create(metadata={"deleted": session_id})
        return deleted


async def clears_the_entry(place: Tracked) -> bool:
    """Clear a session, and look whether it is in the catalog."""
    handle = await place.connect()
    await upkeep_of(handle).catalog.create("s")
    await fill(handle.sessions, "s", "a1")
    await handle.sessions.clear("s")
    try:
        await upkeep_of(handle).catalog.get("s")
    except SessionNotFound:
        return True
    return False


async def takes_a_checkpoint(place: Tracked) -> bool:
    """Delete a session, and look for the checkpoint of its run."""
    handle = await place.connect()
    await fill(handle.sessions, "s", "r1")
    await handle.checkpointer.append("r", said("a"), RunHead())
    await upkeep_of(handle).catalog.delete("s")
    return await handle.checkpointer.load("r") is None


async def notes_a_deletion(place: Tracked) -> bool:
    """Create a session, delete it, and list what there is."""
    catalog = upkeep_of(await place.connect()).catalog
    await catalog.create("s")
    await catalog.delete("s")
    return bool((await catalog.list()).items)


MUTANTS = (
    wrong(
        "clears the entry",
        "A clear leaves a session in the catalog.",
        "CAT-012",
        "DELETE of the log, with the head that says it is there",
        clears_the_entry,
        catalog=Shown,
        sessions=ClearsTheEntry,
    ),
    wrong(
        "takes checkpoints unasked",
        "A delete takes the checkpoints of a session's runs where it is told to.",
        "CAT-013",
        "ON DELETE CASCADE",
        takes_a_checkpoint,
        catalog=TakesCheckpoints,
    ),
    wrong(
        "notes deletions",
        "A session that was deleted leaves nothing.",
        "CAT-014",
        "a log of what was deleted, kept with the data",
        notes_a_deletion,
        catalog=NotesDeletions,
    ),
)
