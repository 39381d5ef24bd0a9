"""One namespace of a bucket: objects read as what they are, and what is remembered of them."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from durably import CorruptRecord, DurablyError, SchemaTooNew
from durably.logstore import LogId, Record
from durably_s3 import _chunks as chunks
from durably_s3 import _tip as tips
from durably_s3._bucket import Bucket, Lost, Unsure
from durably_s3._chunks import Chunk, Index, Spoiled, TooNew
from durably_s3._keys import Keys
from durably_s3._patience import Patience
from durably_s3._planning import Contents
from durably_s3._tip import Tip

__all__ = ["Area", "Memory", "Seen", "Vanished", "too_new"]

T = TypeVar("T")

TIPS_KEPT = 64
ROWS_KEPT = 200_000
"""Of chunks' indexes; a row takes about 300 bytes."""


class Vanished(Exception):
    """A chunk is not there: others merged or rewrote it since its tip was read, or it is lost."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What lay under a tip's name: the tip, None for a tombstone or nothing, and its ETag.

    ``spoiled`` says that it is neither, and whoever deletes the log need not know what.
    """

    tip: Tip | None = None
    etag: str | None = None
    data: bytes = b""
    spoiled: bool = False


class Memory:
    """The tips last seen and the contents of chunks last used, shared by all namespaces.

    ``can_delete`` says whether the server heeds a condition on a deletion, ``is_ordered`` whether
    it lists keys in the order of their bytes.
    """

    can_delete = False
    is_ordered = False

    def __init__(self) -> None:
        self._tips: OrderedDict[str, Seen] = OrderedDict()
        self._contents: OrderedDict[str, Contents] = OrderedDict()
        self._rows = 0

    def tip(self, key: str) -> Seen | None:
        """Return what was last seen under a tip's name."""
        return self._tips.get(key)

    def keep_tip(self, key: str, seen: Seen) -> None:
        """Remember what lies under a tip's name."""
        self._tips[key] = seen
        self._tips.move_to_end(key)
        if len(self._tips) > TIPS_KEPT:
            self._tips.popitem(last=False)

    def forget_tip(self, key: str) -> None:
        """Forget what lies under a tip's name."""
        self._tips.pop(key, None)

    def contents(self, key: str) -> Contents | None:
        """Return the contents of a chunk, which never change."""
        found = self._contents.get(key)
        if found is not None:
            self._contents.move_to_end(key)
        return found

    def keep_contents(self, key: str, index: Index) -> Contents:
        """Remember the contents of a chunk."""
        self.forget_contents(key)
        kept = self._contents[key] = Contents(index)
        self._rows += len(index.rows)
        while self._rows > ROWS_KEPT and len(self._contents) > 1:
            _, gone = self._contents.popitem(last=False)
            self._rows -= len(gone.index.rows)
        return kept

    def forget_contents(self, key: str) -> None:
        """Forget the contents of a chunk that is gone."""
        gone = self._contents.pop(key, None)
        if gone is not None:
            self._rows -= len(gone.index.rows)


