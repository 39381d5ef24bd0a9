"""An HTTP proxy before an S3 server: it records what passes, and goes wrong where told.

A fault is an async function of a Call: it returns the reply that the client is to get, or None
for the end of the client's connection. ``s3_faults`` has what S3, or the way to it, may do.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from threading import Thread
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit

from redis_servers import HOST, PATIENCE
from s3_servers import Server

CONDITIONS = ("if-match", "if-none-match")
NEVER_A_BODY = (204, 304)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request and what became of it; predicates see it before anything did."""

    method: str
    key: str
    """Decoded and without the bucket; empty where the request is about the bucket itself."""
    query: dict[str, str]
    condition: str | None
    """The header that makes it conditional, as in ``If-None-Match: *``."""
    range: str | None
    sent: int
    """Bytes of the request's body."""
    headers: dict[str, str] = field(default_factory=dict, compare=False)
    """What the client sent, the names in lower case."""
    status: int | None = None
    """What the server answered; None where it was not asked, or did not answer."""
    received: int = 0
    """Bytes of the body that the server answered with."""
    delivered: bool = False
    """Whether the client was still there and got an answer, all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A request or a reply, its headers as they came, its body out of its chunks."""

    first: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    broken: bool = False
    """Whether the connection is to end after it."""

    def header(self, *names: str) -> str | None:
        return next((value for name, value in self.headers if name.lower() in names), None)

    def without(self, *names: str) -> Self:
        kept = tuple(one for one in self.headers if one[0].lower() not in names)
        return replace(self, headers=kept)

    @property
    def status(self) -> int:
        return int(self.first.split(" ", 2)[1])

    def pack(self) -> bytes:
        lines = [self.first, *(f"{name}: {value}" for name, value in self.headers)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


@dataclass(slots=True, kw_only=True)
class Call:
    """A request that waits for a fault to decide on it."""

    request: Message
    upstream: "Upstream"
    client: asyncio.StreamWriter
    reply: Message | None = None

    async def forward(self, request: Message | None = None) -> Message:
        """Let the server do what was asked, or do another thing."""
        request = request or self.request
        self.reply = await self.upstream.ask(request)
        return self.reply


Fault = Callable[[Call], Awaitable[Message | None]]
Predicate = Callable[[Exchange], bool]


@dataclass(slots=True)
class Plan:
    """A fault that will befall the next ``times`` requests of a kind, or all where it is None."""

    fault: Fault
    when: Predicate
    times: int | None


class Proxy:
    """``log`` has what passed in the order in which it was over; ``latency`` is in seconds.

    ``plans`` are the faults still to come: the first that fits a request befalls it.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.port = 0
        self.log: list[Exchange] = []
        self.latency = 0.0
        self.plans: list[Plan] = []
        self._logs = [self.log]
        self._clients = ExitStack()
        self._tasks: set[asyncio.Task] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://{HOST}:{self.port}"

    def client(self, **config):
        """Return a client of the server that asks the proxy; the proxy's end closes it."""
        client = self.server.client(self.endpoint, **config)
        self._clients.callback(client.close)
        return client

    def plan(self, fault: Fault, when: Predicate = lambda _: True, times: int | None = 1) -> Plan:
        plan = Plan(fault, when, times)
        self.plans.append(plan)
        return plan

    def clear(self) -> None:
        """Begin to record anew."""
        self.log.clear()

    @contextmanager
    def counting(self) -> Iterator[list[Exchange]]:
        """Give a list of what is over while inside."""
        log: list[Exchange] = []
        self._logs.append(log)
        try:
            yield log
        finally:
            self._logs = [one for one in self._logs if one is not log]

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._open())
        return self

    def __exit__(self, *_) -> None:
        try:
            self._clients.close()
            self._run(self._close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(PATIENCE)
            self._loop.close()

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)

    async def _open(self) -> None:
        self._listener = await asyncio.start_server(self._connected, HOST, 0, backlog=1000)
        self.port = self._listener.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    def _connected(self, reader, writer) -> None:
        self._tasks.add(asyncio.create_task(self._serve_all(reader, writer)))

    async def _serve_all(self, reader, writer) -> None:
        upstream = Upstream(self.server.port)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):  # somebody hung up
                while await self._serve(reader, writer, upstream):
                    pass
        finally:
            writer.close()
            upstream.close()

    async def _serve(self, reader, writer, upstream) -> bool:
        """Serve one request; return whether the connection goes on."""
        request = await _request(reader, writer)
        seen = _seen(request)
        call = Call(request=request, upstream=upstream, client=writer)
        reply = None
        try:
            reply = await self._fault(seen)(call)
            await asyncio.sleep(self.latency if reply else 0)
        finally:
            there = not (reader.at_eof() or writer.is_closing())
            self._record(seen, call.reply, delivered=bool(reply and there and not reply.broken))
        if reply is None:
            return False
        writer.write(reply.pack())
        await writer.drain()
        return not reply.broken

    def _fault(self, seen: Exchange) -> Fault:
        for plan in self.plans:
            if plan.when(seen):
                if plan.times is not None:
                    plan.times -= 1
                if plan.times == 0:
                    self.plans.remove(plan)
                return plan.fault
        return Call.forward

    def _record(self, seen: Exchange, reply: Message | None, *, delivered: bool) -> None:
        if reply is not None:
            seen = replace(seen, status=reply.status, received=len(reply.body))
        exchange = replace(seen, delivered=delivered)
        for log in self._logs:
            log.append(exchange)


class Upstream:
    """The connection to the server, opened when it is needed and as often as it is."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, request: Message) -> Message:
        if self._reader is not None and self._reader.at_eof():
            self.close()
        if self._reader is None:
            self._reader, self._writer = await asyncio.open_connection(HOST, self._port)
        self._writer.write(request.pack())
        reply = await _message(self._reader)
        if not request.first.startswith("HEAD ") and reply.status not in NEVER_A_BODY:
            reply = await _with_body(self._reader, reply)
        if reply.header("connection") == "close":  # as moto does each time
            self.close()
        return reply.without("connection")

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


async def _request(reader, writer) -> Message:
    request = await _message(reader)
    if request.header("expect"):
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request = await _with_body(reader, request)
    return request.without("expect", "connection")


async def _message(reader) -> Message:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    pairs = (line.partition(":") for line in lines)
    return Message(first=first, headers=tuple((name, value.strip()) for name, _, value in pairs))


async def _with_body(reader, message: Message) -> Message:
    if message.header("transfer-encoding") is None:
        size = int(message.header("content-length") or 0)
        return replace(message, body=await reader.readexactly(size))
    parts = []
    while size := int((await reader.readline()).partition(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readline()
    while await reader.readline() != b"\r\n":
        pass  # trailers
    body = b"".join(parts)
    message = message.without("transfer-encoding")
    headers = (*message.headers, ("Content-Length", str(len(body))))
    return replace(message, headers=headers, body=body)


def _seen(request: Message) -> Exchange:
    method, target, _ = request.first.split(" ")
    url = urlsplit(target)
    condition = next(
        (f"{name}: {value}" for name, value in request.headers if name.lower() in CONDITIONS), None
    )
    return Exchange(
        method=method,
        key=unquote(url.path.removeprefix("/").partition("/")[2]),
        query=dict(parse_qsl(url.query, keep_blank_values=True)),
        condition=condition,
        range=request.header("range"),
        sent=len(request.body),
        headers={name.lower(): value for name, value in request.headers},
    )
