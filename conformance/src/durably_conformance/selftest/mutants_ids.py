"""Wrong ids: two are taken for one, and none for one."""

import unicodedata
from collections.abc import Sequence
from urllib.parse import unquote

from typing_extensions import override

from durably import (
    Entry,
    InvalidId,
    JsonObject,
)
from durably_conformance.building import said
from durably_conformance.selftest.spoiling import SpoiledAppend, SpoiledIds, wrong
from durably_conformance.selftest.tracking import Tracked


def is_text(value: str) -> bool:
    """Whether an id is one at all."""
    return type(value) is str and value.isprintable()


class FoldsCase(SpoiledIds):
    """Compares session ids without regard to case."""

    @override
    def session(self, session_id: str) -> str:
        return session_id.casefold() if is_text(session_id) else session_id


class Normalises(SpoiledIds):
    """Keeps session ids as composed characters."""

    @override
    def session(self, session_id: str) -> str:
        return unicodedata.normalize("NFC", session_id) if is_text(session_id) else session_id


class CutsLongIds(SpoiledIds):
    """Keeps the first 255 bytes of a session id."""

    @override
    def session(self, session_id: str) -> str:
        if not is_text(session_id) or len(session_id.encode()) > 256:
            return session_id
        return session_id.encode()[:255].decode(errors="ignore")


class Unescapes(SpoiledIds):
    """Reads a session id as a part of a URL."""

    @override
    def session(self, session_id: str) -> str:
        return unquote(session_id) if is_text(session_id) else session_id


class FoldsRuns(SpoiledIds):
    """Compares run ids in a session without regard to case."""

    @override
    def run(self, run_id: str) -> str:
        return run_id.casefold() if is_text(run_id) else run_id


class HasADefaultSession(SpoiledIds):
    """Takes no session id for that of a default session."""

    @override
    def session(self, session_id: str) -> str:
        return session_id or "default"


class TakesNoIdForNone(SpoiledAppend):
    """Makes a run_id where an empty one is given."""

    @override
    async def put(
        self, session_id: str, entries: Sequence[Entry], run_id: str | None, meta: JsonObject | None
    ) -> str:
        return await super().put(session_id, entries, run_id or None, meta)


async def _mixes(place: Tracked, one: str, other: str) -> bool:
    """Append to two sessions and look whether they are one."""
    sessions = (await place.connect()).sessions
    await sessions.append(one, said("a"))
    await sessions.append(other, said("b"))
    return await sessions.load(one) == said("a", "b")


async def mixes_cases(place: Tracked) -> bool:
    """Use ids that differ in case."""
    return await _mixes(place, "foo", "FOO")


async def mixes_forms(place: Tracked) -> bool:
    """Use ids that differ in the form of a character."""
    return await _mixes(place, "caf\u00e9", "cafe\u0301")


async def mixes_long_ids(place: Tracked) -> bool:
    """Use ids that differ in their last byte."""
    return await _mixes(place, "a" * 256, "a" * 255 + "b")


async def mixes_escapes(place: Tracked) -> bool:
    """Use an id and how it looks in a URL."""
    return await _mixes(place, "a/b", "a%2Fb")


async def mixes_runs(place: Tracked) -> bool:
    """Append two runs whose ids differ in case."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", said("a"), run_id="foo")
    await sessions.append("s", said("b"), run_id="FOO")
    return await sessions.load("s") == said("a")


async def takes_no_session_id(place: Tracked) -> bool:
    """Append without a session_id."""
    sessions = (await place.connect()).sessions
    try:
        await sessions.append("", said("a"))
    except InvalidId:
        return False
    return True


async def takes_no_run_id(place: Tracked) -> bool:
    """Append with an empty run_id."""
    sessions = (await place.connect()).sessions
    try:
        await sessions.append("s", said("a"), run_id="")
    except InvalidId:
        return False
    return True


MUTANTS = (
    wrong(
        "folds the case of sessions",
        "Ids are compared exactly: no case folding.",
        "SES-ID-001",
        "a column with COLLATE NOCASE, or a folder on a disk that folds case",
        mixes_cases,
        sessions=FoldsCase,
    ),
    wrong(
        "normalises sessions",
        "Ids are compared exactly: no normalisation.",
        "SES-ID-001",
        "a folder for each session, on HFS+",
        mixes_forms,
        sessions=Normalises,
    ),
    wrong(
        "cuts long ids",
        "Ids of up to 256 bytes are told apart to the last.",
        "SES-ID-001",
        "VARCHAR(255), where what is too long is cut with a warning",
        mixes_long_ids,
        sessions=CutsLongIds,
    ),
    wrong(
        "unescapes ids",
        "Ids are encoded so that no two become one.",
        "SES-ID-001",
        "strands-agents/harness-sdk#680",
        mixes_escapes,
        sessions=Unescapes,
    ),
    wrong(
        "folds the case of runs",
        "Every legal run_id names a run of its own in a session.",
        "SES-ID-002",
        "a column with COLLATE NOCASE",
        mixes_runs,
        sessions=FoldsRuns,
    ),
    wrong(
        "has a default session",
        "An empty session_id is refused.",
        "SES-ID-003",
        "session_id or 'default'",
        takes_no_session_id,
        sessions=HasADefaultSession,
    ),
    wrong(
        "takes an empty run_id for none",
        "An empty run_id is refused.",
        "SES-ID-004",
        "run_id or new_id()",
        takes_no_run_id,
        sessions=TakesNoIdForNone,
    ),
)
