"""Read, decide, write again: for changes that others may overtake between the two."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from durably.errors import RevisionConflict, StorageBusy

__all__ = ["until_unchallenged"]

T = TypeVar("T")

ATTEMPTS = 100
LONGEST_PAUSE = 0.02
"""Seconds."""


async def until_unchallenged(attempt: Callable[[], Awaitable[T]]) -> T:
    """Run an attempt until no conflicting change comes in between.

    Raises:
        StorageBusy: one came in between every time.
    """
    number = 1
    while True:
        try:
            return await attempt()
        except RevisionConflict as conflict:
            if number == ATTEMPTS:
                raise StorageBusy(
                    f"{conflict.log} changed between reading and writing, {ATTEMPTS} times",
                    hint="Try again when fewer others write to it",
                ) from conflict
        await asyncio.sleep(random.uniform(0, min(0.001 * number, LONGEST_PAUSE)))  # noqa: S311 - jitter, no secret
        number += 1
