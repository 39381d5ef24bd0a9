"""Which layout lies in this database: one key says so, looked at before anything else.

Steps from an older layout to the next would be functions in ``MIGRATIONS``, run one after the
other under a lock that expires, so that a process that dies in the middle keeps nobody out. A
step must be harmless to repeat: one that was cut off is begun again.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from durably import DurablyError, ForeignData, MigrationError, SchemaTooNew
from durably_redis._calls import Call, plain, scripted
from durably_redis._keys import LAYOUT
from durably_redis._scripts import HOLD, RELEASE

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

__all__ = ["MIGRATIONS", "Send", "check_layout", "mark_layout"]

Send: TypeAlias = Callable[[Call], Awaitable[Any]]
Migration: TypeAlias = Callable[[Send], Awaitable[None]]

MIGRATIONS: tuple[Migration, ...] = ()
"""The n-th makes layout n + 1 of layout n."""

LOCK = LAYOUT + b":lock"
LOCK_SECONDS = 30
PAUSE = 0.05
LONGEST_NUMBER = 9


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
    if found is not None and found < version():
        await _migrate(send, place)
    return found is not None


async def mark_layout(send: Send, place: str) -> None:
    """Write the layout's version into a database that has none.

    Raises:
        SchemaTooNew: a newer version was quicker.
    """
    if not await send(plain("SET", LAYOUT, str(version()), "NX")):
        await check_layout(send, place)


async def _stored(send: Send, place: str) -> int | None:
    text = await send(plain("GET", LAYOUT))
    if text is None:
        return None
    if not text.isdigit() or len(text) > LONGEST_NUMBER or int(text) < 1:
        raise ForeignData(
            f"the key {LAYOUT.decode()} of {place} is not durably's",
            hint="Choose another database",
        )
    if int(text) > version():
        raise SchemaTooNew(
            place, found=int(text), supported=version(), distribution="durably-redis"
        )
    return int(text)


async def _migrate(send: Send, place: str) -> None:
    """Run the steps that are due, one process at a time."""
    token = secrets.token_hex(16)
    found: int | None = None
    for _ in range(round(2 * LOCK_SECONDS / PAUSE)):
        found = await _stored(send, place)
        if found is None or found == version():
            return
        async with _locked(send, token) as is_mine:
            if is_mine:
                await _run(send, place)
                return
        await asyncio.sleep(PAUSE)
    raise MigrationError(
        place, found=found or 0, wanted=version(), reason="another process does not end its own"
    )


@asynccontextmanager
async def _locked(send: Send, token: str) -> "AsyncGenerator[bool, None]":
    """Take the lock unless somebody has it, and keep it until the block ends."""
    await send(plain("SET", LOCK, token, "NX", "PX", _milliseconds()))
    if await send(plain("GET", LOCK)) != token.encode():
        yield False
        return
    keeping = asyncio.ensure_future(_keep(send, token))
    try:
        yield True
    finally:
        keeping.cancel()
        await send(scripted(RELEASE, (LOCK,), token))


async def _keep(send: Send, token: str) -> None:
    while True:
        await asyncio.sleep(LOCK_SECONDS / 3)
        with suppress(DurablyError):
            await send(scripted(HOLD, (LOCK,), token, _milliseconds()))


def _milliseconds() -> int:
    return round(LOCK_SECONDS * 1000)


async def _run(send: Send, place: str) -> None:
    """Take the steps that are due now that nobody else takes them."""
    found = await _stored(send, place)
    if found is None:
        return
    for number, step in enumerate(MIGRATIONS[found - 1 :], found + 1):
        await step(send)
        await send(plain("SET", LAYOUT, str(number)))
