"""Garbage: chunks that no tip names, tombstones and probes that were left behind."""

from collections import defaultdict
from functools import partial

from durably import CorruptRecord
from durably.logstore import LogId
from durably_s3._area import Area
from durably_s3._bucket import Named
from durably_s3._listing import every
from durably_s3._patience import Patience
from durably_s3._tip import TOMBSTONE_BYTES

__all__ = ["collect"]

REMOVED_AT_ONCE = 1000


async def collect(area: Area, grace: float, seconds: float) -> int:
    """Remove what is garbage and older than ``grace`` seconds, and return how many objects.

    Younger, by the server's clock, it may be a change under way: chunks are written before the
    tip that names them.
    """
    chunks = await _collect_chunks(area, grace, seconds)
    tombstones = await _collect_tombstones(area, grace, seconds)
    old = await _old(area, area.keys.probes, grace, seconds)
    await _remove(area, [one.key for one in old], seconds)
    return chunks + tombstones + len(old)


async def _old(area: Area, prefix: str, grace: float, seconds: float) -> list[Named]:
    found, now = await every(area.bucket, prefix, Patience(seconds))
    return [one for one in found if one.modified <= now - grace]


async def _collect_chunks(area: Area, grace: float, seconds: float) -> int:
    count = 0
    chunks: dict[LogId, dict[str, str]] = defaultdict(dict)
    for one in await _old(area, area.keys.chunks, grace, seconds):
        log, name = area.keys.log_of_chunk(one.key)
        if log is not None:
            chunks[log][name] = one.key
    for log, keys in chunks.items():
        try:
            seen = await area.look(log, Patience(seconds))
        except CorruptRecord:  # what its tip names cannot be known
            continue
        named = {chunk.name for chunk in seen.tip.chunks} if seen.tip else set[str]()
        garbage = [key for name, key in keys.items() if name not in named]
        await _remove(area, garbage, seconds)
        count += len(garbage)
    return count


async def _collect_tombstones(area: Area, grace: float, seconds: float) -> int:
    count = 0
    for one in await _old(area, area.keys.all_tips, grace, seconds):
        log = area.keys.log_of_tip(one.key)
        if log is None or one.size != TOMBSTONE_BYTES:
            continue
        seen = await area.look_at_any(log, Patience(seconds))
        if seen.etag is not None and seen.tip is None and not seen.spoiled:
            await area.remove_tombstone(log, seen.etag)
            count += area.memory.can_delete
    return count


async def _remove(area: Area, keys: list[str], seconds: float) -> None:
    for start in range(0, len(keys), REMOVED_AT_ONCE):
        portion = keys[start : start + REMOVED_AT_ONCE]
        await Patience(seconds).insist(partial(area.bucket.delete_all, portion))
