"""``RedisLogStore``: the log store on Redis and Valkey."""

import copy
import secrets
from bisect import bisect_right
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from typing_extensions import override

from durably import Capabilities, Durability, InvalidUrl, LogStore, Writers
from durably.checks import MAX_COUNT, check_namespace
from durably.logstore import ALL, Applied, Batch, Log, LogId, LogInfo, Page, Range, Rewrite
from durably_redis._calls import Call, plain, scripted
from durably_redis._client import Settings, check_client, check_timeout, make_client
from durably_redis._keys import BUCKETS, Keys, keys_of, listing
from durably_redis._replies import applied, half_of, log_of_answer, state_of, whole_log
from durably_redis._scripts import APPEND, DELETE, FORGET, READ, REWRITE, WHOLE
from durably_redis._server import Server
from durably_redis._upkeep import describe

__all__ = ["CAPABILITIES", "RedisLogStore"]

CAPABILITIES = Capabilities(durability=Durability.PROCESS_DEATH, writers=Writers.MANY_HOSTS)
"""Whether the server keeps what it acknowledged is its own setting, which ``describe`` reads."""

SHORTEST_TTL, LONGEST_TTL = 0.001, 10**10
"""Seconds."""

SPARE = 20
"""A page takes its ids from all buckets: from each what it is likely to hold of them, and some.
Where one holds more, the page ends early."""

LANES = 2
"""How many connections it uses of a client that was given."""


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
        check_client(client)
        if (settings is None) == (client is None):
            raise InvalidUrl("a Redis store takes settings or a client, one of the two")
        if ttl is not None and not SHORTEST_TTL <= ttl <= LONGEST_TTL:
            raise InvalidUrl("ttl must be a millisecond at least, and at most 10**10 seconds")
        seconds = (settings or Settings()).timeout if timeout is None else timeout
        check_timeout(seconds)
        self._namespace = namespace
        self._ttl = "" if ttl is None else str(round(ttl * 1000))
        self._server = Server(
            client if settings is None else make_client(settings),
            "Redis" if settings is None else str(settings),
            timeout=seconds,
            lanes=LANES if settings is None else settings.max_connections,
            given=settings is None,
        )
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
            _count(batch.keep_last),
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
        wide = span.limit is None
        if span == ALL:
            whole = scripted(WHOLE, (keys.hash, keys.order))
            (answer,) = await self._server.send(whole, wide=wide)
            return whole_log(log, answer)
        call = scripted(READ, (keys.hash, keys.order), *_of_range(span))
        (answer,) = await self._server.send(call, wide=wide)
        return log_of_answer(log, answer, with_data=span.with_data, newest=span.newest)

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        keys = self._keys(log)
        drop = [seq for seq in change.drop if seq <= MAX_COUNT]
        arguments: list[Any] = [
            _digest(change.key),
            change.expected_revision,
            repr(change.at),
            *_head(change.head),
            self._ttl,
            _count(change.drop_after),
            len(drop),
            *drop,
        ]
        for seq, record in change.replace.items():
            if seq > MAX_COUNT:
                continue
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
        if reply[0] in {b"conflict", b"corrupt"}:
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
        most = min(limit + 1, 2 * limit // BUCKETS + SPARE)
        bounds = _bounds(prefix, after)
        calls = [
            plain("ZRANGEBYLEX", listing(self._namespace, kind, bucket), *bounds, "LIMIT", 0, most)
            for bucket in range(BUCKETS)
        ]
        buckets = await self._server.send(*calls)
        found = sorted(id_ for ids in buckets for id_ in ids)
        known = min((ids[-1] for ids in buckets if len(ids) == most), default=None)
        upto = len(found) if known is None else bisect_right(found, known)
        page = found[: min(limit, upto)]
        is_cut = known is not None or len(found) > len(page)
        logs = [LogId(kind=kind, id=id_.decode()) for id_ in page]
        items = await self._there(logs, with_state=with_state)
        return Page(items=tuple(items), next=logs[-1].id if is_cut else None)

    async def _there(self, logs: Sequence[LogId], *, with_state: bool) -> Sequence[LogInfo]:
        """Return the logs of a listing that are there; those that expired leave the listing."""
        fields = ("s", "head") if with_state else ("s",)
        calls = [plain("HMGET", self._keys(log).hash, *fields) for log in logs]
        answers = await self._server.send(*calls)
        rows = list(zip(logs, answers, strict=True))
        halves = await self._forget([log for log, answer in rows if answer[0] is None])
        if halves and with_state:
            raise half_of(halves[0])
        return [
            LogInfo(id=log.id, state=state_of(log, *answer) if with_state else None)
            for log, answer in rows
            if answer[0] is not None or log in halves
        ]

    async def _forget(self, gone: Sequence[LogId]) -> Sequence[LogId]:
        """Take logs that are gone off the listing; return those of which a part is left."""
        calls: list[Call] = []
        for log in gone:
            keys = self._keys(log)
            names = (keys.hash, keys.order, keys.listing)
            calls.append(scripted(FORGET, names, log.id.encode()))
        answers = await self._server.send(*calls)
        return [log for log, answer in zip(gone, answers, strict=True) if answer == b"corrupt"]

    @override
    def scoped(self, namespace: str) -> "RedisLogStore":
        check_namespace(namespace)
        view = copy.copy(self)
        view._namespace = namespace  # noqa: SLF001 - one of us
        view._owner = False  # noqa: SLF001 - one of us
        return view

    @override
    async def describe(self) -> dict[str, str]:
        return await describe(self._server)

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


def _count(number: int | None) -> str:
    """Return a count as text, one that no log can reach as the largest of them."""
    return "" if number is None else str(min(number, MAX_COUNT))


def _of_range(span: Range) -> list[Any]:
    keys = [] if span.keys is None else [key.encode() for key in span.keys]
    return [
        _count(span.after),
        _count(span.until),
        _count(span.limit),
        _count(span.entry_limit),
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
