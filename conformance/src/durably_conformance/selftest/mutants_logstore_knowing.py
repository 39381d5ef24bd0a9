"""Wrong log stores: which batch or rewrite they take for known."""

from typing_extensions import override

from durably import RevisionConflict
from durably.logstore import Applied, Batch, LogId, Range, Rewrite, new_key
from durably_conformance.building import batch, log
from durably_conformance.logs import datas_in, keys_in, refresh
from durably_conformance.selftest.altering import AlteredBatch, altered
from durably_conformance.selftest.sparing import ScopedMutation, wrong
from durably_conformance.selftest.tracking import Tracked


def renamed(batch: Batch) -> Batch:
    """Return a batch as a client would make it anew: with a key of its own."""
    derived = (f"{batch.key}:{position}" for position in range(len(batch.records)))
    records = [
        altered(one, key=None if one.key == name else one.key)
        for one, name in zip(batch.records, derived, strict=True)
    ]
    return altered(batch, records=tuple(records), key=new_key())


class ForgetsBatchKeys(AlteredBatch):
    """Takes no notice of the keys of batches."""

    @override
    async def alter(self, log: LogId, batch: Batch) -> Batch:
        return renamed(batch)


class NeverADuplicate(ScopedMutation):
    """Answers a batch that was sent again as if it had stored it now."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        answer = await self.inner.append(log, batch)
        own = batch.record_keys[:1] == (f"{batch.key}:0",)
        return altered(answer, duplicate=answer.duplicate and not own)


class RemembersTwentyBatches(AlteredBatch):
    """Knows a batch among the last 20 alone."""

    @override
    async def alter(self, log: LogId, batch: Batch) -> Batch:
        sent: list[tuple[LogId, str]] = self.shared.setdefault("sent", [])
        name = (log, batch.key)
        forgotten = name in sent[:-20]
        sent.append(name)
        return renamed(batch) if forgotten else batch


class KnowsRecordsAlone(AlteredBatch):
    """Knows a batch by its records, so one without any it does not know."""

    @override
    async def alter(self, log: LogId, batch: Batch) -> Batch:
        return batch if batch.records else renamed(batch)


class ForgetsRewrites(ScopedMutation):
    """Takes no notice of the keys of rewrites."""

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        return await self.inner.rewrite(log, altered(change, key=new_key()))


class OneMemoryForAllLogs(ScopedMutation):
    """Knows a batch by its key in whatever log it was."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        answers: dict[str, tuple[LogId, Applied]] = self.shared.setdefault("answers", {})
        first, answer = answers.get(batch.key, (log, None))
        if answer is not None and first != log and batch.records:
            return altered(answer, duplicate=True)
        answer = await self.inner.append(log, batch)
        answers.setdefault(batch.key, (log, answer))
        return answer


class KnowsWhatIsThere(AlteredBatch):
    """Knows a batch by the records that are in the log now."""

    @override
    async def alter(self, log: LogId, batch: Batch) -> Batch:
        sent: set[tuple[LogId, str]] = self.shared.setdefault("sent", set())
        found = await self.inner.read(log, Range(keys=frozenset(batch.record_keys)))
        gone = bool(batch.records) and not (found and found.records) and (log, batch.key) in sent
        sent.add((log, batch.key))
        return renamed(batch) if gone else batch


