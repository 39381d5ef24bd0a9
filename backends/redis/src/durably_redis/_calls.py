"""Commands on their way to the server: folded, repeated where a connection fails, answered.

What waits while a pipeline is under way goes together in the next one. Nobody waits for
company, so a single caller pays nothing for it. Sending is a task of its own that no
caller's cancellation reaches: a connection that is left between a command and its reply would
give the next caller somebody else's answer.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import msgspec
from redis import exceptions
from redis.client import NEVER_DECODE

from durably_redis._errors import is_passing
from durably_redis._scripts import Script

__all__ = ["Call", "Lane", "plain", "scripted"]

LARGEST_PIPELINE = 256
FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.5
"""Seconds between two attempts."""


class Call(msgspec.Struct):
    """One command, and the future its caller waits on.

    It may reach the server twice, so it must be harmless to repeat: every change carries a key.
    """

    arguments: Sequence[Any]
    script: Script | None
    answer: "asyncio.Future[Any]"
    has_source: bool = False

    def command(self) -> tuple[Any, ...]:
        """Return what is sent: the digest of a script, or its text to a server without it."""
        if self.script is None:
            return tuple(self.arguments)
        if self.has_source:
            return ("EVAL", self.script.source, *self.arguments)
        return ("EVALSHA", self.script.sha, *self.arguments)


def plain(*arguments: Any) -> Call:  # noqa: ANN401 - what redis-py takes
    """Return a command of the server's own."""
    return Call(arguments, None, asyncio.get_running_loop().create_future())


def scripted(script: Script, keys: Sequence[bytes], *arguments: Any) -> Call:  # noqa: ANN401
    """Return a call of a script."""
    answer = asyncio.get_running_loop().create_future()
    return Call((len(keys), *keys, *arguments), script, answer)


class Lane:
    """One pipeline at a time to the server; what waits meanwhile is the next one."""

    def __init__(self, client: Any, timeout: float) -> None:  # noqa: ANN401 - a client of redis-py
        self._client = client
        self._timeout = timeout
        self._waiting: list[Call] = []
        self._sending: asyncio.Task[None] | None = None

    async def send(self, *calls: Call) -> list[Any]:
        """Send calls and return their answers, in order; raise the first error there is."""
        self._waiting += calls
        if self._sending is None:
            self._sending = asyncio.ensure_future(self._send_waiting())
        return [await call.answer for call in calls]

    async def settle(self) -> None:
        """Wait until everything that was sent is answered."""
        if self._sending is not None:
            await asyncio.wait([self._sending])

    async def _send_waiting(self) -> None:
        try:
            while self._waiting:
                calls = self._waiting[:LARGEST_PIPELINE]
                del self._waiting[:LARGEST_PIPELINE]
                await self._send([call for call in calls if not call.answer.done()])
        finally:
            self._sending = None

    async def _send(self, calls: Sequence[Call]) -> None:
        """Send calls until each is answered, or the time-out is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
        pause = FIRST_PAUSE
        while calls:
            failed = self._answer(calls, await self._attempt(calls))
            if failed and all(isinstance(error, exceptions.NoScriptError) for _, error in failed):
                calls = [call for call, _ in failed]
                continue
            if failed and loop.time() + pause < deadline:
                await asyncio.sleep(random.uniform(pause / 2, pause))  # noqa: S311 - jitter
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                for call, error in failed:
                    _give(call, error)
                return
            calls = [call for call, _ in failed]

    def _answer(
        self, calls: Sequence[Call], replies: Sequence[Any]
    ) -> list[tuple[Call, Exception]]:
        """Give the callers their answers; return the calls to repeat, and why."""
        failed: list[tuple[Call, Exception]] = []
        for call, reply in zip(calls, replies, strict=True):
            if isinstance(reply, exceptions.NoScriptError):
                call.has_source = True
                failed.append((call, reply))
            elif isinstance(reply, Exception) and is_passing(reply):
                failed.append((call, reply))
            else:
                _give(call, reply)
        return failed

    async def _attempt(self, calls: Sequence[Call]) -> Sequence[Any]:
        """Send calls once; an error of the connection is the reply to each."""
        options = {NEVER_DECODE: True}
        try:
            if len(calls) == 1:
                return [await self._client.execute_command(*calls[0].command(), **options)]
            pipeline = self._client.pipeline(transaction=False)
            for call in calls:
                pipeline.execute_command(*call.command(), **options)
            replies: Sequence[Any] = await pipeline.execute(raise_on_error=False)
        except (exceptions.RedisError, OSError) as error:
            return [error for _ in calls]
        return replies


def _give(call: Call, reply: Any) -> None:  # noqa: ANN401 - what the server answered
    if call.answer.done():
        return
    if isinstance(reply, BaseException):
        call.answer.set_exception(reply)
    else:
        call.answer.set_result(reply)
