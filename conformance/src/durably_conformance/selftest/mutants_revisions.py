"""Wrong revisions of a session, and odd ones."""

from collections.abc import Sequence
from hashlib import sha256

from typing_extensions import override

from durably import Entry, JsonObject, ResultArchive, RevisionConflict, Rewound
from durably.logstore import new_key
from durably_conformance.building import result, said
from durably_conformance.selftest.delegating import SessionMutation
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.spoiling import SpoiledAppend, readable, wrong
from durably_conformance.selftest.table import Variant
from durably_conformance.selftest.tracking import Tracked


class HashedRevision(SessionMutation):
    """Takes a hash of the entries for the revision."""

    @override
    async def revision(self, session_id: str) -> int:
        if not await self.inner.revision(session_id):
            return 0
        stored = await readable(self.inner, session_id)
        digest = sha256(repr([one.entries for one in stored]).encode()).digest()
        return int.from_bytes(digest[:5]) + 1

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        return await translated(self, session_id, keep_entries, expected_revision)


class TrimKeepsRevision(SessionMutation):
    """Does not move the revision with a trim."""

    @override
    async def revision(self, session_id: str) -> int:
        lag: int = self.shared.get(f"lag {session_id}", 0)
        return await self.inner.revision(session_id) - lag

    @override
    async def trim_tool_results(
        self,
        session_id: str,
        *,
        keep_chars: int = 400,
        keep_runs: int = 1,
        archive: ResultArchive | None = None,
    ) -> int:
        before = await self.inner.revision(session_id)
        count = await self.inner.trim_tool_results(
            session_id, keep_chars=keep_chars, keep_runs=keep_runs, archive=archive
        )
        moved = await self.inner.revision(session_id) - before
        self.shared[f"lag {session_id}"] = self.shared.get(f"lag {session_id}", 0) + moved
        return count

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        return await translated(self, session_id, keep_entries, expected_revision)

    @override
    async def clear(self, session_id: str) -> None:
        self.shared.pop(f"lag {session_id}", None)
        await self.inner.clear(session_id)


async def translated(
    sessions: SessionMutation, session_id: str, keep: int, expected: int | None
) -> Rewound:
    """Rewind at a revision that is not the one of ``inner``."""
    real = await sessions.inner.revision(session_id)
    if type(expected) is int and expected >= 0:
        found = await sessions.revision(session_id)
        if found != expected:
            raise RevisionConflict(session_id, expected=expected, actual=found)
        expected = real
    return await sessions.inner.rewind(session_id, keep_entries=keep, expected_revision=expected)


class OtherTokens(SpoiledAppend):
    """Has revisions that go down in steps of three, and run ids of its own shape."""

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        made = f"run:\u00e9/{new_key()}" if run_id is None else run_id
        return await super().put(session_id, entries, made, meta)

    @override
    async def revision(self, session_id: str) -> int:
        found = await self.inner.revision(session_id)
        return 2**52 - 3 * found if found else 0

    @override
    async def rewind(
        self, session_id: str, *, keep_entries: int, expected_revision: int | None = None
    ) -> Rewound:
        return await translated(self, session_id, keep_entries, expected_revision)


async def gives_a_revision_again(place: Tracked) -> bool:
    """Compare the revisions of two lives of a session."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", said("a"))
    before = await sessions.revision("s")
    await sessions.clear("s")
    await sessions.append("s", said("a"))
    return await sessions.revision("s") == before


async def does_not_count_a_trim(place: Tracked) -> bool:
    """Compare the revisions before and after a trim."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", [result("c", "long" * 200)])
    before = await sessions.revision("s")
    trimmed = await sessions.trim_tool_results("s", keep_runs=0)
    return trimmed == 1 and await sessions.revision("s") == before


MUTANTS = (
    wrong(
        "hashed revision",
        "A revision never comes back, not in a session's next life either.",
        "SES-REV-001",
        "an ETag of the content in the place of a version",
        gives_a_revision_again,
        sessions=HashedRevision,
    ),
    wrong(
        "trims without a revision",
        "Every change moves the revision, a trim too.",
        "SES-REV-002",
        "an UPDATE past the method that counts the version",
        does_not_count_a_trim,
        sessions=TrimKeepsRevision,
    ),
)


VARIANTS = (
    Variant(
        name="other tokens",
        says="Revisions go down in steps of three; fresh run ids look otherwise.",
        harness=lambda: MemoryMutant("other tokens", sessions=OtherTokens),
    ),
)
