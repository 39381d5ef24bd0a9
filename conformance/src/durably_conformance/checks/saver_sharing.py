"""``CheckpointSaver``: snapshots share what they have in common, and a reader never notices."""

import asyncio

from durably import Entry, InvalidStatus, JsonValue, StateSnapshot
from durably_conformance.building import result, said, snapshot
from durably_conformance.context import T
from durably_conformance.reading_back import beside, listed, plain
from durably_conformance.registry import check

HISTORIES = {
    "growing": ("a", "ab", "abc", "abcd"),
    "shrinking from the end": ("abc", "ab", "a", ""),
    "compacted": ("abcd", "Sd", "Sde", "Sdef"),
    "first message rewritten": ("abc", "Abc", "Abcd"),
    "last message rewritten": ("ab", "aB", "aBc"),
    "reordered": ("abc", "bca", "cab", "acb"),
    "the same again": ("ab", "ab", "ab"),
    "empty in between": ("", "a", "", "a", ""),
    "back to an earlier state": ("a", "ab", "a", "ac", "ab"),
    "repeated messages": ("a", "aa", "aaa", "a"),
}


def _text(letter: str) -> str:
    """Return a short text for every other letter, and a long one for the rest."""
    return letter * (1, 90)[ord(letter) % 2]


@check("CKS-SHARE-001", contract="saver", reports=("langchain-ai/langgraph#8531",))
async def a_reader_never_notices(t: T) -> None:
    """However the messages change between saves, every snapshot reads as it was saved."""
    handle = await t.connect()
    writer, reader = handle.checkpoint_saver(), (await t.connect()).checkpoint_saver()
    for name, history in HISTORIES.items():
        made = [snapshot(*map(_text, texts), turn=turn) for turn, texts in enumerate(history)]
        for one in made:
            await writer.append(name, one)
        for one in made:
            await handle.checkpoint_saver().append(name, one)
        made *= 2
        t.eq(await listed(reader, name), made[::-1], f"a list of a thread that was {name}")
        seqs = [one.seq for one in await reader.list(name)]
        found = [plain(await reader.get(name, seq)) for seq in seqs]
        t.eq(found, made[::-1], f"its snapshots one by one, {name}")


@check("CKS-SHARE-002", contract="saver", reports=("openai/openai-agents-python#2843",))
async def writers_take_turns(t: T) -> None:
    """Two savers that take turns on a thread never mix up which messages they share."""
    savers = [(await t.connect()).checkpoint_saver() for _ in range(2)]
    turns = (("abc", 0), ("xyz", 1), ("abcd", 0), ("xyzw", 1), ("ab", 0), ("abcde", 1), ("abq", 0))
    made: list[StateSnapshot] = []
    for texts, number in turns:
        made.append(snapshot(*texts))
        await savers[number].append("t", made[-1])
        for reader in savers:
            latest = await reader.latest("t")
            t.eq(latest and plain(latest), made[-1], f"the latest after {texts!r}")
    t.eq(await listed(savers[0]), made[::-1], "all snapshots, newest first")


@check("CKS-SHARE-003", contract="saver")
async def equal_is_not_the_same(t: T) -> None:
    """A message that differs from the one before in the type of a value alone is saved anew."""
    writer = (await t.connect()).checkpoint_saver()
    reader = (await t.connect()).checkpoint_saver()
    values: tuple[JsonValue, ...] = (
        1,
        1.0,
        True,
        0.0,
        -0.0,
        False,
        0,
        [],
        {},
        None,
        "1",
        [1],
        [True],
    )
    made: list[list[Entry]] = [[result("c", raw=value), *said("x")] for value in values]
    for messages in made:
        await writer.append("t", StateSnapshot(messages=messages))
    found = [list(one.messages) for one in await listed(reader)]
    t.exact(found, made[::-1], "messages, newest first")


