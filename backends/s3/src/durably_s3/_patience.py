"""How long an operation tries, and how it waits in between."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from durably import DurablyError
from durably_s3._bucket import Unsure

__all__ = ["Patience"]

T = TypeVar("T")

FIRST_PAUSE = 0.02
LONGEST_PAUSE = 1.0
"""Seconds at most between two attempts."""


class Patience:
    """The time one operation has; each pause is drawn anew, so that rivals do not meet again."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._pause = FIRST_PAUSE

    async def rest(self, error: DurablyError) -> None:
        """Wait a moment, or raise the error if the time is over."""
        pause = random.uniform(self._pause / 4, self._pause)  # noqa: S311 - jitter, no secret
        if time.monotonic() + pause > self._until:
            raise error
        await asyncio.sleep(pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)

    async def insist(self, request: Callable[[], Awaitable[T]]) -> T:
        """Repeat a request that is harmless to repeat until it is answered.

        Raises:
            Unavailable: the time is over.
        """
        while True:
            try:
                return await request()
            except Unsure as unsure:
                await self.rest(unsure.error)
