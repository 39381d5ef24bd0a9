"""A TCP proxy before a Redis server: it records what passes, and cuts or answers where told."""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Self

import hiredis

from redis_servers import HOST

HANDSHAKE = {b"HELLO", b"CLIENT", b"AUTH", b"SELECT", b"PING", b"COMMAND"}


class Proxy:
    """``commands`` are those that reached the server, of which ``turns`` were sent together.

    ``drops(command, reply)`` says whether a reply is to be lost, and the connection with it;
    ``answers(command)`` gives the reply in place of the server's, or None.
    """

    def __init__(self, port: int, *, ssl=None) -> None:
        self.target = port
        self.port = 0
        self.commands: list[list[bytes]] = []
        self.log: list[tuple[str, list[bytes], object]] = []
        self.turns: list[int] = []
        self.drops = lambda command, reply: False  # noqa: ARG005 - keeps all
        self.answers = lambda command: None  # noqa: ARG005 - leaves all to the server
        self._ssl = ssl
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task] = set()

    def forget(self) -> None:
        """Begin to record anew."""
        for record in (self.commands, self.log, self.turns):
            record.clear()

    def cut(self) -> None:
        """Close every connection."""
        for writer in self._writers:
            writer.close()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, HOST, 0, ssl=self._ssl)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_) -> None:
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader, writer) -> None:
        self._tasks.add(asyncio.current_task())
        self._writers.add(writer)
        try:
            upstream, onward = await asyncio.open_connection(HOST, self.target)
        except OSError:
            writer.close()
            return
        self._writers.add(onward)
        pending = deque()
        ways = [
            asyncio.create_task(self._requests(reader, onward, writer, pending)),
            asyncio.create_task(self._replies(upstream, writer, pending)),
        ]
        try:
            with suppress(ConnectionError):
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            writer.close()
            onward.close()

    async def _requests(self, reader, onward, writer, pending) -> None:
        parser = hiredis.Reader()
        while data := await reader.read(1 << 16):
            parser.feed(data)
            while (command := parser.gets()) is not False:
                command = [one if isinstance(one, bytes) else bytes(one) for one in command]
                if (answer := self.answers(command)) is not None:
                    writer.write(answer)
                    continue
                if command[0].upper() not in HANDSHAKE:
                    self.commands.append(command)
                    if pending:
                        self.turns[-1] += 1
                    else:
                        self.turns.append(1)
                self.log.append(("sent", command, None))
                pending.append(command)
                onward.write(_packed(command))

    async def _replies(self, upstream, writer, pending) -> None:
        parser = hiredis.Reader(replyError=ReplyError)
        while data := await upstream.read(1 << 16):
            parser.feed(data)
            while (reply := parser.gets()) is not False:
                command = pending.popleft()
                if self.drops(command, reply):
                    self.log.append(("dropped", command, reply))
                    return
                self.log.append(("answered", command, reply))
            writer.write(data)


class ReplyError(Exception):
    """An error as a reply."""


def _packed(command) -> bytes:
    parts = [b"*%d\r\n" % len(command)]
    for one in command:
        parts += [b"$%d\r\n" % len(one), one, b"\r\n"]
    return b"".join(parts)
