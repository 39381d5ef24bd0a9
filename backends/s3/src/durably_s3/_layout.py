"""Which layout lies under a prefix: one object says so, and what the server was found to do.

Steps from an older layout to the next would be functions in ``MIGRATIONS``. A step must be
harmless to repeat, and to run in two processes at once: each ends by replacing the object on
condition that nobody else did, so that whoever comes second finds the step done.
"""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias

import msgspec

from durably import ForeignData, SchemaTooNew
from durably_s3._bucket import Bucket, Lost
from durably_s3._keys import Keys
from durably_s3._patience import Patience
from durably_s3._probe import probe

__all__ = ["MIGRATIONS", "Layout", "check_layout", "mark_layout"]

Migration: TypeAlias = Callable[[Bucket, Keys], Awaitable[None]]

MIGRATIONS: tuple[Migration, ...] = ()
"""The n-th makes layout n + 1 of layout n."""


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """What the object says: the layout's number, and two facts about the server.

    ``can_delete`` is whether it heeds a condition on a deletion, ``is_ordered`` whether it lists
    in the order of the bytes of keys.
    """

    layout: Annotated[int, msgspec.Meta(ge=1)]
    can_delete: bool = False
    is_ordered: bool = False


_decoder = msgspec.json.Decoder(Layout)


def version() -> int:
    """Return the layout this version writes."""
    return len(MIGRATIONS) + 1


async def check_layout(bucket: Bucket, keys: Keys, place: str, patience: Patience) -> Layout | None:
    """Return the layout, migrated if it is an older one; None where nothing lies yet.

    Raises:
        SchemaTooNew: a newer version made it.
        ForeignData: objects of our names lie here, and no layout of ours.
    """
    is_taken = False
    while True:
        stored = await _stored(bucket, keys, place, patience)
        if stored is None and is_taken:
            raise ForeignData(
                f"{place} has objects under {keys.everything} that are not durably's",
                hint="Choose another prefix",
            )
        if stored is None:
            is_taken = await _is_taken(bucket, keys, patience)
            if not is_taken:
                return None
            continue
        layout, etag = stored
        if layout.layout == version():
            return layout
        await MIGRATIONS[layout.layout - 1](bucket, keys)
        later = msgspec.structs.replace(layout, layout=layout.layout + 1)
        with contextlib.suppress(Lost):  # somebody else took this step
            await _put(bucket, keys, later, patience, match=etag)


async def mark_layout(bucket: Bucket, keys: Keys, place: str, patience: Patience) -> Layout:
    """Look what the server does, and say which layout lies here from now on.

    Raises:
        Unsupported: the server does not heed conditions.
        SchemaTooNew: a newer version was quicker.
    """
    can_delete, is_ordered = await probe(bucket, keys, place, patience)
    layout = Layout(layout=version(), can_delete=can_delete, is_ordered=is_ordered)
    try:
        await _put(bucket, keys, layout, patience, match=None)
    except Lost:
        return await check_layout(bucket, keys, place, patience) or layout
    return layout


async def _put(
    bucket: Bucket, keys: Keys, layout: Layout, patience: Patience, *, match: str | None
) -> None:
    data = msgspec.json.encode(layout)
    absent = match is None
    await patience.insist(lambda: bucket.put(keys.layout, data, match=match, absent=absent))


async def _stored(
    bucket: Bucket, keys: Keys, place: str, patience: Patience
) -> tuple[Layout, str] | None:
    found = await patience.insist(lambda: bucket.get(keys.layout))
    if found is None:
        return None
    try:
        layout = _decoder.decode(found.data)
    except msgspec.DecodeError:
        raise ForeignData(
            f"the object {keys.layout} of {place} is not durably's", hint="Choose another prefix"
        ) from None
    if layout.layout > version():
        raise SchemaTooNew(
            place, found=layout.layout, supported=version(), distribution="durably-s3"
        )
    return layout, found.etag


async def _is_taken(bucket: Bucket, keys: Keys, patience: Patience) -> bool:
    """Whether objects of our names lie here; those of a probe may, as one may be under way."""
    listing = await patience.insist(lambda: bucket.list(keys.everything))
    return any(not one.key.startswith(keys.probes) for one in listing.objects)
