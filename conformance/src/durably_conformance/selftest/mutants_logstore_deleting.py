"""Wrong log stores: what a delete leaves, which log a name means, and revisions."""

from typing_extensions import override

from durably import Page, RevisionConflict
from durably.logstore import (
    ALL,
    Applied,
    Batch,
    Log,
    LogId,
    LogInfo,
    NewRecord,
    Range,
    Rewrite,
)
from durably_conformance.building import batch, log
from durably_conformance.logs import keyed
from durably_conformance.selftest.altering import (
    Retokened,
    altered,
)
from durably_conformance.selftest.sparing import ScopedMutation, wrong
from durably_conformance.selftest.tracking import Tracked


class AlwaysDeleted(ScopedMutation):
    """Says of every delete that it was done."""

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        await self.inner.delete(log, expected_revision=expected_revision)
        return True


class DeletesByPrefix(ScopedMutation):
    """Deletes every log whose id begins with the id."""

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        done = await self.inner.delete(log, expected_revision=expected_revision)
        for row in (await self.inner.list(log.kind, prefix=log.id)).items:
            await self.inner.delete(LogId(kind=log.kind, id=row.id))
        return done


class DeletesAnyRevision(ScopedMutation):
    """Takes no notice of the revision where it deletes."""

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        return await self.inner.delete(log)


class RemembersTheDead(ScopedMutation):
    """Keeps the keys of a deleted log's batches."""

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        found = await self.inner.read(log)
        done = await self.inner.delete(log, expected_revision=expected_revision)
        known = {one.key for one in (found.records if found else ())}
        self.note(log, self.noted(log, frozenset[str]()) | known)
        return done

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        if set(batch.record_keys) & self.noted(log, frozenset[str]()):
            return Applied(revision=1, seq=1, duplicate=True)
        return await self.inner.append(log, batch)


class MovesToTheBin(ScopedMutation):
    """Keeps the records of a deleted log aside, where no reader sees them."""

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        found = await self.inner.read(log)
        done = await self.inner.delete(log, expected_revision=expected_revision)
        if found is not None and found.records:
            kept = tuple(NewRecord(data=one.data or b"") for one in found.records)
            await self.inner.append(LogId(kind="meta", id=f"bin of {log.id}"), Batch(records=kept))
        return done


class HeadsChangeNothing(Retokened):
    """Gives a new head the revision of the log before it."""

    @override
    def token(self, previous: int, change: Batch | Rewrite, revision: int) -> int:
        if isinstance(change, Batch) and not change.records and previous:
            return previous
        return previous + 1 if previous else revision


class EachLifeBeginsAtOne(Retokened):
    """Counts revisions from 1 in each life of a log."""

    @override
    def token(self, previous: int, change: Batch | Rewrite, revision: int) -> int:
        return previous + 1


class ByTwo(Retokened):
    """Raises revisions by two."""

    @override
    def token(self, previous: int, change: Batch | Rewrite, revision: int) -> int:
        return previous + 2 if previous else revision


class JoinsKindAndId(ScopedMutation):
    """Names a log by its kind and its id joined by a dash."""

    def _joined(self, log: LogId) -> LogId:
        return LogId(kind="test", id=f"{log.kind}-{log.id}".removeprefix("test-"))

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        return await self.inner.append(self._joined(log), batch)

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        return await self.inner.read(self._joined(log), span)

    @override
    async def list(
        self,
        kind: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int = 100,
        with_state: bool = False,
    ) -> Page[LogInfo]:
        page = await self.inner.list(
            "test", prefix=prefix, after=after, limit=limit, with_state=with_state
        )
        own = [row for row in page.items if row.id.startswith("other-") == (kind != "test")]
        rows = [altered(row, id=row.id.removeprefix("other-")) for row in own]
        return altered(page, items=tuple(rows))


async def says_it_deleted(place: Tracked) -> bool:
    """Delete what is not there."""
    return await (await place.connect()).log_store.delete(log())


async def deletes_others(place: Tracked) -> bool:
    """Delete a log whose id another's begins with."""
    store = (await place.connect()).log_store
    await store.append(log("foobar"), keyed("a"))
    await store.append(log("foo"), keyed("a"))
    await store.delete(log("foo"))
    return await store.read(log("foobar")) is None


