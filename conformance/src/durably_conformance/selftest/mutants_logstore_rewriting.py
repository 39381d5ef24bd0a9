"""Wrong log stores: what a rewrite leaves."""

from typing_extensions import override

from durably import RevisionConflict
from durably.logstore import Applied, Batch, Log, LogId, LogState, NewRecord, Range, Rewrite
from durably_conformance.building import batch, log
from durably_conformance.logs import keyed, keys_in
from durably_conformance.selftest.altering import AlteredLog, AlteredState, altered
from durably_conformance.selftest.sparing import ScopedMutation, wrong
from durably_conformance.selftest.tracking import Tracked


class AlteredRewrite(ScopedMutation):
    """Makes another rewrite than it was given: what ``alter`` makes of it."""

    async def alter(self, log: LogId, change: Rewrite) -> Rewrite:  # noqa: ARG002 - for others
        """Return the rewrite to make."""
        return change

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        return await self.inner.rewrite(log, await self.alter(log, change))


class DropsOneMore(AlteredRewrite):
    """Drops the record at ``drop_after``, too."""

    @override
    async def alter(self, log: LogId, change: Rewrite) -> Rewrite:
        return altered(change, drop_after=change.drop_after and change.drop_after - 1)


class StampsReplacedRecords(AlteredLog):
    """Stamps a replaced record with the time of the rewrite."""

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        times: dict[int, float] = self.shared.setdefault("times", {})
        times.update(dict.fromkeys(change.replace, change.at))
        return await self.inner.rewrite(log, change)

    @override
    def alter(self, found: Log, span: Range) -> Log:
        times: dict[int, float] = self.shared.get("times", {})
        records = [
            altered(one, stored_at=times.get(one.seq, one.stored_at)) for one in found.records
        ]
        return altered(found, records=tuple(records))


class RewriteClearsTheHead(AlteredRewrite):
    """Writes the whole head with each rewrite, whether or not it was given one."""

    @override
    async def alter(self, log: LogId, change: Rewrite) -> Rewrite:
        return altered(change, head=b"" if change.head is None else change.head)


class CountsOnceReplaced(AlteredState):
    """Leaves the count of entries as it is when a record is replaced."""

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        before = await self.inner.read(log, Range(keys=None, with_data=False))
        answer = await self.inner.rewrite(log, change)
        grown = sum(
            change.replace[one.seq].entry_count - one.entry_count
            for one in (before.records if before else ())
            if one.seq in change.replace
        )
        self.note(log, self.noted(log, 0) + grown)
        return answer

    @override
    def alter(self, log: LogId, state: LogState) -> LogState:
        return altered(state, entry_count=state.entry_count - self.noted(log, 0))


class RewritesWhatIsThere(AlteredRewrite):
    """Reads the log again and rewrites it as it is now."""

    @override
    async def alter(self, log: LogId, change: Rewrite) -> Rewrite:
        found = await self.inner.read(log, Range(limit=0))
        return change if found is None else altered(change, expected_revision=found.state.revision)


class UnknownIsAnError(ScopedMutation):
    """Looks every seq up, and has no answer for one that is not there."""

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        found = await self.inner.read(log)
        for seq in (*change.drop, *change.replace):
            if found is not None and seq >= found.state.next_seq:
                raise KeyError(seq)
        return await self.inner.rewrite(log, change)


class DroppedKeysStayTaken(ScopedMutation):
    """Remembers the keys of records that a rewrite dropped."""

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        found = await self.inner.read(log)
        gone = {one.key for one in (found.records if found else ()) if change.drops(one.seq)}
        answer = await self.inner.rewrite(log, change)
        self.note(log, self.noted(log, frozenset[str]()) | gone)
        return answer

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        if set(batch.record_keys) & self.noted(log, frozenset[str]()):
            return Applied(revision=1, seq=1, duplicate=True)
        return await self.inner.append(log, batch)


async def drops_too_much(place: Tracked) -> bool:
    """Drop what comes after the first record of two."""
    store = (await place.connect()).log_store
    first = await store.append(log(), keyed("a"))
    now = await store.append(log(), keyed("b"))
    await store.rewrite(log(), Rewrite(expected_revision=now.revision, drop_after=first.seq))
    return await keys_in(store) != ["a"]


