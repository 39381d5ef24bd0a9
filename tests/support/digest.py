"""Print a digest of what an export holds, without the library: logs, records, and a hash of each.

Two exports have one digest if they hold the same logs, in whatever order; that each log's line is
followed by its records, and that the last line counts the others, is checked on the way.
"""

import gzip
import hashlib
import json
import sys
from pathlib import Path


def main(path: Path) -> None:
    data = path.read_bytes()
    lines = (gzip.decompress(data) if path.suffix == ".gz" else data).split(b"\n")
    assert lines.pop() == b"", "the last line is cut off"
    first, *rest, last = lines
    assert json.loads(first) == {"durably": "export", "format": 1}
    assert json.loads(last) == {"end": len(rest)}
    logs: dict[tuple[str, str], list[bytes]] = {}
    found: list[bytes] = []
    for line in rest:
        fields = json.loads(line)
        if "kind" in fields:
            found = logs.setdefault((fields["kind"], fields["id"]), [])
            assert not found, "a log that is there twice"
        else:
            assert fields.keys() >= {"key", "entries", "at"}
        found.append(line)
    digest = hashlib.sha256()
    for name in sorted(logs):
        digest.update(b"\n".join(logs[name]) + b"\n\n")
    json.dump([len(logs), len(rest) - len(logs), digest.hexdigest()], sys.stdout)


main(Path(sys.argv[1]))
