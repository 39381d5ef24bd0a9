"""Which sessions there are: created on purpose, with metadata, listed without their content."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NewType, cast

import msgspec

from durably._paging import filtered_page
from durably._raw import join_object
from durably._records import raw_object
from durably._retry import until_unchallenged
from durably._typing import override
from durably.archive import LogResultArchive
from durably.checks import MAX_LIST_LIMIT, check_count
from durably.codec import Codec
from durably.contracts import Checkpointer
from durably.entries import JsonObject
from durably.errors import (
    CorruptRecord,
    InvalidFilter,
    NotSerializable,
    SessionExists,
    SessionNotFound,
)
from durably.logstore import Batch, LogId, LogInfo, LogState, LogStore, Page, Range, new_key

__all__ = ["LogSessionCatalog", "SessionCatalog", "SessionId", "SessionInfo"]

KIND = "session"

SessionId = NewType("SessionId", str)
"""The id of a session that is in the catalog."""


class SessionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What the catalog says of a session; times are epoch seconds.

    One that has runs and was never created in the catalog is not ``is_catalogued``, and has no
    metadata. ``updated_at`` is the time of its last change, a ``touch`` included.
    """

    session_id: SessionId
    is_catalogued: bool
    metadata: JsonObject
    created_at: float
    updated_at: float
    run_count: int
    entry_count: int


class SessionCatalog(ABC):
    """The sessions there are: each is in it from ``create`` to ``delete``, with runs or not."""

    @abstractmethod
    async def create(
        self, session_id: str | None = None, *, metadata: JsonObject | None = None
    ) -> SessionInfo:
        """Put a session into the catalog; one that has runs already keeps them.

        Of several that create one id at once, exactly one succeeds. ``metadata`` is the
        application's own JSON object.

        Returns:
            The session, with a fresh unique id where none was given.

        Raises:
            SessionExists: it is there already.
            NotSerializable: ``metadata`` holds what JSON cannot give back exactly.
            RecordTooLarge: ``metadata`` is larger than the backend's limit for heads.
            StorageBusy: others changed the session between reading and writing, every time.
        """

    @abstractmethod
    async def get(self, session_id: str) -> SessionInfo:
        """Read what the catalog says of a session.

        Returns:
            The session.

        Raises:
            SessionNotFound: it is not in the catalog, whether it has runs or not.
            CorruptRecord: what is stored of it cannot be read.
        """

    @abstractmethod
    async def list(
        self,
        *,
        where: JsonObject | None = None,
        after: str | None = None,
        limit: int = 100,
        uncatalogued: bool = False,
    ) -> Page[SessionInfo]:
        """List sessions in the order of their ids' UTF-8 bytes; no content is read.

        ``where`` narrows to those whose metadata has all of its fields, with equal values of the
        same types. ``uncatalogued`` includes sessions that have runs and are not in the catalog;
        they match no ``where``. ``after`` is an id, exclusive, as in ``Page.next``; ``limit`` is
        1 to 1,000.

        Returns:
            A page of sessions; ``next`` is None at the end.

        Raises:
            InvalidFilter: ``where`` is not a JSON object.
            InvalidLimit: ``limit`` is out of its range.
            CorruptRecord: what is stored of a session cannot be read.
        """

    @abstractmethod
    async def touch(self, session_id: str, *, metadata: JsonObject | None = None) -> SessionInfo:
        """Stamp a session as used now, and replace its metadata where some is given.

        Returns:
            The session as it is then.

        Raises:
            SessionNotFound: it is not in the catalog.
            NotSerializable: ``metadata`` holds what JSON cannot give back exactly.
            RecordTooLarge: ``metadata`` is larger than the backend's limit for heads.
            StorageBusy: others changed the session between reading and writing, every time.
            CorruptRecord: what is stored of it cannot be read.
        """

    @abstractmethod
    async def delete(self, session_id: str, *, checkpoints: bool = False) -> bool:
        """Remove a session from the catalog with all of its runs and its archive.

        With ``checkpoints`` those of its runs go, too. The session goes last: after a crash in
        between, deleting it again removes the rest.

        Returns:
            Whether there was one, in the catalog or not.
        """


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    metadata: JsonObject = {}


_head: Codec[_Head] = Codec(_Head)
_metadata: Codec[JsonObject] = Codec(JsonObject)