async def stamps_a_replaced_record(place: Tracked) -> bool:
    """Replace a record at another time."""
    store = (await place.connect()).log_store
    now = await store.append(log(), batch(b"a", at=5.0))
    replace = {now.seq: NewRecord(data=b"new")}
    await store.rewrite(log(), Rewrite(expected_revision=now.revision, replace=replace, at=9.0))
    found = await store.read(log())
    return found is not None and found.records[0].stored_at != 5.0


async def rewrites_the_head(place: Tracked) -> bool:
    """Rewrite without a head."""
    store = (await place.connect()).log_store
    now = (await store.append(log(), batch(b"a", head=b"h"))).revision
    await store.rewrite(log(), Rewrite(expected_revision=now))
    found = await store.read(log())
    return found is not None and found.state.head != b"h"


async def replaced(place: Tracked, entry_count: int, data: bytes = b"a") -> LogState | None:
    """Replace the only record by one of so many entries, and return the state."""
    store = (await place.connect()).log_store
    now = await store.append(log(), batch(b"a"))
    replace = {now.seq: NewRecord(data=data, entry_count=entry_count)}
    await store.rewrite(log(), Rewrite(expected_revision=now.revision, replace=replace))
    found = await store.read(log())
    return found.state if found else None


async def miscounts_a_replaced_record(place: Tracked) -> bool:
    """Replace a record by one of more entries."""
    state = await replaced(place, 5)
    return state is not None and state.entry_count != 5


async def rewrites_at_any_revision(place: Tracked) -> bool:
    """Rewrite at a stale revision."""
    store = (await place.connect()).log_store
    stale = (await store.append(log(), batch(b"a"))).revision
    await store.append(log(), batch(b"b"))
    try:
        await store.rewrite(log(), Rewrite(expected_revision=stale, drop_after=0))
    except RevisionConflict:
        return False
    return True


async def refuses_an_unknown_seq(place: Tracked) -> bool:
    """Drop a record that is not there."""
    store = (await place.connect()).log_store
    now = (await store.append(log(), batch(b"a"))).revision
    try:
        await store.rewrite(log(), Rewrite(expected_revision=now, drop=frozenset({99})))
    except KeyError:
        return True
    return False


async def keeps_a_dropped_key(place: Tracked) -> bool:
    """Store the key of a dropped record again."""
    store = (await place.connect()).log_store
    now = (await store.append(log(), keyed("a"))).revision
    await store.rewrite(log(), Rewrite(expected_revision=now, drop_after=0))
    await store.append(log(), keyed("a"))
    return await keys_in(store) != ["a"]


MUTANTS = (
    wrong(
        "drops one record too many",
        DropsOneMore,
        drops_too_much,
        fails="LOG-REW-001",
        says="A rewrite drops the records after a seq, not the one at it.",
        provenance="WHERE seq >= ?",
    ),
    wrong(
        "stamps replaced records anew",
        StampsReplacedRecords,
        stamps_a_replaced_record,
        fails="LOG-REW-002",
        says="A replaced record keeps its time.",
        provenance="ON UPDATE CURRENT_TIMESTAMP",
    ),
    wrong(
        "a rewrite clears the head",
        RewriteClearsTheHead,
        rewrites_the_head,
        fails="LOG-REW-003",
        says="A rewrite that is given no head leaves it.",
        provenance="UPDATE … SET head = ? with whatever was given",
    ),
    wrong(
        "does not count replaced entries",
        CountsOnceReplaced,
        miscounts_a_replaced_record,
        fails="LOG-REW-004",
        says="After a rewrite the state counts the entries that are left.",
        provenance="openai/openai-agents-python#2843",
    ),
    wrong(
        "rewrites the log as it is now",
        RewritesWhatIsThere,
        rewrites_at_any_revision,
        fails="LOG-REW-005",
        says="A rewrite of a log that is at another revision is a conflict.",
        provenance="agno-agi/agno#9450",
    ),
    wrong(
        "an unknown seq is an error",
        UnknownIsAnError,
        refuses_an_unknown_seq,
        fails="LOG-REW-006",
        says="A rewrite of seqs that are not there touches no record.",
        provenance="a look-up in a dict by what the caller gave",
    ),
    wrong(
        "dropped keys stay taken",
        DroppedKeysStayTaken,
        keeps_a_dropped_key,
        fails="LOG-REW-007",
        says="The key of a record that was dropped may be stored again.",
        provenance="rows marked as deleted under a unique index",
    ),
)
