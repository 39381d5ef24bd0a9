"""Listing the ids of one kind: what the server lists, without what is deleted."""

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import msgspec

from durably import CorruptRecord
from durably.logstore import LogId, LogInfo, LogState, Page
from durably_s3 import _tip as tips
from durably_s3._area import Area, too_new
from durably_s3._bucket import Bucket, Named
from durably_s3._chunks import Spoiled, TooNew
from durably_s3._patience import Patience

__all__ = ["Wanted", "every", "list_logs"]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A page that was asked for."""

    kind: str
    prefix: str
    after: str
    limit: int
    with_state: bool


async def list_logs(area: Area, wanted: Wanted, patience: Patience) -> Page[LogInfo]:
    """Return a page, by one request for the names and one for each state that is asked for."""
    after = wanted.after and area.keys.tip(LogId(kind=wanted.kind, id=wanted.after))
    ids: list[tuple[str, Named]] = []
    is_cut = True
    while is_cut and not ids:  # what is not ours is passed over
        objects, is_cut = await _objects(area, wanted, after, patience)
        named = [(area.keys.id_of(wanted.kind, one.key), one) for one in objects]
        ids = [(id_, one) for id_, one in named if id_ is not None]
        after = objects[-1].key if objects else after
    found = await asyncio.gather(
        *(
            _info(
                area, LogId(kind=wanted.kind, id=id_), one, patience, with_state=wanted.with_state
            )
            for id_, one in ids
            if id_.startswith(wanted.prefix)
        )
    )
    items = tuple(info for info in found if info is not None)
    return Page(items=items, next=ids[-1][0] if is_cut and ids else None)


async def _objects(
    area: Area, wanted: Wanted, after: str, patience: Patience
) -> tuple[Sequence[Named], bool]:
    """Return the next objects in the order of their names, and whether there are more."""
    beginning = area.keys.beginning(wanted.kind, wanted.prefix)
    if area.memory.is_ordered:
        listing = await patience.insist(
            lambda: area.bucket.list(beginning, after=after, limit=wanted.limit)
        )
        names = [after, *(one.key for one in listing.objects)]
        is_empty = not listing.objects and listing.token is not None
        if not is_empty and all(one < other for one, other in pairwise(names)):
            return listing.objects, listing.token is not None
    found, _ = await every(area.bucket, beginning, patience)
    objects = sorted((one for one in found if one.key > after), key=lambda one: one.key)
    return objects[: wanted.limit], len(objects) > wanted.limit


async def every(bucket: Bucket, prefix: str, patience: Patience) -> tuple[Sequence[Named], float]:
    """Return all objects that begin with a prefix, in whatever order, and the server's time."""
    found: list[Named] = []
    token: str | None = None
    while True:
        listing = await patience.insist(partial(bucket.list, prefix, token=token))
        found += listing.objects
        token = listing.token
        if token is None:
            return found, listing.now


async def _info(
    area: Area, log: LogId, found: Named, patience: Patience, *, with_state: bool
) -> LogInfo | None:
    """Return a row of a listing; None if the log is deleted."""
    if not with_state and found.size != tips.TOMBSTONE_BYTES:
        return LogInfo(id=log.id)
    try:
        state = await _state(area, log, patience)
    except CorruptRecord:
        if with_state:
            raise
        return LogInfo(id=log.id)
    return None if state is None else LogInfo(id=log.id, state=state if with_state else None)


async def _state(area: Area, log: LogId, patience: Patience) -> LogState | None:
    """Read as much of a tip as holds its state."""
    key = area.keys.tip(log)
    size = tips.FRONT_BYTES
    while True:
        found = await patience.insist(partial(area.bucket.get, key, span=(0, size)))
        if found is None:
            return None
        try:
            state = tips.read_state(found.data)
        except Spoiled as spoiled:
            raise CorruptRecord(log, f"its object {key}: {spoiled}") from None
        except TooNew:
            raise too_new(key) from None
        if not isinstance(state, int):
            return state
        if len(found.data) < size:
            raise CorruptRecord(log, f"its object {key}: it has {len(found.data)} bytes of {state}")
        size = state
