"""Wrong rewinds: not one step, at any revision, with any count, or with other bytes."""

import asyncio
import json

import msgspec
from typing_extensions import override

from durably import CorruptRecord, InvalidLimit, RevisionConflict, Rewound
from durably.logstore import Applied, LogId, Rewrite
from durably_conformance.building import fill, runs, said, shape
from durably_conformance.selftest.delegating import SessionMutation, StoreMutation
from durably_conformance.selftest.noticing import logs_of
from durably_conformance.selftest.spoiling import readable, rebuild, scratch, store_raw, wrong
from durably_conformance.selftest.tracking import Tracked


class LooksAtTheRevisionLate(SessionMutation):
    """Looks at the revision only where there is something to cut."""

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        stored = await readable(self.inner, session_id)
        size = sum(len(one.entries) for one in stored)
        proper = type(keep_entries) is int and type(expected_revision) is int
        if proper and stored and keep_entries >= size and (expected_revision or 0) > 0:
            return Rewound()
        return await self.inner.rewind(
            session_id, keep_entries=keep_entries, expected_revision=expected_revision
        )


class CountsFromTheEnd(SessionMutation):
    """Takes a negative count for one from the end."""

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        keep = keep_entries
        if type(keep) is int and keep < 0:
            keep = max(0, len(await self.inner.load(session_id)) + keep)
        return await self.inner.rewind(
            session_id, keep_entries=keep, expected_revision=expected_revision
        )


class WritesWhatItRead(SessionMutation):
    """Reads the session, cuts it, and writes it back over whatever came in between."""

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        stored = await readable(self.inner, session_id)
        if expected_revision is None and stored:
            copied = await scratch(stored)
            done = await copied.rewind("s", keep_entries=keep_entries)
            await asyncio.sleep(0)
            if done != Rewound():
                await rebuild(self.inner, session_id, await copied.segments("s"))
            return done
        return await self.inner.rewind(
            session_id, keep_entries=keep_entries, expected_revision=expected_revision
        )


class CutsInTwoSteps(SessionMutation):
    """Removes the later runs first, and a moment later cuts short the last one."""

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        first = Rewound()
        if expected_revision is None and type(keep_entries) is int and keep_entries > 0:
            seen = 0
            for one in await readable(self.inner, session_id):
                seen += len(one.entries)
                if seen > keep_entries:
                    first = await self.inner.rewind(session_id, keep_entries=seen)
                    await asyncio.sleep(0)
                    break
        then = await self.inner.rewind(
            session_id, keep_entries=keep_entries, expected_revision=expected_revision
        )
        return Rewound(
            removed_entries=first.removed_entries + then.removed_entries,
            removed_run_ids=(*then.removed_run_ids, *first.removed_run_ids),
            truncated_run_id=then.truncated_run_id,
        )


class WritesJsonAnew(StoreMutation):
    """Decodes and encodes again what a rewind cuts short."""

    @override
    async def rewrite(self, log: LogId, change: Rewrite) -> Applied:
        if log.kind == "session" and change.drop_after is not None:
            anew = {
                seq: msgspec.structs.replace(one, data=json.dumps(json.loads(one.data)).encode())
                for seq, one in change.replace.items()
            }
            change = msgspec.structs.replace(change, replace=anew)
        return await self.inner.rewrite(log, change)


class RemovesBrokenRuns(SessionMutation):
    """Removes a run that it should cut short and cannot read."""

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        while True:
            try:
                return await self.inner.rewind(
                    session_id, keep_entries=keep_entries, expected_revision=expected_revision
                )
            except CorruptRecord:
                keep_entries -= 1


async def ignores_the_revision(place: Tracked) -> bool:
    """Rewind past the end at a revision that never was."""
    sessions = (await place.connect()).sessions
    await fill(sessions, "s", "a1")
    try:
        await sessions.rewind("s", keep_entries=9, expected_revision=7)
    except RevisionConflict:
        return False
    return True


async def takes_a_negative_count(place: Tracked) -> bool:
    """Keep less than nothing."""
    sessions = (await place.connect()).sessions
    await fill(sessions, "s", "a2")
    try:
        await sessions.rewind("s", keep_entries=-1)
    except InvalidLimit:
        return False
    return await shape(sessions, "s") == runs("a1")


async def loses_an_append(place: Tracked) -> bool:
    """Append while a rewind is under way."""
    sessions = (await place.connect()).sessions
    await fill(sessions, "s", "a2")
    rewinding = asyncio.create_task(sessions.rewind("s", keep_entries=1))
    await asyncio.sleep(0)
    await sessions.append("s", said("x"), run_id="x")
    done = await rewinding
    return not done.removed_run_ids and await shape(sessions, "s") == runs("a1")


async def shows_half_a_rewind(place: Tracked) -> bool:
    """Read while a rewind is under way."""
    sessions = (await place.connect()).sessions
    await fill(sessions, "s", "a2 b1")
    rewinding = asyncio.create_task(sessions.rewind("s", keep_entries=1))
    await asyncio.sleep(0)
    seen = await shape(sessions, "s")
    await rewinding
    return seen == runs("a2")


async def writes_other_bytes(place: Tracked) -> bool:
    """Cut short a run with a number written in an odd way."""
    handle = await place.connect()
    items = b'{"type":"x","n":1.0E2},{"type":"x"}'
    await store_raw(handle.log_store, "s", b'{"entries":[' + items + b"]}", entry_count=2)
    await handle.sessions.rewind("s", keep_entries=1)
    stored = await handle.log_store.read(LogId(kind="session", id="s"))
    return b"1.0E2" not in ((stored.records[0].data if stored else None) or b"")


async def cuts_what_it_cannot_read(place: Tracked) -> bool:
    """Cut into a run that is not JSON."""
    handle = await place.connect()
    await store_raw(handle.log_store, "s", b"broken", entry_count=2)
    try:
        await handle.sessions.rewind("s", keep_entries=1)
    except CorruptRecord:
        return False
    return True


MUTANTS = (
    wrong(
        "looks at the revision late",
        "At another revision a rewind is refused, a no-op too.",
        "SES-REW-010",
        "a condition in the statement that writes, and nothing is written",
        ignores_the_revision,
        sessions=LooksAtTheRevisionLate,
    ),
    wrong(
        "counts from the end",
        "A negative count is refused.",
        "SES-REW-011",
        "openai/openai-agents-python#4994",
        takes_a_negative_count,
        sessions=CountsFromTheEnd,
    ),
    wrong(
        "writes back what it cut",
        "An append beside a rewind is ordered before or after it.",
        "SES-REW-012",
        "agno-agi/agno#7479",
        loses_an_append,
        sessions=WritesWhatItRead,
    ),
    wrong(
        "cuts in two steps",
        "A reader sees a session before a rewind or after it.",
        "SES-REW-013",
        "two statements without a transaction",
        shows_half_a_rewind,
        sessions=CutsInTwoSteps,
    ),
    wrong(
        "writes a cut run anew",
        "What this version does not know keeps its bytes in a run cut short.",
        "SES-REW-014",
        "peters/horizon#397",
        writes_other_bytes,
        store=WritesJsonAnew,
        wrapped=logs_of("session"),
    ),
    wrong(
        "removes broken runs",
        "A rewind into a run that cannot be read is refused.",
        "SES-REW-015",
        "an unreadable row taken for an empty one",
        cuts_what_it_cannot_read,
        sessions=RemovesBrokenRuns,
    ),
)
