"""Commands on their way to the server: folded, repeated where a connection fails, answered.

What waits while a command is under way goes together in the next pipeline. Nobody waits for
company, so a single caller pays nothing for it: its command is sent in its own task, and if that
is cancelled, redis-py closes the connection between command and reply. Pipelines are sent in a
task that no caller's cancellation reaches.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from redis import exceptions
from redis.client import NEVER_DECODE

from durably_redis._errors import DRIVER_ERRORS, is_passing
from durably_redis._scripts import Script

__all__ = ["Call", "Client", "Lane", "Reply", "plain", "scripted"]

Reply: TypeAlias = Any
"""What the server answers: bytes, a number, None, or a list of such."""

Argument: TypeAlias = Any
"""What redis-py sends: bytes, text or a number."""

Client: TypeAlias = Any
"""A client of ``redis.asyncio``, a ``RedisCluster`` included; theirs are generic in replies."""

Node: TypeAlias = Any
"""A node of a Cluster, None where the key decides."""

LARGEST_PIPELINE = 256
LARGEST_BYTES = 8 * 1024 * 1024
"""A pipeline that has so many bytes takes no further call."""

FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.5
"""Seconds between two attempts."""


class Call(msgspec.Struct):
    """One command, and the future its caller waits on, where it waits for others.

    It may reach the server twice, so it must be harmless to repeat: every change carries a key.
    """

    arguments: Sequence[Argument]
    script: Script | None
    answer: "asyncio.Future[Reply] | None" = None
    node: Node = None
    deadline: float = 0.0
    has_source: bool = False
    failure: Exception | None = None

    def command(self) -> tuple[Argument, ...]:
        """Return what is sent: the digest of a script, or its text to a server without it."""
        if self.script is None:
            return tuple(self.arguments)
        if self.has_source:
            return ("EVAL", self.script.source, *self.arguments)
        return ("EVALSHA", self.script.sha, *self.arguments)

    def options(self) -> dict[str, Any]:
        """Return what redis-py is told: replies are bytes, and which node of a Cluster is meant."""
        return {NEVER_DECODE: True} | ({} if self.node is None else {"target_nodes": self.node})

    def size(self) -> int:
        """Return about how many bytes are sent."""
        return sum(len(one) for one in self.arguments if isinstance(one, bytes))

    @property
    def is_open(self) -> bool:
        """Whether somebody waits for the answer."""
        return self.answer is not None and not self.answer.done()

    def give(self, reply: Reply) -> None:
        """Hand the answer, or an error, to whoever waits for it."""
        if self.answer is None or self.answer.done():
            return
        if isinstance(reply, BaseException):
            self.answer.set_exception(reply)
        else:
            self.answer.set_result(reply)

    def is_to_be_repeated(self, reply: Reply) -> bool:
        """Whether a reply is a failure that may pass; it is remembered."""
        if not isinstance(reply, Exception):
            return False
        no_script = isinstance(reply, exceptions.NoScriptError)
        self.has_source = self.has_source or no_script
        self.failure = reply
        return no_script or is_passing(reply)


def plain(*arguments: Argument, node: Node = None) -> Call:
    """Return a command of the server's own, for the one node of a Cluster where one is given."""
    return Call(arguments, None, node=node)


def scripted(script: Script, keys: Sequence[bytes], *arguments: Argument) -> Call:
    """Return a call of a script."""
    return Call((len(keys), *keys, *arguments), script)


