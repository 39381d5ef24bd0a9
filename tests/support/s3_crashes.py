"""Operations on a log in a bucket in memory, and what must be true after each of them."""

import random

import msgspec

from durably import RevisionConflict, rules
from durably.logstore import Batch, LogId, NewRecord, Rewrite
from durably_s3 import S3LogStore, Settings, _patience, _planning, _tip
from durably_s3 import _chunks as chunks
from durably_s3._keys import Keys
from s3_memory import FaultyBucket, Shelf

LOG = LogId(kind="run", id="a log")
LENGTHS = (0, 1, 3, 7, 8, 9, 20, 26)
PREFIX = "some/where"
KEYS = Keys(root=f"{PREFIX}/")
LAYOUT = KEYS.layout
FIRST_REVISION = 1000


def small(monkeypatch, *, seal=300, fan=3):
    """Let short logs be sealed and merged, pauses take no time, and revisions be known."""
    monkeypatch.setattr(_planning, "SEAL_BYTES", seal)
    monkeypatch.setattr(_planning, "FAN", fan)
    monkeypatch.setattr(_patience, "FIRST_PAUSE", 0)
    monkeypatch.setattr(rules.secrets, "randbits", lambda _: FIRST_REVISION)


def dice_of(seed):
    """Return what is random in the same way each time."""
    return random.Random(seed)  # noqa: S311 - no secret


def open_on(shelf, *, bucket=FaultyBucket, prefix=PREFIX, namespace="", **settings):
    """Return a store on a handle of its own, and the handle."""
    handle = bucket(shelf)
    settings = {"bucket": "bucket", "prefix": prefix, "grace": 0} | settings
    return S3LogStore(Settings(**settings), bucket=handle, namespace=namespace), handle


def record(name, size=60, **fields):
    return NewRecord(data=f"{name} ".encode() * (size // (len(name) + 1)), **fields)


def batches(length):
    """Return what makes a log of so many records, always the same."""
    return [
        Batch(
            records=(record(f"r{number}", entry_count=number % 3),),
            head=b"head %d" % number,
            key=f"batch {number}",
            at=100.0 + number,
        )
        for number in range(1, length + 1)
    ]


async def filled(length):
    """Return a shelf with a log of so many records."""
    shelf = Shelf()
    store, _ = open_on(shelf)
    for batch in batches(length):
        await store.append(LOG, batch)
    if not length:
        await store.append(LogId(kind="run", id="another"), Batch(head=b"", at=1.0, key="k"))
        await store.delete(LogId(kind="run", id="another"))
    return shelf


async def warm(store, length):
    """Let a store know the log's tip and the keys in its chunks."""
    await store.read(LOG)
    if length:
        assert (await store.append(LOG, batches(length)[0])).duplicate


def _append(*records, **fields):
    return lambda _: Batch(records=records, key="the batch", at=500.0, **fields)


def _at(length):
    return FIRST_REVISION + length


def _rewrite(**fields):
    def change(length):
        return Rewrite(expected_revision=_at(length) or 1, key="the rewrite", at=500.0, **fields)

    return change


SEVERAL = tuple(record(f"s{number}", 100) for number in range(8))

OPERATIONS = {
    "append": _append(record("new")),
    "append over the seal": _append(record("new", 400)),
    "append keyed": _append(record("new", key="a key"), record("other", key="another")),
    "append expected": lambda length: Batch(
        records=(record("new"),),
        expected_revision=_at(length) if length else 0,
        key="the batch",
        at=500.0,
    ),
    "append head": _append(head=b"new head"),
    "append several": _append(*SEVERAL, head=b"new head"),
    "append keep_last": _append(record("new"), keep_last=2),
    "append several keep_last": _append(*SEVERAL, keep_last=5),
    "rewrite drop_after": _rewrite(drop_after=2),
    "rewrite drop": _rewrite(drop=frozenset({1, 2, 5, 19}), head=b"cut"),
    "rewrite replace": _rewrite(replace={1: record("x", 500), 4: record("y"), 20: record("z")}),
    "delete": lambda _: None,
    "delete expected": _at,
}


async def send(store, change):
    """Carry out an operation; a conflict is an answer."""
    try:
        if isinstance(change, Batch):
            return await store.append(LOG, change)
        if isinstance(change, Rewrite):
            return await store.rewrite(LOG, change)
        return await store.delete(LOG, expected_revision=change)
    except RevisionConflict as conflict:
        return ("conflict", conflict.expected, conflict.actual)


def again(answer):
    """Return the answer to a repetition of what got an answer."""
    if isinstance(answer, bool):
        return False
    if isinstance(answer, tuple):
        return answer
    return msgspec.structs.replace(answer, duplicate=True)


async def view(shelf, log=LOG):
    """Return what a fresh handle reads."""
    store, _ = open_on(shelf.copy())
    return await store.read(log)


def named_objects(shelf, *, keys=KEYS):
    """Return what must lie on a shelf; each chunk that a tip names does, and is whole."""
    names = {keys.layout}
    for key, data in shelf.dump().items():
        log = keys.log_of_tip(key) if key.startswith(keys.all_tips) else None
        tip = None if log is None else _tip.read(data)
        if tip is None:
            continue
        names.add(key)
        for chunk in tip.chunks:
            name = keys.chunk(log, chunk.name)
            index, blocks = chunks.split(chunk, shelf.objects[name][0])
            found = list(chunks.read_records(index, blocks))
            assert [one.seq for one in found] == sorted({one.seq for one in found})
            assert (chunk.first, chunk.last) == (found[0].seq, found[-1].seq)
            assert chunk.record_count == len(found)
            names.add(name)
    return names


async def tidy(shelf):
    """Collect garbage: what tips name is left, and nothing else."""
    store, _ = open_on(shelf)
    await store.maintain()
    assert set(shelf.objects) == named_objects(shelf)


class At:
    """Calls ``action`` with the n-th request, and counts them."""

    def __init__(self, number, action):
        self.number = number
        self.action = action
        self.is_reached = False
        self._count = 0

    def __call__(self, request):
        here = self._count == self.number
        self._count += 1
        if here:
            self.is_reached = True
            return self.action(request)
        return None
