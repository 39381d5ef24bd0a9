"""Storages filled for copies and exports, and what they hold as lines."""

import json
import subprocess
import sys
from pathlib import Path

from builders import call, plant, result, said, snapshot
from durably import RunHead
from recorded import runs

DIGEST = Path(__file__).with_name("digest.py")

STRANGE = {
    "unknown fields": (
        b'{"later":[1.50,{"a":1,"a":2}],"entries":[{"type":"input","role":"user",'
        b'"content":"a","mood":"\\u0062"}]}'
    ),
    "an unknown entry type": b'{"entries":[{"type":"dream","of":"sheep"}]}',
    "spaces": b' {"entries": [ ]}\t',
    "lines": b'{\n"entries":[]\r\n}',
    "a lone surrogate": b'{"entries":[{"type":"input","role":"user","content":"\\ud800 x"}]}',
    "null": b"null",
    "nothing": b"",
    "no JSON": b"\x00\x01\xfe\xff",
    "no UTF-8": b'{"entries":"\xff"}',
    "endless": b"[" * 9999 + b"]" * 9999,
}
"""Data of records that must come over byte for byte, whatever it is."""


async def lines(storage, **options):
    return [line async for line in storage.export(**options)]


async def fill(storage, conversations=()):
    """Store something of each kind, and conversations as sessions, runs and threads."""
    await storage.catalog.create("catalogued", metadata={"user": "ada"})
    await storage.catalog.create("empty", metadata={})
    for id_ in ("catalogued", "plain"):
        for number in range(3):
            long = [call("c"), result("c", f"{number}" * 900, raw={"n": number})]
            await storage.sessions.append(id_, said("x") + long, run_id=f"r{number}")
    await storage.sessions.trim_tool_results("plain", archive=storage.archive)
    await storage.checkpointer.append("headless", [], RunHead(status="failed", error="none"))
    await storage.checkpoint_saver().append("t", snapshot("a"))
    await storage.checkpoint_saver().append("t", snapshot("a", "b", turn=2))
    for conversation in conversations:
        id_, said_ = conversation["id"], []
        for number, entries in enumerate(runs(conversation)):
            said_ += entries
            await storage.sessions.append(id_, entries, run_id=f"r{number}")
        if said_:
            await storage.checkpointer.append(id_, said_[:3], RunHead(turns=1))
            await storage.checkpointer.append(id_, said_[3:], RunHead(turns=2, output="done"))


async def plant_strange(place):
    """Store each strange record in a log of each kind, with a strange head where it has one."""
    for number, data in enumerate(STRANGE.values()):
        for kind in ("session", "run", "thread", "archive"):
            head = data if kind in {"session", "run"} and data else None
            await plant(place, kind, f"strange {number}", data, key=f"k{number}", head=head)


def digest(path):
    """Return how many logs and records an export has, and a hash, by a script of its own."""
    told = subprocess.run(
        [sys.executable, str(DIGEST), str(path)], capture_output=True, text=True, check=True
    )
    return tuple(json.loads(told.stdout))