@check("CKS-SHARE-004", contract="saver", reports=("openai/openai-agents-python#4163",))
async def a_refused_snapshot_changes_nothing(t: T) -> None:
    """After a snapshot that was refused a saver goes on from the last one it saved."""
    saver = (await t.connect()).checkpoint_saver()
    reader = (await t.connect()).checkpoint_saver()
    await saver.append("t", snapshot("a", "b"))
    for status in ("completed", "", "Idle"):
        refused = saver.append("t", snapshot("a", "x", "y", status=status))
        await t.raises(InvalidStatus, refused, f"a snapshot that is {status!r}")
    t.eq(await listed(reader), [snapshot("a", "b")], "snapshots after that")
    for status in ("idle", "running", "finished", "error", "interrupted"):
        one = snapshot("a", "x", "z", status=status)
        await saver.append("t", one)
        t.eq(await listed(reader, limit=1), [one], f"the next snapshot, {status}")


@check("CKS-SHARE-005", contract="saver", reports=("PostHog/posthog#34648",))
async def a_reader_sees_whole_snapshots_only(t: T) -> None:
    """A reader beside a writer finds every snapshot whole, and the latest never goes back."""
    writer = (await t.connect()).checkpoint_saver()
    reader = (await t.connect()).checkpoint_saver()
    texts = [f"{number}" * 20 for number in range(10)]
    await writer.append("t", snapshot(texts[0], turn=0))
    seen = [0]

    async def write() -> None:
        for turn in range(1, 10):
            kept = texts[:turn] if turn % 4 else texts[turn - 1 : turn]
            await writer.append("t", snapshot(*kept, turn=turn))
            await asyncio.sleep(0)

    async def look() -> None:
        latest = await reader.latest("t")
        found = await listed(reader, limit=3)
        for one in (*([plain(latest)] if latest else []), *found):
            kept = texts[: one.turn or 1] if one.turn % 4 or not one.turn else None
            want = kept or texts[one.turn - 1 : one.turn]
            t.eq(one, snapshot(*want, turn=one.turn), "a snapshot read beside the writer")
        t.ok(found and found[0].turn >= seen[-1], "the newest is no older than before")
        seen.append(found[0].turn)

    await beside(write(), look)
    await look()
    t.eq(seen[-1], 9, "the newest in the end")


@check(
    "CKS-SHARE-006",
    level="should",
    contract="saver",
    reports=("agno-agi/agno#3923", "redis-developer/langgraph-redis#13"),
)
async def saving_costs_what_changed(t: T) -> None:
    """Saving a growing conversation again and again takes a small multiple of its final size."""
    saver = (await t.connect()).checkpoint_saver()
    texts = [f"{number:03} " * 250 for number in range(30)]
    for turn in range(30):
        await saver.append("t", snapshot(*texts[: turn + 1]))
    t.eq(len(await saver.list("t")), 30, "snapshots")
    size = sum(len(data) for data in (await t.dump()).values())
    final = sum(map(len, texts))
    t.ok(size < 10 * final, f"{size} bytes are less than 10 times the final {final}")


@check("CKS-DEL-001", contract="saver", reports=("openai/openai-agents-python#3755",))
async def the_next_life_is_whole(t: T) -> None:
    """A thread saved again after its delete is whole, also by a saver that knew its former life."""
    one = (await t.connect()).checkpoint_saver()
    other = (await t.connect()).checkpoint_saver()
    for texts in ("a", "abc", "abcd"):
        await one.append("t", snapshot(*texts))
    await other.delete("t")
    await one.append("t", snapshot(*"abcde"))
    t.eq(await listed(other), [snapshot(*"abcde")], "what the saver goes on with, alone")
    await one.delete("t")
    for texts in ("a", "abc", "abcd"):
        await one.append("t", snapshot(*texts))
    await other.delete("t")
    for texts in ("x", "xyz", "xyzw"):
        await other.append("t", snapshot(*texts))
    await one.append("t", snapshot(*"abcde"))
    want = [snapshot(*texts) for texts in ("abcde", "xyzw", "xyz", "x")]
    t.eq(await listed(other), want, "what it adds to the thread's next life")
