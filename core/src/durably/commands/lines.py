"""The lines of a file that may be compressed, one in memory at a time."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from durably.errors import DurablyError

__all__ = ["MAX_LINE_BYTES", "FileUnreadable", "Lines"]

MAX_LINE_BYTES = 256 * 1024 * 1024
"""A longer line is not held in memory."""

_PIECE = 1024 * 1024
_GZIP = b"\x1f\x8b"


class FileUnreadable(Exception):
    """A file that cannot be read to its end; the text says why, and after which line."""


class Lines:
    """A file's lines by number, from 1; None for one of over ``MAX_LINE_BYTES``.

    Whether the file is compressed its first bytes tell, not its name.

    Raises:
        DurablyError: the file cannot be opened.
        FileUnreadable: while iterating, it cannot be read on.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise DurablyError(f"{str(path)!a} cannot be read: {error.strerror}") from error
        self.number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    @property
    def size(self) -> int | None:
        """The bytes of the file; None where it has no size, as a pipe."""
        return self._path.stat().st_size if self._file.seekable() else None

    @property
    def position(self) -> int:
        """How many bytes of the file were read."""
        return self._file.tell() if self._file.seekable() else 0

    def __iter__(self) -> Iterator[bytes | None]:
        try:
            with closing(self._unpacked()) as unpacked:
                while line := unpacked.readline(MAX_LINE_BYTES + 1):
                    self.number += 1
                    if len(line) > MAX_LINE_BYTES:
                        _skip(unpacked, line)
                        yield None
                    else:
                        yield line
        except (EOFError, OSError, zlib.error) as error:
            raise FileUnreadable(
                f"{str(self._path)!a} cannot be read on after line {self.number}: {error}"
            ) from error

    def _unpacked(self) -> IO[bytes]:
        if self._file.peek(len(_GZIP))[: len(_GZIP)] != _GZIP:
            return self._file
        return io.BufferedReader(gzip.GzipFile(fileobj=self._file))


def _skip(unpacked: IO[bytes], piece: bytes) -> None:
    """Read on to the end of a line of which a piece was read."""
    while piece and not piece.endswith(b"\n"):
        piece = unpacked.readline(_PIECE)