class LogSessionCatalog(SessionCatalog):
    """The catalog in the heads of the sessions' own logs."""

    def __init__(
        self,
        store: LogStore,
        checkpointer: Checkpointer,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._checkpointer = checkpointer
        self._archive = LogResultArchive(store, clock=clock)
        self._clock = clock

    @override
    async def create(
        self, session_id: str | None = None, *, metadata: JsonObject | None = None
    ) -> SessionInfo:
        log = LogId(kind=KIND, id=new_key() if session_id is None else session_id)
        encoded = _metadata.encode({} if metadata is None else metadata, "metadata")
        head = b'{"metadata":' + encoded + b"}"

        async def attempt() -> SessionInfo:
            state = await self._state(log)
            if state is not None and state.head is not None:
                raise SessionExists(log.id)
            return await self._put(log, head, state)

        return await until_unchallenged(attempt)

    @override
    async def get(self, session_id: str) -> SessionInfo:
        log = LogId(kind=KIND, id=session_id)
        return _info(log, await self._catalogued(log))

    @override
    async def list(
        self,
        *,
        where: JsonObject | None = None,
        after: str | None = None,
        limit: int = 100,
        uncatalogued: bool = False,
    ) -> Page[SessionInfo]:
        check_count("limit", limit, minimum=1, maximum=MAX_LIST_LIMIT)
        _check_filter(where)

        def accept(found: LogInfo) -> SessionInfo | None:
            log = LogId(kind=KIND, id=found.id)
            if found.state is None:
                raise CorruptRecord(log, "it was listed without its state")
            info = _info(log, found.state)
            is_stray = not info.is_catalogued and info.run_count > 0
            is_wanted = info.is_catalogued or (uncatalogued and is_stray and where is None)
            return info if is_wanted and _matches(info.metadata, where or {}) else None

        return await filtered_page(
            self._store, KIND, after=after, limit=limit, accept=accept, is_narrow=True
        )

    @override
    async def touch(self, session_id: str, *, metadata: JsonObject | None = None) -> SessionInfo:
        log = LogId(kind=KIND, id=session_id)
        encoded = None if metadata is None else _metadata.encode(metadata, "metadata")

        async def attempt() -> SessionInfo:
            state = await self._catalogued(log)
            head = state.head or b""
            if encoded is not None:
                fields = raw_object(head, log, "head")
                head = join_object(fields | {"metadata": msgspec.Raw(encoded)})
            return await self._put(log, head, state)

        return await until_unchallenged(attempt)

    @override
    async def delete(self, session_id: str, *, checkpoints: bool = False) -> bool:
        log = LogId(kind=KIND, id=session_id)
        stored = await self._store.read(log, Range(with_data=False)) if checkpoints else None
        for record in stored.records if stored else ():
            await self._checkpointer.delete(record.key)
        await self._archive.delete(session_id)
        return await self._store.delete(log)

    async def _state(self, log: LogId) -> LogState | None:
        stored = await self._store.read(log, Range(limit=0))
        return None if stored is None else stored.state

    async def _catalogued(self, log: LogId) -> LogState:
        state = await self._state(log)
        if state is None or state.head is None:
            raise SessionNotFound(log.id)
        return state

    async def _put(self, log: LogId, head: bytes, before: LogState | None) -> SessionInfo:
        """Set the head of a log that is as it was, and return what the catalog says then."""
        at = self._clock()
        metadata = _read(log, head)
        revision = 0 if before is None else before.revision
        await self._store.append(log, Batch(head=head, expected_revision=revision, at=at))
        return SessionInfo(
            session_id=SessionId(log.id),
            is_catalogued=True,
            metadata=metadata,
            created_at=at if before is None else before.created_at,
            updated_at=at,
            run_count=0 if before is None else before.record_count,
            entry_count=0 if before is None else before.entry_count,
        )


def _info(log: LogId, state: LogState) -> SessionInfo:
    return SessionInfo(
        session_id=SessionId(log.id),
        is_catalogued=state.head is not None,
        metadata={} if state.head is None else _read(log, state.head),
        created_at=state.created_at,
        updated_at=state.updated_at,
        run_count=state.record_count,
        entry_count=state.entry_count,
    )


def _read(log: LogId, head: bytes) -> JsonObject:
    try:
        return _head.decode(head).metadata
    except msgspec.DecodeError as error:
        raise CorruptRecord(log, f"its entry in the catalog cannot be read: {error}") from error


def _check_filter(where: JsonObject | None) -> None:
    """Refuse a filter that cannot be understood: it must never match everything."""
    try:
        if where is not None:
            _metadata.encode(where, "where")
    except NotSerializable:
        raise InvalidFilter("where", where, known=("a JSON object",)) from None


def _matches(metadata: JsonObject, where: JsonObject) -> bool:
    return all(name in metadata and _is_same(metadata[name], where[name]) for name in where)


def _is_same(one: object, other: object) -> bool:
    """Whether two JSON values are equal and of the same types, all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        fields, others = cast("JsonObject", one), cast("JsonObject", other)
        return fields.keys() == others.keys() and _matches(fields, others)
    if isinstance(one, list):
        pairs = zip(cast("list[object]", one), cast("list[object]", other), strict=False)
        return len(cast("list[object]", one)) == len(cast("list[object]", other)) and all(
            _is_same(*pair) for pair in pairs
        )
    return one == other
