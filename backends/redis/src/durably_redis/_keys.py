"""What things are called in Redis.

A log is a hash and a sorted set; the logs of a namespace and kind fall into 64 buckets by their
ids, and each bucket has a sorted set of its ids, the listing. All keys of a bucket share one
hash tag, so that log and listing lie in one slot of a Cluster and change in one script.
The hash holds: ``s``, the state as text; ``head``; ``c0`` to ``c7``, the last eight changes;
``=<key>`` of each record, its index "seq entry_count revision stored_at"; ``#<seq>``, its data.
The sorted set orders the records' keys by seq.
"""

from hashlib import blake2b
from urllib.parse import quote

import msgspec

from durably.logstore import LogId

__all__ = ["BUCKETS", "LAYOUT", "Keys", "keys_of", "listing"]

BUCKETS = 64
"""Part of the layout: another number would hide every log."""

LAYOUT = b"durably:layout"


class Keys(msgspec.Struct, frozen=True):
    """The three keys a log has to do with."""

    hash: bytes
    order: bytes
    listing: bytes


def keys_of(namespace: str, log: LogId) -> Keys:
    """Return the keys of a log; two logs share none but the listing."""
    id_ = log.id.encode()
    bucket = blake2b(id_, digest_size=1).digest()[0] % BUCKETS
    prefix = _prefix(namespace, log.kind, bucket)
    return Keys(prefix + b":h:" + id_, prefix + b":o:" + id_, prefix + b":listing")


def listing(namespace: str, kind: str, bucket: int) -> bytes:
    """Return the key of the ids of a bucket."""
    return _prefix(namespace, kind, bucket) + b":listing"


def _prefix(namespace: str, kind: str, bucket: int) -> bytes:
    """The hash tag is what braces enclose, so the namespace is encoded to have none."""
    return f"durably:{{{quote(namespace, safe='')}:{kind}:{bucket:02x}}}".encode()
