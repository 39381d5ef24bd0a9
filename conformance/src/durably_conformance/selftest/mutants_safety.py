"""Backends that tell too much, or keep what was deleted."""

import logging
from collections.abc import Sequence

from typing_extensions import override

from durably import Entry, JsonObject, NotSerializable
from durably.logstore import Batch, LogId, new_key
from durably_conformance.building import said, snapshot
from durably_conformance.checks.safety import told
from durably_conformance.selftest.delegating import SessionMutation, StoreMutation
from durably_conformance.selftest.mutating import Memory, MemoryMutant
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked

URL = "mydb://agent:open%20sesame@localhost/agents"


class ExplainsItself(SessionMutation):
    """Raises what cannot be stored together with what could not be."""

    @override
    async def append(
        self,
        session_id: str,
        entries: Sequence[Entry],
        *,
        run_id: str | None = None,
        meta: JsonObject | None = None,
    ) -> str:
        try:
            return await self.inner.append(session_id, entries, run_id=run_id, meta=meta)
        except NotSerializable as error:
            if "nested" in error.reason or "integer" in error.reason:
                raise
            raise error from ValueError(f"cannot store {entries!r}")


class LogsContent(SessionMutation):
    """Logs what it appends, for debugging."""

    @override
    async def append(
        self,
        session_id: str,
        entries: Sequence[Entry],
        *,
        run_id: str | None = None,
        meta: JsonObject | None = None,
    ) -> str:
        logging.getLogger("mydb").debug("appending %s", entries)
        return await self.inner.append(session_id, entries, run_id=run_id, meta=meta)


class AtUrl(Memory):
    """A place that says it has a URL with a password."""

    @property
    @override
    def url(self) -> str | None:
        return URL


class DescribesItsUrl(StoreMutation):
    """Describes itself with the URL it was opened by."""

    @override
    async def describe(self) -> dict[str, str]:
        return {"engine": "mydb", "url": "mydb://agent:open sesame@localhost/agents"}


class Tombstones(StoreMutation):
    """Leaves a note for each thread that is deleted."""

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        deleted = await self.inner.delete(log, expected_revision=expected_revision)
        if deleted and log.kind == "thread":
            await self.inner.append(LogId(kind="meta", id=new_key()), Batch(head=b"deleted"))
        return deleted


async def explains_too_much(place: Tracked) -> bool:
    """Append what cannot be stored beside something secret."""
    sessions = (await place.connect()).sessions
    try:
        await sessions.append("s", said("secret"), meta={"k": {1}})
    except NotSerializable as error:
        return "secret" in told(error)
    return False


async def logs_too_much(place: Tracked) -> bool:
    """Append something secret, and listen."""
    heard: list[str] = []
    logger = logging.getLogger("mydb")
    logger.setLevel(logging.DEBUG)
    listener = logging.Handler()
    listener.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(listener)
    await (await place.connect()).sessions.append("s", said("secret"))
    logger.removeHandler(listener)
    return "secret" in "".join(heard)


async def describes_too_much(place: Tracked) -> bool:
    """Ask for a description."""
    return "sesame" in repr(await (await place.connect()).log_store.describe())


async def leaves_a_note(place: Tracked) -> bool:
    """Write twice and delete twice, and compare what is left after each."""
    saver = (await place.connect()).checkpoint_saver()
    left: list[object] = []
    for _ in range(2):
        await saver.append("t", snapshot("a"))
        await saver.delete("t")
        left.append(await place.dump())
    return left[0] != left[1]


MUTANTS = (
    Mutant(
        name="an error explains too much",
        says="No error repeats stored content, nor do those behind it.",
        fails=frozenset({"SEC-CONTENT-001"}),
        provenance="raise … from an error that has the arguments in its words",
        harness=lambda: MemoryMutant(sessions=ExplainsItself),
        probe=explains_too_much,
    ),
    Mutant(
        name="content is logged",
        says="No log record repeats stored content.",
        fails=frozenset({"SEC-CONTENT-002"}),
        provenance="a line for debugging that was left in",
        harness=lambda: MemoryMutant(sessions=LogsContent),
        probe=logs_too_much,
    ),
    Mutant(
        name="the password is described",
        says="The password of a URL is in no description.",
        fails=frozenset({"SEC-URL-001"}),
        provenance="google/adk-python#6791",
        harness=lambda: MemoryMutant(place=AtUrl, store=DescribesItsUrl),
        probe=describes_too_much,
    ),
    Mutant(
        name="tombstones",
        says="What was deleted has left the raw content as it was.",
        fails=frozenset({"DEL-RES-001"}),
        provenance="redis-developer/langgraph-redis#105",
        harness=lambda: MemoryMutant(store=Tombstones),
        probe=leaves_a_note,
    ),
)
