"""Wrong log stores: appending, reading, listing, deleting."""

import msgspec
from typing_extensions import override

from durably.logstore import Applied, Batch, LogId, new_key
from durably_conformance.building import batch, log
from durably_conformance.selftest.delegating import StoreMutation
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.table import Mutant
from durably_conformance.selftest.tracking import Tracked


class ForgetsBatchKeys(StoreMutation):
    """Stores a batch of its kind for tests as a new one each time it is sent."""

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        if log.kind != "test":
            return await super().append(log, batch)
        fresh = [msgspec.structs.replace(one, key=None) for one in batch.records]
        again = msgspec.structs.replace(batch, records=tuple(fresh), key=new_key())
        return await super().append(log, again)


async def stores_a_batch_twice(place: Tracked) -> bool:
    """Send one batch twice and count."""
    store, one = (await place.connect()).log_store, batch(b"a")
    await store.append(log(), one)
    return not (await store.append(log(), one)).duplicate


MUTANTS = (
    Mutant(
        name="forgets batch keys",
        says="The same batch sent again changes nothing.",
        fails=frozenset({"LOG-APP-001"}),
        provenance="a client that retries a POST without an idempotency key",
        harness=lambda: MemoryMutant(store=ForgetsBatchKeys),
        probe=stores_a_batch_twice,
    ),
)
