"""The ``Session`` contract over a log store: one record is one run's segment."""

import time
from collections.abc import Callable, Sequence

from durably._history import read_last, read_page
from durably._raw import join_items, join_object
from durably._records import decode_segment, encode_segment, split_segment
from durably._retry import until_unchallenged
from durably._typing import override
from durably.archive import LogResultArchive, ResultArchive
from durably.checks import check_count, check_id, check_revision_token
from durably.contracts import Session
from durably.cuts import Cut, call_id_of, find_cut, is_trimmed, kept_items, trim_item
from durably.entries import Entry, JsonObject
from durably.errors import CorruptRecord
from durably.history import DEFAULT_PAGE, HistoryFilter, HistoryItem, HistoryPage
from durably.logstore import Batch, Log, LogId, LogStore, NewRecord, Range, Record, Rewrite, new_key
from durably.rules import check_revision
from durably.runs import Rewound, Segment

__all__ = ["LogSession"]


class LogSession(Session):
    """Sessions kept in logs of the kind ``session``, each run's segment under its run_id."""

    def __init__(self, store: LogStore, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    @override
    async def append(
        self,
        session_id: str,
        entries: Sequence[Entry],
        *,
        run_id: str | None = None,
        meta: JsonObject | None = None,
    ) -> str:
        log = _log(session_id)
        run_id = new_key() if run_id is None else run_id
        check_id("run", run_id)
        data, count = encode_segment(entries, meta)
        record = NewRecord(key=run_id, entry_count=count, data=data)
        await self._store.append(log, Batch(records=(record,), at=self._clock()))
        return run_id

    @override
    async def segments(self, session_id: str) -> list[Segment]:
        log = _log(session_id)
        stored = await self._store.read(log)
        if stored is None:
            return []
        bodies = ((record.key, decode_segment(log, record)) for record in stored.records)
        return [
            Segment(run_id=run_id, entries=body.entries, meta=body.meta) for run_id, body in bodies
        ]

    @override
    async def load(self, session_id: str) -> list[Entry]:
        return [entry for segment in await self.segments(session_id) for entry in segment.entries]

    @override
    async def history(
        self,
        session_id: str,
        *,
        limit: int = DEFAULT_PAGE,
        after: str | None = None,
        types: HistoryFilter | None = None,
    ) -> HistoryPage:
        log = _log(session_id)
        return await read_page(self._store, log, limit=limit, after=after, types=types)

    @override
    async def last(
        self, session_id: str, *, runs: int | None = None, entries: int | None = None
    ) -> list[HistoryItem]:
        return await read_last(self._store, _log(session_id), runs=runs, entries=entries)

    @override
    async def revision(self, session_id: str) -> int:
        stored = await self._store.read(_log(session_id), Range(limit=0))
        return 0 if stored is None else stored.state.revision

    @override
    async def clear(self, session_id: str) -> None:
        log = _log(session_id)
        await LogResultArchive(self._store).delete(session_id)
        await until_unchallenged(lambda: self._clear(log))

    async def _clear(self, log: LogId) -> None:
        """Remove all records, and the log itself unless it is in the catalog."""
        stored = await self._store.read(log, Range(limit=0))
        if stored is None:
            return
        revision = stored.state.revision
        if stored.state.head is None:
            await self._store.delete(log, expected_revision=revision)
            return
        change = Rewrite(expected_revision=revision, drop_after=0, at=self._clock())
        await self._store.rewrite(log, change)

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        check_count("keep_entries", keep_entries)
        log = _log(session_id)
        check_revision_token(expected_revision)
        if expected_revision is not None:
            return await self._rewind(log, keep_entries, expected_revision)
        return await until_unchallenged(lambda: self._rewind(log, keep_entries, None))

    async def _rewind(
        self, log: LogId, keep_entries: int, expected_revision: int | None
    ) -> Rewound:
        stored = await self._store.read(log, Range(with_data=False))
        check_revision(log, stored, expected_revision)
        cut = find_cut(stored.records, keep_entries) if stored else None
        if stored is None or cut is None:
            return Rewound()
        short = await self._cut_short(log, cut)
        gone = short is not None and short.entry_count == 0
        change = Rewrite(
            expected_revision=stored.state.revision,
            drop_after=cut.last_seq - 1 if gone else cut.last_seq,
            replace={} if short is None or gone else {cut.last_seq: short},
            at=self._clock(),
        )
        await self._store.rewrite(log, change)
        return _removed(stored, change)

    async def _cut_short(self, log: LogId, cut: Cut) -> NewRecord | None:
        """Return the record the cut lands in as it will be, None where it lands between two."""
        if cut.keep_of_last is None:
            return None
        span = Range(after=cut.last_seq - 1, until=cut.last_seq)
        stored = await self._store.read(log, span)
        if stored is None or not stored.records:
            return None
        record = stored.records[0]
        fields, items = split_segment(log, record)
        if len(items) != record.entry_count:
            raise CorruptRecord(log, "some of its entries are missing", record=record.key)
        kept = kept_items(items, cut.keep_of_last)
        fields.pop("meta", None)
        fields["entries"] = join_items(kept)
        return NewRecord(data=join_object(fields), entry_count=len(kept))

    @override
    async def trim_tool_results(
        self,
        session_id: str,
        *,
        keep_chars: int = 400,
        keep_runs: int = 1,
        archive: ResultArchive | None = None,
    ) -> int:
        check_count("keep_chars", keep_chars)
        check_count("keep_runs", keep_runs)
        log = _log(session_id)
        return await until_unchallenged(lambda: self._trim(log, keep_chars, keep_runs, archive))

    async def _trim(
        self, log: LogId, keep_chars: int, keep_runs: int, archive: ResultArchive | None
    ) -> int:
        stored = await self._store.read(log)
        if stored is None:
            return 0
        full: list[tuple[str, bytes]] = []
        replace: dict[int, NewRecord] = {}
        for record in stored.records[: max(0, len(stored.records) - keep_runs)]:
            trimmed, results = _trimmed(log, record, keep_chars)
            if results:
                full += results
                replace[record.seq] = NewRecord(data=trimmed, entry_count=record.entry_count)
        if archive is not None:
            await archive.store(log.id, [pair for pair in full if not is_trimmed(pair[1])])
        if replace:
            change = Rewrite(
                expected_revision=stored.state.revision, replace=replace, at=self._clock()
            )
            await self._store.rewrite(log, change)
        return len(full)


def _log(session_id: str) -> LogId:
    return LogId(kind="session", id=session_id)


def _removed(stored: Log, change: Rewrite) -> Rewound:
    """Say what a rewrite removes from the session it was made for."""
    left = 0
    gone: list[str] = []
    short: str | None = None
    for record in stored.records:
        if change.drops(record.seq):
            gone.append(record.key)
        elif (new := change.replace.get(record.seq)) is not None:
            short = record.key
            left += new.entry_count
        else:
            left += record.entry_count
    return Rewound(
        removed_entries=stored.state.entry_count - left,
        removed_run_ids=tuple(gone),
        truncated_run_id=short,
    )


def _trimmed(log: LogId, record: Record, keep_chars: int) -> tuple[bytes, list[tuple[str, bytes]]]:
    """Return a record's data with its tool results trimmed, and those as they were, by call_id."""
    fields, items = split_segment(log, record)
    trimmed = [trim_item(item, keep_chars) for item in items]
    pairs = list(zip(items, trimmed, strict=True))
    fields["entries"] = join_items(old if new is None else new for old, new in pairs)
    full = [(call_id_of(old), bytes(old)) for old, new in pairs if new is not None]
    return join_object(fields), full
