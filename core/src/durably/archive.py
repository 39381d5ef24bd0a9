"""Where the full outputs of tools go before they are trimmed, and come back from."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from hashlib import blake2b

import msgspec

from durably._paging import in_batches
from durably._records import decode_entries, payload
from durably._typing import override
from durably.entries import ToolResultEntry
from durably.errors import CorruptRecord, InvalidFilter
from durably.logstore import Batch, LogId, LogStore, NewRecord, Range

__all__ = ["ARCHIVE", "LogResultArchive", "ResultArchive"]

ARCHIVE = "archive"
"""The kind of log that holds a session's archive, under the session's id."""

DIGEST_BYTES = 16


class ResultArchive(ABC):
    """Full tool results by session and ``call_id``, each stored once."""

    @abstractmethod
    async def store(self, session_id: str, results: Sequence[tuple[str, bytes]]) -> None:
        """Store tool results: pairs of a ``call_id`` and the JSON of a ``ToolResultEntry``.

        It must be durable when this returns, since what it holds is then shortened elsewhere.
        Storing the same pair again must change nothing.

        Raises:
            RecordTooLarge: a result is larger than the backend's limit.
        """

    @abstractmethod
    async def recall(self, session_id: str, call_id: str) -> list[ToolResultEntry]:
        """Read the results of a call, as they were before they were trimmed.

        Returns:
            The results, in the order they were stored: several where calls shared an id; an
            empty list if none was archived.

        Raises:
            InvalidFilter: ``call_id`` is not text.
            CorruptRecord: stored bytes cannot be read.
        """

    @abstractmethod
    async def delete(self, session_id: str) -> bool:
        """Remove the archive of a session.

        Returns:
            Whether there was one.
        """


class LogResultArchive(ResultArchive):
    """An archive in a log of its own beside each session's."""

    def __init__(self, store: LogStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    @override
    async def store(self, session_id: str, results: Sequence[tuple[str, bytes]]) -> None:
        log = LogId(kind=ARCHIVE, id=session_id)
        unique = {_key(call_id, data): data for call_id, data in results}
        records = [NewRecord(key=key, data=data) for key, data in unique.items()]
        for batch in in_batches(records):
            await self._store.append(log, Batch(records=batch, at=self._clock()))

    @override
    async def recall(self, session_id: str, call_id: str) -> list[ToolResultEntry]:
        if type(call_id) is not str:
            raise InvalidFilter("call_id", call_id, known=("text",))
        log = LogId(kind=ARCHIVE, id=session_id)
        index = await self._store.read(log, Range(with_data=False))
        prefix = _digest(call_id.encode("utf-8", "surrogatepass"))
        keys = frozenset(
            record.key
            for record in (index.records if index else ())
            if record.key[: len(prefix)] == prefix
        )
        stored = await self._store.read(log, Range(keys=keys)) if keys else None
        found: list[ToolResultEntry] = []
        for record in stored.records if stored else ():
            (entry,) = decode_entries([msgspec.Raw(payload(log, record))], log, record.key)
            if not isinstance(entry, ToolResultEntry):
                raise CorruptRecord(log, "it is no tool result", record=record.key)
            found.append(entry)
        return found

    @override
    async def delete(self, session_id: str) -> bool:
        return await self._store.delete(LogId(kind=ARCHIVE, id=session_id))


def _key(call_id: str, data: bytes) -> str:
    return f"{_digest(call_id.encode('utf-8', 'surrogatepass'))}:{_digest(data)}"


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()