class RemembersRefusals(ScopedMutation):
    """Notes the key of a batch before it looks at the revision."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        refused: set[str] = self.shared.setdefault("refused", set())
        if batch.key in refused:
            return Applied(revision=1, duplicate=True)
        try:
            return await self.inner.append(log, batch)
        except RevisionConflict:
            refused.add(batch.key)
            raise


async def stores_a_batch_twice(place: Tracked) -> bool:
    """Send one batch twice and count."""
    store, one = (await place.connect()).log_store, batch(b"a")
    await store.append(log(), one)
    await store.append(log(), one)
    return len(await keys_in(store)) != 1


async def answers_twice_as_new(place: Tracked) -> bool:
    """Send one batch twice and look at the second answer."""
    store, one = (await place.connect()).log_store, batch(b"a")
    await store.append(log(), one)
    return not (await store.append(log(), one)).duplicate


async def forgets_a_batch(place: Tracked) -> bool:
    """Send a batch again after 24 changes."""
    store, one = (await place.connect()).log_store, batch(b"a")
    await store.append(log(), one)
    await refresh(store, 24)
    await store.append(log(), one)
    return len(await keys_in(store)) != 1


async def sets_an_old_head_again(place: Tracked) -> bool:
    """Send a head again after another one."""
    store, one = (await place.connect()).log_store, Batch(head=b"old")
    await store.append(log(), one)
    await store.append(log(), Batch(head=b"new"))
    await store.append(log(), one)
    found = await store.read(log())
    return found is not None and found.state.head != b"new"


async def refuses_its_own_rewrite(place: Tracked) -> bool:
    """Send a rewrite twice."""
    store = (await place.connect()).log_store
    one = Rewrite(expected_revision=(await store.append(log(), batch(b"a"))).revision)
    await store.rewrite(log(), one)
    try:
        return not (await store.rewrite(log(), one)).duplicate
    except RevisionConflict:
        return True


async def mixes_up_two_logs(place: Tracked) -> bool:
    """Send one batch to two logs."""
    store, one = (await place.connect()).log_store, batch(b"a")
    await store.append(log("first"), one)
    await store.append(log("second"), one)
    return await datas_in(store, log("second")) != [b"a"]


async def stores_what_was_evicted(place: Tracked) -> bool:
    """Send a batch again when its record is evicted."""
    store, one = (await place.connect()).log_store, batch(b"a")
    await store.append(log(), one)
    await store.append(log(), batch(b"b", keep_last=1))
    await store.append(log(), one)
    return await datas_in(store) != [b"b"]


async def refuses_for_ever(place: Tracked) -> bool:
    """Send a batch that was refused again when it fits."""
    store, one = (await place.connect()).log_store, batch(b"a", expected_revision=0)
    await store.append(log(), batch(b"b"))
    try:
        await store.append(log(), one)
    except RevisionConflict:
        await store.delete(log())
    await store.append(log(), one)
    return await datas_in(store) != [b"a"]


MUTANTS = (
    wrong(
        "forgets batch keys",
        ForgetsBatchKeys,
        stores_a_batch_twice,
        fails="LOG-CONC-002 LOG-IDEM-001 LOG-IDEM-002 LOG-IDEM-003 LOG-IDEM-005 LOG-IDEM-010",
        says="A batch sent again changes nothing.",
        provenance="google/adk-python#4506",
    ),
    wrong(
        "answers a known batch as new",
        NeverADuplicate,
        answers_twice_as_new,
        fails="LOG-IDEM-001",
        says="A batch sent again is answered as a duplicate.",
        provenance="ON CONFLICT DO NOTHING whose row count nobody looks at",
    ),
    wrong(
        "remembers twenty batches",
        RemembersTwentyBatches,
        forgets_a_batch,
        fails="LOG-IDEM-002",
        says="A batch whose records are in the log is known after any number of changes.",
        provenance="a queue that drops duplicates within a window of minutes",
    ),
    wrong(
        "knows a batch by its records alone",
        KnowsRecordsAlone,
        sets_an_old_head_again,
        fails="LOG-IDEM-003",
        says="A batch without records is known by its key while fewer than 8 changes followed.",
        provenance="a unique index on the records, and nothing for the head",
    ),
    wrong(
        "forgets rewrites",
        ForgetsRewrites,
        refuses_its_own_rewrite,
        fails="LOG-IDEM-004",
        says="A rewrite sent again gets its first answer.",
        provenance="a lost answer to a conditional PUT, tried again and refused by its own success",
    ),
    wrong(
        "one memory of batches for all logs",
        OneMemoryForAllLogs,
        mixes_up_two_logs,
        fails="LOG-IDEM-009",
        says="A batch that one log knows is new to another.",
        provenance="a table of seen request ids without the name of what was asked",
    ),
    wrong(
        "knows what is there",
        KnowsWhatIsThere,
        stores_what_was_evicted,
        fails="LOG-IDEM-010",
        says="A batch among the last 8 changes is known although its records were evicted.",
        provenance="duplicates looked for among the rows that retention has left",
    ),
    wrong(
        "remembers refused batches",
        RemembersRefusals,
        refuses_for_ever,
        fails="LOG-IDEM-011",
        says="A batch that was refused is not known.",
        provenance="a request id noted before the transaction that it is for",
    ),
)
