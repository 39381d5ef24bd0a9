"""A user of a URL in an environment of built wheels: each of its tasks prints what it found."""

import asyncio
import sys

import durably
from durably import AssistantTextEntry, InputEntry, RevisionConflict, RunHead, StateSnapshot

ODD = "\U0001f600é/..%2F" * 15
"""An id of 195 bytes, of which no one may become part of a path."""


def said(text: str) -> list[durably.Entry]:
    return [InputEntry(role="user", content=text), AssistantTextEntry(content=text.upper())]


async def write(storage: durably.Storage) -> list[object]:
    """Leave a rewound session, a claimed run and a thread of snapshots."""
    for run in ("r1", "r2", "r3"):
        await storage.sessions.append(ODD, said(run), run_id=run)
    rewound = await storage.sessions.rewind(ODD, keep_entries=3)
    assert (rewound.removed_run_ids, rewound.truncated_run_id) == (("r3",), "r2")
    await storage.sessions.append(ODD, said("again"), run_id="r3")
    revision = await storage.checkpointer.append("run", said("a"), RunHead(), expected_revision=0)
    await storage.checkpointer.append("run", said("b"), RunHead(turns=2))
    fenced = False
    try:
        await storage.checkpointer.append("run", [], RunHead(), expected_revision=revision)
    except RevisionConflict:
        fenced = True
    saver = storage.checkpoint_saver(max_checkpoints_per_thread=2)
    for turn in (1, 2, 3):
        await saver.append("thread", StateSnapshot(turn=turn, messages=said("x") * turn))
    await storage.scoped("tenant").sessions.append(ODD, said("mine"), run_id="r1")
    return ["fenced" if fenced else "not fenced"]


async def read(storage: durably.Storage) -> list[object]:
    """Tell what another process left."""
    run = await storage.checkpointer.load("run")
    threads = await storage.checkpoint_saver(max_checkpoints_per_thread=2).list("thread")
    tenant = storage.scoped("tenant").sessions
    return [
        [entry.content for entry in await storage.sessions.load(ODD)],
        (len(run.entries), run.head.turns),
        [(one.seq, one.snapshot.turn) for one in threads],
        [len(one.entries) for one in await tenant.segments(ODD)],
    ]


async def append(storage: durably.Storage, name: str) -> list[object]:
    """Append while another process does."""
    for number in range(25):
        await storage.sessions.append("shared", said(name), run_id=f"{name} {number}")
    return []


async def appended(storage: durably.Storage) -> list[object]:
    """Tell whose runs are in the shared session, each one's in the order of the session."""
    found = [one.run_id for one in await storage.sessions.segments("shared")]
    return [[run for run in found if run.startswith(name)] for name in ("a", "b")]


async def where(storage: durably.Storage) -> list[object]:
    """Tell where the backend that the URL chose, and durably, were imported from."""
    return [durably.__file__, sys.modules["durably_folder"].__file__]


async def main(url: str, task: str, *arguments: str) -> None:
    tasks = {one.__name__: one for one in (write, read, append, appended, where)}
    async with durably.open(url) as storage:
        for line in await tasks[task](storage, *arguments):
            print(line)  # noqa: T201 - read by the test


asyncio.run(main(*sys.argv[1:]))
