"""``RedisLogStore``: the log store on Redis and Valkey."""

import copy
import secrets
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from typing_extensions import override

from durably import Capabilities, Durability, InvalidUrl, LogStore, Writers
from durably.checks import check_namespace
from durably.logstore import ALL, Applied, Batch, Log, LogId, LogInfo, Page, Range, Rewrite
from durably_redis._calls import Call, plain, scripted
from durably_redis._client import Settings, make_client
from durably_redis._keys import BUCKETS, Keys, keys_of, listing
from durably_redis._replies import applied, log_of_answer, log_of_hash, state_of
from durably_redis._scripts import APPEND, DELETE, FORGET, READ, REWRITE
from durably_redis._server import Server
from durably_redis._upkeep import describe

__all__ = ["CAPABILITIES", "RedisLogStore"]

CAPABILITIES = Capabilities(durability=Durability.PROCESS_DEATH, writers=Writers.MANY_HOSTS)
"""Whether the server keeps what it acknowledged is its own setting, which ``describe`` reads."""

SHORTEST_TTL, LONGEST_TTL = 0.001, 10**10
"""Seconds."""

STATE_ALONE = Range(limit=0)


class RedisLogStore(LogStore):
    """Logs in one database of a Redis or Valkey server, 6.2 or newer, or in a Cluster.

    Without ``client`` it makes one of ``settings`` and closes it; a client of yours (of
    ``redis.asyncio``, a ``RedisCluster`` or one that Sentinel gave included, whatever its
    ``decode_responses``) is never closed. ``ttl`` is how many seconds a log lives after its
    last change, None for ever. ``timeout`` is how many seconds an operation takes at most, its
    repetitions included. It connects with its first operation.

    Raises:
        InvalidId: ``namespace`` is neither empty nor legal as an id.
        InvalidUrl: ``ttl`` or a setting cannot be used.
    """

    capabilities = CAPABILITIES

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        client: Any = None,  # noqa: ANN401 - redis-py's are generic in their replies
        namespace: str = "",
        ttl: float | None = None,
        timeout: float | None = None,
    ) -> None:
        check_namespace(namespace)
        if (settings is None) == (client is None):
            raise InvalidUrl("a Redis store takes settings or a client, one of the two")
        if ttl is not None and not SHORTEST_TTL <= ttl <= LONGEST_TTL:
            raise InvalidUrl("ttl must be a millisecond at least, and at most 10**10 seconds")
        mine = client if settings is None else make_client(settings)
        seconds = timeout or (Settings().timeout if settings is None else settings.timeout)
        place = "Redis" if settings is None else str(settings)
        self._namespace = namespace
        self._ttl = "" if ttl is None else str(round(ttl * 1000))
        self._server = Server(mine, place, timeout=seconds, given=client is not None)
        self._owner = True

    @override
    async def append(self, log: LogId, batch: Batch) -> Applied:
        keys = self._keys(log)
        call = scripted(APPEND, (keys.hash, keys.order, keys.listing), *self._of_batch(log, batch))
        (reply,) = await self._server.send(call, writing=True)
        return applied(log, reply, batch.expected_revision)

    def _of_batch(self, log: LogId, batch: Batch) -> Sequence[Any]:
        arguments: list[Any] = [
            log.id.encode(),
            _digest(batch.key),
            "" if batch.expected_revision is None else batch.expected_revision,
            "" if batch.keep_last is None else batch.keep_last,
            secrets.randbits(40),
            repr(batch.at),
            *_head(batch.head),
            self._ttl,
        ]
        for position, record in enumerate(batch.records):
            key = record.key or ""
            own = key == f"{batch.key}:{position}"
            arguments += (key.encode(), record.entry_count, record.data, "1" if own else "0")
        return arguments

    @override
    async def read(self, log: LogId, span: Range = ALL) -> Log | None:
        keys = self._keys(log)
        if span == ALL:
            (fields,) = await self._server.send(plain("HGETALL", keys.hash), wide=True)
            return log_of_hash(log, fields)
        if span == STATE_ALONE:
            return await self._read_state(log, keys)
        call = scripted(READ, (keys.hash, keys.order), *_of_range(span))
        (answer,) = await self._server.send(call, wide=span.limit is None)
        return log_of_answer(log, answer, with_data=span.with_data, newest=span.newest)

    async def _read_state(self, log: LogId, keys: Keys) -> Log | None:
        ((state, head),) = await self._server.send(plain("HMGET", keys.hash, "s", "head"))
        return None if state is None else Log(state=state_of(log, state, head), records=())

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        keys = self._keys(log)
        arguments: list[Any] = [
            _digest(change.key),
            change.expected_revision,
            repr(change.at),
            *_head(change.head),
            self._ttl,
            "" if change.drop_after is None else change.drop_after,
            len(change.drop),
            *change.drop,
        ]
        for seq, record in change.replace.items():
            arguments += (seq, record.entry_count, record.data)
        call = scripted(REWRITE, (keys.hash, keys.order), *arguments)
        (reply,) = await self._server.send(call, writing=True)
        return applied(log, reply, change.expected_revision)

    @override
    async def delete(self, log: LogId, *, expected_revision: int | None = None) -> bool:
        keys = self._keys(log)
        expected = "" if expected_revision is None else expected_revision
        names = (keys.hash, keys.order, keys.listing)
        (reply,) = await self._server.send(scripted(DELETE, names, log.id.encode(), expected))
        if reply[0] == b"conflict":
            applied(log, reply, expected_revision)
        return bool(reply[0] == b"gone")

    @override
    async def list(
        self,
        kind: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int = 100,
        with_state: bool = False,
    ) -> Page[LogInfo]:
        calls = [
            plain("ZRANGEBYLEX", listing(self._namespace, kind, bucket), *bounds, "LIMIT", 0, count)
            for bounds, count in [(_bounds(prefix, after), limit + 1)]
            for bucket in range(BUCKETS)
        ]
        found = sorted(id_ for ids in await self._server.send(*calls) for id_ in ids)
        logs = [LogId(kind=kind, id=id_.decode()) for id_ in found[:limit]]
        items = await self._there(logs, with_state=with_state)
        return Page(items=tuple(items), next=logs[-1].id if len(found) > limit else None)

    async def _there(self, logs: Sequence[LogId], *, with_state: bool) -> Sequence[LogInfo]:
        """Return the logs of a listing that are there; those that expired leave the listing."""
        keys = [self._keys(log) for log in logs]
        answers = await self._server.send(*(plain("HMGET", one.hash, "s", "head") for one in keys))
        rows = list(zip(logs, keys, answers, strict=True))
        gone: list[Call] = [
            scripted(FORGET, (names.hash, names.listing), log.id.encode())
            for log, names, (state, _) in rows
            if state is None
        ]
        await self._server.send(*gone)
        return [
            LogInfo(id=log.id, state=state_of(log, state, head) if with_state else None)
            for log, _, (state, head) in rows
            if state is not None
        ]

    @override
    def scoped(self, namespace: str) -> "RedisLogStore":
        check_namespace(namespace)
        view = copy.copy(self)
        view._namespace = namespace  # noqa: SLF001 - one of us
        view._owner = False  # noqa: SLF001
        return view

    @override
    async def describe(self) -> dict[str, str]:
        await self._server.send(plain("GET", b"durably:layout"))
        return await describe(self._server.client)

    @override
    async def aclose(self) -> None:
        if self._owner:
            await self._server.aclose()

    def _keys(self, log: LogId) -> Keys:
        return keys_of(self._namespace, log)


def _digest(key: str) -> str:
    return blake2b(key.encode(), digest_size=12).hexdigest()


def _head(head: bytes | None) -> tuple[str, bytes]:
    return ("0", b"") if head is None else ("1", head)


def _of_range(span: Range) -> list[Any]:
    keys = [] if span.keys is None else [key.encode() for key in span.keys]
    return [
        span.after,
        "" if span.until is None else span.until,
        "" if span.limit is None else span.limit,
        "" if span.entry_limit is None else span.entry_limit,
        int(span.newest),
        int(span.with_data),
        int(span.keys is not None),
        *keys,
    ]


def _bounds(prefix: str, after: str) -> tuple[bytes, bytes]:
    """Return the bounds of ids that begin with a prefix and come after an id.

    No id has the byte 0xFF, so none with the prefix sorts after prefix and 0xFF.
    """
    start = prefix.encode()
    low = b"(" + after.encode() if after and after.encode() >= start else b"[" + start
    return (low if after or prefix else b"-"), b"(" + start + b"\xff"
