"""Logs as files: one of each, replaced whole, so that a reader sees all of a change or nothing."""

import fcntl
import os
import re
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from durably import CorruptRecord, ForeignData, StorageBusy
from durably.logstore import LogId, Record
from durably.rules import Tip

__all__ = ["File", "ids_below", "kind_folder", "locked", "log_path", "read", "remove", "write"]

LOCK_TIMEOUT = 10.0
"""Seconds."""

_LONG_NAME = re.compile(r"(.{200})(?=.)")
"""File systems end a name at 255 bytes, and an id of 256 bytes has 512 in hex."""

_tip = msgspec.json.Decoder(Tip)
_record = msgspec.json.Decoder(Record)


class File(msgspec.Struct, frozen=True, kw_only=True):
    """What is in a file: a line with the log's tip, then one for each record, ascending."""

    tip: Tip
    records: Sequence[Record] = ()


def kind_folder(root: Path, namespace: str, kind: str) -> Path:
    """Return the folder of the logs of a kind in a namespace."""
    return root / _nested(namespace, ".namespace") / kind


def log_path(root: Path, namespace: str, log: LogId) -> Path:
    """Return the file of a log."""
    return kind_folder(root, namespace, log.kind) / _nested(log.id, ".log")


def _nested(text: str, ending: str) -> Path:
    """Return text as a path: in hex, a long one as folders in each other.

    No two texts share a path: the ending tells a whole one from the beginning of a longer one.
    """
    return Path(_LONG_NAME.sub(r"\1/", text.encode().hex()) + ending)


def ids_below(folder: Path) -> Iterator[str]:
    """Return the ids of the logs in the folder of a kind, in any order."""
    for path in folder.rglob("*.log"):
        name = "".join(path.relative_to(folder).with_suffix("").parts)
        try:
            yield bytes.fromhex(name).decode()
        except ValueError as error:
            raise ForeignData(f"{path} is not durably's", hint="Move it away") from error


def read(path: Path, log: LogId, *, with_records: bool = True) -> File | None:
    """Return what is in the file of a log, None if there is none."""
    try:
        with path.open("rb") as file:
            tip = _tip.decode(file.readline())
            return File(tip=tip, records=[*map(_record.decode, file)] if with_records else ())
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise CorruptRecord(log, f"its file cannot be read: {error}") from error


def write(path: Path, file: File) -> None:
    """Put a file in the place of the one before; once this returns, it survives power loss."""
    _make(path.parent)
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as out:
        out.writelines(msgspec.json.encode(line) + b"\n" for line in (file.tip, *file.records))
        out.flush()
        os.fsync(out.fileno())
    temporary.replace(path)
    _sync(path.parent)


def remove(path: Path) -> None:
    """Remove the file of a log for good."""
    path.unlink()
    _sync(path.parent)


def _make(folder: Path) -> None:
    if not folder.is_dir():
        _make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        _sync(folder.parent)


def _sync(folder: Path) -> None:
    """Make the names in a folder survive power loss, too."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(root: Path) -> Generator[None]:
    """Keep every other thread and process from changing anything meanwhile.

    The lock goes with the open file, so a process that dies leaves none behind.
    """
    _make(root)
    deadline = time.monotonic() + LOCK_TIMEOUT
    with (root / "lock").open("ab") as file:
        while not _taken(file.fileno()):
            if time.monotonic() > deadline:
                raise StorageBusy(f"{root} was locked for {LOCK_TIMEOUT} seconds", hint="Try again")
            time.sleep(0.001)
        yield


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
