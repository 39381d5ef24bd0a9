"""S3 with buckets that take a condition for a hint, are late, forget or list as they like."""

import asyncio
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from typing_extensions import override

from durably import LogStore
from durably_conformance.building import batch, log
from durably_conformance.logs import LONG, fill_long, ids, keyed, keys_in, large
from durably_conformance.selftest.mutants_logstore_long import ForgetsOldKeys, knows_no_old_batch
from durably_conformance.selftest.mutating_s3 import Requests, S3Mutant
from durably_conformance.selftest.noticing import TEST_KINDS, logs_of
from durably_conformance.selftest.table import Mutant, Probe, Variant
from durably_conformance.selftest.tracking import Tracked


def is_of_tests(key: str) -> bool:
    """Whether an object belongs to a log of a kind that is for tests."""
    return any(f"/{kind}/" in key for kind in TEST_KINDS)


class HeedsNothing(Requests):
    """Stores the tip of a log without chunks whatever the condition says; the probe it heeds.

    Who merges chunks that are gone waits a random while, and a row must always end the same.
    """

    @override
    async def put(self, key: str, data: bytes, **options: Any) -> Any:
        long: set[str] = self.shared.setdefault("long", set())
        if options.get("sealed"):
            long.add(key.rpartition("/")[0])
        if not is_of_tests(key) or key.replace("/t/", "/c/", 1) in long:
            return await super().put(key, data, **options)
        return await super().put(key, data)


class PublishesFirst(Requests):
    """Stores what a tip names with the request that follows it; a process may end before that."""

    def __init__(self, inner: Any, shared: dict[str, Any]) -> None:  # noqa: ANN401
        super().__init__(inner, shared)
        self._late: dict[str, bytes] = {}
        self._published = False

    async def _catch_up(self) -> None:
        if self._published:
            for key, data in self._late.items():
                await self.inner.put(key, data)
            self._late, self._published = {}, False

    @override
    async def get(self, key: str, **options: Any) -> Any:
        await self._catch_up()
        return await super().get(key, **options)

    @override
    async def put(self, key: str, data: bytes, **options: Any) -> Any:
        await self._catch_up()
        if options.get("sealed") and is_of_tests(key):
            self._late[key] = data
            return ""
        etag = await super().put(key, data, **options)
        self._published = bool(self._late)
        return etag


class NeverRemoves(Requests):
    """Takes requests to remove several objects at its leisure, which never comes."""

    @override
    async def delete_all(self, keys: Sequence[str]) -> None:
        await super().delete_all([key for key in keys if not is_of_tests(key)])


class ListsByRank(Requests):
    """Lists keys in an order of its own; a page of them it may sort, so that nobody sees that."""

    sorts = False

    def rank(self, key: str) -> tuple[int, str]:
        """Return what keys are ordered by: here their end."""
        return 0, key[::-1]

    @override
    async def list(self, prefix: str, **options: Any) -> Any:
        limit, token = options.pop("limit", 1000), options.pop("token", None) or "0"
        whole = await super().list(prefix, **options, limit=10_000)
        ranked = sorted(whole.objects, key=lambda one: self.rank(one.key))[int(token) :]
        page = (
            sorted(ranked[:limit], key=lambda one: str(one.key)) if self.sorts else ranked[:limit]
        )
        following = str(int(token) + limit) if len(ranked) > limit else None
        return msgspec.structs.replace(whole, objects=tuple(page), token=following)


class ListsByHash(ListsByRank):
    """Lists the tips of tests by a hash, and what the probe asks for in order."""

    sorts = True

    @override
    def rank(self, key: str) -> tuple[int, str]:
        return zlib.crc32(key.encode()) & is_of_tests(key), key


async def overwrites(place: Tracked) -> bool:
    """Append by two handles at once, both of which know the log."""
    one, other = (await place.connect()).log_store, (await place.connect()).log_store
    for store in (one, other):
        await store.append(log(), batch(b"a"))
    await asyncio.gather(*(store.append(log(), batch(b"b")) for store in (one, other)))
    return len(await keys_in(one)) != 4