class Area:
    """Reads the logs of one namespace."""

    def __init__(self, bucket: Bucket, keys: Keys, memory: Memory) -> None:
        self.bucket = bucket
        self.keys = keys
        self.memory = memory

    async def look(self, log: LogId, patience: Patience) -> Seen:
        """Return the tip as it is now; one that was seen before is not transferred again.

        Raises:
            CorruptRecord: it is not what was written.
        """
        key = self.keys.tip(log)
        before = self.memory.tip(key)
        unless = None if before is None else before.etag
        found = await patience.insist(lambda: self.bucket.get(key, unless=unless))
        if found is None:
            return self._keep(key, Seen())
        if before is not None and found.etag == before.etag:
            return before
        tip = self._read(log, key, lambda: tips.read(found.data))
        return self._keep(key, Seen(tip=tip, etag=found.etag, data=found.data))

    def _keep(self, key: str, seen: Seen) -> Seen:
        self.memory.keep_tip(key, seen)
        return seen

    async def look_at_any(self, log: LogId, patience: Patience) -> Seen:
        """Return the tip as it is now, or that it is spoiled."""
        try:
            return await self.look(log, patience)
        except CorruptRecord:
            key = self.keys.tip(log)
            found = await patience.insist(lambda: self.bucket.get(key))
            return Seen() if found is None else Seen(etag=found.etag, spoiled=True)

    async def contents(
        self, log: LogId, wanted: Iterable[Chunk], patience: Patience
    ) -> dict[str, Contents]:
        """Return the contents of chunks, by name.

        Raises:
            Vanished: one is not there.
            CorruptRecord: one is not what was written.
        """
        listed = list(wanted)
        found = await asyncio.gather(*(self._contents(log, one, patience) for one in listed))
        return {chunk.name: one for chunk, one in zip(listed, found, strict=True)}

    async def _contents(self, log: LogId, chunk: Chunk, patience: Patience) -> Contents:
        key = self.keys.chunk(log, chunk.name)
        kept = self.memory.contents(key)
        if kept is not None:
            return kept
        data = await self._part(key, chunks.index_range(chunk), patience)
        index = await self.bucket.work(
            lambda: self._read(log, key, lambda: chunks.read_index(chunk, data))
        )
        return self.memory.keep_contents(key, index)

    async def whole(
        self, log: LogId, chunk: Chunk, patience: Patience
    ) -> tuple[Index, Sequence[bytes]]:
        """Return the index and the blocks of a chunk.

        Raises:
            Vanished: it is not there.
            CorruptRecord: it is not what was written.
        """
        key = self.keys.chunk(log, chunk.name)
        found = await patience.insist(lambda: self.bucket.get(key))
        if found is None:
            raise Vanished(key)
        return await self.bucket.work(
            lambda: self._read(log, key, lambda: chunks.split(chunk, found.data))
        )

    async def records(self, log: LogId, chunk: Chunk, patience: Patience) -> list[Record]:
        """Return all records of a chunk.

        Raises: as ``whole``.
        """
        key = self.keys.chunk(log, chunk.name)
        index, blocks = await self.whole(log, chunk, patience)
        return await self.bucket.work(
            lambda: self._read(log, key, lambda: list(chunks.read_records(index, blocks)))
        )

    async def some_records(
        self, log: LogId, chunk: Chunk, index: Index, seqs: frozenset[int], patience: Patience
    ) -> list[Record]:
        """Return some records of a chunk, from as few of its bytes as hold them.

        Raises: as ``whole``.
        """
        key = self.keys.chunk(log, chunk.name)
        spans = chunks.spans_of(chunk, index, seqs)
        parts = await asyncio.gather(
            *(self._part(key, (span.start, span.end), patience) for span in spans)
        )
        blocks = chunks.blocks_of(index, zip(spans, parts, strict=True))
        found = await self.bucket.work(
            lambda: self._read(log, key, lambda: list(chunks.read_records(index, blocks)))
        )
        return [record for record in found if record.seq in seqs]

    async def remove_tombstone(self, log: LogId, etag: str) -> None:
        """Remove a tombstone, unless somebody put a new tip in its place.

        Where the server heeds no condition on a deletion it stays.
        """
        if self.memory.can_delete:
            with contextlib.suppress(DurablyError, Lost, Unsure):  # garbage will be collected
                await self.bucket.delete(self.keys.tip(log), match=etag)

    async def _part(self, key: str, span: tuple[int, int], patience: Patience) -> bytes:
        if span[0] == span[1]:  # of no bytes none can be asked for
            return b""
        found = await patience.insist(lambda: self.bucket.get(key, span=span))
        if found is None:
            raise Vanished(key)
        return found.data

    def _read(self, log: LogId, key: str, read: Callable[[], T]) -> T:
        try:
            return read()
        except Spoiled as spoiled:
            raise CorruptRecord(log, f"its object {key}: {spoiled}") from None
        except TooNew:
            raise too_new(key) from None


def too_new(key: str) -> SchemaTooNew:
    """Return what is raised for an object of a later format."""
    return SchemaTooNew(f"the object {key}", found=2, supported=1, distribution="durably-s3")