class Lane:
    """One command or pipeline at a time to the server; what waits meanwhile is the next one."""

    def __init__(self, client: Client, timeout: float) -> None:
        self._client = client
        self._timeout = timeout
        self._idle = asyncio.Event()
        self._idle.set()
        self._waiting: list[Call] = []
        self._sent: Sequence[Call] = ()
        self._sending: asyncio.Task[None] | None = None
        self._watch: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether a call would be sent at once."""
        return self._idle.is_set()

    async def send(self, *calls: Call) -> list[Reply]:
        """Send calls and return their answers, in order; raise the first error there is.

        It waits no longer than the time-out, whatever is sent before or tried again.
        """
        if not calls:
            return []
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
        for call in calls:
            call.deadline = deadline
        if len(calls) == 1 and self._idle.is_set():
            reply = await self._send_alone(calls[0])
            if not calls[0].is_to_be_repeated(reply) or loop.time() >= deadline:
                self._go_on()
                return _unless_error(reply)
        answers: list[asyncio.Future[Reply]] = [loop.create_future() for _ in calls]
        for call, answer in zip(calls, answers, strict=True):
            call.answer = answer
        self._waiting += calls
        if self._sending is None and (self._idle.is_set() or calls[0].failure is not None):
            self._go_on()
        self._watch_until(deadline)
        return [await answers[0]] if len(answers) == 1 else await asyncio.gather(*answers)

    async def settle(self) -> None:
        """Wait until everything that was sent is answered."""
        await self._idle.wait()
        if self._watch is not None:
            self._watch.cancel()

    async def _send_alone(self, call: Call) -> Reply:
        """Send a call in its caller's task; whoever comes meanwhile waits."""
        self._idle.clear()
        try:
            (reply,) = await self._attempt([call], call.deadline)
        except BaseException:
            self._go_on()
            raise
        return reply

    def _go_on(self) -> None:
        """Send what waits."""
        if self._waiting:
            self._idle.clear()
            self._sending = asyncio.ensure_future(self._send_waiting())
        else:
            self._idle.set()

    def _watch_until(self, deadline: float) -> None:
        """Let nobody wait longer than that."""
        if self._watch is not None:
            if self._watch.when() <= deadline:
                return
            self._watch.cancel()
        self._watch = asyncio.get_running_loop().call_at(deadline, self._expire)

    def _expire(self) -> None:
        """Tell those whose time is over, and watch for the others."""
        self._watch = None
        now = asyncio.get_running_loop().time()
        for call in (*self._sent, *self._waiting):
            if not call.is_open:
                continue
            if call.deadline > now:
                self._watch_until(call.deadline)
            else:
                call.give(call.failure or exceptions.TimeoutError())

    async def _send_waiting(self) -> None:
        try:
            while self._waiting:
                self._sent = self._next()
                try:
                    await self._send(self._sent)
                except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
                    for call in self._sent:
                        call.give(error)
        finally:
            for call in (*self._sent, *self._waiting):
                if call.answer is not None:
                    call.answer.cancel()
            self._waiting.clear()
            self._sent = ()
            self._sending = None
            self._idle.set()

    def _next(self) -> Sequence[Call]:
        """Take what goes into the next pipeline."""
        size = count = 0
        for call in self._waiting[:LARGEST_PIPELINE]:
            count += 1
            size += call.size()
            if size >= LARGEST_BYTES:
                break
        taken = self._waiting[:count]
        del self._waiting[:count]
        return taken

    async def _send(self, calls: Sequence[Call]) -> None:
        """Send calls until each is answered, or nobody waits any more."""
        loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE
        while calls := [call for call in calls if call.is_open]:
            deadline = max(call.deadline for call in calls)
            calls = _answer(calls, await self._attempt(calls, deadline))
            if all(isinstance(call.failure, exceptions.NoScriptError) for call in calls):
                continue
            if loop.time() + pause >= deadline:
                for call in calls:
                    call.give(call.failure)
                return
            await asyncio.sleep(random.uniform(pause / 2, pause))  # noqa: S311 - jitter
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _attempt(self, calls: Sequence[Call], deadline: float) -> Sequence[Reply]:
        """Send calls once; an error of the connection is the reply to each."""
        try:
            async with asyncio.timeout_at(deadline):
                if len(calls) == 1:
                    (call,) = calls
                    return [await self._client.execute_command(*call.command(), **call.options())]
                pipeline = self._client.pipeline(transaction=False)
                for call in calls:
                    pipeline.execute_command(*call.command(), **call.options())
                replies: Sequence[Reply] = await pipeline.execute(raise_on_error=False)
        except DRIVER_ERRORS as error:
            return [error for _ in calls]
        return replies


def _answer(calls: Sequence[Call], replies: Sequence[Reply]) -> list[Call]:
    """Give the callers their answers; return the calls to repeat."""
    failed: list[Call] = []
    for call, reply in zip(calls, replies, strict=True):
        if call.is_to_be_repeated(reply):
            failed.append(call)
        else:
            call.give(reply)
    return failed


def _unless_error(reply: Reply) -> list[Reply]:
    if isinstance(reply, Exception):
        raise reply
    return [reply]