async def deletes_a_changed_log(place: Tracked) -> bool:
    """Delete at a stale revision."""
    store = (await place.connect()).log_store
    stale = (await store.append(log(), batch(b"a"))).revision
    await store.append(log(), batch(b"b"))
    try:
        return await store.delete(log(), expected_revision=stale)
    except RevisionConflict:
        return False


async def knows_a_dead_batch(place: Tracked) -> bool:
    """Send a batch again after the log was deleted."""
    store, one = (await place.connect()).log_store, batch(b"a")
    await store.append(log(), one)
    await store.delete(log())
    return (await store.append(log(), one)).duplicate


async def leaves_something_behind(place: Tracked) -> bool:
    """Compare what lies there before a log and after it."""
    store = (await place.connect()).log_store
    await store.append(log("stays"), keyed("a"))
    before = await place.dump()
    await store.append(log(), keyed("a"))
    await store.delete(log())
    return await place.dump() != before


async def keeps_a_revision(place: Tracked) -> bool:
    """Set a head and compare the revisions."""
    store = (await place.connect()).log_store
    first = (await store.append(log(), batch(b"a"))).revision
    return (await store.append(log(), Batch(head=b"h"))).revision == first


async def begins_again(place: Tracked) -> bool:
    """Make a log twice and compare the revisions."""
    store = (await place.connect()).log_store
    first = (await store.append(log(), batch(b"a"))).revision
    await store.delete(log())
    return (await store.append(log(), batch(b"b"))).revision == first


async def jumps(place: Tracked) -> bool:
    """Append twice and compare the revisions."""
    store = (await place.connect()).log_store
    first = (await store.append(log(), batch(b"a"))).revision
    return (await store.append(log(), batch(b"b"))).revision != first + 1


async def joins_two_names(place: Tracked) -> bool:
    """Write to the log x of the kind test-other, and read other-x of the kind test."""
    store = (await place.connect()).log_store
    await store.append(log("x", kind="test-other"), keyed("a"))
    return await store.read(log("other-x")) is not None


MUTANTS = (
    wrong(
        "says of every delete that it was done",
        AlwaysDeleted,
        says_it_deleted,
        fails="LOG-DEL-001",
        says="A delete says whether there was such a log.",
        provenance="the answer of a DELETE request, which is 204 either way",
    ),
    wrong(
        "deletes by prefix",
        DeletesByPrefix,
        deletes_others,
        fails="LOG-DEL-002",
        says="Deleting a log touches none whose id begins alike.",
        provenance="langchain-ai/langgraph#8300",
    ),
    wrong(
        "deletes at any revision",
        DeletesAnyRevision,
        deletes_a_changed_log,
        fails="LOG-DEL-003",
        says="A delete that expects another revision is a conflict.",
        provenance="a late worker that tidies up a run which another has started again",
    ),
    wrong(
        "remembers deleted batches",
        RemembersTheDead,
        knows_a_dead_batch,
        fails="LOG-DEL-004",
        says="A log made after a delete knows nothing of the one before.",
        provenance="openai/openai-agents-python#3755",
    ),
    wrong(
        "moves deleted records to a bin",
        MovesToTheBin,
        leaves_something_behind,
        fails="LOG-DEL-005",
        says="After a delete the storage holds what it held before there was the log.",
        provenance="redis-developer/langgraph-redis#51",
    ),
    wrong(
        "a new head is no change",
        HeadsChangeNothing,
        keeps_a_revision,
        fails="LOG-REV-001",
        says="Every change gives the log a revision it did not have before.",
        provenance="a revision that is the number of the last record",
    ),
    wrong(
        "each life begins at revision 1",
        EachLifeBeginsAtOne,
        begins_again,
        fails="LOG-REV-002",
        says="A log's lives share no revision.",
        provenance="DEFAULT 1",
    ),
    wrong(
        "revisions rise by two",
        ByTwo,
        jumps,
        fails="LOG-REV-003",
        says="Each change raises the revision by one.",
        provenance="a counter that the record and the head share",
    ),
    wrong(
        "joins kind and id by a dash",
        JoinsKindAndId,
        joins_two_names,
        fails="LOG-ISO-001",
        says="Two logs of different kinds are two logs.",
        provenance="keys joined from parts that may hold the joint",
    ),
)
