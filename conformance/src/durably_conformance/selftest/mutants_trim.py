"""Wrong trims: outputs cut elsewhere, counted otherwise, or made longer."""

import re

import msgspec
from typing_extensions import override

from durably import Entry, ResultArchive, Segment, ToolResultEntry
from durably_conformance.building import result
from durably_conformance.selftest.delegating import SessionMutation
from durably_conformance.selftest.mutating import MemoryMutant
from durably_conformance.selftest.spoiling import SpoiledTrim, readable, wrong
from durably_conformance.selftest.table import Variant
from durably_conformance.selftest.tracking import Tracked

LONG = "abcd" * 100
TRIMMED = "\n[99 characters trimmed]"


_MARK = re.compile(r"\n\[(\d+) characters trimmed\]\Z")


def _with(entry: ToolResultEntry, **fields: object) -> ToolResultEntry:
    return msgspec.structs.replace(entry, **fields)


class KeepsTheEnd(SpoiledTrim):
    """Keeps the last characters of an output in the place of the first."""

    @override
    def spoil(self, old: ToolResultEntry, new: ToolResultEntry, keep: int) -> ToolResultEntry:
        if new == old or old.trimmed_chars or not keep:
            return new
        return _with(new, output=old.output[-keep:] + new.output[keep:])


class CountsTheLastTrim(SpoiledTrim):
    """Tells how many characters the last trim took, not all of them."""

    @override
    def spoil(self, old: ToolResultEntry, new: ToolResultEntry, keep: int) -> ToolResultEntry:
        if new == old or not old.trimmed_chars:
            return new
        return _with(new, trimmed_chars=new.trimmed_chars - old.trimmed_chars)


class TrimsOnce(SpoiledTrim):
    """Leaves a result alone that it trimmed before."""

    @override
    def spoil(self, old: ToolResultEntry, new: ToolResultEntry, keep: int) -> ToolResultEntry:
        return old if old.trimmed_chars else new


class AlwaysMarks(SpoiledTrim):
    """Cuts every output that is longer than asked for, though the marker makes it longer."""

    @override
    def spoil(self, old: ToolResultEntry, new: ToolResultEntry, keep: int) -> ToolResultEntry:
        gone = len(old.output) - keep
        if new != old or old.trimmed_chars or not 0 < gone < len(TRIMMED):
            return new
        marked = f"{old.output[:keep]}\n[{gone} characters trimmed]"
        return _with(new, output=marked, trimmed_chars=gone)


class KeepsRaw(SpoiledTrim):
    """Leaves a trimmed result its raw."""

    @override
    def spoil(self, old: ToolResultEntry, new: ToolResultEntry, keep: int) -> ToolResultEntry:
        return _with(new, raw=old.raw)


class ForgetsErrors(SpoiledTrim):
    """Writes a trimmed result without is_error."""

    @override
    def spoil(self, old: ToolResultEntry, new: ToolResultEntry, keep: int) -> ToolResultEntry:
        return new if new == old else _with(new, is_error=False)


class CountsRunsWithEntries(SessionMutation):
    """Counts as the last runs only those that have entries."""

    @override
    async def trim_tool_results(
        self,
        session_id: str,
        *,
        keep_chars: int = 400,
        keep_runs: int = 1,
        archive: ResultArchive | None = None,
    ) -> int:
        keep = keep_runs
        if type(keep_runs) is int and keep_runs > 0:
            stored = await readable(self.inner, session_id)
            full = [number for number, one in enumerate(stored) if one.entries]
            first = full[-keep_runs] if keep_runs <= len(full) else 0
            keep = max(keep_runs, len(stored) - first)
        return await self.inner.trim_tool_results(
            session_id, keep_chars=keep_chars, keep_runs=keep, archive=archive
        )


class CountsBytes(SpoiledTrim):
    """Counts the bytes of an output."""

    @override
    def spoil(self, old: ToolResultEntry, new: ToolResultEntry, keep: int) -> ToolResultEntry:
        if new == old or old.output.isascii():
            return new
        kept = old.output.encode()[:keep].decode(errors="ignore")
        gone = len(old.output) + old.trimmed_chars - len(kept)
        return _with(new, output=f"{kept}\n[{gone} characters trimmed]", trimmed_chars=gone)


class ReadsTheMarker(SpoiledTrim):
    """Takes an output that ends with a marker for a trimmed one."""

    @override
    def spoil(self, old: ToolResultEntry, new: ToolResultEntry, keep: int) -> ToolResultEntry:
        found = _MARK.search(old.output)
        if old.trimmed_chars or new == old or found is None:
            return new
        return _with(new, trimmed_chars=int(found[1]) + found.start() - keep)


