"""The names of objects: injective, short enough for any id, and in the order of the ids.

Everything lies under ``durably/`` below the prefix of the storage. A namespace and an id are
written in base32hex (RFC 4648, section 7) without padding, whose digits sort like the bits they
stand for: 256 bytes make 410 characters, so that no name has more than 1,024 bytes. A slash after
every 200 of them keeps each part of a name below what file systems take, and keeps the order,
also where a server lists folder by folder.
"""

import secrets
from base64 import b32hexdecode, b32hexencode

import msgspec

from durably import InvalidId
from durably.logstore import LogId

__all__ = ["LONGEST_PREFIX", "Keys"]

LONGEST_PREFIX = 120
"""Bytes: what S3 leaves of its 1,024 beside the longest namespace, kind, id and chunk."""

PART = 200
BITS_OF_DIGIT = 5
DIGITS_OF_FIVE_BYTES = 8


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """The names of one namespace's objects in a storage whose names begin with ``root``."""

    root: str
    namespace: str = ""

    @property
    def layout(self) -> str:
        """The object that says which layout this is."""
        return f"{self.root}durably/layout"

    @property
    def everything(self) -> str:
        """What all names begin with."""
        return f"{self.root}durably/"

    @property
    def probes(self) -> str:
        """What names begin with that are written to find out what the server does."""
        return f"{self.root}durably/probe/"

    def probe(self) -> str:
        """Return a name for a look at what the server does."""
        return f"{self.probes}{secrets.token_hex(16)}"

    @property
    def all_tips(self) -> str:
        """What the names of all tips begin with."""
        return f"{self.root}durably/t/{self._space}/"

    def tips(self, kind: str) -> str:
        """Return what the names of the tips of one kind begin with."""
        return f"{self.all_tips}{kind}/"

    def tip(self, log: LogId) -> str:
        """Return the name of a log's tip."""
        return self.tips(log.kind) + _parted(encode(log.id))

    @property
    def chunks(self) -> str:
        """What the names of all chunks begin with."""
        return f"{self.root}durably/c/{self._space}/"

    def chunk(self, log: LogId, name: str) -> str:
        """Return the name of one of a log's chunks."""
        return f"{self.chunks}{log.kind}/{_parted(encode(log.id))}/{name}"

    @property
    def _space(self) -> str:
        """The namespace, never empty: some servers drop an empty part of a name."""
        return _parted(f"n{encode(self.namespace)}")

    def beginning(self, kind: str, prefix: str) -> str:
        """Return the longest text that the names of all tips with a prefix begin with."""
        whole = len(prefix.encode()) * 8 // BITS_OF_DIGIT
        return self.tips(kind) + _parted(encode(prefix)[:whole])

    def id_of(self, kind: str, tip: str) -> str | None:
        """Return the id whose tip has a name; None if none has."""
        log = self.log_of_tip(tip)
        return log.id if log is not None and log.kind == kind else None

    def log_of_tip(self, tip: str) -> LogId | None:
        """Return the log whose tip has a name; None if none has."""
        log = _log(tip.removeprefix(self.all_tips))
        return log if log is not None and self.tip(log) == tip else None

    def log_of_chunk(self, chunk: str) -> tuple[LogId | None, str]:
        """Return the log one of whose chunks has a name, None if none has, and the chunk's own."""
        rest, _, name = chunk.removeprefix(self.chunks).rpartition("/")
        log = _log(rest)
        return log if log is not None and self.chunk(log, name) == chunk else None, name


def _log(rest: str) -> LogId | None:
    kind, _, encoded = rest.partition("/")
    try:
        return LogId(kind=kind, id=decode(encoded.replace("/", "")) or "")
    except InvalidId:
        return None


def _parted(digits: str) -> str:
    return "/".join(digits[start : start + PART] for start in range(0, len(digits), PART))


def encode(text: str) -> str:
    """Return text in base32hex; the shorter of two that begin alike sorts first, as it must."""
    return b32hexencode(text.encode()).decode().rstrip("=").lower()


def decode(digits: str) -> str | None:
    """Return the text of some base32hex; None if ``encode`` never returns that."""
    try:
        text = b32hexdecode(digits.upper() + "=" * (-len(digits) % DIGITS_OF_FIVE_BYTES)).decode()
    except ValueError:
        return None
    return text if encode(text) == digits else None
