"""Which layout lies in this database: one key says so, looked at before anything else.

Steps from an older layout to the next would be functions in ``MIGRATIONS``, run one after the
other under a lock that expires, so that a process that dies in the middle keeps nobody out.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from durably import ForeignData, MigrationError, SchemaTooNew
from durably_redis._calls import Call, plain
from durably_redis._keys import LAYOUT

__all__ = ["MIGRATIONS", "Send", "check_layout", "mark_layout"]

Send: TypeAlias = Callable[[Call], Awaitable[Any]]
Migration: TypeAlias = Callable[[Send], Awaitable[None]]

MIGRATIONS: tuple[Migration, ...] = ()
"""The n-th makes layout n + 1 of layout n."""

LOCK = LAYOUT + b":lock"
LOCK_SECONDS = 30
"""A step must be done, or have prolonged the lock, within this time."""

PAUSE = 0.05


def version() -> int:
    """Return the layout this version writes."""
    return len(MIGRATIONS) + 1


async def check_layout(send: Send, place: str) -> bool:
    """Migrate an older layout; say whether there is one at all.

    Raises:
        SchemaTooNew: a newer version made it.
        ForeignData: the key holds something else.
        MigrationError: somebody else's migration does not end.
    """
    found = await _stored(send, place)
    if found is None:
        return False
    if found > version():
        raise SchemaTooNew(place, found=found, supported=version(), distribution="durably-redis")
    if found < version():
        await _migrate(send, place)
    return True


async def mark_layout(send: Send) -> None:
    """Write the layout's version into a database that has none."""
    await send(plain("SET", LAYOUT, str(version()), "NX"))


async def _stored(send: Send, place: str) -> int | None:
    text = await send(plain("GET", LAYOUT))
    if text is None:
        return None
    if not text.isdigit() or int(text) < 1:
        raise ForeignData(
            f"the key {LAYOUT.decode()} of {place} is not durably's",
            hint="Choose another database",
        )
    return int(text)


async def _migrate(send: Send, place: str) -> None:
    """Run the steps that are due, one process at a time."""
    token = secrets.token_hex(16)
    found: int | None = None
    for _ in range(round(2 * LOCK_SECONDS / PAUSE)):
        found = await _stored(send, place)
        if found is None or found >= version():
            return
        if await send(plain("SET", LOCK, token, "NX", "EX", str(LOCK_SECONDS))):
            await _run(send, found, MIGRATIONS[found - 1 :])
            await send(plain("DEL", LOCK))
            return
        await asyncio.sleep(PAUSE)
    raise MigrationError(
        place, found=found or 0, wanted=version(), reason="another process does not end its own"
    )


async def _run(send: Send, found: int, steps: Sequence[Migration]) -> None:
    for number, step in enumerate(steps, found + 1):
        await step(send)
        await send(plain("SET", LAYOUT, str(number)))