class OtherMarker(SessionMutation):
    """Marks trimmed outputs with one character of its own."""

    @override
    async def segments(self, session_id: str) -> list[Segment]:
        return [
            msgspec.structs.replace(one, entries=[self._marked(entry) for entry in one.entries])
            for one in await self.inner.segments(session_id)
        ]

    @override
    async def load(self, session_id: str) -> list[Entry]:
        return [entry for one in await self.segments(session_id) for entry in one.entries]

    def _marked(self, entry: Entry) -> Entry:
        if not isinstance(entry, ToolResultEntry) or not entry.trimmed_chars:
            return entry
        return _with(entry, output=_MARK.sub("\u2026", entry.output))


async def _trim(place: Tracked, output: str, *lengths: int, **more: object) -> ToolResultEntry:
    """Trim a result to some lengths, one after the other."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", [result("c", output, **more)])
    for keep_chars in lengths:
        await sessions.trim_tool_results("s", keep_chars=keep_chars, keep_runs=0)
    (entry,) = await sessions.load("s")
    return entry if isinstance(entry, ToolResultEntry) else result("none")


async def keeps_the_end(place: Tracked) -> bool:
    """Trim, and look at the beginning."""
    return (await _trim(place, "ab" + LONG, 2)).output.startswith("cd")


async def counts_the_last_trim(place: Tracked) -> bool:
    """Trim twice, further."""
    return (await _trim(place, LONG, 200, 100)).trimmed_chars == 100


async def trims_once(place: Tracked) -> bool:
    """Trim twice, further."""
    return (await _trim(place, LONG, 200, 100)).trimmed_chars == 200


async def makes_it_longer(place: Tracked) -> bool:
    """Trim by one character."""
    return len((await _trim(place, "abcdefgh", 7)).output) > len("abcdefgh")


async def keeps_raw(place: Tracked) -> bool:
    """Trim a result with raw."""
    return bool((await _trim(place, LONG, 10, raw=[1])).raw)


async def forgets_an_error(place: Tracked) -> bool:
    """Trim the result of a call that failed."""
    return not (await _trim(place, LONG, 10, is_error=True)).is_error


async def spares_too_much(place: Tracked) -> bool:
    """Trim all but the last run, which has no entries."""
    sessions = (await place.connect()).sessions
    await sessions.append("s", [result("c", LONG)])
    await sessions.append("s", [])
    return await sessions.trim_tool_results("s", keep_chars=10) == 0


async def counts_bytes(place: Tracked) -> bool:
    """Trim a text of two bytes a character."""
    return "\u00e9" * 6 not in (await _trim(place, "\u00e9" * 100, 6)).output


async def believes_a_text(place: Tracked) -> bool:
    """Trim an output that ends like a trimmed one."""
    trimmed = await _trim(place, LONG + "\n[5 characters trimmed]", 10)
    return trimmed.trimmed_chars == 5 + len(LONG) - 10


MUTANTS = (
    wrong(
        "trims the beginning",
        "A trimmed output keeps its first characters.",
        "SES-TRIM-001",
        "yaalalabs/agent-kernel#739",
        keeps_the_end,
        sessions=KeepsTheEnd,
    ),
    wrong(
        "counts the last trim",
        "trimmed_chars tells of all that went.",
        "SES-TRIM-003",
        "a count computed from the text as it is stored now",
        counts_the_last_trim,
        sessions=CountsTheLastTrim,
    ),
    wrong(
        "trims once",
        "Trimming to a smaller length trims further.",
        "SES-TRIM-003",
        "a flag that says trimmed, in the place of a count",
        trims_once,
        sessions=TrimsOnce,
    ),
    wrong(
        "marks short outputs",
        "An output is never made longer.",
        "SES-TRIM-004",
        "the length of the marker forgotten",
        makes_it_longer,
        sessions=AlwaysMarks,
    ),
    wrong(
        "keeps raw",
        "A trimmed result loses raw and parts.",
        "SES-TRIM-005",
        "a large output cut in the text and kept beside it",
        keeps_raw,
        sessions=KeepsRaw,
    ),
    wrong(
        "forgets errors",
        "is_error of a trimmed result stays.",
        "SES-TRIM-006",
        "a result built anew from the fields that came to mind",
        forgets_an_error,
        sessions=ForgetsErrors,
    ),
    wrong(
        "counts runs with entries",
        "Runs without entries count among the last ones.",
        "SES-TRIM-007",
        "runs counted by their entries",
        spares_too_much,
        sessions=CountsRunsWithEntries,
    ),
    wrong(
        "counts bytes",
        "Lengths are in characters.",
        "SES-TRIM-008",
        "SUBSTR of a BLOB",
        counts_bytes,
        sessions=CountsBytes,
    ),
    wrong(
        "reads the marker",
        "A whole output that ends like a trimmed one is trimmed like any.",
        "SES-TRIM-009",
        "a regular expression in the place of a field",
        believes_a_text,
        sessions=ReadsTheMarker,
    ),
)


VARIANTS = (
    Variant(
        name="another marker",
        says="What ends a trimmed output is another text.",
        harness=lambda: MemoryMutant("another marker", sessions=OtherMarker),
    ),
)
