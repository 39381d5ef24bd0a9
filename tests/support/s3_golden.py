"""What the golden objects of S3 hold, and how they are written: run this to write a new file.

Chunks and merges come early here, so that a few small records make all there is: chunks of three
levels, blocks that are compressed and not, evicted and replaced records, a tombstone.
"""

import asyncio
import itertools
import secrets
import sys
from base64 import b64decode, b64encode
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import msgspec

import durably
import golden
from durably.logstore import Batch, LogId, NewRecord, Rewrite
from durably_s3 import S3LogStore, Settings, _planning
from durably_s3.testing import MemoryBucket, Shelf
from places import FakeClock

__all__ = ["FILE", "GONE", "GROWN", "PLAIN", "RECORDS", "open_store", "read", "written"]

FILE = Path(__file__).parents[1] / "golden" / "s3-layout-1-format-1-versioned.json"
PREFIX = "some/where"
SEAL_BYTES = 600
FAN = 2
RECORDS = {f"k{number:02}": bytes([97 + number]) * 200 for number in range(24)}
GROWN = LogId(kind="session", id="grown, é, \U0001f600")
PLAIN = LogId(kind="session", id="p" * 250)
GONE = LogId(kind="session", id="gone")
NAMESPACE = "a namespace"


class Forgetful(MemoryBucket):
    """Loses the answer to a deletion of a tombstone, which stays."""

    async def delete(self, *_, **__):
        raise durably.Unavailable("nobody answers")


def open_store(shelf: Shelf, namespace: str = "", *, compression: str = "zlib") -> S3LogStore:
    settings = Settings(bucket="bucket", prefix=PREFIX, compression=compression)
    return S3LogStore(settings, bucket=MemoryBucket(shelf), namespace=namespace)


@contextmanager
def predictable():
    """Have what is random counted, and chunks made and merged early."""
    numbers = itertools.count(1)
    with (
        patch.object(secrets, "token_hex", lambda size: f"{next(numbers):0{2 * size}x}"),
        patch.object(secrets, "token_bytes", lambda size: next(numbers).to_bytes(size, "big")),
        patch.object(secrets, "randbits", lambda _: 1_000 * next(numbers)),
        patch.object(_planning, "SEAL_BYTES", SEAL_BYTES),
        patch.object(_planning, "FAN", FAN),
    ):
        yield


async def _grow(store: S3LogStore, log: LogId, count: int) -> int:
    """Append records one by one, the last one with a head, and return the revision."""
    revision = 0
    for key, data in itertools.islice(RECORDS.items(), count):
        record = NewRecord(key=key, data=data, entry_count=2)
        batch = Batch(records=(record,), head=key.encode(), at=golden.NOW, key=f"of {key}")
        revision = (await store.append(log, batch)).revision
    return revision


async def written() -> dict[str, bytes]:
    """Return the objects that this version writes, the same ones each time."""
    shelf = Shelf()
    with predictable():
        async with durably.Storage(open_store(shelf), clock=FakeClock(golden.NOW)) as storage:
            await golden.write(storage)
        store = open_store(shelf)
        revision = await _grow(store, GROWN, 20)
        change = Rewrite(
            expected_revision=revision,
            drop=frozenset({12}),
            replace={9: NewRecord(data=b"replaced")},
            at=golden.NOW,
        )
        await store.rewrite(GROWN, change)
        last = NewRecord(key="last", data=b"last")
        await store.append(GROWN, Batch(records=(last,), keep_last=15, at=golden.NOW, key="e"))
        await store.aclose()
        plain = open_store(shelf, NAMESPACE, compression="none")
        await _grow(plain, PLAIN, 5)
        await plain.aclose()
        settings = Settings(bucket="bucket", prefix=PREFIX)
        forgetful = S3LogStore(settings, bucket=Forgetful(shelf))
        await _grow(forgetful, GONE, 1)
        await forgetful.delete(GONE)
        await forgetful.aclose()
    return shelf.dump()


def read(path: Path) -> dict[str, bytes]:
    """Return the objects of a golden file, by their keys."""
    stored = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    return {key: b64decode(data) for key, data in stored.items()}


if __name__ == "__main__":
    if FILE.exists():
        sys.exit(f"{FILE.name} is there: what was once written must open for ever")
    objects = {key: b64encode(data).decode() for key, data in asyncio.run(written()).items()}
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(objects), indent=1) + b"\n")
