"""``TreeStateStore``: states whose past is kept, at the cost of what is new."""

from durably import StateSnapshot, TreeStateStore
from durably.testing import Handle
from durably_conformance.building import said, snapshot
from durably_conformance.context import T
from durably_conformance.offering import upkeep_of
from durably_conformance.registry import check


async def _handles(t: T) -> tuple[Handle, Handle]:
    one, other = await t.connect(), await t.connect()
    for handle in (one, other):
        upkeep_of(handle, "tree", "tree_states")
    return one, other


def _states(handle: Handle) -> TreeStateStore:
    """Return a store that knows nothing yet."""
    return upkeep_of(handle).tree_states()


async def _counts(handle: Handle) -> tuple[int, int]:
    """Return how many messages and other nodes there are."""
    info = await upkeep_of(handle).tree("k").info()
    return info.message_count, info.node_count - info.message_count


async def _loads(t: T, handles: tuple[Handle, Handle], wanted: StateSnapshot, what: str) -> None:
    for handle in handles:
        found = await _states(handle).load("k")
        t.exact(found.replace(messages=list(found.messages)), wanted, what)


@check("TREE-STATE-001", contract="tree")
async def growing_appends_what_is_new(t: T) -> None:
    """A conversation that grew is stored by the messages that are new, and one node beside."""
    one, other = handles = await _handles(t)
    known = _states(one)
    texts = [f"{number}" for number in range(30)]
    for saves, (store, count) in enumerate(
        ((known, 10), (known, 11), (_states(other), 20), (known, 25), (known, 30)), 1
    ):
        grown = snapshot(*texts[:count], turn=saves)
        await store.save("k", grown)
        t.eq(await _counts(other), (count, saves), f"messages and other nodes after {saves} saves")
        await _loads(t, handles, grown, "what is loaded")
    t.eq(list(await upkeep_of(one).tree("k").messages()), said(*texts), "the messages of the tree")


@check("TREE-STATE-002", contract="tree")
async def what_went_another_way_is_kept(t: T) -> None:
    """A conversation that went another way is a branch after what is shared; the other stays."""
    one, other = handles = await _handles(t)
    was = snapshot("a", "b", "c", turn=1)
    await _states(one).save("k", was)
    left = (await upkeep_of(one).tree("k").info()).leaf_id
    now = snapshot("a", "x", turn=2)
    await _states(other).save("k", now)
    await _loads(t, handles, now, "what is loaded")
    t.eq(await _counts(one), (4, 2), "messages and other nodes")
    tree = upkeep_of(other).tree("k")
    kept = [node.entry for node in await tree.path(left) if node.entry is not None]
    t.eq(kept, said("a", "b", "c"), "the messages that were left")
    back = snapshot("a", turn=3)
    await _states(one).save("k", back)
    await _loads(t, handles, back, "what is loaded of a conversation that went back")
    t.eq(await _counts(one), (4, 3), "messages and other nodes after that")
    await tree.branch(left)
    await _loads(t, handles, was, "what is loaded at the leaf that was left")


@check("TREE-STATE-003", contract="tree")
async def what_is_unchanged_is_not_written(t: T) -> None:
    """To save again what is there writes nothing; with another field, one node."""
    one, other = await _handles(t)
    saved = snapshot("a", "b", extra={"n": 1})
    known = _states(one)
    revision = await known.save("k", saved)
    before = await upkeep_of(other).tree("k").info()
    t.clock.advance(1)
    for store in (known, _states(one), _states(other)):
        t.eq(await store.save("k", saved), revision, "what a save of the same returns")
    t.eq(await upkeep_of(other).tree("k").info(), before, "the tree after it")
    await known.save("k", saved.replace(turn=1))
    t.eq(await _counts(other), (2, 2), "messages and other nodes after another turn")


@check("TREE-STATE-004", contract="tree")
async def the_latest_come_first(t: T) -> None:
    """The trees changed last come first, as many as are asked for, those of one time by key."""
    one, other = await _handles(t)
    for key in ("b", "\u00e9", "a", "Z"):
        t.clock.advance(10)
        await _states(one).save(key, snapshot("x"))
    await _states(one).save("a2", snapshot("x"))
    t.clock.advance(10)
    await upkeep_of(other).tree("b").append(said("y")[0])
    for handle in (one, other):
        rows = await _states(handle).recent()
        t.eq([row.key for row in rows], ["b", "Z", "a2", "a", "\u00e9"], "keys, the latest first")
        t.eq(rows[0].updated_at, t.clock(), "when the first was changed")
        for limit in (1, 2, 4):
            found = await _states(handle).recent(limit=limit)
            t.eq(list(found), list(rows)[:limit], f"the latest {limit}")
