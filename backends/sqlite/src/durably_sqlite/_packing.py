"""Bodies of records, compressed where the storage is opened so and it pays."""

import zlib

__all__ = ["COMPRESSIONS", "pack", "unpack"]

COMPRESSIONS = ("none", "zlib")
FASTEST = 1
SMALLEST_PACKED = 256
"""Bytes; shorter bodies gain nothing worth the time."""


def pack(data: bytes) -> bytes | None:
    """Return a body compressed, None where that saves less than an eighth of it."""
    if len(data) < SMALLEST_PACKED:
        return None
    packed = zlib.compress(data, FASTEST)
    return packed if len(packed) <= len(data) - len(data) // 8 else None


def unpack(packed: bytes | None) -> bytes | str | None:
    """Return what was packed; text, which no body is, where it is spoiled.

    SQLite calls this, and would hide what an exception says.
    """
    if packed is None:
        return None
    try:
        return zlib.decompress(packed)
    except (TypeError, zlib.error):
        return "spoiled"
