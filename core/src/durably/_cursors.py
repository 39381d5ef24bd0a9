"""Cursors: where a walk over a session's history stands, as opaque text.

A cursor names its session by a digest and fixes what the first page saw: the epoch, in which
positions stay what they are, the last record and the number of entries. The text is the format's
number, a checksum and a msgpack array, in base64url. The checksum finds accidents; a cursor that
was forged can at most point elsewhere in the same session.
"""

import base64
import binascii
from hashlib import blake2b
from typing import Annotated, TypeAlias

import msgspec

from durably.checks import MAX_COUNT
from durably.errors import CursorExpired, CursorForeign, CursorIncompatible, CursorMalformed
from durably.history import HistoryFilter
from durably.logstore import LogState

__all__ = ["Cursor", "check_current", "read_cursor", "start", "write_cursor"]

FORMAT = 1
DIGEST_BYTES = 8
LONGEST = 400
"""Characters; no cursor is half as long."""

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
_Digest: TypeAlias = Annotated[
    bytes, msgspec.Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)
]


class Cursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A place in the history of a session.

    The next item is entry ``offset`` of the record ``seq``, or of the first one after it that
    has entries; its flat index is ``index``. The walk ends after the record ``until``, when
    ``total`` entries were passed.
    """

    session: _Digest
    types: HistoryFilter | None
    epoch: _Count
    until: _Count
    total: _Count
    seq: _Count
    offset: _Count
    index: _Count


_decoder = msgspec.msgpack.Decoder(Cursor)


def start(session_id: str, types: HistoryFilter | None, state: LogState) -> Cursor:
    """Return the cursor before the first item of a session as it is now."""
    return Cursor(
        session=_digest(session_id.encode()),
        types=types,
        epoch=state.epoch,
        until=state.next_seq - 1,
        total=state.entry_count,
        seq=1,
        offset=0,
        index=0,
    )


def write_cursor(cursor: Cursor) -> str:
    """Return a cursor as text."""
    body = bytes([FORMAT]) + msgspec.msgpack.encode(cursor)
    return base64.urlsafe_b64encode(_digest(body) + body).decode().rstrip("=")


def read_cursor(text: str, session_id: str, types: HistoryFilter | None) -> Cursor:
    """Return the cursor of some text.

    Raises:
        CursorMalformed: it is none.
        CursorIncompatible: it is of another format, or of a walk with another filter.
        CursorForeign: it is of another session.
    """
    body = _body(text)
    if body[:1] != bytes([FORMAT]):
        raise CursorIncompatible("it was made by another version of durably")
    try:
        cursor = _decoder.decode(body[1:])
    except msgspec.DecodeError:
        raise CursorMalformed from None
    if cursor.session != _digest(session_id.encode()):
        raise CursorForeign(session_id)
    if cursor.types != types:
        raise CursorIncompatible(f"it is of a walk with types={cursor.types!r}")
    return cursor


def check_current(cursor: Cursor, session_id: str, state: LogState | None) -> None:
    """Refuse a cursor whose positions do not hold any more.

    Raises:
        CursorExpired: the session was rewound, cleared or created anew since.
    """
    if state is None or state.epoch != cursor.epoch:
        raise CursorExpired(session_id)


def _body(text: str) -> bytes:
    if type(text) is not str or len(text) > LONGEST or not text.isascii():
        raise CursorMalformed
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise CursorMalformed from None
    checksum, body = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
    if not body or checksum != _digest(body):
        raise CursorMalformed
    return body


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=DIGEST_BYTES).digest()
