"""Work over a session and the runs behind it, in an order in which every crash is harmless."""

from durably._records import split_segment
from durably._retry import until_unchallenged
from durably.checks import check_count, check_id, check_revision_token
from durably.contracts import Checkpointer, Session
from durably.cuts import Cut, find_cut, kept_items
from durably.entries import drop_dangling_tool_calls
from durably.errors import RunNotFound
from durably.logstore import LogId, LogStore, Range
from durably.rules import check_revision
from durably.runs import Rewound, segment_meta

__all__ = ["finish", "rewind"]


async def rewind(
    store: LogStore,
    sessions: Session,
    checkpointer: Checkpointer,
    session_id: str,
    *,
    keep_entries: int,
    expected_revision: int | None,
) -> Rewound:
    """Rewind a session and remove the checkpoints of the runs that go; see ``Storage.rewind``."""
    check_count("keep_entries", keep_entries)
    check_revision_token(expected_revision)
    log = LogId(kind="session", id=session_id)

    async def attempt() -> Rewound:
        stored = await store.read(log, Range(with_data=False))
        check_revision(log, stored, expected_revision)
        cut = find_cut(stored.records, keep_entries) if stored else None
        if stored is None or cut is None:
            return Rewound()
        first = cut.last_seq if await _cuts_to_nothing(store, log, cut) else cut.last_seq + 1
        for record in stored.records:
            if record.seq >= first:
                await checkpointer.delete(record.key)
        return await sessions.rewind(
            session_id, keep_entries=keep_entries, expected_revision=stored.state.revision
        )

    if expected_revision is not None:
        return await attempt()
    return await until_unchallenged(attempt)


async def _cuts_to_nothing(store: LogStore, log: LogId, cut: Cut) -> bool:
    """Whether the run the cut lands in goes as well: all that is kept of it is without a result.

    Raises:
        CorruptRecord: it cannot be read.
    """
    if cut.keep_of_last is None:
        return False
    stored = await store.read(log, Range(after=cut.last_seq - 1, until=cut.last_seq))
    for record in stored.records if stored else ():
        _, items = split_segment(log, record)
        return not kept_items(items, cut.keep_of_last)
    return False


async def finish(
    store: LogStore,
    sessions: Session,
    checkpointer: Checkpointer,
    run_id: str,
    session_id: str,
    *,
    now: float,
) -> bool:
    """Record an abandoned run as a segment of a session; see ``Storage.finish``."""
    check_id("session", session_id)
    claim = await checkpointer.claim(run_id)
    snapshot = claim.snapshot
    if snapshot is None:
        span = Range(keys=frozenset({run_id}), with_data=False)
        stored = await store.read(LogId(kind="session", id=session_id), span)
        if stored is None or not stored.records:
            raise RunNotFound(run_id)
        return False
    entries = drop_dangling_tool_calls(snapshot.entries)
    meta = segment_meta(snapshot.head, finished_at=now)
    await sessions.append(session_id, entries, run_id=run_id, meta=meta)
    return await claim.delete()
