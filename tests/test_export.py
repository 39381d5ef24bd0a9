"""Exports: what they hold, that they come back as they were, and how broken ones are refused."""

import gzip
import json

import pytest

import durably
from builders import plant, said
from disturbed import Interposing
from durably import (
    Copied,
    CopyConflict,
    CorruptRecord,
    DurablyError,
    InvalidExport,
    InvalidFilter,
    InvalidId,
    RecordTooLarge,
    RunHead,
    StateSnapshot,
    Storage,
)
from durably._paging import PORTION_RECORDS
from durably.export import is_export
from durably.logstore import ALL, LogId
from exports import STRANGE, digest, fill, lines, plant_strange
from faults import Metered

SECRET = "hunter2"  # noqa: S105 - content that must not be repeated
PREAMBLE = b'{"durably":"export","format":1}\n'


def whole(*lines):
    """Return an export of some lines, with its first and its last one."""
    return [PREAMBLE, *(line + b"\n" for line in lines), b'{"end":%d}\n' % len(lines)]


@pytest.fixture
async def other():
    async with durably.open("memory://") as storage:
        yield storage


async def test_it_reads_like_this(place):
    """A line for a log with its head and times, then its records, in the order of kinds and ids."""
    async with place.open(clock=lambda: 1.5) as storage:
        await storage.sessions.append("b", [], run_id="r1", meta={"x": 1})
        await storage.catalog.create("a")
        await storage.checkpointer.append("c", [], RunHead(turns=2))
        await plant(place, "archive", "d", b"\xff", key="k", entry_count=0)
        found = await lines(storage)
    assert found[:5] == [
        PREAMBLE,
        b'{"kind":"session","id":"a","head":{"metadata":{}},"created_at":1.5,"updated_at":1.5}\n',
        b'{"kind":"session","id":"b"}\n',
        b'{"key":"r1","entries":0,"at":1.5,"data":{"entries":[],"meta":{"x":1}}}\n',
        b'{"kind":"run","id":"c","head":{"turns":2},"created_at":1.5,"updated_at":1.5}\n',
    ]
    assert json.loads(found[5]) == {"kind": "archive", "id": "d"}
    assert json.loads(found[6]) | {"at": 0} == {"key": "k", "entries": 0, "at": 0, "base64": "/w=="}
    assert found[7:] == [b'{"end":6}\n']


async def test_what_nobody_understands_keeps_its_bytes(place, other, tmp_path):
    """Unknown fields and types, and data that is no JSON, come back byte for byte, line by line."""
    await plant_strange(place)
    async with place.open() as storage:
        found = await lines(storage)
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in found)
    assert all(json.loads(line) for line in found)
    as_it_is = [data for data in STRANGE.values() if any(b'"data":' + data in x for x in found)]
    assert as_it_is[:2] == [STRANGE["unknown fields"], STRANGE["an unknown entry type"]]
    await other.import_lines(found)
    for number, data in enumerate(STRANGE.values()):
        for kind in ("session", "run", "thread", "archive"):
            stored = await other.log_store.read(LogId(kind=kind, id=f"strange {number}"))
            assert [one.data for one in stored.records] == [data]
    assert await lines(other) == found
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(b"".join(found)))
    assert digest(tmp_path / "x.jsonl.gz")[:2] == (4 * len(STRANGE), 4 * len(STRANGE))


async def test_importing_again_stores_nothing(storage, other):
    """The second time everything is known; what was cut off after any line is completed."""
    await fill(storage)
    found = await lines(storage)
    first = await other.import_lines(found)
    assert await other.import_lines(found) == Copied(logs=first.logs, known=first.records)
    async with durably.open("memory://") as late:
        for end in range(1, len(found)):
            with pytest.raises(InvalidExport):
                await late.import_lines(found[:end])
        await late.import_lines(found)
        assert await lines(late) == found


async def test_some_kinds_and_some_ids(storage):
    """Only what was asked for is exported, each once, in order; what is not there is nothing."""
    await fill(storage)

    async def named(**options):
        found = [json.loads(line) for line in await lines(storage, **options)]
        return [(line["kind"], line["id"]) for line in found if "kind" in line]

    assert await named(kinds=["thread"]) == [("thread", "t")]
    chosen = await named(ids=["t", "plain", "plain", "nobody"])
    assert chosen == [("session", "plain"), ("thread", "t"), ("archive", "plain")]
    assert await named(ids=[]) == []
    for bad in ("", "\ud800", "x" * 257):
        with pytest.raises(InvalidId):
            await named(ids=[bad])
    with pytest.raises(InvalidFilter):
        await named(kinds=["meta"])