async def names_what_is_not_there(place: Tracked) -> bool:
    """Look for a chunk when an append of one has ended."""
    store = (await place.connect()).log_store
    await store.append(LONG, large(0))
    found = await place.dump() or {}
    return any("/t/" in key for key in found) and not any("/c/" in key for key in found)


async def leaves_chunks(place: Tracked) -> bool:
    """Look for chunks when the only long log was deleted."""
    store = (await place.connect()).log_store
    await fill_long(store)
    await store.delete(LONG)
    return any("/c/" in key for key in await place.dump() or {})


async def walks_past_some(place: Tracked) -> bool:
    """Walk over some logs one by one."""
    store = (await place.connect()).log_store
    for name in "abcdefgh":
        await store.append(log(name), keyed("k"))
    found, after = "", ""
    while page := (await store.list("test", after=after, limit=1)).items:
        after = page[0].id
        found += after
    return found != "abcdefgh" and await ids(store) == list("abcdefgh")


def _spoiled(
    name: str,
    probe: Probe,
    bucket: Callable[..., Requests] = Requests,
    store: Callable[..., LogStore] | None = None,
    *,
    fails: str,
    says: str,
    provenance: str,
) -> Mutant:
    return Mutant(
        name=name,
        says=says,
        fails=frozenset(fails.split()),
        provenance=provenance,
        harness=lambda: S3Mutant(name, bucket, store=store, wrapped=logs_of(*TEST_KINDS)),
        probe=probe,
        scheme="s3",
    )


MUTANTS = (
    _spoiled(
        "s3 that puts tips unconditionally",
        overwrites,
        HeedsNothing,
        fails="LOG-APP-006 LOG-CONC-001 LOG-FENCE-001 LOG-FENCE-002 LOG-FENCE-004 LOG-REV-001"
        " LOG-REV-002 LOG-REW-005 LOG-SEQ-001 LOG-SEQ-003",
        says="A tip takes the place of the one that was read, and of no other.",
        provenance="a server that accepts If-Match and does not heed it",
    ),
    _spoiled(
        "s3 that publishes a tip before its chunks",
        names_what_is_not_there,
        PublishesFirst,
        fails="LIM-LOG-001 LOG-LONG-002 LOG-LONG-003 LOG-LONG-004 LOG-LONG-005 LOG-LONG-006"
        " LOG-LONG-007",
        says="What a tip names is there before it.",
        provenance="a manifest that is written before its data files",
    ),
    _spoiled(
        "s3 that trusts the order of a listing",
        walks_past_some,
        ListsByHash,
        fails="LOG-LIST-002 LOG-LIST-004 LOG-LIST-010",
        says="A walk gives every log, in whatever order a server lists.",
        provenance="S3 Express One Zone, whose listings are in no order",
    ),
    _spoiled(
        "s3 whose tip forgets keys",
        knows_no_old_batch,
        store=ForgetsOldKeys,
        fails="LOG-LONG-002",
        says="Keys are known from all chunks, not from the tip alone.",
        provenance="an index of the newest keys, kept small with the tip",
    ),
    _spoiled(
        "s3 that never removes chunks",
        leaves_chunks,
        NeverRemoves,
        fails="LOG-LONG-006",
        says="What no tip names any more is removed.",
        provenance="a compaction that leaves the segments it merged",
    ),
)

VARIANTS = (
    Variant(
        name="s3",
        says="Nothing is odd about it: a bucket whose requests take a while.",
        harness=lambda: S3Mutant("s3", wrapped=logs_of(*TEST_KINDS)),
        scheme="s3",
    ),
    Variant(
        name="s3 that lists in no order",
        says="It says so when it is asked, and a listing is put in order.",
        harness=lambda: S3Mutant(
            "s3 that lists in no order", ListsByRank, wrapped=logs_of(*TEST_KINDS)
        ),
        scheme="s3",
    ),
)
