"""What S3, or the way to it, may do to a request: the faults that a proxy is told to commit."""

import asyncio
from dataclasses import replace
from threading import Event

from s3_proxy import CONDITIONS, Call, Fault, Message


async def drop_answer(call: Call) -> None:
    """Let the server do it, and let the client never know."""
    await call.forward()


async def drop_request(call: Call) -> None:
    """Close the client's connection, and ask the server nothing."""


async def strip_conditions(call: Call) -> Message:
    """Be a server that ignores conditions; signatures cover them, so it must not check these."""
    return await call.forward(call.request.without(*CONDITIONS))


def answer(status: int, code: str, **headers: str) -> Fault:
    """Answer with an error of S3, and ask the server nothing."""
    text = f"<Error><Code>{code}</Code><Message>{code} by the proxy</Message></Error>"
    return say(status, text, code=code, **headers)


def say(status: int, text: str, *, code: str = "OK", **headers: str) -> Fault:
    """Answer with a text, and ask the server nothing; ``x_y`` is the header ``x-y``."""
    more = tuple((name.replace("_", "-"), value) for name, value in headers.items())

    async def fault(call: Call) -> Message:
        body = b"" if call.request.first.startswith("HEAD ") else text.encode()
        own = (("Content-Type", "application/xml"), ("Content-Length", str(len(text.encode()))))
        return Message(first=f"HTTP/1.1 {status} {code}", headers=(*own, *more), body=body)

    return fault


def late(when: float | Event) -> Fault:
    """Close the client's connection, and let the server do it after so many seconds or an event."""

    async def fault(call: Call) -> None:
        call.client.close()
        await _passed(when)
        await call.forward()

    return fault


def hold(event: Event) -> Fault:
    """Let the server do it only after an event."""

    async def fault(call: Call) -> Message:
        await _passed(event)
        return await call.forward()

    return fault


def cut(size: int) -> Fault:
    """Promise the client the whole body, and close its connection after so many bytes."""

    async def fault(call: Call) -> Message:
        reply = await call.forward()
        return replace(reply, body=reply.body[:size], broken=True)

    return fault


def stall(when: float | Event) -> Fault:
    """Let the server do it, and answer only after so many seconds or an event."""

    async def fault(call: Call) -> Message:
        reply = await call.forward()
        await _passed(when)
        return reply

    return fault


async def _passed(when: float | Event) -> None:
    if not isinstance(when, Event):
        await asyncio.sleep(when)
        return
    while not when.is_set():  # noqa: ASYNC110 - it is set in another thread
        await asyncio.sleep(0.002)
