"""On what kind of file system does a file lie: SQLite's write-ahead log needs a local one.

Its index is memory shared between processes, which hosts do not share, and which some network
file systems pretend to: https://sqlite.org/wal.html. Linux alone is looked at.
"""

import os
from pathlib import Path

from durably import Unsupported

__all__ = ["refuse_network"]

MOUNTS = Path("/proc/self/mounts")
NETWORK = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "gfs2",
    "lustre", "nfs", "nfs4", "ocfs2", "smb3", "smbfs", "virtiofs", "vboxsf",
})  # fmt: skip


def refuse_network(path: str) -> None:
    """Refuse a file that lies on a network file system.

    Raises:
        Unsupported: it does.
    """
    kind = _kind(os.path.realpath(path))
    if kind in NETWORK:
        raise Unsupported(
            f"{path!a} lies on a network file system ({kind}), where WAL mode loses data",
            hint="Use a local disk; or, for one host alone, ?journal_mode=delete",
        )


def _kind(path: str) -> str:
    """Return the type of the innermost mount a path lies under, empty if that is not known."""
    try:
        lines = MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    mounts = [line.split(" ") for line in lines]
    under = {_unescape(place): kind for _, place, kind, *_ in mounts if _holds(place, path)}
    return under[max(under, key=len)] if under else ""


def _holds(place: str, path: str) -> bool:
    folder = _unescape(place)
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _unescape(place: str) -> str:
    """Undo the octal escapes of blanks in the table of mounts."""
    for escape in (r"\040", r"\011", r"\012", r"\134"):
        place = place.replace(escape, chr(int(escape[1:], 8)))
    return place
