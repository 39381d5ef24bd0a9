"""What a server does, found out by trying: many accept a condition and do not heed it."""

import asyncio
import contextlib
from collections.abc import Awaitable

from durably import DurablyError, Unsupported
from durably_s3._bucket import Bucket, Lost, Unsure
from durably_s3._keys import Keys
from durably_s3._patience import Patience

__all__ = ["probe"]

ENDINGS = ("", "b", "0", "ab", "10")
"""Of keys to be listed, in an order that is not theirs."""

NO_ETAG = "0" * 32


async def probe(bucket: Bucket, keys: Keys, place: str, patience: Patience) -> tuple[bool, bool]:
    """Return whether the server heeds a condition on a deletion, and lists in order.

    Raises:
        Unsupported: it does not heed those of a PUT, so that writers would overwrite each other.
    """
    names = [f"{name}{ending}" for name in [keys.probe()] for ending in ENDINGS]
    try:
        return await patience.insist(lambda: _try(bucket, names[0], names, place))
    finally:
        with contextlib.suppress(DurablyError, Unsure):  # what is left is collected as garbage
            await bucket.delete_all(names)


async def _try(bucket: Bucket, name: str, names: list[str], place: str) -> tuple[bool, bool]:
    await bucket.put(name, b"1")
    if not await _is_refused(bucket.put(name, b"2", absent=True)):
        raise _unsupported(place, "If-None-Match: *")
    if not await _is_refused(bucket.put(name, b"3", match=NO_ETAG)):
        raise _unsupported(place, "If-Match")
    etag = await bucket.put(name, b"4")
    refused = await _is_refused(bucket.put(name, b"5", match=etag))
    stored = await bucket.get(name) if refused else None  # a library may have sent it twice
    if refused and (stored is None or stored.data != b"5"):
        raise _unsupported(place, "If-Match with the right ETag")
    can_delete = await _heeds_on_delete(bucket, name)
    await asyncio.gather(*(bucket.put(one, b"6") for one in names))
    listing = await bucket.list(name)
    return can_delete, [one.key for one in listing.objects] == sorted(names)


async def _heeds_on_delete(bucket: Bucket, name: str) -> bool:
    try:
        return await _is_refused(bucket.delete(name, match=NO_ETAG))
    except Unsupported:  # a server may do without
        return False


async def _is_refused(request: Awaitable[object]) -> bool:
    try:
        await request
    except Lost:
        return True
    return False


def _unsupported(place: str, condition: str) -> Unsupported:
    return Unsupported(
        f"the server of {place} does not heed {condition}: writers would overwrite each other",
        hint="Use one with conditional writes, such as S3 itself, or a newer version of it",
    )
