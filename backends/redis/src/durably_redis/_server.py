"""One server, or one Cluster, behind a store and its scoped views: opened once, closed once."""

import asyncio
from collections.abc import Sequence

from redis import exceptions

from durably import StorageClosed, WrongLoop
from durably_redis._calls import Call, Client, Lane, Reply
from durably_redis._errors import DRIVER_ERRORS, translate
from durably_redis._layout import check_layout, mark_layout

__all__ = ["Server"]


class Server:
    """Sends calls to a client of redis-py, after a look at the layout of the database.

    Each of its ``lanes`` uses one connection. Whole logs keep off the first, if there is another,
    so that appends need not wait until one is transferred. A client that was ``given`` is its
    owner's to close.
    """

    def __init__(
        self, client: Client, place: str, *, timeout: float, lanes: int, given: bool
    ) -> None:
        self._client = client
        self._place = place
        self._given = given
        self._lanes = [Lane(client, timeout) for _ in range(lanes)]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._looking: asyncio.Lock | None = None
        self._looked = False
        self._marked = False
        self._closing: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def client(self) -> Client:
        """The client of redis-py."""
        return self._client

    async def send(self, *calls: Call, writing: bool = False, wide: bool = False) -> list[Reply]:
        """Return the answers to some calls; ``wide`` ones have large answers.

        Raises:
            StorageClosed: it is closed.
            WrongLoop: it was first used in another event loop.
            Unavailable: the server cannot be reached, or refuses.
            SchemaTooNew: a newer version wrote the database.
            ForeignData: a key of durably's name is not durably's.
        """
        await self._get_ready(writing=writing)
        return await self._send(self._wide_lane() if wide else self._lanes[0], calls)

    async def ask(self, *calls: Call) -> list[Reply]:
        """Return the answer to each call, or why the server did not give it.

        Raises: as ``send``, but for what the server itself refuses.
        """
        await self._get_ready(writing=False)
        sent = [asyncio.ensure_future(self._lanes[0].send(call)) for call in calls]
        answers: list[Reply] = []
        for answer in await asyncio.gather(*sent, return_exceptions=True):
            if isinstance(answer, exceptions.ResponseError):
                answers.append(answer)
            elif isinstance(answer, BaseException):
                raise self._translated(answer)
            else:
                answers += answer
        return answers

    async def aclose(self) -> None:
        """Let what was sent be answered, and close the client if it is this store's own."""
        self._closed = True
        if self._loop is not asyncio.get_running_loop():
            return
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        for lane in self._lanes:
            await lane.settle()
        if not self._given:
            await self._client.aclose()

    def _check_open(self) -> None:
        """Refuse a closed store, or another event loop than that of the first operation."""
        if self._closed:
            raise StorageClosed
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            self._looking = asyncio.Lock()
        elif self._loop is not loop:
            raise WrongLoop

    async def _get_ready(self, *, writing: bool) -> None:
        self._check_open()
        if self._looked and (self._marked or not writing):
            return
        if self._looking is None:
            raise WrongLoop
        async with self._looking:
            if not self._looked:
                self._marked = await check_layout(self._send_one, self._place)
                self._looked = True
            if writing and not self._marked:
                await mark_layout(self._send_one, self._place)
                self._marked = True
        self._check_open()

    def _wide_lane(self) -> Lane:
        return next((lane for lane in self._lanes[1:] if lane.is_idle), self._lanes[-1])

    async def _send_one(self, call: Call) -> Reply:
        return (await self._send(self._lanes[0], [call]))[0]

    async def _send(self, lane: Lane, calls: Sequence[Call]) -> list[Reply]:
        try:
            return await lane.send(*calls)
        except DRIVER_ERRORS as error:
            raise self._translated(error) from _cause(error)

    def _translated(self, error: BaseException) -> BaseException:
        if isinstance(error, DRIVER_ERRORS):
            return translate(error, self._place)
        return error


def _cause(error: Exception) -> Exception | None:
    """Return an error unless it may repeat what was sent."""
    return None if isinstance(error, exceptions.RedisClusterException) else error