async def test_progress_names_each_log(storage, other):
    """It is told of each log once, with its records: all of them, or those that were stored."""
    await fill(storage)
    told = []
    found = await lines(storage, progress=lambda log, count: told.append((str(log), count)))
    assert sum(count for _, count in told) + len(told) == len(found) - 2
    again = []
    await other.import_lines(found, progress=lambda log, count: again.append((str(log), count)))
    assert again == told


async def test_a_long_log_is_read_in_parts(place, storage):
    """No read gives more than a page of records, and each record is read once."""
    for number in range(3 * PORTION_RECORDS + 5):
        await storage.sessions.append("s", said(f"{number}"), run_id=f"r{number}")

    class Paged(Metered):
        most = 0

        async def read(self, log, span=ALL):
            stored = await super().read(log, span)
            self.most = max(self.most, len(stored.records) if stored else 0)
            return stored

    paged = Paged(place.log_store())
    async with Storage(paged) as counted:
        found = await lines(counted)
    assert paged.most == PORTION_RECORDS
    assert paged.records == 3 * PORTION_RECORDS + 5 == len(found) - 3


async def test_what_is_appended_meanwhile_is_not_in_it(place, storage):
    """A log is exported as it was when its first line was read."""
    for number in range(PORTION_RECORDS + 1):
        await storage.sessions.append("s", said("a"), run_id=f"r{number}")
    reader = Interposing(place.log_store())
    reader.interpose("read", 3, lambda: storage.sessions.append("s", said("late"), run_id="late"))
    before = await lines(storage)
    async with Storage(reader) as counted:
        assert await lines(counted) == before
    assert len(await storage.sessions.segments("s")) == PORTION_RECORDS + 2


@pytest.mark.parametrize("change", ["rewound", "deleted"])
async def test_a_log_that_shrinks_meanwhile_is_a_conflict(place, storage, change):
    """A log that was rewound or deleted between two parts is no export that looks whole."""
    for number in range(PORTION_RECORDS + 1):
        await storage.sessions.append("s", said("a"), run_id=f"r{number}")

    async def meddle():
        await storage.sessions.rewind(
            "s", keep_entries=0 if change == "deleted" else PORTION_RECORDS
        )

    reader = Interposing(place.log_store())
    reader.interpose("read", 3, meddle)
    async with Storage(reader) as counted:
        with pytest.raises(CopyConflict):
            await lines(counted)


async def test_what_is_evicted_meanwhile_is_a_conflict(place, storage):
    """A thread that loses snapshots between two parts is no export that looks whole."""
    saver = storage.checkpoint_saver()
    for number in range(PORTION_RECORDS + 1):
        await saver.append("t", StateSnapshot(turn=number))

    async def meddle():
        bounded = storage.checkpoint_saver(max_checkpoints_per_thread=1)
        for number in range(3):
            await bounded.append("t", StateSnapshot(messages=said(f"{number}" * 500)))

    reader = Interposing(place.log_store())
    reader.interpose("read", 3, meddle)
    async with Storage(reader) as counted:
        with pytest.raises(CopyConflict):
            await lines(counted)


