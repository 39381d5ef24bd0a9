"""``CheckpointSaver``: numbered snapshots of a thread, read one by one and page by page."""

import asyncio

from durably import CheckpointNotFound, InterruptReason, StateSnapshot
from durably_conformance.building import call, result, said, snapshot
from durably_conformance.context import T
from durably_conformance.reading_back import listed, plain
from durably_conformance.registry import check

FULL = StateSnapshot(
    version=3,
    status="interrupted",
    messages=[*said("q"), call("c"), result("c", raw={"n": [1, 2.5, None]})],
    turn=4,
    usage={"input": 1.0},
    interrupt=InterruptReason(
        call_id="c", tool_name="t", arguments_digest="d", reason="ask", data=[None]
    ),
    pending_handoff="writer",
    extra={"a": {}, "b": [], "c": None},
)


@check("CKS-SEQ-001", contract="saver", reports=("google/adk-python#911",))
async def seqs_increase(t: T) -> None:
    """Every snapshot of a thread gets a greater seq than all before it, whoever appends it."""
    savers = [(await t.connect()).checkpoint_saver() for _ in range(2)]
    seqs = [await savers[number // 2 % 2].append("t", snapshot(f"{number}")) for number in range(9)]
    t.ok(seqs[0] >= 1, "the first seq is at least 1")
    t.eq(seqs, sorted(set(seqs)), "seqs in the order of the appends")
    got = [one.seq for one in await savers[0].list("t")]
    t.eq(got, seqs[::-1], "seqs of a listing, newest first")


@check(
    "CKS-SEQ-002",
    contract="saver",
    reports=("microsoft/agent-framework#8513", "langchain-ai/langchain-azure#1057"),
)
async def the_latest_is_the_last_appended(t: T) -> None:
    """The latest snapshot is the last one appended, whatever the clock says."""
    writer = (await t.connect()).checkpoint_saver()
    reader = (await t.connect()).checkpoint_saver()
    for number, seconds in enumerate((0, 0, -3600, 60, -1)):
        t.clock.advance(seconds)
        seq = await writer.append("t", snapshot(f"{number}"))
        latest = await reader.latest("t")
        t.eq(latest and latest.seq, seq, "seq of the latest")
        t.eq(latest and plain(latest).messages, said(f"{number}"), "its messages")
    order = [one.messages for one in await listed(reader)]
    t.eq(order, [said(f"{number}") for number in range(4, -1, -1)], "messages, newest first")


@check(
    "CKS-SEQ-003",
    contract="saver",
    reports=("langchain-ai/langgraph#8136", "langchain-ai/langgraph#8115"),
)
async def concurrent_appends_lose_none(t: T) -> None:
    """Of concurrent appends through several handles none is lost, and no two get the same seq."""
    savers = [(await t.connect()).checkpoint_saver() for _ in range(4)]
    made = [snapshot("shared " * 20, f"{turn}", turn=turn) for turn in range(16)]
    appends = [savers[one.turn % 4].append("t", one) for one in made]
    seqs = await asyncio.gather(*appends)
    t.eq(len(set(seqs)), 16, "different seqs of 16 appends")
    found = await savers[0].list("t")
    t.same_set(map(plain, found), made, "the snapshots listed")
    numbers = [one.seq for one in found]
    t.eq(numbers, sorted(set(numbers), reverse=True), "their seqs, newest first")


@check("CKS-GET-001", contract="saver", reports=("redis-developer/langgraph-redis#113",))
async def every_field_comes_back(t: T) -> None:
    """Every field of a snapshot comes back as it was saved, by latest, get and list."""
    writer = (await t.connect()).checkpoint_saver()
    reader = (await t.connect()).checkpoint_saver()
    later = FULL.replace(messages=[*FULL.messages, *said("next")], turn=5)
    for one in (FULL, later, StateSnapshot(), FULL):
        seq = await writer.append("t", one)
        found = [await reader.latest("t"), await reader.get("t", seq)]
        found += list(await reader.list("t", limit=1))
        for how, got in zip(("latest", "get", "list"), found, strict=True):
            t.eq(got and (got.thread_id, got.seq), ("t", seq), f"thread_id and seq of {how}")
            t.exact(got and plain(got), one, f"the snapshot of {how}")


@check("CKS-GET-002", contract="saver", reports=("langchain-ai/langgraph#6869",))
async def a_seq_nobody_got_is_not_found(t: T) -> None:
    """A seq that no snapshot of the thread has is CheckpointNotFound, however large."""
    saver = (await t.connect()).checkpoint_saver()
    seqs = [await saver.append("t", snapshot(text)) for text in "abc"]
    for seq in (seqs[-1] + 1, seqs[-1] + 1000, 2**32, 2**63, 2**70):
        missing = await t.raises(CheckpointNotFound, saver.get("t", seq), f"seq {seq}")
        t.eq((missing.thread_id, missing.seq), ("t", seq), "what the error names")
    found = [plain(await saver.get("t", seq)) for seq in seqs]
    t.eq(found, [snapshot(text) for text in "abc"], "the snapshots that are there")


@check(
    "CKS-LIST-001",
    contract="saver",
    reports=("google/adk-python#911", "yaalalabs/agent-kernel#739", "langchain-ai/langgraph#7179"),
)
async def the_newest_below_come_first(t: T) -> None:
    """A list holds the newest of the snapshots below ``before``, exclusive, newest first."""
    saver = (await t.connect()).checkpoint_saver()
    seqs = [await saver.append("t", snapshot(f"{number}")) for number in range(9)]
    newest = seqs[::-1]
    for limit in (1, 4, 8, 9, 10, 1000):
        got = [one.seq for one in await saver.list("t", limit=limit)]
        t.eq(got, newest[:limit], f"seqs, limit={limit}")
        got = [one.seq for one in await saver.list("t", before=seqs[5], limit=limit)]
        t.eq(got, newest[4:][:limit], f"seqs before the sixth, limit={limit}")
    for before, want in ((1, []), (seqs[0], []), (seqs[-1] + 1, newest), (2**70, newest)):
        got = [one.seq for one in await saver.list("t", before=before)]
        t.eq(got, want, f"seqs before {before}")
    below = await listed(saver, before=seqs[5], limit=2)
    t.eq(below, [snapshot("4"), snapshot("3")], "snapshots before the sixth")


@check("CKS-LIST-002", contract="saver")
async def snapshots_are_stamped(t: T) -> None:
    """``stored_at`` is the time of the store's clock when the snapshot was appended."""
    writer = (await t.connect()).checkpoint_saver()
    reader = (await t.connect()).checkpoint_saver()
    times: list[float] = []
    for seconds in (0, 60, 3600):
        t.clock.advance(seconds)
        times.append(t.clock.now)
        await writer.append("t", snapshot("a"))
    t.clock.advance(1000)
    t.eq([one.stored_at for one in await reader.list("t")], times[::-1], "stored_at of a list")
    latest = await reader.latest("t")
    t.eq(latest and latest.stored_at, times[-1], "stored_at of the latest")


@check(
    "CKS-HIST-001",
    contract="saver",
    reports=("langchain-ai/langgraph#6869", "anomalyco/opencode#7425"),
)
async def many_snapshots_are_in_order(t: T) -> None:
    """More than a hundred snapshots are all there, in numeric order, and their pages join."""
    writer = (await t.connect()).checkpoint_saver()
    reader = (await t.connect()).checkpoint_saver()
    made = [snapshot(f"{turn // 5}", turn=turn) for turn in range(120)]
    seqs = [await writer.append("t", one) for one in made]
    t.eq(len(await reader.list("t")), 100, "snapshots of a list of the default length")
    walked: list[tuple[int, StateSnapshot]] = []
    before: int | None = None
    while len(walked) < len(made):
        page = await reader.list("t", before=before, limit=40)
        t.eq(len(page), 40, "snapshots on a page of 40")
        walked += [(one.seq, plain(one)) for one in page]
        before = page[-1].seq
    t.eq(walked, list(zip(seqs, made, strict=True))[::-1], "the pages, newest first")
    t.eq(plain(await reader.get("t", seqs[9])), made[9], "the tenth")
