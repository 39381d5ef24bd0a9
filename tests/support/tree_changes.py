"""Changes of trees and states to be killed in, and what a reader sees before and after them.

Clocks stand still and ids are not looked at, so that two storages with equal histories look equal.
"""

import os
import signal
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

import durably
from builders import said, snapshot, user
from disturbed import Wrapper
from durably import CorruptRecord, Storage, TreeStateStore
from durably.logstore import ALL
from exports import lines
from places import FakeClock

BATCH_RECORDS = 2
"""Nodes that a fork copies at once here, so that one of few nodes takes several changes."""

PATH = "abcdef"
WHOLE = {"turn": 1, "extra": {"notes": [1, 1.0, None]}}


class Deadly(Wrapper):
    """Counts its calls, and once armed ends the process by SIGKILL before or after the n-th."""

    def __init__(self, store) -> None:
        super().__init__(store)
        self.arm(0, is_done=False)

    def arm(self, number: int, *, is_done: bool) -> None:
        self.calls = 0
        self._number = number
        self._is_done = is_done

    async def _step(self, operation):
        self.calls += 1
        is_it = self.calls == self._number
        if is_it and not self._is_done:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await operation
        if is_it:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    async def append(self, log, batch):
        return await self._step(super().append(log, batch))

    async def read(self, log, span=ALL):
        return await self._step(super().read(log, span))

    async def rewrite(self, log, change):
        return await self._step(super().rewrite(log, change))

    async def delete(self, log, *, expected_revision=None):
        return await self._step(super().delete(log, expected_revision=expected_revision))

    async def list(self, kind, **options):
        return await self._step(super().list(kind, **options))


class Change(NamedTuple):
    """A change that may be repeated, and whether its process has saved the state before."""

    act: Callable[[Storage, TreeStateStore], Awaitable[object]]
    is_warm: bool = False


CHANGES = {
    "fork": Change(lambda storage, _: storage.tree("t").fork("f")),
    "fork of a node": Change(lambda storage, _: storage.tree("t").fork("f", node_id="e")),
    "grow": Change(lambda _, states: states.save("s", snapshot(*"abcd", **WHOLE))),
    "grow warm": Change(
        lambda _, states: states.save("s", snapshot(*"abcd", **WHOLE)), is_warm=True
    ),
    "diverge": Change(lambda _, states: states.save("s", snapshot(*"axyz", **WHOLE))),
    "diverge warm": Change(
        lambda _, states: states.save("s", snapshot(*"axyz", **WHOLE)), is_warm=True
    ),
    "first tree state": Change(lambda _, states: states.save("new", snapshot("a", **WHOLE))),
    "save": Change(lambda storage, _: storage.states.save("k", snapshot(*"ab", **WHOLE))),
    "first save": Change(lambda storage, _: storage.states.save("new", snapshot("a", **WHOLE))),
    "branch": Change(lambda storage, _: storage.tree("t").branch("b")),
    "branch to nothing": Change(lambda storage, _: storage.tree("t").branch(None)),
    "append": Change(lambda storage, _: storage.tree("t").append(user("n"), node_id="n")),
    "append elsewhere": Change(
        lambda storage, _: storage.tree("t").append(user("n"), node_id="n", parent_id="b")
    ),
    "first append": Change(lambda storage, _: storage.tree("u").append(user("n"), node_id="n")),
    "compact": Change(
        lambda storage, _: storage.tree("t").compact(said("so far"), first_kept_id="e", node_id="n")
    ),
    "label": Change(lambda storage, _: storage.tree("t").label("b", "seen")),
}


def opened(url: str) -> Storage:
    return durably.open(url, clock=FakeClock())


async def prepared() -> list[bytes]:
    """Return an export of a tree with a branch that was left, a state, and one kept as a tree."""
    async with opened("memory://") as storage:
        tree = storage.tree("t")
        for id_ in PATH:
            await tree.append(user(id_), node_id=id_)
        await tree.append(user("left"), node_id="left", parent_id="b")
        await tree.label("c", "kept")
        await tree.branch(PATH[-1])
        await storage.states.save("k", snapshot("a"))
        await storage.tree_states().save("s", snapshot(*"abc"))
        return await lines(storage)


async def change(
    plain: Storage, name: str, number: int = 0, *, is_done: bool = False, is_first: bool = True
) -> int:
    """Make a change, close the storage, and return how many calls of the store it took."""
    deadly = Deadly(plain.log_store)
    async with Storage(deadly, clock=FakeClock()) as storage:
        states = storage.tree_states()
        if is_first and CHANGES[name].is_warm:
            await states.save("s", snapshot(*"abc"))
        deadly.arm(number, is_done=is_done)
        await CHANGES[name].act(storage, states)
        return deadly.calls


async def _shown_tree(storage, info):
    tree = storage.tree(info.tree_id)
    nodes = (await tree.nodes(limit=1000)).items
    numbers = {None: None} | {node.id: number for number, node in enumerate(nodes)}
    told = [
        (
            (numbers[node.parent_id], numbers[node.first_kept_id]),
            (node.kind, node.label, node.entry, node.summary, node.name, node.data),
        )
        for node in nodes
    ]
    path = [numbers[node.id] for node in await tree.path()]
    assert path[-1:] == ([] if info.leaf_id is None else [numbers[info.leaf_id]])
    assert info.node_count == len(nodes)
    return told, path, await tree.messages(), info.name, info.parent


async def shown(storage):
    """Return all that a reader sees, and how many forks there are that none may read."""
    infos = (await storage.trees()).items
    kept = storage.tree_states()
    seen = {
        "trees": {info.tree_id: await _shown_tree(storage, info) for info in infos},
        "states": {
            one.key: await storage.states.load(one.key)
            for one in (await storage.states.list()).items
        },
        "as trees": {one.key: await kept.load(one.key) for one in (await kept.list()).items},
    }
    halves = 0
    for one in (await storage.log_store.list("tree")).items:
        if one.id not in seen["trees"]:
            halves += 1
            assert not await kept.has(one.id)
            for read in (storage.tree(one.id).path, storage.tree(one.id).info):
                with pytest.raises(CorruptRecord, match="repeat"):
                    await read()
    return seen, halves