LOG = b'{"kind":"session","id":"s"}'
RECORD = b'{"key":"k","entries":1,"at":1.5,"data":{"entries":[]}}'
BROKEN = {
    "no JSON": (2, whole(b"hunter2")),
    "a list": (2, whole(b'["hunter2"]')),
    "another sort of line": (2, whole(b'{"word":"hunter2"}')),
    "a record without a log": (2, whole(RECORD)),
    "an unknown kind": (2, whole(b'{"kind":"hunter2","id":"s"}')),
    "a kind that is not exported": (2, whole(b'{"kind":"meta","id":"format"}')),
    "no id": (2, whole(b'{"kind":"session"}')),
    "an id that is a number": (2, whole(b'{"kind":"session","id":7}')),
    "an id that is too long": (2, whole(b'{"kind":"session","id":"%s"}' % (b"x" * 257))),
    "a time out of range": (2, whole(b'{"kind":"run","id":"s","head":{},"created_at":1e300}')),
    "a head that is cut off": (2, whole(b'{"kind":"run","id":"s","head":{"output":"hunter2')),
    "no data": (3, whole(LOG, b'{"key":"hunter2","entries":1,"at":1.5}')),
    "no key": (3, whole(LOG, b'{"entries":1,"at":1.5,"data":{"a":"hunter2"}}')),
    "a key that is a number": (3, whole(LOG, b'{"key":7,"entries":1,"at":1.5,"data":{}}')),
    "a count below 0": (3, whole(LOG, b'{"key":"k","entries":-1,"at":1.5,"data":{}}')),
    "a count that is text": (3, whole(LOG, b'{"key":"k","entries":"hunter2","at":1,"data":{}}')),
    "a moment out of range": (3, whole(LOG, b'{"key":"k","entries":1,"at":-1e300,"data":{}}')),
    "no base64": (3, whole(LOG, b'{"key":"k","entries":1,"at":1.5,"base64":"hunter2!"}')),
    "a record twice": (4, whole(LOG, RECORD, RECORD)),
    "data that is cut off": (3, whole(LOG, RECORD.removesuffix(b"]}}"))),
    "nested endlessly": (3, whole(LOG, RECORD[:-2] + b"[" * 9999 + b"]" * 9999 + b"}}")),
    "no last line": (3, whole(LOG, RECORD)[:-1]),
    "a line too few": (3, [PREAMBLE, LOG, b'{"end":2}']),
    "a line too many": (4, [PREAMBLE, LOG, RECORD, b'{"end":1}']),
    "something after the end": (5, [*whole(LOG, RECORD), RECORD]),
    "another log after the end": (5, [*whole(LOG, RECORD), LOG, b'{"end":4}']),
    "two exports in one": (5, [*whole(LOG, RECORD), *whole(LOG, RECORD)]),
    "nothing": (1, []),
    "only a first line": (1, [PREAMBLE]),
    "a chat": (1, [b'{"id":"hunter2","messages":[]}']),
    "another's export": (1, [b'{"durably":"hunter2","format":1}']),
    "a later format": (1, [b'{"durably":"export","format":2}', LOG]),
}


@pytest.mark.parametrize(("line", "text"), BROKEN.values(), ids=BROKEN)
async def test_a_broken_export_is_refused_by_its_line(other, line, text):
    """It is named by the number of the line, and nothing of what the line holds is repeated."""
    with pytest.raises(InvalidExport) as caught:
        await other.import_lines(text)
    assert caught.value.line == line
    seen = f"{caught.value} {caught.value.__cause__}"
    assert f"line {line} of the export" in seen
    assert SECRET not in seen


async def test_cut_off_or_garbled_anywhere_it_is_refused_or_known(storage):
    """Cut off after any byte, or with any byte replaced, it never ends in anything but our error.

    A run whose records are cut off cannot be read.
    """
    await storage.checkpointer.append("r", said("a"), RunHead(turns=1))
    await storage.checkpointer.append("r", said("b"), RunHead(turns=2))
    text = b"".join(await lines(storage))
    run = await storage.checkpointer.load("r")
    for position in range(len(text)):
        for changed in (text[:position], text[:position] + b"\x00" + text[position + 1 :]):
            async with durably.open("memory://") as late:
                try:
                    await late.import_lines(changed.splitlines(keepends=True))
                except DurablyError:
                    pass
                else:
                    assert changed.strip() == text.strip()
                try:
                    found = await late.checkpointer.load("r")
                except CorruptRecord:
                    continue
                assert found is None or found.entries == run.entries


async def test_what_came_before_the_fault_stays(other):
    """Whole logs before a broken line are stored; blank lines are passed over."""
    text = whole(LOG, RECORD)[:-1]
    with pytest.raises(InvalidExport):
        await other.import_lines([*text, b"\n", b'{"kind":"session","id":"t"}\n', b"oops\n"])
    assert await other.sessions.revision("s") != 0


async def test_larger_than_this_backend_takes_is_refused(other):
    """A head over the limit is refused as everywhere."""
    head = b'{"kind":"run","id":"s","created_at":1,"updated_at":1,"head":"%s"}' % (b"x" * 2**21)
    with pytest.raises(RecordTooLarge):
        await other.import_lines(whole(head))


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"durably":"x","format":1}',
        b"[" * 9999,
        b'{"id":"a"}',
        b"\xff",
    ],
)
def test_what_is_no_export(first):
    """Whatever else a file begins with is not taken for an export."""
    assert is_export(PREAMBLE)
    assert not is_export(first)
